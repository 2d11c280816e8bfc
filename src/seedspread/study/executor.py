"""The contract of all engines: submit work, poll it, cancel it. `loop.py` has the loop over it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from seedspread.runners.contract import WorkItem


@dataclass
class StudyProgress:
    """Progress of a running study.

    Attributes:
        total: number of runs to do.
        failed: the runs that failed, with the last line of each.
        crashed: failed runs that ended with an error of their own, which is a result like any other.
        stopped: reason why it ended early, if it did.
        before: number of the plan's runs that had a result when it began.
        titles: its runs by cell and seed, for display.
        seconds_left: until everything has ended; None if unknown.
    """

    total: int
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    crashed: set[str] = field(default_factory=set)
    stopped: str = ""
    before: int = 0
    titles: dict[str, str] = field(default_factory=dict)
    seconds_left: float | None = None

    @property
    def ended(self) -> int:
        return len(self.done) + len(self.failed)

    @property
    def left(self) -> int:
        return self.total - self.ended

    def title(self, key: str) -> str:
        return self.titles.get(key, key)


ProgressCallback = Callable[[StudyProgress], None]


class Job(ABC):
    """Submitted work; `interrupted` is the message if the user stops waiting for it."""

    interrupted = "interrupted"

    @abstractmethod
    def poll(self, progress: StudyProgress) -> str:
        """Wait a moment and check on the work; return why it cannot go on, or an empty text.

        Only what the engine alone knows goes into `progress`, such as a task that failed without a record;
        the loop reads everything else from the store.
        """

    def cancel(self) -> None:  # noqa: B027 - closing may be enough
        """Stop working on it."""

    def close(self) -> None:  # noqa: B027 - there may be nothing to release
        """Release the engine's resources; called once, whatever has happened."""


class Executor(ABC):
    """An engine; one with `wait` false submits the work and leaves it alone."""

    wait: bool = True

    @property
    def threads(self) -> int | None:
        """CPU threads per run; None for the study's own number, or 1."""
        return None

    @abstractmethod
    def submit(self, items: Sequence[WorkItem]) -> Job:
        """Start the work."""
