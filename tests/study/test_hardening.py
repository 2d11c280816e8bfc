"""What may be done to a store and to workers, and what must come of it."""

import contextlib
import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save

from seedspread.analysis.audit import audit
from seedspread.errors import SeedspreadError
from seedspread.runs.folder import write_checkpoint
from seedspread.runs.lease import newest
from seedspread.runs.store import FINISHED, RunsError
from seedspread.runs.studies import recorded_study
from seedspread.study.display import tidy_runs
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import StudyFile
from seedspread.study.study import StudyRuns, write_report
from seedspread.tables.from_store import all_runs
from tests.study.dice import dice_study
from tests.study.faults import children
from tests.study.here import Here
from tests.study.processes import Start, wait_for
from tests.study.tiny import results, tiny_study, undisturbed


def threads(plan: Plan) -> set[int]:
    """With how many the runs of a plan were trained."""
    return {
        json.loads((plan.store.folder(key) / "provenance.json").read_text())["threads"]
        for key in plan.distinct
    }


# Threads


def test_a_run_has_one_thread_whatever_is_left_to_do(tmp_path: Path) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=1, runtime__threads=None), tmp_path / "store")
    run_plan(plan, LocalExecutor(workers=1))
    assert threads(plan) == {1}
    before = results(tmp_path / "store")
    shutil.rmtree(plan.store.folder(next(iter(plan.distinct))))
    run_plan(plan, Here())
    assert threads(plan) == {1}
    assert results(tmp_path / "store") == before


def test_a_study_or_the_command_asks_for_threads_and_another_number_is_refused(tmp_path: Path) -> None:
    short: dict[str, Any] = {"model__depth": 1, "training__epochs": 1, "probe__epochs": 1}
    study = tiny_study(tmp_path, seeds=1, engine="threads = 2", runtime__threads=None, **short)
    plan = Plan.make(study, tmp_path / "store")
    run_plan(plan, Here())
    assert threads(plan) == {2}
    recorded = recorded_study(plan.store, study.name)
    assert recorded is not None
    assert recorded.threads == 2
    shutil.rmtree(plan.store.folder(next(iter(plan.distinct))))
    with pytest.raises(SeedspreadError, match=r"was begun with 2 CPU threads.*ask for 2, or name another"):
        run_plan(plan, Here(threads=1))
    silent = Plan.make(replace(study, file=StudyFile()), tmp_path / "store")
    run_plan(silent, Here())
    assert threads(plan) == {2}  # where nobody says, a study keeps its number


def test_threads_of_a_study_of_which_nothing_was_run_are_free(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=1), tmp_path / "store")
    plan.store.path.mkdir()
    for key in plan.distinct:  # nothing can begin
        plan.store.folder(key).write_text("in the way")
    assert len(run_plan(plan, LocalExecutor(workers=1, threads=2)).failed) == 2
    for key in plan.distinct:
        plan.store.folder(key).unlink()
    assert len(run_plan(plan, LocalExecutor(workers=1, threads=3)).done) == 2


# Links, and files that are somebody's own


@pytest.mark.parametrize("what", ["link", "file"])
def test_a_run_folder_that_is_no_folder_is_refused_by_name(tmp_path: Path, what: str) -> None:
    plan = Plan.make(dice_study(seeds=2), tmp_path / "store")
    key = next(iter(plan.distinct))
    outside = tmp_path / "outside"
    outside.mkdir()
    own = [".my-secret", ".ssh-key", "checkpoint-keep.txt", "checkpoint-000001-x.safetensors"]
    for name in own:
        (outside / name).write_text("mine")
    plan.store.path.mkdir()
    if what == "link":
        plan.store.folder(key).symlink_to(outside)
    else:
        plan.store.folder(key).write_text("mine")
    for retry in (False, True):
        progress = run_plan(plan, Here(), retry_failed=retry)
        assert list(progress.failed) == [key]
        assert str(plan.store.folder(key)) in progress.failed[key]
    assert sorted(path.name for path in outside.iterdir()) == sorted(own)
    assert plan.store.counts()["done"] == 3
    assert plan.states()[key].state == "failed"
    assert len(tidy_runs(plan)) == len(plan.store.table(["score"])) == 3


