"""A checked table: one row per run, and its arms."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.analysis.comparison import Strip
from seedspread.runs.metrics import Better
from seedspread.stats.arms import Arm, Floats
from seedspread.tables.columns import Columns
from seedspread.tables.labels import Codes, Names, coded

# All levels against all others: beyond this nobody reads the answer, and Holm leaves nothing of it.
MOST_PAIRS = 2_000


@dataclass(frozen=True)
class Runs:
    """A checked table: columns value, group, block, seed, seed_name, stratum, failed, row; one row per run.

    Attributes:
        frame: those columns; of a store, folder and chance as well.
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

    def strata(self) -> list[tuple[str, list[Arm]]]:
        """Per stratum its arms, in the order of the table; the baseline first, if there is one."""
        of_stratum: dict[str, list[tuple[str, Codes]]] = {}
        for stratum, group, rows in self._slices():
            of_stratum.setdefault(stratum, []).append((group, rows))
        arrays = _Arrays.of(self.frame)
        crashed = self.crashed.groupby(["stratum", "group"])["seed"].unique().to_dict()
        found = [
            (name, arrays.arms(name, groups, crashed, self.columns.group))
            for name, groups in of_stratum.items()
        ]
        return [(name, sorted(arms, key=self._order)) for name, arms in found]

    def pairs(self) -> Iterator[tuple[tuple[int, int], str, Arm, Arm]]:
        """Every comparison: its place, its stratum, the arm, and what it is compared with.

        Without a baseline each level of the group is compared with every one that is before it in the table.
        """
        for number, (name, arms) in enumerate(self.strata()):
            if self.columns.baseline is None:
                both = [(arm, earlier) for k, earlier in enumerate(arms) for arm in arms[k + 1 :]]
            elif arms[0].name == self.columns.baseline:
                both = [(arm, arms[0]) for arm in arms[1:]]
            else:
                both = []
            for place, (arm, other) in enumerate(both):
                yield (number, place), name, arm, other

    def strips(self) -> tuple[Strip, ...]:
        """The values of each group in each stratum, in the order of the table."""
        values, blocks, seeds = (self.frame[c].to_numpy() for c in ("value", "block", "seed_name"))
        return tuple(
            Strip(stratum, group, tuple(values[rows].tolist()), tuple(blocks[rows]), tuple(seeds[rows]))
            for stratum, group, rows in self._slices()
        )

    @cached_property
    def _places(self) -> dict[str, int]:
        names = dict.fromkeys(coded(self.frame["group"])[1])
        return {name: place for place, name in enumerate(names)}

    def _order(self, arm: Arm) -> int:
        """Of arms that are sorted: the baseline first; without one as in the whole table."""
        if self.columns.baseline is not None:
            return int(arm.name != self.columns.baseline)
        return self._places[arm.name]

    def _slices(self) -> Iterator[tuple[str, str, Codes]]:
        """Stratum, group and the rows of each cell; sorted once, however many cells there are."""
        strata, stratum_names = coded(self.frame["stratum"])
        groups, group_names = coded(self.frame["group"])
        cells, names = pd.factorize(strata * len(group_names) + groups)
        order = np.argsort(cells, kind="stable").astype(np.intp)
        ends = np.cumsum(np.bincount(cells))
        for name, start, end in zip(names, [0, *ends[:-1]], ends, strict=True):
            stratum, group = divmod(int(name), len(group_names))
            yield str(stratum_names[stratum]), str(group_names[group]), order[start:end]


@dataclass(frozen=True)
class _Arrays:
    """The columns of a checked table."""

    values: Floats
    blocks: Codes
    block_names: Names
    seeds: Codes
    failed: NDArray[np.bool_]
    folders: Names | None
    chances: Floats | None

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "_Arrays":
        blocks, names = coded(frame["block"])
        return cls(
            frame["value"].to_numpy(float),
            blocks,
            names,
            frame["seed"].to_numpy(np.intp),
            frame["failed"].to_numpy(bool),
            frame["folder"].to_numpy(object) if "folder" in frame else None,
            frame["chance"].to_numpy(float) if "chance" in frame else None,
        )

    def arms(
        self, stratum: str, groups: list[tuple[str, Codes]], crashed: Mapping[Hashable, Codes], factor: str
    ) -> list[Arm]:
        """The arms of one stratum from the rows of its groups; blocks are coded anew in each stratum."""
        rows = np.sort(np.concatenate([rows for _, rows in groups]))
        _, blocks = pd.factorize(self.blocks[rows])
        names = tuple(str(self.block_names[block]) for block in blocks)
        own = np.zeros(len(self.block_names), np.intp)
        own[blocks] = np.arange(len(blocks))
        chance = None if self.chances is None else _largest(self.chances[rows])
        return [
            Arm(
                name=group,
                values=self.values[rows],
                blocks=own[self.blocks[rows]],
                seeds=self.seeds[rows],
                block_names=names,
                failed=self.failed[rows],
                folders=() if self.folders is None else tuple(self.folders[rows]),
                chance=chance,
                crashed=np.asarray(crashed.get((stratum, group), ()), np.intp),
                factor=factor,
            )
            for group, rows in groups
        ]


def _largest(values: Floats) -> float:
    return float("nan") if np.isnan(values).all() else float(np.nanmax(values))
