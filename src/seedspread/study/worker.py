"""What a worker does with a run, or with several that may be run together: claim, run, give back.

Whatever happens, all is left so that anyone can go on.
"""

import errno
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from seedspread.errors import SeedspreadError, printable
from seedspread.runners.contract import WorkItem
from seedspread.runs.folder import CheckpointError, Failure, RunFolderError, put_checkpoints_aside
from seedspread.runs.lease import LeaseLostError, StalenessTracker, newest
from seedspread.runs.stopping import StoppedError, StopRequest, stop_requests

Outcome = Literal["done", "failed", "busy", "lost", "stopped", "full"]
# The store, and not the run, is what fails: the next run would too.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended; `message` is the failure's last line. `full`: the store takes nothing more."""

    key: str
    outcome: Outcome
    message: str = ""


def stop_when_orphaned() -> Callable[[], None]:
    """To be called now and then: asks this process to stop once its parent is gone."""
    spawned_by = multiprocessing.parent_process()
    parent = os.getppid() if spawned_by is None else spawned_by.pid

    def look() -> None:
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return look


def attempt(item: WorkItem, tracker: StalenessTracker | None = None) -> AttemptResult:
    """Try a run once: `busy` if another worker has it."""
    return attempt_group([item], 1, tracker or StalenessTracker(item.lease_seconds))[0]


def attempt_group(
    items: Iterable[WorkItem],
    size: int,
    tracker: StalenessTracker,
    every_beat: Callable[[], None] = lambda: None,
) -> list[AttemptResult]:
    """Try runs of one group once, together: the first of them that are free, up to `size`.

    A run that workers have died of more than once is tried alone: it, or one beside it, may be the reason.
    """
    results: list[AttemptResult] = []
    claimed: list[WorkItem] = []
    with ExitStack() as stack:
        for item in items:
            holder = newest(Path(item.run.folder))
            alone = holder is not None and holder.token > 1  # not its first claim, and never given back
            if alone and claimed:
                continue
            one = _claim(item, tracker, every_beat)
            if isinstance(one, AttemptResult):
                results.append(one)
                continue
            if one.lease is not None:
                stack.callback(one.lease.release)
            claimed.append(one)
            if alone or len(claimed) == size:
                break
        if claimed:
            results += _run(claimed)
    return results


def _claim(
    item: WorkItem, tracker: StalenessTracker, every_beat: Callable[[], None]
) -> WorkItem | AttemptResult:
    """The item with its lease, or why it cannot be run now."""
    run, store = item.run, item.store
    if store.is_done(run.key):
        return AttemptResult(run.key, "done")
    if why := item.runner.why_not_here(run.parameters):
        return AttemptResult(run.key, "failed", why)  # in this worker's eyes: another may take it
    try:
        lease = store.claim(run.key, tracker)
        if lease is not None:
            store.run(run.key).forget_failure()  # this attempt tells of itself
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
    """Try until the run has a result or has failed; wait while another worker has it."""
    tracker, store, key = StalenessTracker(item.lease_seconds), item.store, item.key
    while True:
        result = attempt(item, tracker)
        if result.outcome not in ("busy", "lost"):
            return result
        if store.has_failed(key):
            return AttemptResult(key, "failed", store.state(key).message)
        time.sleep(_POLL_SECONDS)


def _run(claimed: list[WorkItem]) -> list[AttemptResult]:
    """Run the runs and end each: together, then alone those that this has brought to no end."""
    ended: dict[str, AttemptResult] = {}
    shared = _run_once(claimed, ended)
    stopped = StoppedError("stopped before it began", signal.SIGTERM)
    if isinstance(shared, Exception) and len(claimed) > 1:
        why = (str(shared).splitlines() or [type(shared).__name__])[0]
        _say(f"{len(claimed)} runs could not be run together ({why}): one by one")
    for one in claimed:
        key = one.key
        if key in ended:
            continue
        if isinstance(shared, StoppedError) or any(r.outcome == "stopped" for r in ended.values()):
            ended[key] = _end(one, stopped)
        elif shared is not None and len(claimed) == 1:
            ended[key] = _end(one, shared)
        else:  # alone, or from its beginning
            alone = _run_once([one], ended)
            if key not in ended:
                ended[key] = _end(one, alone or RuntimeError("the run could not be started afresh"))
    return [ended[one.key] for one in claimed]


def _run_once(claimed: Sequence[WorkItem], ended: dict[str, AttemptResult]) -> Exception | None:
    """End every run that has finished or failed; return what stopped them all, if anything did.

    Apart from that a run has no end yet only if all its checkpoints were damaged: it can start afresh.
    """
    first = claimed[0]
    stop = StopRequest()
    try:
        for one in claimed:
            why = one.runner.why_not_on_gpus(one.run.parameters, one.gpus, here=True) if one.gpus else None
            if why:
                raise SeedspreadError(why)
        with stop_requests() as stop:
            outcomes = {}
            for number, outcome in first.runner.run(claimed, stop):
                outcomes[number] = outcome
                one = claimed[number]
                if not isinstance(outcome, CheckpointError):
                    ended[one.key] = _end(one, outcome)
                elif (problem := _start_afresh(one, outcome)) is not None:
                    ended[one.key] = _end(one, problem)
            stop.heard(outcomes.values())
        if len(outcomes) != len(claimed):
            raise RuntimeError(f"the runner told of {len(outcomes)} of {len(claimed)} runs")
    except Exception as error:  # nothing could be begun with, or the program that they share has failed
        if stop.number is not None:
            return StoppedError(f"stopped, while the run failed: {error}", stop.number)
        # Its frames would keep all that they hold in memory while the runs are tried alone.
        return error if len(claimed) == 1 else error.with_traceback(None)
    return None


def _start_afresh(one: WorkItem, error: CheckpointError) -> Exception | None:
    """Put a run's checkpoints aside, of which none can be used, and say so; return why it cannot be."""
    try:
        if one.lease is not None:
            one.lease.check()
        if not put_checkpoints_aside(one.folder()):
            return error
    except (LeaseLostError, RunFolderError) as problem:
        return problem
    _say(f"{error}: put aside, and the run begun afresh")
    return None


def _end(one: WorkItem, outcome: object) -> AttemptResult:
    """Say what became of a run, and give it back at once: those beside it may go on for long."""
    result = _result(one, outcome)
    if one.lease is not None:
        one.lease.release()
    return result


def _result(one: WorkItem, outcome: object) -> AttemptResult:
    key = one.key
    if isinstance(outcome, StoppedError):
        return AttemptResult(key, "stopped", str(outcome))
    if isinstance(outcome, LeaseLostError):
        if one.lease is not None and one.lease.is_overtaken:
            return AttemptResult(key, "lost", str(outcome))
        return AttemptResult(key, "failed", "its folder, or its lease in it, was removed while it ran")
    if not isinstance(outcome, Exception):
        return AttemptResult(key, "done")
    failure, folder = Failure.of(outcome), one.folder()
    trouble = outcome.__cause__ if isinstance(outcome, RunFolderError) else None
    try:
        # Its runner may have written down more than is known here. What a full disk or another trouble of the
        # file system has ended has not failed: the same command tries it again.
        if not folder.has_failed and not isinstance(trouble, OSError):
            folder.fail(failure)
    except LeaseLostError:
        return AttemptResult(key, "lost", failure.message)
    except RunFolderError:
        pass  # the message still reaches whoever is watching
    is_full = getattr(trouble, "errno", None) in _FULL
    return AttemptResult(key, "full" if is_full else "failed", failure.last_line)


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr)
