"""One attempt at a run, or at several of one shape: claim, carry out, leave all so that anyone can go on."""

import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from seedspread.campaign.lease import LEASE_SECONDS, Lease, LeaseLostError, Watch, newest
from seedspread.campaign.store import Store
from seedspread.config import RunConfig
from seedspread.errors import SeedspreadError
from seedspread.identity import stack_shape

if TYPE_CHECKING:
    from seedspread.training.run import Order

Outcome = Literal["done", "failed", "busy", "lost", "stopped"]
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Task:
    """All that a worker needs to know of a run; plain values, so that it can be sent anywhere.

    Attributes:
        store: the store's folder.
        key: the run.
        config: as JSON.
        data_dir: the data folder.
        threads: CPU threads, if the config leaves them open; a run that has begun keeps its own.
        lease_seconds: after how long a silent lease may be taken over.
        stack: with how many runs of its shape, itself included, it may be trained as one program.
    """

    store: str
    key: str
    config: str
    data_dir: str | None = None
    threads: int | None = None
    lease_seconds: float = LEASE_SECONDS
    stack: int = 1

    @cached_property
    def shape(self) -> str:
        """Runs with the same shape may be trained together; one that is to be alone has its own."""
        shared = stack_shape(RunConfig.model_validate_json(self.config)) if self.stack > 1 else None
        return shared or self.key


@dataclass(frozen=True)
class Ended:
    """How an attempt ended; `message` is the failure's last line."""

    key: str
    outcome: Outcome
    message: str = ""


def stop_when_orphaned() -> Callable[[], None]:
    """To be called now and then: asks this process to stop once its parent is gone."""
    known = multiprocessing.parent_process()
    parent = os.getppid() if known is None else known.pid

    def look() -> None:
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return look


def attempt(task: Task, watch: Watch | None = None, every_beat: Callable[[], None] = lambda: None) -> Ended:
    """Tries a run once: `busy` if another worker has it."""
    return attempt_together([task], 1, watch or Watch(task.lease_seconds), every_beat)[0]


def attempt_together(
    tasks: Iterable[Task], size: int, watch: Watch, every_beat: Callable[[], None] = lambda: None
) -> list[Ended]:
    """Tries runs of one shape once, as one program: the first of them that are free, up to `size`.

    A run that workers have died of more than once is tried alone: it, or one beside it, may be the reason.
    """
    ended: list[Ended] = []
    held: list[_Held] = []
    with ExitStack() as stack:
        for task in tasks:
            alone = _has_been_fatal(task)
            if alone and held:
                continue
            claimed = _claim(task, watch, every_beat)
            if isinstance(claimed, Ended):
                ended.append(claimed)
                continue
            stack.callback(claimed.give_back)
            held.append(claimed)
            if alone or len(held) == size:
                break
        if held:
            _carry_out(held)
    return ended + [one.ended for one in held if one.ended is not None]


@dataclass
class _Held:
    """A run whose lease this worker has, until it has ended."""

    task: Task
    lease: Lease
    keeping: ExitStack
    ended: Ended | None = None

    def end(self, outcome: object) -> None:
        """Notes what became of the run, and gives it back at once: those beside it may go on for long."""
        self.ended = _ended(self.task, self.lease, outcome)
        self.give_back()

    def give_back(self) -> None:
        """Lets the lease go; a second time does nothing."""
        self.keeping.close()

    @property
    def is_stopped(self) -> bool:
        """Whether it was asked to stop."""
        return self.ended is not None and self.ended.outcome == "stopped"


def _claim(task: Task, watch: Watch, every_beat: Callable[[], None]) -> _Held | Ended:
    store = Store(task.store)
    if store.is_done(task.key):
        return Ended(task.key, "done")
    try:
        lease = store.claim(task.key, watch)
    except OSError as error:
        return Ended(task.key, "failed", f"{store.folder(task.key)} cannot be written: {error.strerror}")
    if lease is None:
        return Ended(task.key, "busy")
    keeping = ExitStack()
    keeping.callback(lease.release)
    keeping.enter_context(lease.kept(task.lease_seconds, every_beat))
    return _Held(task, lease, keeping)


def _has_been_fatal(task: Task) -> bool:
    """Whether its last claim was not its first, and was never given back."""
    holder = newest(Store(task.store).folder(task.key))
    return holder is not None and holder.token > 1


