"""Runs of one shape as one program: how many, that nothing comes out differently, and what a death costs."""

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seedspread.cff.implementations import stack_of, worthwhile
from seedspread.cff.presets import read_config
from seedspread.cff.training.fast import StackedTrainer
from seedspread.cff.training.result import RunResult
from seedspread.cff.training.run import train_many
from seedspread.runners.contract import WorkItem
from seedspread.runs.folder import RunFolder
from seedspread.runs.lease import Lease, StalenessTracker
from seedspread.runs.stopping import StopRequest
from seedspread.runs.store import Store
from seedspread.study.loop import run_plan, work_items
from seedspread.study.plan import Plan
from seedspread.study.spec import StudyError, StudySpec
from seedspread.study.worker import attempt_group
from tests.cff.training.tiny import EVERY_BATCH, tiny
from tests.study.here import Here
from tests.study.processes import start, wait_for
from tests.study.tiny import items, results, study_file, tiny_study, undisturbed


def test_small_runs_are_stacked_and_large_ones_are_not() -> None:
    assert worthwhile(read_config("quickstart")) > 1
    assert worthwhile(tiny()) > 1
    assert worthwhile(read_config("paper/cifar10")) == 1


def sizes(
    folder: Path, runs: int, workers: int, stack: int | str = 8, threads: int = 1, **changes: Any
) -> list[int]:
    """With how many each of so many runs is run together."""
    wanted = f'stack = "{stack}"' if stack == "auto" else f"stack = {stack}"
    study = replace(tiny_study(folder, engine=wanted, **changes), seeds=tuple(range(runs)))
    plan = Plan.make(replace(study, cells=study.cells[:1]), folder / "store")
    planned = list(plan.distinct.values())
    return [item.group_size for item in work_items(plan, planned, {study.name: threads}, workers, 60)]


def test_no_worker_is_left_without_work(tmp_path: Path) -> None:
    assert set(sizes(tmp_path, runs=24, workers=2)) == {6}
    assert set(sizes(tmp_path, runs=2, workers=2)) == {1}
    assert set(sizes(tmp_path, runs=100, workers=1)) == {8}
    assert set(sizes(tmp_path, runs=3, workers=1, stack=2)) == {2}
    assert set(sizes(tmp_path, runs=24, workers=2, stack=1)) == {1}
    assert set(sizes(tmp_path, runs=5, workers=4)) == {1}  # stacks of two would be three
    assert set(sizes(tmp_path, runs=7, workers=2)) == {4}


def test_what_is_trained_the_plain_way_is_trained_alone(tmp_path: Path) -> None:
    assert set(sizes(tmp_path, runs=24, workers=2, runtime__implementation="plain")) == {1}
    assert set(sizes(tmp_path, runs=24, workers=2, training__rule="end_to_end")) == {1}


def test_with_several_threads_a_run_is_alone(tmp_path: Path) -> None:
    open_threads: dict[str, Any] = {"runtime__threads": None}
    assert set(sizes(tmp_path, 4, 1, stack=4, threads=2, **open_threads)) == {1}
    assert set(sizes(tmp_path, 4, 1, stack=4, threads=1, **open_threads)) == {4}


def test_where_a_run_is_a_job_it_is_alone(tmp_path: Path) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=3), tmp_path / "store")
    items = work_items(plan, list(plan.distinct.values()), {plan.study.name: 1}, None, 60)
    assert {item.group_size for item in items} == {1}
    assert len({item.group for item in items}) == 6


