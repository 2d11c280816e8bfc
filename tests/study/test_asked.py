"""Studies that ask what their runs can answer, and what is told of those that fail or never get there."""

import errno
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seedspread.cli import app
from seedspread.runners.contract import WorkItem
from seedspread.runs.metrics import is_until
from seedspread.runs.store import Store
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.slurm_engine import SlurmExecutor
from seedspread.study.spec import StudyError, StudySpec
from seedspread.study.study import executor_named
from seedspread.study.worker import attempt
from tests.runners.programs import plan_of, study_file
from tests.study.here import Here


def edited(path: Path, *pairs: tuple[str, str]) -> Path:
    text = path.read_text()
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)
    return path


def said(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_an_audit_that_would_pool_is_refused_and_both_ways_out_work(tmp_path: Path) -> None:
    path = edited(study_file(tmp_path), ("[metrics]", 'aug = ["no", "yes"]\n[metrics]'))
    with pytest.raises(StudyError, match='would pool runs that differ in aug: write by = "aug"') as refused:
        StudySpec.from_file(path)
    assert 'or block = "aug"' in str(refused.value)
    for way in ("by", "block"):
        path = edited(
            study_file(tmp_path, more=f'{way} = "aug"'), ("[metrics]", 'aug = ["a", "b"]\n[metrics]')
        )
        assert len(StudySpec.from_file(path).cells) == 4


def test_cells_may_leave_out_what_does_not_concern_them(tmp_path: Path) -> None:
    cells = 'cells = [{ x = 0.0, opt = "sgd", momentum = 0.9 }, { x = 0.5, opt = "adam" }]\n'
    path = edited(
        study_file(tmp_path, seeds=3), ("seeds = 3", f"{cells}seeds = 3"), ("[factors]\nx = [0.0, 0.5]\n", "")
    )
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    assert not run_plan(plan, Here()).failed
    assert "sgd" in said("plan", path, "--store", tmp_path / "store")
    found = json.loads(said("audit", tmp_path / "store", "--study", "study", "--json"))
    assert found["rows"] == 6
    absent = edited(path, ('group = "x"', 'group = "momentum"'), ("baseline = 0.0", "baseline = 0.9"))
    with pytest.raises(StudyError, match=r"audit names 'momentum', which the cell .* does not set"):
        StudySpec.from_file(absent)


def test_all_that_a_study_audits_is_shown(tmp_path: Path) -> None:
    body = 'print(json.dumps({"accuracy": 0.5 + seed / 100, "nll": 1 + seed / 10}))'
    path = edited(
        study_file(tmp_path, body, seeds=5, more='value = ["accuracy", "nll"]'),
        ("[audit]", "nll = {}\n[audit]"),
    )
    run_plan(Plan.make(StudySpec.from_file(path), tmp_path / "store"), Here())
    shown = said("audit", tmp_path / "store", "--study", "study")
    assert "\naccuracy\n" in shown
    assert "\nnll\n" in shown


def test_what_is_never_reached_is_censored_and_has_not_failed(tmp_path: Path) -> None:
    body = """
reached = None if seed == 3 else 10 + seed * (1 + float(x))
print(json.dumps({"accuracy": 0.5, "epochs_to_90": reached}))
"""
    path = edited(
        study_file(tmp_path, body, seeds=8, more='value = "epochs_to_90"'),
        ("[audit]", "epochs_to_90 = {}\n[audit]"),
    )
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    progress = run_plan(plan, Here())
    assert (len(progress.done), progress.failed) == (16, {})
    third = next(run for run in plan.runs if run.seed == 3)
    assert plan.store.run(third.key).result()["censored"] == ["epochs_to_90"]
    shown = " ".join(said("audit", tmp_path / "store", "--study", "study").split())
    assert "1 of 8" in shown
    assert "never reached" in shown


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("time_to_90", True),
        ("StepsToTarget", True),
        ("epochs-to-acc", True),
        ("distance_to_goal", False),
        ("loss", False),
    ],
)
def test_what_counts_until_something_is_told_by_its_name(name: str, answer: bool) -> None:
    assert is_until(name) is answer


def test_a_full_store_stops_the_study_and_fails_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(tmp_path)
    run = plan.runs[0]

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Store, "claim", full)
    result = attempt(WorkItem(run, plan.runners[run.study]))
    assert result.outcome == "full"
    assert "No space left on device" in result.message
    assert plan.store.state(run.key).state == "waiting"


def test_jobs_have_the_parameters_of_the_study_and_of_the_command(tmp_path: Path) -> None:
    path = edited(study_file(tmp_path), ("[metrics]", '[slurm]\naccount = "lab"\nmem = "4G"\n[metrics]'))
    engine = executor_named("slurm", {"extra": {"mem": "8G", "reservation": "night"}})
    assert isinstance(engine, SlurmExecutor)
    made = engine.with_parameters(StudySpec.from_file(path).file.slurm)
    items = [WorkItem(run, runner) for plan in [plan_of(tmp_path)] for run in plan.runs
             for runner in [plan.runners[run.study]]]  # fmt: skip
    found = made._parameters(items)
    assert (found["slurm_account"], found["slurm_mem"]) == ("lab", "8G")
    assert found["slurm_additional_parameters"] == {"reservation": "night"}
    wrong = CliRunner().invoke(app, ["run", str(path), "--backend", "slurm", "--slurm", "account"])
    assert "NAME=VALUE" in str(wrong.exception)
    other = CliRunner().invoke(app, ["run", str(path), "--slurm", "account=x"])
    assert "--slurm is for --backend slurm" in str(other.exception)
