"""The local engine: worker processes that find their work in the store, so that any of them can die."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from seedspread.campaign.attempt import Task, attempt_together, stop_when_orphaned
from seedspread.campaign.executor import Report, Tell, look, prepare, tasks_of
from seedspread.campaign.lease import LEASE_SECONDS, Watch, newest
from seedspread.campaign.plan import Plan
from seedspread.campaign.store import Store

_POLL_SECONDS = 0.25
_STOP_SECONDS = 60.0
# Looks at runs per second: a store of thousands on a shared filesystem is not stormed.
_LOOKS_PER_SECOND = 2000
# So many deaths of workers in a row, without any run ending in between, are a fault and not an accident.
_DEATHS, _DEATHS_PER_WORKER = 8, 4
# So many deaths in one run, without a new checkpoint in between, are the run's own.
_DEATHS_PER_RUN = 4


@dataclass(frozen=True)
class LocalExecutor:
    """Worker processes on this machine.

    Attributes:
        workers: how many; None takes as many as there are cores.
        max_failures: stop early once so many runs have failed; None never does.
        retry_failed: try again what has failed before.
        lease_seconds: after how long a silent lease may be taken over.
    """

    workers: int | None = None
    max_failures: int | None = None
    retry_failed: bool = False
    lease_seconds: float = LEASE_SECONDS

    def run(self, plan: Plan, tell: Tell) -> Report:
        """Starts the workers, replaces those that die, and ends when the store says that all is done."""
        todo, report = prepare(plan, self.retry_failed)
        tell(report)
        if not todo:
            return report
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = min(self.workers or cores, len(todo))
        tasks = tasks_of(plan, todo, max(1, cores // count), self.lease_seconds, workers=count)
        crew = _Crew(tasks, count, self.max_failures)
        with crew.at_work(), _interrupts():
            try:
                self._watch(plan, todo, report, crew, tell)
            except KeyboardInterrupt:
                report.stopped = "interrupted"
        look(plan, todo, report)
        tell(report)
        return report

    def _watch(self, plan: Plan, todo: dict[str, str], report: Report, crew: "_Crew", tell: Tell) -> None:
        before = len(report.failed)
        while report.left:
            time.sleep(max(_POLL_SECONDS, len(todo) / _LOOKS_PER_SECOND))
            if look(plan, todo, report):
                crew.deaths = 0
                tell(report)
            if self.max_failures is not None and len(report.failed) - before >= self.max_failures:
                report.stopped = (
                    f"{len(report.failed) - before} runs failed, as many as --max-failures allows"
                )
                return
            if report.left and not crew.replace_the_dead():
                report.stopped = "the workers keep dying (is the disk full, the memory too small?)"
                return


class _Crew:
    """The worker processes."""

    def __init__(self, tasks: list[Task], count: int, max_failures: int | None) -> None:
        self._tasks, self._count, self._max_failures = tasks, count, max_failures
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[BaseProcess] = []
        self.deaths = 0
        self._died: dict[str, tuple[str, int]] = {}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Workers are there while it is open; at its end they write their checkpoints and go."""
        self._workers = [self._start() for _ in range(self._count)]
        try:
            yield
        finally:
            with _deaf_to_interrupts():  # impatience must not cost a checkpoint
                self._dismiss()

    def _dismiss(self) -> None:
        for worker in self._workers:
            worker.terminate()  # a request: the run writes a checkpoint and stops
        deadline = time.monotonic() + _STOP_SECONDS
        for worker in self._workers:
            worker.join(max(0.0, deadline - time.monotonic()))
            if worker.is_alive():
                worker.kill()
                worker.join()

    def _start(self) -> BaseProcess:
        worker = self._context.Process(target=work, args=(self._tasks, self._max_failures), daemon=False)
        worker.start()
        return worker

    def replace_the_dead(self) -> bool:
        """Starts a worker for each that died of something; False if that does not help."""
        for i, worker in enumerate(self._workers):
            if worker.exitcode not in (None, 0):
                self.deaths += 1
                self._blame(worker)
                if self.deaths > _DEATHS + _DEATHS_PER_WORKER * self._count:
                    return False
                self._workers[i] = self._start()
        if all(worker.exitcode == 0 for worker in self._workers):
            # They saw nothing left to do; what is left was taken by another campaign that has since died.
            self._workers = [self._start() for _ in range(self._count)]
        return True

    def _blame(self, worker: BaseProcess) -> None:
        """A run in which workers die again and again, without getting on, has failed."""
        store = Store(self._tasks[0].store)
        for task in self._tasks:
            holder = newest(store.folder(task.key))
            if holder is None or holder.content.get("pid") != worker.pid or not holder.is_dead:
                continue
            reached = max((p.name for p in store.folder(task.key).glob("checkpoint-*")), default="")
            before, times = self._died.get(task.key, ("", 0))
            times = times + 1 if reached == before else 1
            self._died[task.key] = reached, times
            if times >= _DEATHS_PER_RUN:
                message = f"its worker died {times} times at the same place (exit code {worker.exitcode})"
                store.write_failure(task.key, {"message": message})


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _interrupts() -> Iterator[None]:
    """SIGTERM ends a campaign as Ctrl-C does; only the main thread can hear it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _companions(task: Task, left: dict[str, Task], store: Store) -> Iterator[Task]:
    """A run, and then those that can be trained with it and have not ended."""
    yield task
    for other in left.values():
        if other.key != task.key and other.shape == task.shape and not store.has_failed(other.key):
            yield other


def work(tasks: list[Task], max_failures: int | None = None) -> None:
    """What a worker does: takes whatever is free until everything has ended, or too much has failed."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a run in progress listens to it; otherwise the crew decides
    orphaned = stop_when_orphaned()
    orphaned()
    unrecorded = False
    store = Store(Path(tasks[0].store))
    watch = Watch(tasks[0].lease_seconds)
    left = {task.key: task for task in tasks}
    while left:
        busy = True
        for key, task in list(left.items()):
            if key not in left:  # it was taken along with another
                continue
            if store.is_done(key) or store.has_failed(key):
                del left[key]
                continue
            # Counted here too: runs that fail at once would outrun the crew's slower look.
            if max_failures is not None and sum(store.has_failed(t.key) for t in tasks) >= max_failures:
                return
            for ended in attempt_together(_companions(task, left, store), task.stack, watch, orphaned):
                if ended.outcome == "stopped":
                    return
                if ended.outcome == "failed" and not store.has_failed(ended.key):
                    unrecorded = True  # not even the failure could be written; the others go on
                    print(f"{ended.key}: {ended.message}", file=sys.stderr)
                if ended.outcome in ("done", "failed"):
                    del left[ended.key]
                    busy = False
        orphaned()
        if left and busy:
            time.sleep(_POLL_SECONDS)
    if unrecorded:
        sys.exit(3)