def test_sweeping_leaves_what_this_program_did_not_make(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=1), tmp_path / "store")
    folder = plan.store.folder(next(iter(plan.distinct)))
    folder.mkdir(parents=True)
    own = [".my-secret", ".ssh-key", "checkpoint-keep.txt", "checkpoint-500", "lease-notes.json", "a.tmp"]
    for name in own:
        (folder / name).write_text("mine")
    (folder / "linked").symlink_to(tmp_path)
    (folder / ".result-0123456789abcdef.json").write_text("half written by a process that was killed")
    run_plan(plan, LocalExecutor(workers=1))
    names = {path.name for path in folder.iterdir()}
    assert names >= {*own, "linked", "result.json"}
    assert ".result-0123456789abcdef.json" not in names


# Workers that die, are stopped, or fall silent


@contextlib.contextmanager
def disturbed(act: Callable[[int], None], plan: Plan, times: int = 1) -> Iterator[None]:
    """Does something to the first workers that hold a run of the plan, once to each."""

    def find() -> None:
        deadline = time.monotonic() + 60
        seen: set[int] = set()
        while time.monotonic() < deadline and len(seen) < times:
            for key in plan.distinct:
                holder = newest(plan.store.folder(key))
                if holder is not None and not plan.store.is_done(key) and holder.pid not in seen:
                    seen.add(holder.pid)
                    act(holder.pid)
            time.sleep(0.01)

    thread = threading.Thread(target=find)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_goes_is_replaced(tmp_path: Path, number: signal.Signals) -> None:
    plan = Plan.make(dice_study(seeds=2, seconds_each=0.3), tmp_path / "store")
    with disturbed(lambda pid: os.kill(pid, number), plan):
        progress = run_plan(plan, LocalExecutor(workers=1))
    assert (len(progress.done), progress.failed, progress.stopped) == (4, {}, "")


def test_a_worker_of_ones_own_that_falls_silent_is_killed_and_replaced(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=1, seconds_each=0.5), tmp_path / "store")
    stopped: list[int] = []

    def stop(pid: int) -> None:
        stopped.append(pid)
        os.kill(pid, signal.SIGSTOP)

    with disturbed(stop, plan):
        progress = run_plan(plan, LocalExecutor(workers=1), lease_seconds=1.5)
    assert len(progress.done) == 2
    assert stopped
    assert not Path(f"/proc/{stopped[0]}").exists()


def test_two_kills_from_outside_do_not_fail_a_healthy_run(tmp_path: Path) -> None:
    plan = Plan.make(dice_study(seeds=1, seconds_each=0.4), tmp_path / "store")
    with disturbed(lambda pid: os.kill(pid, signal.SIGKILL), plan, times=2):
        progress = run_plan(plan, LocalExecutor(workers=1))
    assert (len(progress.done), progress.failed) == (2, {})


# Damage


def test_an_empty_run_json_is_put_aside_and_the_run_begun_afresh(tmp_path: Path) -> None:
    study = tiny_study(tmp_path, seeds=1)
    plan = Plan.make(study, tmp_path / "store")
    folder = plan.store.folder(next(iter(plan.distinct)))
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("")
    (folder / "checkpoint-000001-0123456789abcdef.safetensors").write_bytes(b"of what was begun")
    assert not run_plan(plan, Here()).failed
    assert (folder / "run.json.damaged").exists()
    assert results(tmp_path / "store") == undisturbed(study, tmp_path / "baseline")


