"""One attempt at a run, or at several of one shape: claim, carry out, leave all so that anyone can go on."""

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from seedspread.campaign.lease import LEASE_SECONDS, Lease, LeaseLostError, Watch
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
    """Tries runs of one shape once, as one program: the first of them that are free, up to `size`."""
    ended: list[Ended] = []
    with ExitStack() as stack:
        held: list[tuple[Task, Lease]] = []
        for task in tasks:
            store = Store(task.store)
            try:
                lease = None if store.is_done(task.key) else store.claim(task.key, watch)
            except OSError as error:
                message = f"{store.folder(task.key)} cannot be written: {error.strerror}"
                ended.append(Ended(task.key, "failed", message))
                continue
            if lease is None:
                ended.append(Ended(task.key, "done" if store.is_done(task.key) else "busy"))
                continue
            stack.callback(lease.release)
            stack.enter_context(lease.kept(task.lease_seconds, every_beat))
            held.append((task, lease))
            if len(held) == size:
                break
        return ended + (_carry_out(held) if held else [])


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


def _carry_out(held: list[tuple[Task, Lease]]) -> list[Ended]:
    from seedspread.training.allocator import keep_freed_memory  # noqa: PLC0415 - here alone torch is needed
    from seedspread.training.checkpoint import CheckpointError  # noqa: PLC0415
    from seedspread.training.run import train_together  # noqa: PLC0415

    keep_freed_memory()  # a worker trains, and does nothing else
    data_dir = held[0][0].data_dir
    try:
        found = train_together(
            [_order(task, lease) for task, lease in held],
            resume=True,
            data_dir=None if data_dir is None else Path(data_dir),
        )
    except Exception as error:  # nothing could be begun with, or the program that they share has failed
        if len(held) > 1:
            return [ended for one in held for ended in _carry_out([one])]
        found = [error]
    ended = []
    for (task, lease), outcome in zip(held, found, strict=True):
        damaged = list(Store(task.store).folder(task.key).glob("checkpoint-*"))
        if isinstance(outcome, CheckpointError) and damaged:  # all are damaged: the run starts afresh
            for path in damaged:
                path.unlink()
            ended += _carry_out([(task, lease)])
        else:
            ended.append(_ended(task, lease, outcome))
    return ended


def _order(task: Task, lease: Lease) -> "Order":
    from seedspread.training.run import Order  # noqa: PLC0415

    config = RunConfig.model_validate_json(task.config)
    if config.runtime.threads is None and task.threads is not None:
        runtime = config.runtime.model_copy(update={"threads": task.threads})
        config = config.model_copy(update={"runtime": runtime})
    return Order(config, Store(task.store).folder(task.key), lease.check, task.key)


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
