"""The local engine: worker processes that find their work in the store, so that any of them may die."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from seedspread.errors import SeedspreadError
from seedspread.runners.contract import WorkItem
from seedspread.runs.folder import Failure
from seedspread.runs.lease import StalenessTracker, newest
from seedspread.runs.store import Store
from seedspread.study.executor import Executor, Job, StudyProgress
from seedspread.study.worker import AttemptResult, attempt, stop_when_orphaned


def gpus_here() -> list[str]:
    """Return the GPUs that may be used: those in `CUDA_VISIBLE_DEVICES`, or all that the driver lists."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    return _listed_gpus()


def _listed_gpus() -> list[str]:
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"],  # noqa: S607 - the driver's own command, wherever it is
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(number) for number, line in enumerate(listed.splitlines()) if line.startswith("GPU")]


def check_gpus(items: Sequence[WorkItem], gpus_per_run: float | None, *, here: bool) -> None:
    """Refuse GPUs that runs would not use, before anything starts; with `here`, GPUs of this machine."""
    if not gpus_per_run:
        return
    if here and not gpus_here():
        raise SeedspreadError("--gpus-per-run was given, and no GPU is visible here")
    for item in {id(item.run.parameters): item for item in items}.values():
        if why := item.runner.why_not_on_gpus(item.run.parameters, gpus_per_run, here=here):
            raise SeedspreadError(why)
    if here and not _listed_gpus():
        raise SeedspreadError("--gpus-per-run was given, and the driver lists no GPU here (nvidia-smi)")


_lock = threading.Lock()


@contextmanager
def main_left_out(items: Iterable[WorkItem]) -> Iterator[None]:
    """Inside the context, processes can be spawned from a script without `if __name__ == "__main__":`.

    A spawned process imports the main module, by its `__spec__` or `__file__`, as objects sent to it may be
    defined there. Ours are not, unless a user's own runner is: functions of a script are sent as code.
    """
    main: Any = sys.modules["__main__"]
    if any(
        type(thing).__module__ == "__main__" for item in items for thing in (item.runner, item.run.parameters)
    ):
        yield
        return
    with _lock:
        kept = {name: vars(main)[name] for name in ("__spec__", "__file__") if name in vars(main)}
        main.__spec__ = None
        vars(main).pop("__file__", None)
        try:
            yield
        finally:
            vars(main).update(kept)


_POLL_SECONDS = 0.25
_STOP_SECONDS = 60.0
# Checks of runs per second, so as not to flood a shared filesystem with a store of thousands.
_LOOKS_PER_SECOND = 2000
# This many deaths of workers in a row, without any run ending in between, are a fault and not an accident.
_DEATHS, _DEATHS_PER_WORKER = 8, 4
# This many deaths in a row in one run, without a new checkpoint in between, are the run's own fault.
_DEATHS_PER_RUN = 3
# Last message of a worker that found nothing left to do. Its exit status is not trusted: code that ran in it
# may have exited with any.
_THROUGH = "through"