def test_runs_of_different_shapes_are_counted_apart(tmp_path: Path) -> None:
    path = study_file(tmp_path, seeds=3)
    path.write_text(path.read_text().replace('margin_type = ["clamp", "subtract"]', "dim = [16, 32]")
                    .split("[audit]")[0])  # fmt: skip
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    items = work_items(plan, list(plan.distinct.values()), {plan.study.name: 1}, 1, 60)
    assert {item.group_size for item in items} == {3}
    assert len({item.group for item in items}) == 2


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of every run by itself."""
    folder = tmp_path_factory.mktemp("alone")
    study = tiny_study(folder, seeds=3, training__epochs=3)
    return undisturbed(study, folder / "store")


def test_a_stacked_study_has_the_same_results(tmp_path: Path, alone: dict[str, bytes]) -> None:
    study = tiny_study(tmp_path, seeds=3, training__epochs=3)
    assert study.engine.stack == "auto"
    report = run_plan(Plan.make(study, tmp_path / "store"), Here())
    assert len(report.done) == 6
    assert results(tmp_path / "store") == alone
    found = [json.loads(path.read_text()) for path in (tmp_path / "store").glob("*/provenance.json")]
    assert max(one["started"] for one in found) < min(one["ended"] for one in found)  # one worker, together


@pytest.mark.soak
def test_a_stack_that_is_killed_is_gone_on_with_to_the_same_bits(
    tmp_path: Path, alone: dict[str, bytes]
) -> None:
    study_file(tmp_path, seeds=3, training__epochs=3, **EVERY_BATCH)
    store = tmp_path / "store"
    process = start(tmp_path, "--workers", "1")
    wait_for(lambda: len(list(store.glob("*/checkpoint-*"))) > 8)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    # Whatever they were interrupted at, and though some are now alone.
    process = start(tmp_path, "--workers", "2")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert results(store) == alone


@pytest.mark.soak
def test_a_stop_leaves_every_run_of_a_stack_resumable(tmp_path: Path, alone: dict[str, bytes]) -> None:
    study_file(tmp_path, seeds=3, training__epochs=3, **EVERY_BATCH)
    store = tmp_path / "store"
    process = start(tmp_path, "--workers", "1")
    wait_for(lambda: len(list(store.glob("*/checkpoint-*"))) > 8)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    begun = [folder for folder in store.iterdir() if any(folder.glob("checkpoint-*"))]
    assert len(begun) == 6
    report = run_plan(Plan.make(StudySpec.from_file(tmp_path / "study.toml"), store), Here())
    assert not report.failed
    assert results(store) == alone


def test_a_run_that_another_has_is_left_out(tmp_path: Path) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=2, training__epochs=1), tmp_path / "store")
    store = Store(tmp_path / "store")
    tasks = items(plan)
    held = store.claim(tasks[1].key, StalenessTracker(60))
    assert held is not None
    ended = {one.key: one.outcome for one in attempt_group(tasks, 2, StalenessTracker(60))}
    assert [ended.get(task.key) for task in tasks] == ["done", "busy", "done", None]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("stack = 0", 'engine.stack: must be "auto" or a number from 1 to 64; got 0'),
        ('stack = "many"', "got 'many'"),
        ("stack = true", "got True"),
        ("stak = 4", "did you mean 'stack'"),
    ],
)
def test_what_is_no_stack_is_said_in_a_line(tmp_path: Path, engine: str, words: str) -> None:
    with pytest.raises(StudyError, match=re.escape(words)) as caught:
        tiny_study(tmp_path, engine=engine)
    assert "\n" not in str(caught.value)


def items_in(folder: Path, seeds: int) -> list[WorkItem]:
    plan = Plan.make(tiny_study(folder, seeds=seeds, training__epochs=2, **EVERY_BATCH), folder / "store")
    return items(plan)


def test_runs_whose_program_fails_are_tried_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when together they need more memory than there is."""
    step = StackedTrainer.step

    def too_large(self: StackedTrainer, *arguments: Any, **named: Any) -> None:
        if len(self.models) > 1:
            raise RuntimeError("out of memory")
        step(self, *arguments, **named)

    monkeypatch.setattr(StackedTrainer, "step", too_large)
    ended = attempt_group(items_in(tmp_path, seeds=1), 8, StalenessTracker(60))
    assert [one.outcome for one in ended] == ["done", "done"]
    assert "2 runs could not be run together (out of memory): one by one" in capsys.readouterr().err


def test_a_run_that_is_taken_away_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = items_in(tmp_path, seeds=1)
    step, store, impatient = StackedTrainer.step, tasks[0].store, StalenessTracker(0)
    taken: list[Lease | None] = []

    def taking(self: StackedTrainer, *arguments: Any, **named: Any) -> None:
        step(self, *arguments, **named)
        if not taken:
            store.claim(tasks[0].key, impatient)  # sees the lease, and then sees that it has not moved
            taken.append(store.claim(tasks[0].key, impatient))

    monkeypatch.setattr(StackedTrainer, "step", taking)
    ended = attempt_group(tasks, 8, StalenessTracker(60))
    assert taken[0] is not None
    assert {one.key: one.outcome for one in ended} == {tasks[0].key: "lost", tasks[1].key: "done"}
    assert not store.is_done(tasks[0].key)


def test_a_run_that_has_failed_is_given_back_before_the_others_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = items_in(tmp_path, seeds=1)
    step, store = StackedTrainer.step, tasks[0].store
    seen: list[list[bool]] = []

    def poisoned(self: StackedTrainer, *arguments: Any, **named: Any) -> None:
        step(self, *arguments, **named)
        seen.append([store.has_failed(task.key) for task in tasks])
        next(self.models[0].vit.parameters()).data.fill_(float("nan"))

    monkeypatch.setattr(StackedTrainer, "step", poisoned)
    attempt_group(tasks, 8, StalenessTracker(60))
    assert sorted(seen[1]) == [False, True]


def test_a_study_whose_runs_are_to_be_alone_stays_alone_in_a_collection(tmp_path: Path) -> None:
    first = tiny_study(tmp_path / "a", seeds=2)
    other = replace(tiny_study(tmp_path / "b", engine="stack = 1"), name="other", seeds=(10, 11, 12))
    both = replace(first, cells=(), seeds=(), included=(first, other))
    plan = Plan.make(both, tmp_path / "store")
    found = work_items(plan, list(plan.distinct.values()), {first.name: 1, "other": 1}, 1, 60)
    assert {(item.group_size, item.group == item.key) for item in found if item.run.seed >= 10} == {(1, True)}
    assert {item.group_size for item in found if item.run.seed < 10} == {4}


def test_studies_that_vary_other_streams_are_not_stacked_together(tmp_path: Path) -> None:
    """Their runners differ: the seed of one drives the weights, that of the other the order."""
    parts = []
    for stream in ("init", "order"):
        path = study_file(tmp_path / stream, seeds=2)
        path.write_text(f'vary = ["{stream}"]\n' + path.read_text())
        parts.append(replace(StudySpec.from_file(path), name=stream))
    both = replace(parts[0], name="both", cells=(), seeds=(), included=tuple(parts))
    plan = Plan.make(both, tmp_path / "store")
    report = run_plan(plan, Here())
    assert not report.failed
    assert len(report.done) == len(plan.distinct) == 6  # with seed 0, as the others have, they are one run


def test_runs_that_spell_the_same_augmentation_differently_are_trained_together(tmp_path: Path) -> None:
    silent, spelt = tiny(), tiny(seeds__run=1, data__augment="fashion-mnist")
    assert stack_of(silent, 1) == stack_of(spelt, 1)
    folders = [RunFolder(tmp_path / str(i)) for i in range(2)]
    ended = train_many([silent, spelt], folders, StopRequest())
    assert all(isinstance(one, RunResult) for _, one in ended)
