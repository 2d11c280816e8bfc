"""`RunTable`: checked rows, one per run, and where their predictions can be had."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from seedspread.runs.metrics import Better
from seedspread.tables.columns import Columns
from seedspread.tables.labels import Codes, coded

# All levels against all others: beyond this nobody reads the answer, and Holm leaves nothing of it.
MOST_PAIRS = 2_000


@dataclass(frozen=True)
class RunTable:
    """A checked table: columns value, group, block, seed, seed_name, stratum, failed, row; one row per run.

    Attributes:
        frame: those columns; runs of a store have folder and chance as well.
        columns: which column of the source is what.
        source: what was read.
        notes: what was found, and what was left out.
        store: the folder of runs that it comes from, if it does.
        per_cent: whether the values had per cent signs.
        better: which direction is better, if the source tells.
        crashed: the rows of runs without a value, which are not in `frame`.
    """

    frame: pd.DataFrame
    columns: Columns
    source: str
    notes: tuple[str, ...]
    store: str | None = None
    per_cent: bool = False
    better: Better | None = None
    crashed: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["stratum", "group", "seed"]))

    @property
    def predictions(self) -> "pd.Series[str] | None":
        """(rows,) the folder of each run, where its predictions are if it kept them; None without a store."""
        return self.frame.get("folder")

    def cells(self) -> Iterator[tuple[str, str, Codes]]:
        """Stratum, group and the rows of each cell; sorted once, however many cells there are."""
        strata, stratum_names = coded(self.frame["stratum"])
        groups, group_names = coded(self.frame["group"])
        cells, names = pd.factorize(strata * len(group_names) + groups)
        order = np.argsort(cells, kind="stable").astype(np.intp)
        ends = np.cumsum(np.bincount(cells))
        for name, start, end in zip(names, [0, *ends[:-1]], ends, strict=True):
            stratum, group = divmod(int(name), len(group_names))
            yield str(stratum_names[stratum]), str(group_names[group]), order[start:end]
