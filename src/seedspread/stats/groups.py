"""A group: its runs by block and seed. Every statistic of two groups starts from here.

May its runs be pooled? Not if same-seed runs agree, nor if variances differ widely between blocks.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedspread.stats.distributions import chi2_sf, f_sf
from seedspread.stats.result import SameSeedRuns

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Group:
    name: str  # the group's level
    values: Floats  # (n,) one value per run
    blocks: Ints  # (n,) code of each run's block: a condition in which every seed may have one run
    seeds: Ints  # (n,) code of each run's seed; the same code in two groups is the same seed
    block_names: tuple[tuple[str, ...], ...] = ((),)  # by code, the levels of the factors that make a block
    failed: NDArray[np.bool_] | None = None  # (n,) whether a run was flagged as collapsed
    folders: tuple[str, ...] = ()  # (n,) of the runs, if they come from a store
    chance: float | None = None  # score of a run that learned nothing, if known
    # Codes of seeds that have a run without a value; such runs are not among the n.
    crashed: Ints = field(default_factory=lambda: np.empty(0, np.intp))
    factor: str = ""  # what `name` is a level of

    @classmethod
    def of(cls, values: ArrayLike, seeds: ArrayLike | None = None, name: str = "") -> "Group":
        """Return the group of (n,) values in one block, with (n,) integer seeds: 0 to n - 1 by default."""
        values = np.asarray(values, float)
        codes = np.arange(len(values)) if seeds is None else np.asarray(seeds, np.intp)
        return cls(name, values, np.zeros(len(values), np.intp), codes)

    def without(self, seeds: Ints) -> "Group":
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

    def successful(self) -> "Group":
        """Leave out seeds with a run that is flagged as failed."""
        return self if self.failed is None else self.without(self.seeds[self.failed])

    def has_sd(self, seeds: int = 2) -> bool:
        """Return whether the group has this number of seeds, with different values."""
        return len(self.seed_codes) >= seeds and self.has_spread and bool(np.ptp(self.seed_means) > 0)

    @cached_property
    def cells(self) -> dict[int, Floats]:
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
        """Pooled variance of the cells; differences between block means do not count as spread."""
        return float((self.residuals**2).sum() / self.df) if self.df else float("nan")

    @property
    def has_spread(self) -> bool:
        return self.df > 0 and self.within_variance > 0

    @cached_property
    def seed_codes(self) -> Ints:
        """(k,) distinct seeds."""
        return np.unique(self.seeds)

    @cached_property
    def seed_index(self) -> Ints:
        """(n,) index of each run's seed in `seed_codes`."""
        return np.searchsorted(self.seed_codes, self.seeds)

    @cached_property
    def by_seed(self) -> tuple[Floats, Ints]:
        """(k,) sums of squared residuals per seed, times n / (n - 1) of their cell, and numbers of runs.

        Runs that are alone in their cell have no residual and are not counted.
        """
        size = np.bincount(self.blocks)[self.blocks]
        scale = size / np.maximum(size - 1, 1)
        squares: Floats = np.bincount(self.seed_index, scale * self.residuals**2).astype(float)
        runs = np.bincount(self.seed_index, size > 1)
        return squares, runs.astype(np.intp)

    @cached_property
    def matrix(self) -> Floats:
        """(k, b) values by seed and block; NaN if a run is missing."""
        codes = sorted(self.cells)
        out = np.full((len(self.seed_codes), len(codes)), np.nan)
        out[self.seed_index, np.searchsorted(codes, self.blocks)] = self.values
        return out

    @cached_property
    def seed_means(self) -> Floats:
        """(k,) means of each seed's residuals, plus the group's mean: block differences are removed."""
        own = np.bincount(self.seed_index, self.residuals) / np.bincount(self.seed_index)
        return np.asarray(own + np.mean([values.mean() for values in self.cells.values()]))


def common_seeds(a: Group, b: Group) -> tuple[Ints, Ints]:
    """Return the indices of shared seeds in each group's `seed_codes`."""
    _, in_a, in_b = np.intersect1d(a.seed_codes, b.seed_codes, return_indices=True)
    return in_a, in_b


def dummies(codes: Ints) -> Floats:
    """Return (n, k) indicators of k distinct codes."""
    return np.asarray(codes[:, None] == np.unique(codes), float)


def rounding(group: Group) -> float:
    """Return the variance due to rounding, step²/12, if runs of a cell tie; the step is the smallest gap."""
    spread = np.ptp(group.values)
    for values in group.cells.values():
        if np.any(np.diff(np.sort(values)) <= 1e-9 * spread):
            gaps = np.diff(np.sort(group.values))
            return float(gaps[gaps > 1e-9 * spread].min() ** 2 / 12)
    return 0.0


def runs_per_seed(group: Group) -> float:
    """Return the number of runs that share a run's seed, itself included, averaged over runs."""
    counts = group.by_seed[1]
    return float((counts**2).sum() / counts.sum()) if counts.any() else 1.0


