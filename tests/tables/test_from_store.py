"""The runs of a store's studies as rows: cell by cell, and what becomes of those that cannot be read."""

from pathlib import Path

import pytest

from benchmarks.report import fill
from seedspread.runs.store import RunsError
from seedspread.study.display import tidy_runs
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from seedspread.tables.from_store import read_runs, study_runs
from tests.report.helpers import AUDIT, written

FACTORS = '[factors]\nmargin_type = ["clamp", "subtract"]\nmargin_first = [0.2, 0.4]\n'


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    study = written(tmp_path, "margins", FACTORS, AUDIT + 'by = "margin_first"\n')
    plan = Plan.make(StudySpec.from_file(study), tmp_path / "runs")
    fill(plan)
    return plan


def test_a_run_that_serves_several_cells_has_a_row_in_each_and_is_read_once(plan: Plan) -> None:
    runs, problems = read_runs(plan.store, plan.recorded(), ["accuracy"])
    assert not problems
    assert [(run.key, run.seed) for run in runs] == [(run.key, run.seed) for run in plan.runs]
    neutral = [run for run in runs if dict(run.cell)["margin_type"] == "subtract"]
    assert len(neutral) == 10
    assert len({run.key for run in neutral}) == len({id(run.result) for run in neutral}) == 5
    table = study_runs(plan.store, plan.recorded(), ["accuracy"])
    assert table["key"].tolist() == [run.key for run in runs]
    assert table["folder"].tolist() == [str(plan.store.folder(run.key)) for run in runs]
    assert table["margin_first"].tolist() == ["0.2"] * 5 + ["0.4"] * 5 + ["0.2"] * 5 + ["0.4"] * 5


def test_a_run_that_cannot_be_read_is_a_line_or_an_error(plan: Plan) -> None:
    damaged = plan.store.folder(plan.runs[0].key)
    (damaged / "result.json").write_text("{")
    runs, problems = read_runs(plan.store, plan.recorded())
    assert len(runs) == len(tidy_runs(plan)) == len(plan.runs) - 1
    assert [str(damaged) in line for line in problems] == [True]
    with pytest.raises(RunsError, match="move it away and try again"):
        study_runs(plan.store, plan.recorded(), [])
