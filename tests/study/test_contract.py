"""A study knows runners by their contract alone: one that trains nothing runs, is audited and reported."""

import json
import os
import random
import signal
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from seedspread.report.extension import ReportError
from seedspread.report.load import load_store
from seedspread.runners.contract import RunnerError, WorkItem
from seedspread.runs.folder import Failure
from seedspread.runs.stopping import StopRequest
from seedspread.runs.store import Store
from seedspread.runs.studies import AuditSpec, save_study
from seedspread.study.executor import StudyProgress
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Estimate, Plan
from seedspread.study.study import StudyRuns, run_study
from seedspread.study.worker import attempt
from tests.report.helpers import made_store
from tests.study.dice import Dice, dice_study
from tests.study.here import Here
from tests.study.tiny import items, tiny_study

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _workers_find_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is a fresh process, which imports the runner by its module's name."""
    monkeypatch.syspath_prepend(ROOT)  # which it inherits


def test_it_runs_and_is_audited_and_reported(tmp_path: Path) -> None:
    found = run_study(dice_study(), tmp_path, LocalExecutor(2))
    table = found.table
    for row in table.to_dict("records"):
        rng = random.Random(row["seed"])  # noqa: S311 - a die
        assert row["score"] == statistics.mean(rng.randint(1, row["sides"]) for _ in range(row["throws"]))
    ratio = found.audit().comparisons[0].pooled_test.ratio
    spread = table.groupby("sides")["score"].var()
    assert ratio == pytest.approx(spread[20] / spread[6])
    page = found.report(tmp_path / "report.html").read_text()
    assert "Do more sides spread more?" in page
    assert "score" in page


def test_what_has_failed_is_kept_whole_and_tried_again_when_asked(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=3, fail=2), tmp_path)
    progress = run_plan(plan, LocalExecutor(1))
    assert (len(progress.done), set(progress.failed.values())) == (4, {"the die fell off the table"})
    failed = next(iter(progress.failed))
    failure = json.loads((plan.store.folder(failed) / "failure.json").read_text())
    assert (failure["table"], failure["throw"]) == ("round", 3)
    assert "RunFailedError" in failure["traceback"]
    again = run_plan(Plan.make(dice_study(seeds=3), tmp_path), Here(), retry_failed=True)
    assert (len(again.done), again.failed) == (2, {})


def test_it_says_at_once_what_it_cannot_run(tmp_path: Path) -> None:
    study = dice_study()
    study.cells[0].parameters["sides"] = 0
    with pytest.raises(RunnerError, match="a side at least"):
        run_plan(Plan.make(study, tmp_path), LocalExecutor(1))
    assert Store(tmp_path).keys() == []


def test_runs_of_two_runners_share_a_store(tmp_path: Path) -> None:
    dice = run_study(dice_study(seeds=2), tmp_path / "store", Here())
    tiny = Plan.make(tiny_study(tmp_path, seeds=1), tmp_path / "store")
    run_plan(tiny, Here())
    store = Store(tmp_path / "store")
    assert store.problems() == []
    assert len(store.table()) == 6
    assert set(StudyRuns(tiny).table["margin_type"]) == {"clamp", "subtract"}
    assert len(dice.table) == 4


def test_the_plan_asks_the_runner_for_everything(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=2), tmp_path)
    assert Estimate(plan).work_left(plan.states()) == pytest.approx(0.004)
    keys = Dice().keys([(cell.parameters, seed) for cell in plan.study.cells for seed in (1, 2)], None)
    assert [run.key for run in plan.runs] == keys


def test_progress_is_told_as_runs_end(tmp_path: Path) -> None:
    heard: list[int] = []

    def hear(progress: StudyProgress) -> None:
        heard.append(progress.ended)

    run_plan(Plan.make(dice_study(), tmp_path), LocalExecutor(1), hear)
    assert heard[0] == 0
    assert heard[-1] == 16
    assert heard == sorted(heard)


class Rude(Dice):
    """Fails in its own way after it was asked to stop."""

    def run(self, item: WorkItem, stop: StopRequest) -> float:
        os.kill(os.getpid(), signal.SIGTERM)
        raise RuntimeError("what now?")


def test_a_wish_to_stop_is_heard_though_the_runner_fails(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=2), tmp_path)
    assert attempt(replace(items(plan)[0], runner=Rude())).outcome == "stopped"
    assert {state.state for state in plan.states().values()} == {"waiting"}


class Short(Dice):
    """Leaves no record."""

    def run(self, item: WorkItem, stop: StopRequest) -> float:
        return 0.0


def test_a_run_without_a_record_has_failed(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=1), tmp_path)
    result = attempt(replace(items(plan)[0], runner=Short()))
    assert result.outcome == "failed"
    assert result.message.endswith("the runner 'dice' returned and left no result")


def test_an_older_failure_does_not_stand_for_a_newer_one(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=1), tmp_path)
    item = replace(items(plan)[0], runner=Short())
    plan.store.run(item.key).open("", resume=True)
    plan.store.run(item.key).fail(Failure("long ago"))
    attempt(item)
    assert "left no result" in plan.store.state(item.key).message


class Percent(Dice):
    """Its accuracies are in per cent."""

    def run(self, item: WorkItem, stop: StopRequest) -> float:
        value = super().run(item, stop)
        path = Path(item.run.folder) / "result.json"
        path.write_text(path.read_text().replace('"score"', '"acc"').replace(f": {value}", f": {60 + value}"))
        return value


def test_the_unit_of_a_runners_own_metric_is_told_from_its_values(tmp_path: Path) -> None:
    study = dice_study(seeds=3)
    study = replace(study, runner=Percent(), audit=AuditSpec(group="sides", baseline="6", value="acc"))
    plan = Plan.make(study, tmp_path)
    for item in items(plan):
        assert attempt(item).outcome == "done"
    (setting,) = load_store(tmp_path, plan.recorded()).settings
    assert setting.metric.label == "acc (%)"
    assert all(60 < run.value < 90 for run in setting.runs)


def test_two_metrics_of_the_same_runs_are_two_comparisons(tmp_path: Path) -> None:
    plan = made_store(tmp_path)
    (recorded,) = plan.recorded()
    assert recorded.audit is not None
    other = recorded.audit.model_copy(update={"value": "nll"})
    save_study(plan.store, replace(recorded, name="other", audit=other))
    assert {s.metric.name for s in load_store(tmp_path).settings} == {"accuracy", "nll"}


def test_a_metric_that_no_run_has_is_said(tmp_path: Path) -> None:
    made_store(tmp_path)
    with pytest.raises(ReportError, match=r"no run of bench has 'nnl'.*'nll'") as caught:
        load_store(tmp_path, value="nnl")
    assert "\n" not in str(caught.value)
