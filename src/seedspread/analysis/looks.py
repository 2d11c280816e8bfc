"""Which looks an audit counts: those of a table that grows, or those that a store remembers."""

from dataclasses import dataclass, field
from pathlib import Path

from seedspread.analysis.look_levels import factor_of
from seedspread.analysis.samples import arms_by_stratum
from seedspread.runs.levels import arm_name
from seedspread.runs.sequential import FEWEST_SEEDS, MOST_LOOKS, MOST_SEEDS, SequentialRecord
from seedspread.runs.store import Store
from seedspread.runs.studies import load_studies
from seedspread.stats.arms import Arm
from seedspread.stats.result import Looks
from seedspread.stats.sequential.levels import Progress
from seedspread.tables.errors import TableError
from seedspread.tables.run_table import RunTable


@dataclass(frozen=True)
class Look:
    """Which of how many looks a table is at.

    Attributes:
        number: from 1 on.
        of: how many there are at most.
        step: seeds that each arm gains between looks; by default the looks are evenly spaced from none on.
        progress: hears how far a simulation of the levels is, where it takes one.
    """

    number: int
    of: int
    step: int | None = None
    progress: Progress = field(default=lambda _: None, repr=False, compare=False)

    def on(self, runs: RunTable) -> Looks:
        """The looks that the seeds of a table make it; `TableError` if they cannot be."""
        if not 1 <= self.number <= self.of <= MOST_LOOKS:
            raise TableError(
                f"a look is one of at most {MOST_LOOKS}, such as --look 3 --of 9; got {self.number} of "
                f"{self.of}"
            )
        sizes = self._sizes(_seeds(runs))
        return Looks(sizes, self.number, factor_of(sizes, self.progress))

    def _sizes(self, seeds: int) -> tuple[int, ...]:
        if self.step is None:
            sizes = tuple(round(seeds * k / self.number) for k in range(1, self.of + 1))
        elif self.step < 1:
            raise TableError(f"the step between looks must be 1 seed or more; got {self.step}")
        else:
            sizes = tuple(seeds + self.step * (k - self.number) for k in range(1, self.of + 1))
        self._check(seeds, sizes)
        return sizes

    def _check(self, seeds: int, sizes: tuple[int, ...]) -> None:
        """Refuses looks at too few seeds, or too many."""
        if seeds < FEWEST_SEEDS:
            raise TableError(
                f"a look takes {FEWEST_SEEDS} seeds per arm or more; there are {seeds}: add some"
            )
        if sizes[0] < FEWEST_SEEDS:
            advice = "say with --step how many seeds each look adds" if self.step is None else "lower --step"
            raise TableError(
                f"look {self.number} at {seeds} seeds per arm would make the first one at {sizes[0]}, and a "
                f"look takes {FEWEST_SEEDS} or more: {advice}"
            )
        if sizes[-1] > MOST_SEEDS:
            raise TableError(
                f"the last of {self.of} looks would be at {sizes[-1]:,} seeds per arm, and looks are counted "
                f"up to {MOST_SEEDS:,}: lower --of or --step"
            )


def _seeds(runs: RunTable) -> int:
    """Of every arm; `TableError` unless all have the same, or as many of their own."""
    first: tuple[Arm, set[int]] | None = None
    for _, arms in arms_by_stratum(runs):
        for arm in arms:
            seeds = {*map(int, arm.seeds), *map(int, arm.crashed)}
            first = first or (arm, seeds)
            if len(seeds) != len(first[1]) or 0 < len(seeds & first[1]) < len(seeds):
                names = [arm_name(runs.columns.group, a.name) for a in (first[0], arm)]
                raise TableError(
                    f"a look judges arms that have the same seeds; {names[0]} has {len(first[1])} and "
                    f"{names[1]} {len(seeds)}, not all the same: add the missing runs, or leave some out "
                    "with --where"
                )
    if first is None:
        raise TableError("there is no run to look at")
    return len(first[1])


def looks_of(record: SequentialRecord | None) -> Looks | None:
    """Those that the headlines of a study count now; None of a study that does not grow."""
    if record is None:
        return None
    sizes = record.spec.sizes
    return Looks(sizes, record.number, record.factor or factor_of(sizes))


def looks_of_store(path: Path) -> tuple[Looks | None, list[str]]:
    """Of all runs of a store, whatever they are asked: those of its only study; with others, a warning."""
    studies = load_studies(Store(path))[0]
    growing = [study for study in studies if study.sequential is not None]
    if len(studies) == 1 and growing:
        return looks_of(growing[0].sequential), []
    return None, [
        f"{study.name} is looked at while it grows, and these figures of all runs do not count the looks: "
        f"those of its own audit do (--study {study.name})."
        for study in growing
    ]
