"""Leases: one holder at a time, whatever happens to the others."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seedspread.atomic import replacing
from seedspread.runs import lease as module
from seedspread.runs.lease import LeaseLostError, StalenessTracker, claim, newest


def foreign(folder: Path) -> None:
    """Makes the newest lease one of another machine: its process cannot be looked at from here."""
    holder = newest(folder)
    assert holder is not None
    inode = holder.path.stat().st_ino
    holder.path.write_text(json.dumps(holder.content | {"space": "elsewhere", "inode": inode}))


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first = claim(tmp_path, StalenessTracker())
    assert first is not None
    assert first.token == 1
    assert claim(tmp_path, StalenessTracker()) is None
    first.release()
    second = claim(tmp_path, StalenessTracker())
    assert second is not None
    assert second.token == 2


def test_of_many_that_claim_at_once_one_wins(tmp_path: Path) -> None:
    for round_ in range(20):
        together = threading.Barrier(8)

        def attempt(
            _: int, folder: Path = tmp_path / str(round_), gate: threading.Barrier = together
        ) -> bool:
            gate.wait()
            return claim(folder, StalenessTracker()) is not None

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(attempt, range(8))) == 1


def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    code = f"from seedspread.runs.lease import *; claim(Path({str(tmp_path)!r}), StalenessTracker())"
    subprocess.run([sys.executable, "-c", f"from pathlib import Path; {code}"], check=True)
    assert newest(tmp_path) is not None
    taken = claim(tmp_path, StalenessTracker())
    assert taken is not None
    assert taken.token == 2


def test_a_silent_lease_of_another_machine_is_taken_over_after_the_set_time(tmp_path: Path) -> None:
    held = claim(tmp_path, StalenessTracker())
    assert held is not None
    foreign(tmp_path)
    watch = StalenessTracker(seconds=0.3)
    assert claim(tmp_path, watch) is None
    held.beat()  # it moves
    time.sleep(0.35)
    assert claim(tmp_path, watch) is None
    time.sleep(0.35)
    taken = claim(tmp_path, watch)
    assert taken is not None
    with pytest.raises(LeaseLostError):  # whoever was only asleep finds out
        held.check()
    with pytest.raises(LeaseLostError):
        held.beat()
    held.release()
    taken.check()


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_jumps_takes_no_lease_from_the_living(tmp_path: Path, jump: float) -> None:
    held = claim(tmp_path, StalenessTracker())
    assert held is not None
    foreign(tmp_path)
    os.utime(held.path, (time.time() + jump, time.time() + jump))
    watch = StalenessTracker(seconds=60)
    assert claim(tmp_path, watch) is None
    held.beat()
    assert claim(tmp_path, watch) is None


def test_a_copied_lease_is_no_lease(tmp_path: Path) -> None:
    assert claim(tmp_path / "a", StalenessTracker()) is not None
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert claim(tmp_path / "b", StalenessTracker()) is not None
    assert claim(tmp_path / "a", StalenessTracker()) is None


def test_a_damaged_lease_is_free(tmp_path: Path) -> None:
    (tmp_path / "lease-000003.json").write_text("{")
    taken = claim(tmp_path, StalenessTracker())
    assert taken is not None
    assert taken.token == 4


def test_a_number_that_was_overtaken_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claimant that slept between looking and linking: it saw a free run with number 1."""
    held = claim(tmp_path, StalenessTracker())
    assert held is not None
    held.release()
    second = claim(tmp_path, StalenessTracker())
    assert second is not None
    real, looks = module.newest, iter([True])
    monkeypatch.setattr(module, "newest", lambda folder: None if next(looks, False) else real(folder))
    monkeypatch.setattr(
        module, "max", lambda *_, **__: 0, raising=False
    )  # it still believes that none is taken
    late = claim(tmp_path, StalenessTracker())
    monkeypatch.undo()
    assert late is None
    second.check()


def test_a_full_disk_leaves_a_number_taken_and_no_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = claim(tmp_path, StalenessTracker())
    assert first is not None

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seedspread.runs.lease.os.replace", full)
    first.release()
    monkeypatch.undo()
    second = claim(tmp_path, StalenessTracker())
    assert second is not None
    assert second.token == 2
    with pytest.raises(LeaseLostError):
        first.check()


def test_a_copied_lease_with_a_higher_number_takes_nothing_from_the_living(tmp_path: Path) -> None:
    """Merging stores by copying: the other store's lease had number 2."""
    other = tmp_path / "other"
    for _ in range(2):
        lease = claim(other, StalenessTracker())
        assert lease is not None
        lease.release()
    held = claim(tmp_path / "here", StalenessTracker())
    assert held is not None
    shutil.copytree(other, tmp_path / "here", dirs_exist_ok=True)
    held.check()
    assert claim(tmp_path / "here", StalenessTracker()) is None


def test_a_filesystem_that_stumbles_does_not_end_the_beats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = claim(tmp_path, StalenessTracker())
    assert lease is not None
    real, failures = os.utime, iter([True])

    def stumble(*arguments: object, **options: object) -> None:
        if next(failures, False):
            raise OSError(116, "Stale file handle")
        real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("seedspread.runs.lease.os.utime", stumble)
    before = lease.path.stat().st_mtime_ns
    lease.keep_beating(seconds=0.6)
    time.sleep(0.6)
    assert lease.path.stat().st_mtime_ns > before
    lease.release()


def test_a_process_that_cannot_be_seen_is_not_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On machines that hide other users' processes."""
    assert claim(tmp_path, StalenessTracker()) is not None
    monkeypatch.setattr(module, "_started", lambda pid: None)
    holder = newest(tmp_path)
    assert holder is not None
    assert not holder.is_dead


def test_beats_go_on_in_the_background(tmp_path: Path) -> None:
    lease = claim(tmp_path, StalenessTracker())
    assert lease is not None
    before, threads = lease.path.stat().st_mtime_ns, threading.active_count()
    lease.keep_beating(seconds=0.6)
    time.sleep(0.5)
    beaten = lease.path.stat().st_mtime_ns
    assert beaten > before
    lease.release()
    assert threading.active_count() == threads


def test_a_file_that_was_begun_before_a_takeover_does_not_appear(tmp_path: Path) -> None:
    first, impatient = claim(tmp_path, StalenessTracker()), StalenessTracker(0)
    assert first is not None

    def write(check: Callable[[], None]) -> None:
        with replacing(tmp_path / "result.json", check) as part:
            part.write_text("late")
            claim(tmp_path, impatient)  # sees the lease, and then sees that it has not moved
            assert claim(tmp_path, impatient) is not None

    with pytest.raises(LeaseLostError):
        write(first.check)
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"lease"}


def test_a_lease_that_cannot_be_read_is_held_until_it_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = claim(tmp_path, StalenessTracker())
    assert held is not None

    def stumbles(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(module, "read_file", stumbles)
    tracker = StalenessTracker(0.2)
    assert claim(tmp_path, tracker) is None
    time.sleep(0.25)
    holder = newest(tmp_path)
    assert holder is not None
    assert tracker.is_stale(holder)


def test_a_number_that_no_lease_can_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "lease-999999999999.json").write_text("{}")
    held = claim(tmp_path, StalenessTracker())  # of someone else
    assert held is not None
    held.release()
    (tmp_path / "lease-999999999.json").write_text("{}")
    with pytest.raises(OSError, match="remove it"):
        claim(tmp_path, StalenessTracker())
