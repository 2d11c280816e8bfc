"""A worker's handling of a run: claim it, run it, release it so that anyone can continue."""

import errno
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from seedspread.errors import SeedspreadError
from seedspread.runners.contract import WorkItem
from seedspread.runs.folder import Failure, RunFolderError
from seedspread.runs.lease import LeaseLostError, StalenessTracker
from seedspread.runs.stopping import StoppedError, stop_requests

Outcome = Literal["done", "failed", "busy", "lost", "stopped", "full"]
# Errors of the store, not of the run: the next run would fail too.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class AttemptResult:
    """The outcome of an attempt; `message` is the failure's last line. `full`: the store cannot take more."""

    key: str
    outcome: Outcome
    message: str = ""


def stop_when_orphaned() -> Callable[[], None]:
    """Return a function that asks this process to stop once its parent is gone."""
    spawned_by = multiprocessing.parent_process()
    parent = os.getppid() if spawned_by is None else spawned_by.pid

    def look() -> None:
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return look


def attempt(
    item: WorkItem,
    tracker: StalenessTracker | None = None,
    every_beat: Callable[[], None] = lambda: None,
) -> AttemptResult:
    """Try a run once: `busy` if another worker has it."""
    claimed = _claim(item, tracker or StalenessTracker(item.lease_seconds), every_beat)
    if isinstance(claimed, AttemptResult):
        return claimed
    try:
        return _result(claimed, _run(claimed))
    finally:
        if claimed.lease is not None:
            claimed.lease.release()


def _claim(
    item: WorkItem, tracker: StalenessTracker, every_beat: Callable[[], None]
) -> WorkItem | AttemptResult:
    """Return the item with its lease, or why it cannot be run now."""
    run, store = item.run, item.store
    if store.is_done(run.key):
        return AttemptResult(run.key, "done")
    if why := item.runner.why_not_here(run.parameters):
        return AttemptResult(run.key, "failed", why)  # for this worker: another one may run it
    try:
        lease = store.claim(run.key, tracker)
        if lease is not None:
            store.run(run.key).forget_failure()  # this attempt will report its own
    except OSError as error:
        outcome: Outcome = "full" if error.errno in _FULL else "failed"
        links = "; a store needs a file system with hard links" if error.errno in _NO_LINKS else ""
        return AttemptResult(run.key, outcome, f"{run.folder} cannot be written: {error.strerror}{links}")
    except RunFolderError as error:
        return AttemptResult(run.key, "failed", str(error))
    if lease is None:
        return AttemptResult(run.key, "busy")
    lease.keep_beating(item.lease_seconds, every_beat)
    return replace(item, lease=lease)


def attempt_until_ended(item: WorkItem) -> AttemptResult:
    """Retry until the run has a result or has failed; wait while another worker has it."""
    tracker, store, key = StalenessTracker(item.lease_seconds), item.store, item.key
    while True:
        result = attempt(item, tracker)
        if result.outcome not in ("busy", "lost"):
            return result
        if store.has_failed(key):
            return AttemptResult(key, "failed", store.state(key).message)
        time.sleep(_POLL_SECONDS)


def _run(item: WorkItem) -> Exception | None:
    """Run a claimed run; return the exception that it ended with, if any."""
    why = item.runner.why_not_on_gpus(item.run.parameters, item.gpus, here=True) if item.gpus else None
    if why:
        return SeedspreadError(why)
    outcome: Exception | None = None
    with stop_requests() as stop:
        try:
            item.runner.run(item, stop)
            if not item.folder().is_done:
                raise RuntimeError(f"the runner {item.runner.name!r} returned and left no result")
        except SeedspreadError as error:
            outcome = error
        except Exception as error:
            outcome = error
            if stop.number is not None:  # it may have failed because it was stopped
                outcome = StoppedError(f"stopped, while the run failed: {error}", stop.number)
        stop.heard(outcome)
    return outcome


def _result(one: WorkItem, outcome: Exception | None) -> AttemptResult:
    key = one.key
    if isinstance(outcome, StoppedError):
        return AttemptResult(key, "stopped", str(outcome))
    if isinstance(outcome, LeaseLostError):
        if one.lease is not None and one.lease.is_overtaken:
            return AttemptResult(key, "lost", str(outcome))
        return AttemptResult(key, "failed", "its folder, or its lease in it, was removed while it ran")
    if outcome is None:
        return AttemptResult(key, "done")
    failure, folder = Failure.of(outcome), one.folder()
    trouble = outcome.__cause__ if isinstance(outcome, RunFolderError) else None
    try:
        # Its runner may have recorded more than is known here. Trouble of the file system (a full disk, say)
        # is not a failure of the run: the same command tries it again.
        if not folder.has_failed and not isinstance(trouble, OSError):
            folder.fail(failure)
    except LeaseLostError:
        return AttemptResult(key, "lost", failure.message)
    except RunFolderError:
        pass  # the message still reaches the caller
    is_full = getattr(trouble, "errno", None) in _FULL
    return AttemptResult(key, "full" if is_full else "failed", failure.last_line)
