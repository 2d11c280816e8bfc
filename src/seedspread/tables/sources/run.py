"""What every source is read into, whatever wrote it: runs with parameters and curves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from seedspread.errors import SeedspreadError
from seedspread.tables.sources.place import Place

Better = Literal["higher", "lower"]
# (step, value) in the order of writing; the step is None where the source has none.
Curve = list[tuple[float | None, float]]


def clean(text: object) -> str:
    """Text that other people's files hold, for a terminal: what does not print is a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def count(number: int, word: str) -> str:
    """`1 run`, `1,000 runs`."""
    return f"1 {word}" if number == 1 else f"{number:,} {word}s"


class SourceError(SeedspreadError):
    """A source that cannot be read, or not as asked; the message may have names from its files in it."""

    def __init__(self, message: str) -> None:
        super().__init__(clean(message))


@dataclass(frozen=True)
class Unread:
    """A run or file that gives no row, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class CollectedRun:
    """A run as its source has it.

    Attributes:
        name: as the source calls it.
        parameters: by flat name.
        curves: of each metric; one point where the source keeps no more, or no more was asked for.
        group: its experiment or study.
        better: which direction of a metric is better, where the source says so.
    """

    name: str
    parameters: Mapping[str, Any]
    curves: Mapping[str, Curve]
    group: str = ""
    better: Mapping[str, Better] = field(default_factory=dict)


class Reader(Protocol):
    """One kind of source.

    Attributes:
        kind: its word on the command line.
        title: its name for people.
        group: what it calls a set of runs, the name of a column; empty if it has none.
    """

    @property
    def kind(self) -> str: ...  # noqa: D102 - above
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def group(self) -> str: ...  # noqa: D102

    def recognises(self, place: Place) -> bool:
        """Whether such a source lies there."""
        ...

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterable[CollectedRun | Unread]:
        """Its runs, oldest first where it knows times.

        Args:
            place: where it lies.
            metrics: that are asked for; others may be left out of the curves' later points.
            whole: whether curves are needed, not only their last points.
        """
        ...