@dataclass(frozen=True)
class LocalExecutor(Executor):
    """Worker processes on this machine.

    Attributes:
        workers: number of workers; None starts as many as the cores allow.
        threads: CPU threads of a run; None for the study's number, or 1.
        gpus_per_run: GPUs of a run; a fraction lets runs share one, 0 hides them all. None reserves one for
            each run that may use one, if there are any.
    """

    workers: int | None = None
    threads: int | None = None
    gpus_per_run: float | None = None

    def __post_init__(self) -> None:
        share = self.gpus_per_run or 1  # a fraction is rounded so that a whole number of runs fits one GPU
        whole = share if share >= 1 else 1 / share
        if share < 0 or abs(whole - round(whole)) > 1e-6:
            raise SeedspreadError(
                f"gpus_per_run must be a whole number, or a share such as 0.5 or 0.25; got {share:g}"
            )

    def submit(self, items: Sequence[WorkItem]) -> Job:
        """Start the workers, each with its GPUs, and no more workers than the GPUs allow."""
        for item in {id(item.run.parameters): item for item in items}.values():
            if why := item.runner.why_not_here(item.run.parameters):
                raise SeedspreadError(why)
        check_gpus(items, self.gpus_per_run, here=True)
        threads = max(item.threads for item in items)
        count = min(self.workers or max(1, cores_here() // threads), len(items))
        slots = self._gpu_slots(items)
        return _WorkerPool(items, [None] * count if slots is None else slots[:count])

    def _gpu_slots(self, items: Sequence[WorkItem]) -> list[str] | None:
        """Return each possible worker's `CUDA_VISIBLE_DEVICES`; None leaves it unchanged."""
        if self.gpus_per_run == 0:
            return [""] * len(items)
        wanted = self.gpus_per_run or any(item.runner.may_use_gpu(item.run.parameters) for item in items)
        devices = gpus_here() if wanted else []
        if not devices:
            return None
        share = self.gpus_per_run or 1.0
        if share < 1:
            return round(1 / share) * devices
        each = round(share)
        slots = [",".join(devices[i : i + each]) for i in range(0, len(devices) - each + 1, each)]
        if not slots:
            raise SeedspreadError(f"a run asks for {each} GPUs, and {len(devices)} are visible here")
        return slots


def cores_here() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class _Worker:
    """A worker process; `inbox` receives its outcome, and failures that could not go into the store."""

    process: BaseProcess
    inbox: Connection
    is_through: bool = False
    stopped: str = ""

    def messages(self) -> Iterator[AttemptResult]:
        """Yield its messages; `stopped` names the run in which it was asked to stop."""
        try:
            while self.inbox.poll():
                message = self.inbox.recv()
                if message == _THROUGH:
                    self.is_through = True
                elif message.outcome == "stopped":
                    self.stopped = message.key
                else:
                    yield message
        except (EOFError, OSError):
            return  # it is gone, and its last messages with it


class _WorkerPool(Job):
    """The worker processes; those that die or fall silent are replaced."""

    def __init__(self, items: Sequence[WorkItem], gpus: Sequence[str | None]) -> None:
        self._items, self._gpus = items, gpus
        self._store = items[0].store
        self._context = multiprocessing.get_context("spawn")
        self._tracker = StalenessTracker(items[0].lease_seconds)
        self._workers: list[_Worker] = []
        self._deaths, self._ended, self._idle = 0, 0, False
        self._deaths_of: dict[str, tuple[str, int]] = {}
        try:
            for visible in gpus:
                self._workers.append(self._start(visible))
        except BaseException:
            self.close()
            raise

    def poll(self, progress: StudyProgress) -> str:
        """Start a replacement for each worker that died, unless that does not help."""
        time.sleep(max(_POLL_SECONDS, len(self._items) / _LOOKS_PER_SECOND))
        gone = [worker for worker in self._workers if worker.process.exitcode is not None]
        for message in (message for worker in self._workers for message in worker.messages()):
            if message.outcome == "full":
                return message.message
            progress.failed[message.key] = message.message
        if progress.ended != self._ended:
            self._ended, self._deaths = progress.ended, 0
        self._kill_silent(progress)
        return self._restart(gone)

    def close(self) -> None:
        """Let the workers write their checkpoints and exit."""
        processes = [worker.process for worker in self._workers]
        for process in processes:
            process.terminate()  # a request: the run writes a checkpoint and stops
        deadline = time.monotonic() + _STOP_SECONDS
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _start(self, gpus: str | None) -> _Worker:
        inbox, outbox = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(self._items, outbox, gpus), daemon=False)
        with main_left_out(self._items):
            process.start()
        outbox.close()
        return _Worker(process, inbox)

    def _kill_silent(self, progress: StudyProgress) -> None:
        """Kill workers whose lease no longer changes: they hang, or were suspended."""
        own = {worker.process.pid: worker.process for worker in self._workers}
        for item in self._items:
            if item.key in progress.done or item.key in progress.failed:
                continue
            holder = newest(self._store.folder(item.key))
            if holder is not None and holder.is_here and holder.pid in own and self._tracker.is_stale(holder):
                own[holder.pid].kill()
                own[holder.pid].join()

    def _restart(self, gone: Sequence[_Worker]) -> str:
        """Replace dead workers once their messages are read; return why that does not help, if so."""
        for i, worker in enumerate(self._workers):
            if worker not in gone or worker.is_through:
                continue
            code = worker.process.exitcode
            self._deaths += 1
            self._blame(worker)
            if self._deaths > _DEATHS + _DEATHS_PER_WORKER * len(self._gpus):
                return f"{self._deaths} workers in a row have died without ending a run (last: {_died(code)})"
            self._workers[i] = self._start(self._gpus[i])
        idle = all(worker in gone and worker.is_through for worker in self._workers)
        if idle and self._idle:
            # They found nothing left to do, and the loop has checked since: what is left was taken by another
            # command that has died.
            self._workers = [self._start(visible) for visible in self._gpus]
        self._idle = idle
        return ""

    def _blame(self, worker: _Worker) -> None:
        """Fail a run in which workers die repeatedly without progress.

        A stop request from an unknown sender counts as a death: the run may have sent it itself.
        """
        process, key = worker.process, worker.stopped
        for item in () if key else self._items:
            holder = newest(self._store.folder(item.key))
            if holder is not None and holder.pid == process.pid and holder.is_dead:
                key = item.key
        if not key:
            return  # it died between two runs
        run = self._store.run(key)
        reached = max((path.name for path in run.checkpoints()), default="")
        before, times = self._deaths_of.get(run.key, ("", 0))
        times = times + 1 if reached == before else 1
        self._deaths_of[run.key] = reached, times
        if times >= _DEATHS_PER_RUN:
            message = (
                f"its worker died {times} times in a row, with no new checkpoint in between (last: "
                f"{_died(process.exitcode)}); if that came from outside, try again with --retry-failed"
            )
            run.fail(Failure(message, details={"exit_code": process.exitcode, "deaths": times}))


def _died(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _work(items: Sequence[WorkItem], outbox: Connection, gpus: str | None) -> None:
    """Run as a worker: take any free run until everything has ended.

    The `outbox` receives failures that cannot be written into the store and, at the end, "nothing left",
    or in which run it was asked to stop. `gpus` is `CUDA_VISIBLE_DEVICES` for its runs; None leaves it
    unchanged.
    """
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    # A run in progress handles it; otherwise the pool decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orphaned = stop_when_orphaned()
    orphaned()
    store = items[0].store
    tracker = StalenessTracker(items[0].lease_seconds)
    left = {item.key: item for item in items}
    while left:
        result = next_attempt(store, left, tracker, orphaned)
        if result is not None:
            if result.outcome in ("stopped", "full") or (
                result.outcome == "failed" and not store.has_failed(result.key)
            ):
                outbox.send(result)
            if result.outcome == "stopped":
                sys.exit(128 + signal.SIGTERM)
            if result.outcome == "full":
                break
            if result.outcome in ("done", "failed"):
                del left[result.key]
        orphaned()
        if left and result is None:
            time.sleep(_POLL_SECONDS)
    outbox.send(_THROUGH)


def next_attempt(
    store: Store, left: dict[str, WorkItem], tracker: StalenessTracker, orphaned: Callable[[], None]
) -> AttemptResult | None:
    """Try the next free run; return None if all remaining ones are under way elsewhere."""
    for key in list(left):
        if store.is_done(key) or store.has_failed(key):
            del left[key]
            continue
        result = attempt(left[key], tracker, orphaned)
        if result.outcome != "busy":
            return result
    return None
