"""What a worker does with a run, or with several that may be run together: claim, run, give back.

Whatever happens, all is left so that anyone can go on.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from seedspread.errors import printable
from seedspread.runners.contract import Runner
from seedspread.runs.checkpoints import CheckpointError, put_checkpoints_aside
from seedspread.runs.folder import RunFolder
from seedspread.runs.lease import LEASE_SECONDS, Lease, LeaseLostError, StalenessTracker, newest
from seedspread.runs.record import Failure
from seedspread.runs.request import RunRequest
from seedspread.runs.run_files import RunFolderError
from seedspread.runs.stopping import StoppedError, StopRequest, stop_requests
from seedspread.runs.store import Store

Outcome = Literal["done", "failed", "busy", "lost", "stopped"]
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class WorkItem:
    """All that a worker needs to know of a run; it can be sent anywhere.

    Attributes:
        store: the store's folder.
        key: the run.
        runner: what runs it.
        parameters: what it is.
        seed: with which seed.
        data_dir: the data folder.
        threads: CPU threads, unless the parameters say; a run that has begun keeps its own.
        lease_seconds: after how long a silent lease may be taken over.
        group: shared by runs that may be run together; its key for one that is to be alone.
        group_size: with how many of its group, itself included, it is run together.
        may_use_gpu: whether a GPU is to be set aside for it, where there are some.
    """

    store: str
    key: str
    runner: Runner
    parameters: Any
    seed: int
    data_dir: Path | None = None
    threads: int = 1
    lease_seconds: float = LEASE_SECONDS
    group: str = ""
    group_size: int = 1
    may_use_gpu: bool = False


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended; `message` is the failure's last line."""

    key: str
    outcome: Outcome
    message: str = ""


@dataclass
class ClaimedRun:
    """A run whose lease this worker has, until it has ended."""

    item: WorkItem
    lease: Lease
    keeping: ExitStack
    result: AttemptResult | None = field(default=None, init=False)

    @property
    def folder(self) -> RunFolder:
        """Where it writes, as long as it has the lease."""
        return RunFolder(Store(self.item.store).folder(self.item.key), self.item.key, self.lease.check)

    @property
    def request(self) -> RunRequest:
        """What its runner is asked for."""
        item = self.item
        return RunRequest(
            parameters=item.parameters,
            folder=self.folder.path,
            seed=item.seed,
            key=item.key,
            guard=self.lease.check,
            threads=item.threads,
        )

    def end(self, outcome: object) -> None:
        """Notes what became of the run, and gives it back at once: those beside it may go on for long."""
        self.result = self._result(outcome)
        self.give_back()

    def give_back(self) -> None:
        """Lets the lease go; a second time does nothing."""
        self.keeping.close()

    @property
    def is_stopped(self) -> bool:
        """Whether it was asked to stop."""
        return self.result is not None and self.result.outcome == "stopped"

    def _result(self, outcome: object) -> AttemptResult:
        key = self.item.key
        if isinstance(outcome, StoppedError):
            return AttemptResult(key, "stopped", str(outcome))
        if isinstance(outcome, LeaseLostError):
            if self.lease.is_overtaken:
                return AttemptResult(key, "lost", str(outcome))
            return AttemptResult(key, "failed", "its folder, or its lease in it, was removed while it ran")
        if isinstance(outcome, Exception):
            return self._failed(Failure.of(outcome))
        return AttemptResult(key, "done")

    def _failed(self, failure: Failure) -> AttemptResult:
        try:
            if not self.folder.has_failed:  # its runner may have written down more than is known here
                self.folder.fail(failure)
        except LeaseLostError:
            return AttemptResult(self.item.key, "lost", failure.message)
        except RunFolderError:
            pass  # a full disk, perhaps the very reason; the message still reaches whoever is watching
        return AttemptResult(self.item.key, "failed", failure.last_line)


def stop_when_orphaned() -> Callable[[], None]:
    """To be called now and then: asks this process to stop once its parent is gone."""
    spawned_by = multiprocessing.parent_process()
    parent = os.getppid() if spawned_by is None else spawned_by.pid

    def look() -> None:
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return look


def attempt(
    item: WorkItem, tracker: StalenessTracker | None = None, every_beat: Callable[[], None] = lambda: None
) -> AttemptResult:
    """Tries a run once: `busy` if another worker has it."""
    return attempt_group([item], 1, tracker or StalenessTracker(item.lease_seconds), every_beat)[0]