def attempt_until_ended(task: Task, every_beat: Callable[[], None] = lambda: None) -> Ended:
    """Tries until the run has a result or has failed: waits while another worker has it."""
    watch, store = Watch(task.lease_seconds), Store(task.store)
    while True:
        ended = attempt(task, watch, every_beat)
        if ended.outcome not in ("busy", "lost"):
            return ended
        if store.has_failed(task.key):
            return Ended(task.key, "failed", store.state(task.key).message)
        time.sleep(_POLL_SECONDS)


def _carry_out(held: list[_Held]) -> None:
    """Trains the runs and ends each: together, then alone those that this has brought to no end."""
    from seedspread.training.allocator import keep_freed_memory  # noqa: PLC0415 - here alone torch is needed
    from seedspread.training.signals import StoppedError  # noqa: PLC0415

    keep_freed_memory()  # a worker trains, and does nothing else
    shared = _train(held)
    stopped = StoppedError("stopped before it began", signal.SIGTERM)
    if isinstance(shared, Exception) and len(held) > 1:
        reason = (str(shared).splitlines() or [type(shared).__name__])[0]
        print(f"{len(held)} runs could not be trained together ({reason}): one by one", file=sys.stderr)
    for one in held:
        if one.ended is not None:
            continue
        if isinstance(shared, StoppedError) or any(other.is_stopped for other in held):
            one.end(stopped)
        elif shared is not None and len(held) == 1:
            one.end(shared)
        else:  # alone, or from its beginning
            alone = _train([one])
            if one.ended is None:
                one.end(alone or RuntimeError("the run could not be started afresh"))


def _train(held: list[_Held]) -> Exception | None:
    """Ends every run of which it is known what became of it; returns what stopped them all, if anything did.

    Apart from that a run has no end yet only if all its checkpoints were damaged: it can start afresh.
    """
    from seedspread.training.checkpoint import CheckpointError  # noqa: PLC0415
    from seedspread.training.run import train_together  # noqa: PLC0415

    data_dir = held[0].task.data_dir
    try:
        found = train_together(
            [_order(one) for one in held],
            resume=True,
            data_dir=None if data_dir is None else Path(data_dir),
        )
    except Exception as error:  # nothing could be begun with, or the program that they share has failed
        # Its frames would keep all that they hold in memory while the runs are tried alone.
        return error if len(held) == 1 else error.with_traceback(None)
    for one, outcome in zip(held, found, strict=True):
        if one.ended is None and not (isinstance(outcome, CheckpointError) and _can_start_afresh(one)):
            one.end(outcome)
    return None


def _can_start_afresh(one: _Held) -> bool:
    """Deletes a run's checkpoints, which are all damaged; False if there are none."""
    damaged = list(Store(one.task.store).folder(one.task.key).glob("checkpoint-*"))
    try:
        one.lease.check()
        for path in damaged:
            path.unlink(missing_ok=True)
    except (LeaseLostError, OSError) as error:
        one.end(error)
    return bool(damaged) and one.ended is None


def _order(one: _Held) -> "Order":
    from seedspread.training.run import Order  # noqa: PLC0415

    task = one.task
    config = RunConfig.model_validate_json(task.config)
    if config.runtime.threads is None and task.threads is not None:
        runtime = config.runtime.model_copy(update={"threads": task.threads})
        config = config.model_copy(update={"runtime": runtime})
    return Order(config, Store(task.store).folder(task.key), one.lease.check, task.key, one.end)


def _ended(task: Task, lease: Lease, outcome: object) -> Ended:
    from seedspread.training.signals import StoppedError  # noqa: PLC0415

    if isinstance(outcome, StoppedError):
        return Ended(task.key, "stopped", str(outcome))
    if isinstance(outcome, LeaseLostError):
        return Ended(task.key, "lost", str(outcome))
    if isinstance(outcome, Exception):
        return _failed(task, lease, outcome)
    return Ended(task.key, "done")


def _failed(task: Task, lease: Lease, error: Exception) -> Ended:
    message = str(error) or type(error).__name__
    if not isinstance(error, SeedspreadError):
        message = f"{type(error).__name__}: {message}"
    try:
        lease.check()
        details = {"message": message, "traceback": "".join(traceback.format_exception(error))}
        Store(task.store).write_failure(task.key, details)
    except LeaseLostError:
        return Ended(task.key, "lost", message)
    except OSError:
        pass  # a full disk, perhaps the very reason; the message still reaches whoever is watching
    return Ended(task.key, "failed", message.strip().splitlines()[-1])
