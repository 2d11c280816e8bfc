"""How long a study will take, by what its store tells."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedspread.cff.config import RunConfig
from seedspread.cff.presets import check
from seedspread.cff.training.run import seconds_of_run
from seedspread.cff.training.state import Work
from seedspread.runs.files import FORMAT
from seedspread.runs.folder import Heartbeat, RunFolder
from seedspread.runs.store import RunState
from seedspread.study.executor import StudyProgress
from seedspread.study.loop import Overview
from seedspread.study.plan import Estimate, Plan
from tests.cff.training.tiny import tiny
from tests.study.dice import Dice, dice_study


def waiting(plan: Plan) -> dict[str, RunState]:
    return {key: RunState(key, "waiting") for key in plan.distinct}


def finished(plan: Plan, key: str, **provenance: float) -> RunState:
    folder = plan.store.folder(key)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "provenance.json").write_text(json.dumps({"format": FORMAT, **provenance}))
    return RunState(key, "done")


def running(key: str, **beat: float) -> RunState:
    values = {"done": None, "where": "", **beat}
    return RunState(key, "running", heartbeat=Heartbeat(**values))  # type: ignore[arg-type]


def test_nothing_is_known_of_a_program_until_a_run_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dice, "seconds", lambda *_: None)
    plan = Plan.make(dice_study(seeds=3), tmp_path)
    states = waiting(plan)
    assert Estimate(plan).work_left(states) is None
    first, second, third = list(states)[:3]
    states[first] = finished(plan, first, seconds_since_last_start=10.0)
    estimate = Estimate(plan)
    assert estimate.work_left(states) == pytest.approx(5 * 10)
    assert estimate.source == "from what other runs took"
    states[second], states[third] = running(second, spent=4.0), running(third, spent=7.0)
    # Three that wait and what is left of two, with two workers.
    assert Estimate(plan).seconds_left(states) == pytest.approx((3 * 10 + 6 + 3) / 2)


def test_how_far_others_are_tells_before_any_has_ended(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=2), tmp_path)
    states = waiting(plan)
    assert Estimate(plan).seconds_left(states) is None
    for key in list(states)[:2]:
        states[key] = running(key, done=0.25, seconds=8.0)
    assert Estimate(plan).seconds_left(states) == pytest.approx((2 * 8 * 0.75 + 2 * 8) / 2)


def test_the_end_is_not_before_the_longest_run_under_way(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=2), tmp_path)
    keys = list(plan.distinct)
    states = {key: running(key, done=0.0, seconds=10.0) for key in keys[:3]}
    states[keys[3]] = running(keys[3], done=0.9, seconds=10.0)
    assert Estimate(plan).seconds_left(states) == pytest.approx(10)


def test_a_share_of_a_workers_time_counts_before_the_time_by_the_clock(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=2), tmp_path)
    states = waiting(plan)
    first = next(iter(states))
    states[first] = finished(plan, first, seconds_since_last_start=60.0, worker_seconds=20.0)
    assert Estimate(plan).work_left(states, measure=False) == pytest.approx(3 * 20)


def test_what_runs_took_counts_before_a_measured_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dice, "seconds", lambda _, parameters: sum(p["sides"] for p in parameters))
    plan = Plan.make(dice_study(seeds=2), tmp_path)
    states = waiting(plan)
    estimate = Estimate(plan)
    assert estimate.work_left(states) == pytest.approx(2 * 6 + 2 * 20)
    assert estimate.source == "from a measured step"
    six = next(iter(states))
    states[six] = finished(plan, six, seconds_since_last_start=12.0)
    assert Estimate(plan).work_left(states) == pytest.approx(12 + 2 * 12)


def test_run_and_status_say_the_same(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=4), tmp_path)
    keys = list(plan.distinct)
    for key in keys[:6]:
        finished(plan, key, seconds_since_last_start=10.0)
    states = plan.states()
    overview = Overview(plan, StudyProgress(8))
    assert overview.look()
    assert not overview.look()  # not all the time
    assert overview.progress.seconds_left == Estimate(plan).seconds_left(states)


@given(done=st.floats(0.02, 1), seconds=st.floats(0.1, 1e6))
def test_what_is_left_never_exceeds_the_whole(done: float, seconds: float) -> None:
    plan = Plan.make(dice_study(seeds=1), Path("nowhere"))
    states = {key: running(key, done=done, seconds=seconds) for key in plan.distinct}
    left = Estimate(plan).seconds_left(states)
    assert left is not None
    assert 0 <= left <= 2 * seconds * (1 - done) * (1 + 1e-9)


def test_the_work_of_a_run_grows_with_its_epochs_and_images() -> None:
    small = tiny()
    twice = small.model_copy(
        update={"training": small.training.model_copy(update={"epochs": 2 * small.training.epochs})}
    )
    assert Work.of(twice).encoder == pytest.approx(2 * Work.of(small).encoder)
    assert Work.of(twice).probe == Work.of(small).probe
    configs: list[RunConfig] = [small, twice]
    one, other = map(seconds_of_run, configs)
    assert other / one == pytest.approx(Work.of(twice).total / Work.of(small).total)


def test_coarse_classes_limit_the_images_of_a_run() -> None:
    data = {"name": "cifar100", "limit_per_class": 50, "test_limit_per_class": 10}
    fine, coarse = (check({"data": data | {"labels": labels}}) for labels in ("fine", "coarse"))
    assert Work.of(fine).total == pytest.approx(5 * Work.of(coarse).total)  # 100 classes, 20 classes


def test_a_finished_run_records_its_time(tmp_path: Path) -> None:
    from seedspread.cff.training.run import train  # noqa: PLC0415 - slow

    train(tiny(), tmp_path / "run")
    took = RunFolder(tmp_path / "run").seconds()
    whole = json.loads((tmp_path / "run" / "provenance.json").read_text())["seconds_since_last_start"]
    assert took is not None
    assert 0 < took <= whole
