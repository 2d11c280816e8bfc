"""A campaign knows runners by their contract alone: one that trains nothing runs, is audited and reported."""

import json
import random
import statistics
from pathlib import Path

import pytest

from seedspread.api import StudyRuns, run_study
from seedspread.campaign.executor import CampaignProgress
from seedspread.campaign.local import LocalExecutor
from seedspread.campaign.loop import run_campaign
from seedspread.campaign.plan import Plan
from seedspread.runners.contract import RunnerError
from seedspread.runs.store import Store
from tests.campaign.dice import Dice, dice_study
from tests.campaign.tiny import tiny_study

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _workers_find_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is a fresh process, which imports the runner by its module's name."""
    monkeypatch.syspath_prepend(ROOT)  # which it inherits


def test_it_runs_and_is_audited_and_reported(tmp_path: Path) -> None:
    found = run_study(dice_study(), tmp_path, LocalExecutor(2))
    table = found.table()
    for row in table.to_dict("records"):
        rng = random.Random(row["seed"])  # noqa: S311 - a die
        assert row["score"] == statistics.mean(rng.randint(1, row["sides"]) for _ in range(row["throws"]))
    ratio = found.audit().comparisons[0].paper.ratio
    spread = table.groupby("sides")["score"].var()
    assert ratio == pytest.approx(spread[20] / spread[6])
    page = found.report(tmp_path / "report.html").read_text()
    assert "Do more sides spread more?" in page
    assert "score" in page


def test_what_has_failed_is_kept_whole_and_tried_again_when_asked(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=3, fail=2), tmp_path)
    progress = run_campaign(plan, LocalExecutor(1))
    assert (len(progress.done), set(progress.failed.values())) == (4, {"the die fell off the table"})
    failed = next(iter(progress.failed))
    failure = json.loads((plan.store.folder(failed) / "failure.json").read_text())
    assert (failure["table"], failure["throw"]) == ("round", 3)
    assert "RunFailedError" in failure["traceback"]
    again = run_campaign(Plan.make(dice_study(seeds=3), tmp_path), LocalExecutor(1), retry_failed=True)
    assert (len(again.done), again.failed) == (2, {})


def test_it_says_at_once_what_it_cannot_run(tmp_path: Path) -> None:
    study = dice_study()
    study.cells[0].parameters["sides"] = 0
    with pytest.raises(RunnerError, match="a side at least"):
        run_campaign(Plan.make(study, tmp_path), LocalExecutor(1))
    assert Store(tmp_path).keys() == []


def test_runs_of_two_runners_share_a_store(tmp_path: Path) -> None:
    dice = run_study(dice_study(seeds=2), tmp_path / "store", LocalExecutor(2))
    tiny = Plan.make(tiny_study(tmp_path, seeds=1), tmp_path / "store")
    run_campaign(tiny, LocalExecutor(2))
    store = Store(tmp_path / "store")
    assert store.problems() == []
    assert len(store.table()) == 6
    assert set(StudyRuns(tiny).table()["margin_type"]) == {"clamp", "subtract"}
    assert len(dice.table()) == 4


def test_the_plan_asks_the_runner_for_everything(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=2), tmp_path)
    assert plan.seconds() == pytest.approx(0.004)
    keys = Dice().keys([(cell.parameters, seed) for cell in plan.study.cells for seed in (1, 2)], None)
    assert [run.key for run in plan.runs] == keys


def test_progress_is_told_as_runs_end(tmp_path: Path) -> None:
    heard: list[int] = []

    def hear(progress: CampaignProgress) -> None:
        heard.append(progress.ended)

    run_campaign(Plan.make(dice_study(), tmp_path), LocalExecutor(1), hear)
    assert heard[0] == 0
    assert heard[-1] == 16
    assert heard == sorted(heard)
