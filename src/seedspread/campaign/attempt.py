"""One attempt at one run: claim it, carry it out, leave it in a state from which anyone can go on."""

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seedspread.campaign.lease import LEASE_SECONDS, Lease, LeaseLostError, Watch
from seedspread.campaign.store import Store
from seedspread.config import RunConfig
from seedspread.errors import SeedspreadError

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
    """

    store: str
    key: str
    config: str
    data_dir: str | None = None
    threads: int | None = None
    lease_seconds: float = LEASE_SECONDS


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
    """Tries once: `busy` if another worker has the run."""
    store = Store(task.store)
    if store.is_done(task.key):
        return Ended(task.key, "done")
    try:
        lease = store.claim(task.key, watch or Watch(task.lease_seconds))
    except OSError as error:
        return Ended(task.key, "failed", f"{store.folder(task.key)} cannot be written: {error.strerror}")
    if lease is None:
        return Ended(task.key, "busy")
    try:
        with lease.kept(task.lease_seconds, every_beat):
            return _carry_out(task, store, lease)
    finally:
        lease.release()


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


def _carry_out(task: Task, store: Store, lease: Lease) -> Ended:
    from seedspread.training.allocator import keep_freed_memory  # noqa: PLC0415
    from seedspread.training.checkpoint import CheckpointError  # noqa: PLC0415 - the one place that needs torch
    from seedspread.training.run import train  # noqa: PLC0415
    from seedspread.training.signals import StoppedError  # noqa: PLC0415

    keep_freed_memory()  # a worker trains, and does nothing else
    config = RunConfig.model_validate_json(task.config)
    if config.runtime.threads is None and task.threads is not None:
        runtime = config.runtime.model_copy(update={"threads": task.threads})
        config = config.model_copy(update={"runtime": runtime})
    data_dir = None if task.data_dir is None else Path(task.data_dir)
    folder = store.folder(task.key)

    def go_on() -> object:
        return train(config, folder, resume=True, data_dir=data_dir, guard=lease.check, expected_key=task.key)

    try:
        try:
            go_on()
        except CheckpointError:  # all are damaged: the run starts afresh
            for damaged in folder.glob("checkpoint-*"):
                damaged.unlink()
            go_on()
    except StoppedError as error:
        return Ended(task.key, "stopped", str(error))
    except LeaseLostError as error:
        return Ended(task.key, "lost", str(error))
    except Exception as error:  # one failure never stops the others
        return _failed(task, store, lease, error)
    return Ended(task.key, "done")


def _failed(task: Task, store: Store, lease: Lease, error: Exception) -> Ended:
    message = str(error) or type(error).__name__
    if not isinstance(error, SeedspreadError):
        message = f"{type(error).__name__}: {message}"
    try:
        lease.check()
        details = {"message": message, "traceback": traceback.format_exc()}
        store.write_failure(task.key, details)
    except LeaseLostError:
        return Ended(task.key, "lost", message)
    except OSError:
        pass  # a full disk, perhaps the very reason; the message still reaches whoever is watching
    return Ended(task.key, "failed", message.strip().splitlines()[-1])
