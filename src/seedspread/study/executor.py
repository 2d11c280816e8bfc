"""The contract of all engines: submit work, look after it, cancel it. The loop over it is in `loop.py`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from seedspread.runners.contract import WorkItem


@dataclass
class StudyProgress:
    """How a running study stands.

    Attributes:
        total: number of runs that it had to do.
        failed: those that failed, with the last line of each.
        crashed: of these, those that ended with an error of their own: a result like any other.
        stopped: why it ended early, if it did.
        before: number of runs of the plan that had a result when it began.
        titles: its runs by cell and seed, for people.
        seconds_left: until all has ended, if that is known.
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
        """Waits a moment and looks after the work; says why it cannot go on, or nothing while it can.

        What only the engine knows, such as a task that failed without a word in the store, goes into
        `progress`; all else the loop sees in the store.
        """

    def cancel(self) -> None:  # noqa: B027 - closing may be enough
        """Stop working on it."""

    def close(self) -> None:  # noqa: B027 - nothing may be held
        """Release what the engine holds; called once, whatever has happened."""


class Executor(ABC):
    """An engine; one that does not `wait` submits, and leaves the work to itself."""

    wait: bool = True

    @property
    def threads(self) -> int | None:
        """CPU threads per run; None for the study's, or 1."""
        return None

    @abstractmethod
    def submit(self, items: Sequence[WorkItem]) -> Job:
        """Start the work."""
