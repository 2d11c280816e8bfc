"""Studies from Python, and the quickstart, with a tiny study in place of its own."""

from pathlib import Path

import pytest
from markupsafe import escape
from typer.testing import CliRunner

from seedspread import Study, audit, collect, components, seed_budget, train, write_report
from seedspread.cff.diagnosis import diagnose
from seedspread.cff.runner import CffRunner
from seedspread.cff.training.result import RunResult
from seedspread.cli import app
from seedspread.errors import SeedspreadError
from seedspread.paper.quickstart import quickstart
from seedspread.paper.report import OTHER_SCALE
from seedspread.runs.metrics import metric_of
from seedspread.runs.store import Store
from seedspread.study.executor import StudyProgress
from seedspread.study.local import LocalExecutor
from seedspread.study.sequential import Watcher
from seedspread.study.spec import StudySpec
from seedspread.study.study import run_study
from seedspread.tables.from_store import all_runs
from tests.report.helpers import made_store
from tests.study.tiny import study_file, tiny_study


def test_a_study_is_run_audited_and_reported(tmp_path: Path) -> None:
    heard: list[int] = []
    study = tiny_study(tmp_path, seeds=3)

    class Hears(Watcher):
        def tell(self, progress: StudyProgress) -> None:
            heard.append(progress.ended)

    found = run_study(study, tmp_path / "store", LocalExecutor(2), Hears())
    assert heard[-1] == 6
    assert sorted(found.table["seed"]) == [0, 0, 1, 1, 2, 2]
    assert found.audit().value == "accuracy"
    assert found.audit("nll").metric.unit == "nats"
    assert "6 runs" in repr(found)
    html = found._repr_html_()
    assert "6 runs: " in html
    assert html.count("<tr style") == 2  # a row per cell
    assert " ± " in html
    assert found.report(tmp_path / "page.html").read_text().count("test accuracy (%)") > 1
    assert metric_of("nll").label in found.report(tmp_path / "nll.html", "nll").read_text()


def test_paths_may_be_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(study_file(tmp_path / "study", seeds=3))
    plan = Study(path).plan("store", data_dir="data")
    assert plan.data_dir == Path("data")
    for run in plan.runs:
        train(CffRunner().seeded(run.parameters, run.seed), f"store/{run.key}", data_dir="data")
    report = write_report("store", "page.html", plans=[plan])
    assert (tmp_path / "page.html").exists()
    assert str(escape(report.answer)) in report._repr_html_()
    assert "tables" in repr(report)
    key = plan.runs[0].key
    assert diagnose(f"store/{key}").result == RunResult.read(f"store/{key}")
    assert len(all_runs(Store("store"))[0]) == 6
    with pytest.raises(SeedspreadError, match="is a store of runs, which audit reads as it is"):
        collect("store", "accuracy")


def test_a_study_whose_runs_fail_says_so_in_one_line(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, seeds=1, training__learning_rate=1e30)
    with pytest.raises(
        SeedspreadError,
        match=r"2 runs failed; try again with retry_failed=True .Study.runs has the others.; "
        r"the first, margin_type = clamp, seed 0: layer 0",
    ) as caught:
        run_study(study, tmp_path / "store", LocalExecutor(1), strict=True)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_where_a_run_fails_the_others_can_still_be_audited_and_reported(tmp_path: Path) -> None:
    def diverging(seed: int, rate: float) -> dict[str, float]:
        """One of its runs ends with an error."""
        if seed == 3 and rate == 1.0:
            raise ValueError("diverged")
        return {"loss": rate + 0.1 * (seed * seed % 7)}

    question = {"group": "rate", "baseline": 0.1, "value": "loss"}
    study = Study(diverging, factors={"rate": [0.1, 1.0]}, seeds=5, audit=question)
    found = study.run(tmp_path / "store", 1, progress=False)
    assert "10 runs: 9 done, 1 failed" in repr(found)
    assert "failed: rate = 1, seed 3: ValueError: diverged" in repr(found)
    assert "diverged" in found._repr_html_()
    assert found.audit().rows == 9
    assert "1 of 10 runs" in found.report(tmp_path / "page.html").read_text()


def test_the_quickstart_trains_audits_writes_a_report_and_says_what_it_can_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = tiny_study(tmp_path, seeds=3)
    monkeypatch.setattr(StudySpec, "from_file", lambda *_: tiny)
    command = ["quickstart", "--store", str(tmp_path / "store"), "--workers", "1"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    for words in ("clamp vs subtract", "Not shown the paper's effect", "Next seedspread plan mini/"):
        assert words in said
    assert f"seedspread audit {tmp_path / 'store'} --explain" in said
    page = (tmp_path / "store" / "report.html").read_text()
    assert escape(OTHER_SCALE) in page
    assert str(tmp_path) not in page  # a page travels: it knows nobody's folders
    first = quickstart(tmp_path / "store")
    assert first.rows == 6
    assert quickstart(str(tmp_path / "store")).comparisons == first.comparisons


def test_its_study_has_ten_seeds_or_more_in_one_mode_on_the_embedded_sample() -> None:
    study = StudySpec.from_file("quickstart")
    assert {c.parameters.data.name for c in study.cells} == {"fashion-mnist-sample"}
    assert {c.parameters.objective.stability for c in study.cells} == {"detach"}
    assert len(study.seeds) >= 10


def test_what_a_notebook_shows_is_short_and_has_a_table(tmp_path: Path) -> None:
    made_store(tmp_path / "store", seeds=2)
    path = study_file(tmp_path, seeds=3)
    study = Study(path)
    assert repr(study) == f"<Study {StudySpec.from_file(path).name}: 2 cells x 3 seeds>"
    plan = study.plan(tmp_path / "store")
    assert repr(plan).endswith("6 runs: 6 waiting>")
    assert plan._repr_html_().count("<tr style") == 2  # a row per cell
    table = all_runs(Store(tmp_path / "store"), ["accuracy"])[0]
    audited = audit(table, "accuracy", "margin_type", "subtract", "stability")
    split = components(table, "accuracy", "margin_type", "stability")
    shown = [study.spec(), plan.runs[0], audited, audited.comparisons[0], split, seed_budget(ratio=2.0)]
    assert [len(repr(one)) for one in shown] == [pytest.approx(150, abs=149)] * len(shown)


def test_the_page_of_a_large_plan_is_small(tmp_path: Path) -> None:
    study = Study(
        lambda seed, x: {"y": x}, factors={"x": list(range(100))}, seeds=2, name="many", metrics="y"
    )
    html = study.plan(tmp_path)._repr_html_()
    assert html.count("<tr style") == 20
    assert "80 more cells" in html
