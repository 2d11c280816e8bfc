"""`RunTable`: checked rows, one per run, and the folders of their predictions."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from seedspread.runs.levels import Levels
from seedspread.runs.metrics import Better
from seedspread.tables.columns import Codes, Columns, coded, coded_levels

# Comparisons of all levels with each other: nobody reads more, and adjustment leaves nothing of them.
MOST_PAIRS = 2_000


@dataclass(frozen=True)
class RunTable:
    """A checked table: columns value, group, block, seed, seed_name, stratum, failed, row; one row per run.

    A stratum, and a block, is a tuple with the level of each of its factors.
    """

    # Those columns; runs of a store have folder and chance as well, logged items a file as folder.
    frame: pd.DataFrame
    columns: Columns  # which column of the source is what
    source: str
    notes: tuple[str, ...]  # on what was found, and what was left out
    store: str | None = None  # the folder of the runs, if they are those of a store
    per_cent: bool = False  # whether the values had per cent signs
    better: Better | None = None  # which direction is better, if the source records it
    # The rows of runs without a value, which are not in `frame`.
    crashed: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["stratum", "group", "seed"]))

    @property
    def predictions(self) -> "pd.Series[str] | None":
        """(rows,) the folder of each run with its predictions, or its file of outcomes; None if unknown."""
        return self.frame.get("folder")

    def cells(self) -> Iterator[tuple[Levels, str, Codes]]:
        """Yield stratum, group and the rows of each cell; rows are sorted once."""
        strata, stratum_names = coded_levels(self.frame["stratum"])
        groups, group_names = coded(self.frame["group"])
        cells, names = pd.factorize(strata * len(group_names) + groups)
        order = np.argsort(cells, kind="stable").astype(np.intp)
        ends = np.cumsum(np.bincount(cells))
        for name, start, end in zip(names, [0, *ends[:-1]], ends, strict=True):
            stratum, group = divmod(int(name), len(group_names))
            yield stratum_names[stratum], str(group_names[group]), order[start:end]