def attempt_group(
    items: Iterable[WorkItem],
    size: int,
    tracker: StalenessTracker,
    every_beat: Callable[[], None] = lambda: None,
) -> list[AttemptResult]:
    """Tries runs of one group once, together: the first of them that are free, up to `size`.

    A run that workers have died of more than once is tried alone: it, or one beside it, may be the reason.
    """
    results: list[AttemptResult] = []
    claimed: list[ClaimedRun] = []
    with ExitStack() as stack:
        for item in items:
            alone = _has_been_fatal(item)
            if alone and claimed:
                continue
            one = _claim(item, tracker, every_beat)
            if isinstance(one, AttemptResult):
                results.append(one)
                continue
            stack.callback(one.give_back)
            claimed.append(one)
            if alone or len(claimed) == size:
                break
        if claimed:
            _run(claimed)
    return results + [one.result for one in claimed if one.result is not None]


def _claim(
    item: WorkItem, tracker: StalenessTracker, every_beat: Callable[[], None]
) -> ClaimedRun | AttemptResult:
    store = Store(item.store)
    if store.is_done(item.key):
        return AttemptResult(item.key, "done")
    if why := item.runner.why_not_here(item.parameters):
        return AttemptResult(item.key, "failed", why)  # in this worker's eyes: another may take it
    try:
        lease = store.claim(item.key, tracker)
        if lease is not None:
            store.run(item.key).forget_failure()  # this attempt tells of itself
    except OSError as error:
        message = f"{store.folder(item.key)} cannot be written: {error.strerror}"
        return AttemptResult(item.key, "failed", message)
    except RunFolderError as error:
        return AttemptResult(item.key, "failed", str(error))
    if lease is None:
        return AttemptResult(item.key, "busy")
    keeping = ExitStack()
    keeping.callback(lease.release)
    keeping.enter_context(lease.heartbeat(item.lease_seconds, every_beat))
    return ClaimedRun(item, lease, keeping)


def _has_been_fatal(item: WorkItem) -> bool:
    """Whether its last claim was not its first, and was never given back."""
    holder = newest(Store(item.store).folder(item.key))
    return holder is not None and holder.token > 1


def attempt_until_ended(item: WorkItem, every_beat: Callable[[], None] = lambda: None) -> AttemptResult:
    """Tries until the run has a result or has failed: waits while another worker has it."""
    tracker, store = StalenessTracker(item.lease_seconds), Store(item.store)
    while True:
        result = attempt(item, tracker, every_beat)
        if result.outcome not in ("busy", "lost"):
            return result
        if store.has_failed(item.key):
            return AttemptResult(item.key, "failed", store.state(item.key).message)
        time.sleep(_POLL_SECONDS)


def _run(claimed: list[ClaimedRun]) -> None:
    """Runs the runs and ends each: together, then alone those that this has brought to no end."""
    shared = _run_once(claimed)
    stopped = StoppedError("stopped before it began", signal.SIGTERM)
    if isinstance(shared, Exception) and len(claimed) > 1:
        why = (str(shared).splitlines() or [type(shared).__name__])[0]
        _say(f"{len(claimed)} runs could not be run together ({why}): one by one")
    for one in claimed:
        if one.result is not None:
            continue
        if isinstance(shared, StoppedError) or any(other.is_stopped for other in claimed):
            one.end(stopped)
        elif shared is not None and len(claimed) == 1:
            one.end(shared)
        else:  # alone, or from its beginning
            alone = _run_once([one])
            if one.result is None:
                one.end(alone or RuntimeError("the run could not be started afresh"))


def _run_once(claimed: Sequence[ClaimedRun]) -> Exception | None:
    """Ends every run that has finished or failed; returns what stopped them all, if anything did.

    Apart from that a run has no end yet only if all its checkpoints were damaged: it can start afresh.
    """
    first = claimed[0].item
    stop = StopRequest()
    try:
        with stop_requests() as stop:
            outcomes = {}
            for number, outcome in first.runner.run([one.request for one in claimed], stop, first.data_dir):
                outcomes[number] = outcome
                one = claimed[number]
                if not (isinstance(outcome, CheckpointError) and _can_start_afresh(one, outcome)):
                    one.end(outcome)
            stop.heard(outcomes.values())
        if len(outcomes) != len(claimed):
            raise RuntimeError(f"the runner told of {len(outcomes)} of {len(claimed)} runs")
    except Exception as error:  # nothing could be begun with, or the program that they share has failed
        if stop.number is not None:
            return StoppedError(f"stopped, while the run failed: {error}", stop.number)
        # Its frames would keep all that they hold in memory while the runs are tried alone.
        return error if len(claimed) == 1 else error.with_traceback(None)
    return None


def _can_start_afresh(one: ClaimedRun, error: CheckpointError) -> bool:
    """Puts a run's checkpoints aside, of which none can be used, and says so; False if there are none."""
    try:
        one.lease.check()
        is_aside = put_checkpoints_aside(one.folder)
    except (LeaseLostError, RunFolderError) as problem:
        one.end(problem)
        return False
    if is_aside:
        _say(f"{error}: put aside, and the run begun afresh")
    return is_aside


def _say(line: str) -> None:
    """For whoever watches the worker; it may quote what stands in a file."""
    print(printable(line), file=sys.stderr)
