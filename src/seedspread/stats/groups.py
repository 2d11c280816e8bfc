"""A group: its runs by block and seed. Every statistic of two groups starts from here."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Group:
    """The runs of one group.

    Args:
        name: the group's level.
        values: (n,) one value per run.
        blocks: (n,) code of each run's block: a condition in which every seed may have one run.
        seeds: (n,) code of each run's seed; the same code in two groups is the same seed.
        block_names: by code, the levels of the factors that make a block.
        failed: (n,) whether a run was flagged as collapsed.
        folders: (n,) of the runs, if they come from a store.
        chance: score of a run that learned nothing, if known.
        crashed: codes of seeds that have a run without a value; such runs are not among the n.
        factor: what `name` is a level of.
    """

    name: str
    values: Floats
    blocks: Ints
    seeds: Ints
    block_names: tuple[tuple[str, ...], ...] = ((),)
    failed: NDArray[np.bool_] | None = None
    folders: tuple[str, ...] = ()
    chance: float | None = None
    crashed: Ints = field(default_factory=lambda: np.empty(0, np.intp))
    factor: str = ""

    @classmethod
    def of(cls, values: ArrayLike, seeds: ArrayLike | None = None, name: str = "") -> "Group":
        """Return the group of (n,) values in one block, with (n,) integer seeds: 0 to n - 1 by default."""
        values = np.asarray(values, float)
        codes = np.arange(len(values)) if seeds is None else np.asarray(seeds, np.intp)
        return cls(name, values, np.zeros(len(values), np.intp), codes)

    def without(self, seeds: Ints) -> "Group":
        """Leave out the runs of some seeds."""
        kept = ~np.isin(self.seeds, seeds)
        return replace(
            self,
            values=self.values[kept],
            blocks=self.blocks[kept],
            seeds=self.seeds[kept],
            failed=None if self.failed is None else self.failed[kept],
            folders=tuple(f for f, keep in zip(self.folders, kept, strict=False) if keep),
            crashed=np.setdiff1d(self.crashed, seeds),
        )

    @cached_property
    def cells(self) -> dict[int, Floats]:
        """Values by block."""
        return {int(b): self.values[self.blocks == b] for b in np.unique(self.blocks)}

    @cached_property
    def residuals(self) -> Floats:
        """(n,) deviations from the mean of the run's own cell."""
        out = np.empty_like(self.values)
        for block, values in self.cells.items():
            # The mean of equal values can differ from them by a rounding error.
            constant = values[0] == values[-1] and np.ptp(values) == 0
            out[self.blocks == block] = 0.0 if constant else values - values.mean()
        return out

    @property
    def df(self) -> int:
        """Degrees of freedom of the within-cell variance, if all runs were independent."""
        return len(self.values) - len(self.cells)

    @property
    def within_variance(self) -> float:
        """Pooled variance of the cells: differences between block means are no spread over seeds."""
        return float((self.residuals**2).sum() / self.df) if self.df else float("nan")

    @property
    def has_spread(self) -> bool:
        return self.df > 0 and self.within_variance > 0

    @cached_property
    def seed_codes(self) -> Ints:
        """(k,) distinct seeds."""
        return np.unique(self.seeds)

    @cached_property
    def by_seed(self) -> tuple[Floats, Ints]:
        """(k,) sums of squared residuals per seed, times n / (n - 1) of their cell, and numbers of runs.

        Runs that are alone in their cell have no residual and are not counted.
        """
        size = np.bincount(self.blocks)[self.blocks]
        scale = size / np.maximum(size - 1, 1)
        index = np.searchsorted(self.seed_codes, self.seeds)
        squares: Floats = np.bincount(index, scale * self.residuals**2, len(self.seed_codes)).astype(float)
        runs = np.bincount(index, size > 1, len(self.seed_codes))
        return squares, runs.astype(np.intp)

    @cached_property
    def matrix(self) -> Floats:
        """(k, b) values by seed and block; NaN if a run is missing."""
        codes = sorted(self.cells)
        out = np.full((len(self.seed_codes), len(codes)), np.nan)
        out[np.searchsorted(self.seed_codes, self.seeds), np.searchsorted(codes, self.blocks)] = self.values
        return out

    @cached_property
    def seed_means(self) -> Floats:
        """(k,) means of each seed's residuals, plus the group's mean: block differences are removed."""
        index = np.searchsorted(self.seed_codes, self.seeds)
        sums = np.bincount(index, weights=self.residuals, minlength=len(self.seed_codes))
        counts = np.bincount(index, minlength=len(self.seed_codes))
        out: Floats = sums / counts + np.mean([values.mean() for values in self.cells.values()])
        return out


def common_seeds(a: Group, b: Group) -> tuple[Ints, Ints]:
    """Return the indices of shared seeds in each group's `seed_codes`."""
    _, in_a, in_b = np.intersect1d(a.seed_codes, b.seed_codes, return_indices=True)
    return in_a, in_b
