"""An engine without processes, for tests that ask about the store and not about workers.

A process of torch takes seconds to start; here it is there already.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from seedspread.runners.contract import WorkItem
from seedspread.runs.lease import StalenessTracker
from seedspread.study.executor import Executor, Job, StudyProgress
from seedspread.study.local import next_attempt


@dataclass(frozen=True)
class Here(Executor):
    """One worker, which is the process of the test."""

    threads: int | None = None

    def submit(self, items: Sequence[WorkItem]) -> Job:
        return _Attempts(items)


class _Attempts(Job):
    """What a worker does, an attempt at a time."""

    def __init__(self, items: Sequence[WorkItem]) -> None:
        self._left = {item.key: item for item in items}
        self._store = items[0].store
        self._tracker = StalenessTracker(items[0].lease_seconds)

    def poll(self, progress: StudyProgress) -> str:
        result = next_attempt(self._store, self._left, self._tracker, lambda: None)
        if result is not None and result.outcome in ("done", "failed"):
            del self._left[result.key]
            if result.outcome == "failed" and not self._store.has_failed(result.key):
                progress.failed[result.key] = result.message
        return ""
