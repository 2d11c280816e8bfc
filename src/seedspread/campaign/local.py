"""The local engine: worker processes that find their work in the store, so that any of them can die."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

from seedspread.campaign.executor import CampaignProgress, Capacity, Job
from seedspread.campaign.worker import WorkItem, attempt_group, stop_when_orphaned
from seedspread.runs.lease import StalenessTracker, newest
from seedspread.runs.record import Failure
from seedspread.runs.store import Store

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
    """

    workers: int | None = None
    wait: bool = field(default=True, init=False)

    def capacity(self, runs: int) -> Capacity:
        """Cores are divided among the workers."""
        cores = cores_here()
        count = min(self.workers or cores, runs)
        return Capacity(max(1, cores // count), count)

    def submit(self, items: Sequence[WorkItem], max_failures: int | None) -> Job:
        """Starts the workers."""
        return _WorkerPool(items, self.capacity(len(items)).workers or 1, max_failures)


def cores_here() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _WorkerPool:
    """The worker processes; those that die are replaced."""

    interrupted = "interrupted"

    def __init__(self, items: Sequence[WorkItem], count: int, max_failures: int | None) -> None:
        self._items, self._count, self._max_failures = items, count, max_failures
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[BaseProcess] = []
        self._deaths, self._ended, self._idle = 0, 0, False
        self._died: dict[str, tuple[str, int]] = {}
        try:
            for _ in range(count):
                self._workers.append(self._start())
        except BaseException:
            self.close()
            raise

    def poll(self, progress: CampaignProgress) -> str:
        """Starts a worker for each that died of something, unless that does not help."""
        time.sleep(max(_POLL_SECONDS, len(self._items) / _LOOKS_PER_SECOND))
        if progress.ended != self._ended:
            self._ended, self._deaths = progress.ended, 0
        return (
            "" if self._restart_dead() else "the workers keep dying (is the disk full, the memory too small?)"
        )

    def cancel(self) -> None:
        """Nothing to do: closing ends the workers."""

    def close(self) -> None:
        """The workers write their checkpoints and go."""
        for worker in self._workers:
            worker.terminate()  # a request: the run writes a checkpoint and stops
        deadline = time.monotonic() + _STOP_SECONDS
        for worker in self._workers:
            worker.join(max(0.0, deadline - time.monotonic()))
            if worker.is_alive():
                worker.kill()
                worker.join()

    def _start(self) -> BaseProcess:
        worker = self._context.Process(target=work, args=(self._items, self._max_failures), daemon=False)
        worker.start()
        return worker

    def _restart_dead(self) -> bool:
        """False if they keep dying."""
        for i, worker in enumerate(self._workers):
            if worker.exitcode not in (None, 0):
                self._deaths += 1
                self._blame(worker)
                if self._deaths > _DEATHS + _DEATHS_PER_WORKER * self._count:
                    return False
                self._workers[i] = self._start()
        idle = all(worker.exitcode == 0 for worker in self._workers)
        if idle and self._idle:
            # They saw nothing left to do, and the loop has looked since: what is left was taken by another
            # campaign that has died.
            self._workers = [self._start() for _ in range(self._count)]
        self._idle = idle
        return True

    def _blame(self, worker: BaseProcess) -> None:
        """A run in which workers die again and again, without getting on, has failed."""
        store = Store(self._items[0].store)
        for item in self._items:
            holder = newest(store.folder(item.key))
            if holder is None or holder.content.get("pid") != worker.pid or not holder.is_dead:
                continue
            run = store.run(item.key)
            reached = max((path.name for path in run.checkpoints()), default="")
            before, times = self._died.get(item.key, ("", 0))
            times = times + 1 if reached == before else 1
            self._died[item.key] = reached, times
            if times >= _DEATHS_PER_RUN:
                message = f"its worker died {times} times at the same place (exit code {worker.exitcode})"
                run.fail(Failure(message, details={"exit_code": worker.exitcode, "deaths": times}))


def _companions(item: WorkItem, left: dict[str, WorkItem], store: Store) -> Iterator[WorkItem]:
    """A run, and then those that can be run with it and have not ended."""
    yield item
    for other in left.values():
        if other.key != item.key and other.group == item.group and not store.has_failed(other.key):
            yield other


def work(items: Sequence[WorkItem], max_failures: int | None = None) -> None:
    """What a worker does: takes whatever is free until everything has ended, or too much has failed."""
    # A run in progress listens to it; otherwise the pool decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orphaned = stop_when_orphaned()
    orphaned()
    unrecorded = False
    store = Store(items[0].store)
    tracker = StalenessTracker(items[0].lease_seconds)
    left = {item.key: item for item in items}
    while left:
        busy = True
        for key, item in list(left.items()):
            if key not in left:  # it was taken along with another
                continue
            if store.is_done(key) or store.has_failed(key):
                del left[key]
                continue
            # Counted here too: runs that fail at once would outrun the pool's slower look.
            if max_failures is not None and sum(store.has_failed(i.key) for i in items) >= max_failures:
                return
            for result in attempt_group(_companions(item, left, store), item.group_size, tracker, orphaned):
                if result.outcome == "stopped":
                    return
                if result.outcome == "failed" and not store.has_failed(result.key):
                    unrecorded = True  # not even the failure could be written; the others go on
                    print(f"{result.key}: {result.message}", file=sys.stderr)
                if result.outcome in ("done", "failed"):
                    del left[result.key]
                    busy = False
        orphaned()
        if left and busy:
            time.sleep(_POLL_SECONDS)
    if unrecorded:
        sys.exit(3)
