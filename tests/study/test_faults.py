"""Faults, tried: whatever is killed, filled, cut or stopped, the end state is the undisturbed one."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from seedspread.runs.store import Store
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.worker import attempt_until_ended
from tests.cff.training.tiny import EVERY_BATCH
from tests.study.dice import dice_study
from tests.study.faults import children, disturb
from tests.study.here import Here
from tests.study.processes import Start, wait_for
from tests.study.tiny import items, results, study_file, tiny_study, undisturbed

ROOT = Path(__file__).parents[2]
LONG: dict[str, Any] = {"training__epochs": 8, **EVERY_BATCH}


def check_rounds(start_in: Start, folder: Path, rounds: int, seeds: int, faults: int) -> list[dict[str, int]]:
    """Rounds of a study that is killed again and again, each compared with the undisturbed one."""
    expected = undisturbed(tiny_study(folder / "baseline", seeds, **LONG), folder / "baseline" / "store")
    counts = []
    for number in range(rounds):
        here = folder / str(number)
        study_file(here, seeds, **LONG)
        counts.append(asdict(disturb(start_in, here, random.Random(number), faults)))  # noqa: S311
        assert results(here / "store") == expected
        leftovers = [
            p.name for p in here.glob("store/*/*") if p.name.startswith((".", "checkpoint", "run.json"))
        ]
        assert not leftovers
    return counts


def test_killed_at_random_moments_it_ends_as_if_nothing_had_happened(start_in: Start, tmp_path: Path) -> None:
    check_rounds(start_in, tmp_path, rounds=1, seeds=1, faults=2)


@pytest.mark.soak
def test_ten_rounds_of_twelve_runs_killed_at_random_moments(start_in: Start, tmp_path: Path) -> None:
    counts = check_rounds(start_in, tmp_path, rounds=10, seeds=6, faults=8)
    print(json.dumps(counts))


@pytest.mark.parametrize("small_disk", ["4m"], indirect=True)
def test_a_full_disk_fails_runs_with_a_reason_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    study = tiny_study(tmp_path, seeds=1, **EVERY_BATCH)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(4_000_000))
    plan = Plan.make(study, small_disk / "store")
    report = run_plan(plan, LocalExecutor(workers=1))
    assert report.failed or report.stopped
    filler.unlink()
    again = run_plan(plan, Here(), retry_failed=True)
    assert not again.failed
    assert results(small_disk / "store") == undisturbed(study, tmp_path / "baseline")


def test_a_checkpoint_that_was_cut_short_is_passed_over(start: Start, tmp_path: Path) -> None:
    study_file(tmp_path, seeds=1, **LONG)
    study = tiny_study(tmp_path, seeds=1, **LONG)
    process = start("--workers", "1")
    store = tmp_path / "store"
    wait_for(lambda: len(list(store.glob("*/checkpoint-*"))) > 1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=300)
    newest = max(store.glob("*/checkpoint-*"))
    newest.write_bytes(newest.read_bytes()[:1000])
    run_plan(Plan.make(study, store), Here())
    assert results(store) == undisturbed(study, tmp_path / "baseline")


def test_a_worker_that_slept_past_its_lease_writes_nothing_more(spawn: Start, tmp_path: Path) -> None:
    study = tiny_study(tmp_path, seeds=1, **LONG)
    store = Store(tmp_path / "store")
    plan = Plan.make(study, store)
    item = items(plan, lease_seconds=1.0)[0]
    code = f"""
import dataclasses, json
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from seedspread.study.worker import attempt
from tests.study.tiny import items
plan = Plan.make(StudySpec.from_file({str(tmp_path / "study.toml")!r}), {str(store.path)!r})
print(json.dumps(dataclasses.asdict(attempt(items(plan, lease_seconds=1.0)[0]))))
"""
    sleeper = spawn([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    folder = store.folder(item.key)
    wait_for(lambda: any(folder.glob("checkpoint-*")))
    sleeper.send_signal(signal.SIGSTOP)
    ended = attempt_until_ended(item)  # waits until the lease has not moved for a second, and goes on
    assert ended.outcome == "done"
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    sleeper.send_signal(signal.SIGCONT)
    out, _ = sleeper.communicate(timeout=300)
    assert json.loads(out)["outcome"] == "lost"
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before
    assert not [p for p in folder.iterdir() if p.name.startswith(("checkpoint", "."))]


@pytest.mark.soak
def test_a_store_copied_in_the_middle_can_be_gone_on_with(start: Start, tmp_path: Path) -> None:
    study_file(tmp_path, seeds=1, **LONG)
    study = tiny_study(tmp_path, seeds=1, **LONG)
    process = start("--workers", "1")
    store = tmp_path / "store"
    wait_for(lambda: any(store.glob("*/checkpoint-*")))
    os.killpg(process.pid, signal.SIGSTOP)
    shutil.copytree(store, tmp_path / "copy", ignore=shutil.ignore_patterns(".*"))
    os.killpg(process.pid, signal.SIGCONT)
    process.communicate(timeout=120)
    run_plan(Plan.make(study, tmp_path / "copy"), Here())
    assert results(tmp_path / "copy") == results(store)


def test_a_run_whose_checkpoints_are_all_damaged_starts_afresh(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, seeds=1)
    plan = Plan.make(study, tmp_path / "store")
    key = next(iter(plan.distinct))
    folder = plan.store.folder(key)
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"key": key, "threads": 1}))
    (folder / "checkpoint-000001-0123456789abcdef.safetensors").write_bytes(b"half")
    assert not run_plan(plan, Here()).failed
    assert results(tmp_path / "store") == undisturbed(study, tmp_path / "baseline")


def test_a_worker_whose_coordinator_dies_at_once_does_not_live_on(start: Start, tmp_path: Path) -> None:
    study_file(tmp_path, seeds=2, training__epochs=400)
    process = start("--workers", "1")
    wait_for(lambda: bool(children(process.pid)))
    workers = children(process.pid)
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_a_run_that_kills_its_worker_fails_and_the_others_go_on(tmp_path: Path) -> None:
    """As a run does that needs more memory than there is: the process is gone before the first checkpoint.

    The three of a cell are run together at first; then each is tried alone, and one is guilty.
    """
    study = dice_study(seeds=3, deadly=1)
    one_cell = replace(study, cells=study.cells[:1], audit=None)
    report = run_plan(Plan.make(one_cell, tmp_path / "store"), LocalExecutor(workers=1))
    assert len(report.done) == 2
    (message,) = report.failed.values()
    assert "its worker died 3 times in a row, with no new checkpoint" in message
    assert "--retry-failed" in message


@pytest.mark.parametrize(
    "death", ["143", *(pytest.param(one, marks=pytest.mark.soak) for one in ("87", "0", "SIGTERM"))]
)
def test_whoever_ends_its_worker_as_if_it_were_asked_to_is_blamed_too(tmp_path: Path, death: str) -> None:
    study = dice_study(seeds=3, deadly=1, death=death)
    one_cell = replace(study, cells=study.cells[:1], audit=None)
    report = run_plan(Plan.make(one_cell, tmp_path / "store"), LocalExecutor(workers=1))
    assert len(report.done) == 2
    (message,) = report.failed.values()
    assert " 3 times " in message
