"""`RunTable`: checked rows, one per run, and the folders of their predictions."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from seedspread.runs.levels import Levels
from seedspread.runs.metrics import Better
from seedspread.tables.columns import Codes, Columns

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
        cells = self.frame.groupby(["stratum", "group"], sort=False).ngroup().to_numpy()
        order = np.argsort(cells, kind="stable").astype(np.intp)
        strata, groups = (self.frame[name].to_numpy() for name in ("stratum", "group"))
        for rows in np.split(order, np.cumsum(np.bincount(cells))[:-1]):
            yield strata[rows[0]], str(groups[rows[0]]), rows