def same_seed_runs(group: Group) -> SameSeedRuns | None:
    """Return how much a group's runs of one seed agree; None if no seed has more than one run."""
    if len(group.seed_codes) == len(group.values):
        return None
    table = group.matrix
    complete = table[~np.isnan(table).any(axis=1)]
    several = np.sum(~np.isnan(table), axis=1) > 1
    spans = np.nanmax(table, axis=1) - np.nanmin(table, axis=1)
    correlation, p = intraclass_correlation(complete) if len(complete) >= 3 else (None, None)
    return SameSeedRuns(
        group=group.name,
        seeds=int(several.sum()),
        identical=int(np.sum(several & (spans == 0))),
        correlation=correlation,
        p=p,
        effective_df=effective_df(group.df, runs_per_seed(group), correlation),
    )


def are_dependent(pairs: SameSeedRuns) -> bool:
    """Return whether same-seed runs must not be counted as independent: they are copies, or correlated.

    Values of few digits tie by chance, so copies count only if half of the seeds have them.
    """
    copies = pairs.identical >= 2 and 2 * pairs.identical >= pairs.seeds
    return copies or (pairs.p is not None and pairs.p < 0.05) or are_opposed(pairs)


def are_opposed(pairs: SameSeedRuns) -> bool:
    """Return whether same-seed runs correlate negatively (two-sided test), which no common cause explains."""
    return pairs.p is not None and 1 - pairs.p < 0.025


def intraclass_correlation(table: Floats) -> tuple[float | None, float | None]:
    """Return ICC(3,1) of a (seeds, blocks) table and the p value of its F test; block means are removed.

    P. E. Shrout and J. L. Fleiss, Intraclass correlations, Psychological Bulletin 86 (1979) 420-428.
    """
    n, k = table.shape
    centred = table - table.mean(axis=0)
    rows = centred.mean(axis=1)
    between = k * (rows**2).sum() / (n - 1)
    within = ((centred - rows[:, None]) ** 2).sum() / ((n - 1) * (k - 1))
    if between + within <= 1e-20 * max(float(np.abs(table).max()) ** 2, 1e-300):
        return None, None
    if within <= 1e-20 * between:
        return 1.0, 0.0
    correlation = (between - within) / (between + (k - 1) * within)
    return float(correlation), float(f_sf(between / within, n - 1, (n - 1) * (k - 1)))


def effective_df(df: float, runs: float, correlation: float | None) -> float:
    """Return the effective degrees of freedom if same-seed runs correlate: df / (1 + (runs - 1) r^2).

    For normal values with equal correlation r between the `runs` blocks, the pooled within-cell variance s^2
    has Var(s^2) = 2 sigma^4 / df * (1 + (runs - 1) r^2). An unknown correlation counts as 1.
    """
    r = 1.0 if correlation is None else correlation
    return df / (1 + (runs - 1) * r**2)


# Cells' variances count as unequal if they differ by this factor or more, with a p value below alpha.
_MOST_TIMES = 10.0
_ALPHA = 0.001


@dataclass(frozen=True)
class Span:
    """The smallest and largest variance of a group's cells, and their blocks."""

    group: str
    low: float
    low_block: tuple[str, ...]
    high: float
    high_block: tuple[str, ...]


def unequal_cells(group: Group, baseline: Group) -> tuple[Span, ...]:
    """Find groups whose cells differ in variance tenfold or more, beyond chance by Bartlett's test.

    That test mistakes heavy tails for unequal variances; hence p < 0.001, not 0.05.
    """
    return tuple(span for span in (_span(group), _span(baseline)) if span is not None)


def _span(group: Group) -> Span | None:
    cells = {block: values for block, values in group.cells.items() if len(values) > 1}
    if len(cells) < 2 or not group.has_spread:
        return None
    df = np.array([len(values) - 1.0 for values in cells.values()])
    # Equal values need not mean zero variance: they may be rounded.
    own = [_variance(values) for values in cells.values()]
    variances = np.maximum(own, rounding(group))
    low, high = int(variances.argmin()), int(variances.argmax())
    if variances[high] < _MOST_TIMES * variances[low] or bartlett_p(variances, df) >= _ALPHA:
        return None
    names = [group.block_names[block] for block in cells]
    return Span(group.name, own[low], names[low], own[high], names[high])


def bartlett_p(variances: Floats, df: Floats) -> float:
    """Return Bartlett's p value of equal variances, from (k,) variances and their degrees of freedom.

    M. S. Bartlett, Properties of sufficiency and statistical tests, Proceedings of the Royal Society A 160
    (1937) 268-282.
    """
    total, others = df.sum(), len(df) - 1
    pooled = (df * variances).sum() / total
    statistic = -(df * np.log(variances / pooled)).sum()
    correction = 1 + ((1 / df).sum() - 1 / total) / (3 * others)
    return float(chi2_sf(statistic / correction, others))


def _variance(values: Floats) -> float:
    return 0.0 if np.ptp(values) == 0 else float(values.var(ddof=1))
