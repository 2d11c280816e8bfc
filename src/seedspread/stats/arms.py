"""An arm: the runs of one group, cell by cell, seed by seed. Every statistic starts from here."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Arm:
    """The runs of one group.

    Args:
        name: the group's level.
        values: (n,) one value per run.
        blocks: (n,) the code of each run's block.
        seeds: (n,) the code of each run's seed; the same code in two arms is the same seed.
        block_names: what the codes of `blocks` stand for.
        failed: (n,) runs that were flagged as collapsed.
        folders: (n,) where the runs lie, if they come from a store.
        chance: what a run that learnt nothing scores, if the runs know it.
        crashed: the codes of seeds that have a run without a value; such runs are not among the others.
        factor: what `name` is a level of.
    """

    name: str
    values: Floats
    blocks: Ints
    seeds: Ints
    block_names: tuple[str, ...] = ("",)
    failed: NDArray[np.bool_] | None = None
    folders: tuple[str, ...] = ()
    chance: float | None = None
    crashed: Ints = field(default_factory=lambda: np.empty(0, np.intp))
    factor: str = ""

    def without(self, seeds: Ints) -> "Arm":
        """The arm without the runs of some seeds."""
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
        """The values of each block that has any."""
        return {int(b): self.values[self.blocks == b] for b in np.unique(self.blocks)}

    @cached_property
    def residuals(self) -> Floats:
        """(n,) deviations from the mean of the run's own cell."""
        out = np.empty_like(self.values)
        for block, values in self.cells.items():
            # The mean of equal values can miss them by a rounding: a cell without spread has none.
            constant = values[0] == values[-1] and np.ptp(values) == 0
            out[self.blocks == block] = 0.0 if constant else values - values.mean()
        return out

    @property
    def df(self) -> int:
        """Degrees of freedom of the within-cell variance, if all runs were independent."""
        return len(self.values) - len(self.cells)

    @property
    def within_variance(self) -> float:
        """The cell variances pooled: differences between block means are no spread over seeds."""
        return float((self.residuals**2).sum() / self.df) if self.df else float("nan")

    @property
    def has_spread(self) -> bool:
        """Whether any two runs of one cell differ."""
        return self.df > 0 and self.within_variance > 0

    @cached_property
    def seed_codes(self) -> Ints:
        """(k,) the distinct seeds."""
        return np.unique(self.seeds)

    @cached_property
    def by_seed(self) -> tuple[Floats, Ints]:
        """(k,) per seed the sum of squared residuals times n / (n - 1) of their cell, and how many runs.

        Runs that are alone in their cell have no residual, and are not counted.
        """
        size = np.bincount(self.blocks)[self.blocks]
        scale = size / np.maximum(size - 1, 1)
        index = np.searchsorted(self.seed_codes, self.seeds)
        squares: Floats = np.bincount(index, scale * self.residuals**2, len(self.seed_codes)).astype(float)
        runs = np.bincount(index, size > 1, len(self.seed_codes))
        return squares, runs.astype(np.intp)

    @cached_property
    def matrix(self) -> Floats:
        """(k, b) values by seed and block; NaN where a run is missing."""
        codes = sorted(self.cells)
        out = np.full((len(self.seed_codes), len(codes)), np.nan)
        out[np.searchsorted(self.seed_codes, self.seeds), np.searchsorted(codes, self.blocks)] = self.values
        return out

    @cached_property
    def seed_means(self) -> Floats:
        """(k,) per seed the mean of its residuals, plus the arm's mean: block differences taken out."""
        index = np.searchsorted(self.seed_codes, self.seeds)
        sums = np.bincount(index, weights=self.residuals, minlength=len(self.seed_codes))
        counts = np.bincount(index, minlength=len(self.seed_codes))
        out: Floats = sums / counts + np.mean([values.mean() for values in self.cells.values()])
        return out


def common_seeds(a: Arm, b: Arm) -> tuple[Ints, Ints]:
    """The places, in each arm's `seed_codes`, of the seeds that both have."""
    _, in_a, in_b = np.intersect1d(a.seed_codes, b.seed_codes, return_indices=True)
    return in_a, in_b