def test_a_checkpoint_without_its_key_is_put_aside_and_the_run_begun_afresh(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = tiny_study(tmp_path, seeds=1)
    plan = Plan.make(study, tmp_path / "store")
    key = next(iter(plan.distinct))
    folder = plan.store.folder(key)
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"key": key, "threads": 1}))
    write_checkpoint(plan.store.run(key), save({}, {"nothing": "of ours"}))
    assert not run_plan(plan, Here()).failed
    assert "put aside, and the run begun afresh" in caplog.text
    assert results(tmp_path / "store") == undisturbed(study, tmp_path / "baseline")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("predictions.safetensors", b""),
        ("predictions.safetensors", b"\x02" + 7 * b"\0" + b"{}" + b"and more"),
        ("history.parquet", b"PAR1"),
    ],
    ids=["empty", "too long", "cut"],
)
def test_damaged_arrays_are_damage_everywhere(
    tmp_path: Path, trained: Path, name: str, content: bytes
) -> None:
    shutil.copytree(trained, tmp_path / "all")
    plan = Plan.make(tiny_study(tmp_path / "all", seeds=2), tmp_path / "all" / "store")
    key = next(iter(plan.distinct))
    (plan.store.folder(key) / name).write_bytes(content)
    state = plan.states()[key]
    assert state.state == "failed"
    assert name in state.message
    assert "--retry-failed" in state.message
    assert sum(plan.store.counts()[state] for state in FINISHED) == 3
    assert len(plan.missing()) == 1
    assert any(name in problem for problem in plan.store.problems())
    with pytest.raises(RunsError, match=name):
        audit(all_runs(plan.store)[0], "accuracy", "margin_type", "subtract")
    report = write_report(plan.store.path, tmp_path / "page.html")
    assert any(name in problem for problem in report.data.problems)
    again = run_plan(plan, Here(), retry_failed=True)
    assert list(again.done) == [key]
    assert not plan.store.damage(key)
    assert results(tmp_path / "all" / "store") == results(trained / "store")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four finished runs, and its store."""
    folder = tmp_path_factory.mktemp("trained")
    run_plan(Plan.make(tiny_study(folder, seeds=2), folder / "store"), Here())
    return folder


def test_counts_add_up_in_what_is_printed(start: Start, tmp_path: Path, trained: Path) -> None:
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    folders = sorted(path.parent for path in (tmp_path / "store").glob("*/result.json"))
    (folders[0] / "predictions.safetensors").write_bytes(b"")
    (folders[1] / "result.json").write_bytes(b"")
    process = start()
    out, err = process.communicate(timeout=300)
    counts = re.findall(r"\d+", out.partition("Store")[0])
    assert counts == ["2", "4", "0", "2"]  # done, planned, new and failed
    assert err.splitlines()[-1].startswith("error: 2 ")


# Copies


def test_a_store_is_merged_by_copying_into_one_that_is_in_use(tmp_path: Path) -> None:
    """Whole folders, in any order, while two workers fill the same store."""
    study = dice_study(seeds=12, seconds_each=0.05)
    whole = Plan.make(study, tmp_path / "whole")
    run_plan(whole, Here())
    plan = Plan.make(study, tmp_path / "store")
    plan.store.path.mkdir()
    over = threading.Event()

    def copy() -> None:
        for key in reversed(plan.distinct):
            shutil.copytree(whole.store.folder(key), plan.store.folder(key), dirs_exist_ok=True)
            time.sleep(0.02)
        over.set()

    thread = threading.Thread(target=copy)
    thread.start()
    progress = run_plan(plan, LocalExecutor(workers=2))
    thread.join()
    assert over.is_set()
    assert not progress.failed
    assert results(tmp_path / "store") == results(tmp_path / "whole")
    assert plan.store.counts()["done"] == 24
    table = StudyRuns(plan).table
    assert len(table) == 24
    assert not table.duplicated(["sides", "seed"]).any()


def test_a_folder_copied_over_a_run_under_way_replaces_it(tmp_path: Path) -> None:
    """Its lease is overwritten by that of the copied run, which was given back."""
    study = dice_study(seeds=1, seconds_each=0.4)
    whole = Plan.make(study, tmp_path / "whole")
    run_plan(whole, Here())
    plan = Plan.make(study, tmp_path / "store")
    key = next(iter(plan.distinct))

    def copy() -> None:
        wait_for(lambda: newest(plan.store.folder(key)))
        shutil.copytree(whole.store.folder(key), plan.store.folder(key), dirs_exist_ok=True)

    thread = threading.Thread(target=copy)
    thread.start()
    progress = run_plan(plan, Here())
    thread.join()
    assert not progress.failed
    assert results(tmp_path / "store") == results(tmp_path / "whole")


def test_no_worker_outlives_a_stopped_study(start: Start, tmp_path: Path) -> None:
    tiny_study(tmp_path, seeds=2, training__epochs=400)
    process = start("--workers", "2")
    wait_for(lambda: len(children(process.pid)) == 2)
    workers = children(process.pid)
    os.kill(workers[0], signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    with contextlib.suppress(ProcessLookupError):
        os.kill(workers[0], signal.SIGCONT)
    process.communicate(timeout=90)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
