"""The robust variance ratio: the variance over seeds of a group over that of its baseline.

Model: a multivariate Student t over each seed's runs (`student_t.py`), with flat priors on log scales,
same-seed correlations and Fisher's z, and a small prior on the degrees of freedom. With normal tails alone
it is the F interval, and Pitman and Morgan's if the groups share seeds in one block. Chosen by simulation
(docs/statistics.md) over the same model with an even prior on the tails (2 points of power on normal
values), with pairs that share their tails (10 to 11% false alarms on contaminated values), and the seed
jackknife (blind to pairs, 5 to 20 points of power).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import exp, inf, log
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp, stdtr, stdtrit

from seedspread.stats.groups import Floats, Group, Ints, rounding
from seedspread.stats.result import Interval
from seedspread.stats.student_t import Fit, Layout, solve

# Reciprocal degrees of freedom, and their prior: normal values with 2/5, tails down to 3.3 with 1/5 each.
TAILS = np.array([0.0, 0.1, 0.2, 0.3])
PRIOR = np.array([2.0, 1.0, 1.0, 1.0]) / 5
# Share of a group's variance that is added to squared deviations, so that copies of a run, and groups that
# are multiples of each other, have finite results.
FLOOR = 1e-6
# Experiments that are fitted at once: as many as stay in the processor's cache.
BATCH = 32
# Points where the model is fitted and where it is interpolated: to 18 deviations, dense in the middle.
_FITTED, _INTERPOLATED, _WIDTH, _BEND = 19, 801, 18.0, 3.6
# The probability that may lie beyond the grid on either side.
_BEYOND_GRID = 1e-5


def _nodes(count: int) -> tuple[Floats, Floats]:
    even = np.linspace(-1, 1, count)
    return _WIDTH * np.sinh(_BEND * even) / np.sinh(_BEND), np.cosh(_BEND * even)


_NODES, _STEP = _nodes(_FITTED)
_FINE, _FINE_STEP = _nodes(_INTERPOLATED)
_EDGES = (_FINE[1:] + _FINE[:-1]) / 2  # between its points
_INTERPOLATE = CubicSpline(np.linspace(-1, 1, _FITTED), np.eye(_FITTED))(np.linspace(-1, 1, _INTERPOLATED))


@dataclass(frozen=True)
class Posterior:
    """The posterior of a log variance ratio, on a grid of g points."""

    center: float  # the middle of the grid
    scale: float  # the unit of the grid
    mass: Floats  # (g,) probability of each point
    tails: float  # mean of the reciprocal degrees of freedom

    @cached_property
    def cumulative(self) -> Floats:
        """(g,) probability below each point, including half of its own."""
        return np.cumsum(self.mass) - 0.5 * self.mass

    def below(self, log_ratio: float) -> float:
        return float(np.interp((log_ratio - self.center) / self.scale, _FINE, self.cumulative))

    def above(self, log_ratio: float) -> float:
        return replace(self, center=-self.center, mass=self.mass[::-1]).below(-log_ratio)

    def quantile(self, probability: float) -> float:
        return self.center + self.scale * float(np.interp(probability, self.cumulative, _FINE))

    def distribution(self) -> "Posterior":
        return self

    def log_density(self, log_ratios: Floats) -> Floats:
        """Return (m,) log densities at (m,) log ratios; minus infinity beyond the grid."""
        logs = np.log(np.maximum(self.mass, 1e-300)) - np.log(_FINE_STEP * self.scale)
        return np.asarray(np.interp((log_ratios - self.center) / self.scale, _FINE, logs, -inf, -inf))

    def shifted(self, log_ratio: float) -> "Posterior":
        return replace(self, center=self.center + log_ratio)

    def with_prior(self, sd: float) -> "Posterior":
        """Return the posterior under a normal prior of the log ratio around 0 in place of the flat one."""
        at = (self.center + self.scale * _FINE) / sd
        mass = self.mass * np.exp(-0.5 * (at**2 - (at**2).min()))
        return replace(self, mass=mass / mass.sum())

    def minus(self, other: "Posterior") -> "Posterior":
        """Return the posterior of the difference from another, independent one."""
        center, scale = self.center - other.center, float(np.hypot(self.scale, other.scale))
        points = other.center + other.scale * _FINE
        at = (center + scale * _EDGES[:, None] + points - self.center) / self.scale
        below = np.interp(at, _FINE, self.cumulative) @ other.mass
        mass = np.diff(below, prepend=0.0, append=1.0)
        return Posterior(center, scale, mass, max(self.tails, other.tails))


def posterior(
    layout: Layout, values: Floats, floor: Floats, tails: Floats = TAILS, prior: Floats = PRIOR
) -> list[Posterior]:
    """Return the posteriors of (e, n, 2, b) values, 0 if there is no run; see `Fit` for `floor`."""
    best = Fit(layout, values, floor, np.zeros((len(values), 1)), tails)
    center, scale = _window(best, prior)
    fit = Fit(layout, values, floor, center[:, None] + scale[:, None] * _NODES, tails, near=best)
    log_step = np.log(_STEP)[:, None]
    evidence = logsumexp(fit.log_posterior + log_step, axis=1)  # (e, v)
    tempered = share_of_information(layout, tails) * fit.log_posterior  # (e, t, v)
    tempered = tempered - logsumexp(tempered + log_step, axis=1)[:, None]
    weights = evidence + np.log(prior)
    weights = weights - logsumexp(weights, axis=1, keepdims=True)
    log_density = logsumexp(tempered + weights[:, None], axis=2)
    density = np.exp(log_density @ _INTERPOLATE.T) * _FINE_STEP
    density = density / density.sum(axis=1, keepdims=True)
    found = zip(center.tolist(), scale.tolist(), density, (np.exp(weights) @ tails).tolist(), strict=True)
    return [Posterior(*each) for each in found]


def posterior_of(values: Floats, present: NDArray[np.bool_], paired: bool) -> list[Posterior]:
    """Return the posteriors of (e, n, 2, b) values without ties, by experiment, seed, group and block.

    `present` (n, 2, b) marks runs; with `paired` the groups' runs of a seed belong together.
    """
    counts = present.sum(axis=0)
    means = np.where(present, values, 0.0).sum(axis=1) / np.maximum(counts, 1)
    deviations = np.where(present, values - means[:, None], 0.0)
    variances = (deviations**2).sum(axis=(1, 3)) / (counts - 1).clip(0).sum(axis=1)
    standard = deviations / np.sqrt(variances)[:, None, :, None]
    layout, offset = Layout(present, paired), np.log(variances[:, 0] / variances[:, 1]).tolist()
    batches = (standard[k : k + BATCH] for k in range(0, len(standard), BATCH))
    found = (one for batch in batches for one in posterior(layout, batch, np.full((len(batch), 2), FLOOR)))
    return [one.shifted(log_ratio) for one, log_ratio in zip(found, offset, strict=True)]


def _window(fit: Fit, prior: Floats) -> tuple[Floats, Floats]:
    """Return (e,) rough means and standard deviations of the posterior: a normal mixture over tails."""
    index = fit.index["ratio"]
    unit = np.zeros_like(fit.gradient)
    unit[index] = 1.0
    variance = (1 + 2 * fit.u) * solve(fit.caution, unit)[index, :, 0]
    best = fit.phi[index, :, 0]
    weights = np.exp(fit.log_posterior[:, 0] - fit.log_posterior[:, 0].max(axis=1, keepdims=True)) * prior
    weights = weights / weights.sum(axis=1, keepdims=True)
    center = (weights * best).sum(axis=1)
    return center, np.sqrt((weights * (variance + (best - center[:, None]) ** 2)).sum(axis=1))


def share_of_information(layout: Layout, tails: Floats) -> Floats:
    """Return (v,) powers to which the likelihood is raised, for each of the tails.

    A multivariate t gives all d runs of a seed one weight. If each group has tails of its own, the variance
    of the estimate (the sandwich) leaves nu / (nu + d / 2) of the information that pairs seem to give. Half
    as much again is taken off because the tails are known from few seeds: without it, up to 9% false alarms
    on contaminated pairs.
    """
    nu = 1 / np.maximum(tails, 1e-12)
    weighted, total = np.zeros_like(nu), 0
    for pattern in layout.patterns:
        d = sum(pattern.runs)
        runs = len(pattern.seeds) * d
        weighted += runs * (nu / (nu + 0.75 * d) if pattern.paired else 1.0)
        total += runs
    return weighted / total


_BEYOND = 700.0  # exp overflows above it


class LogEstimate(Protocol):
    """The distribution of a log variance, or ratio: a posterior, or confidence in place of probability."""

    def above(self, log_ratio: float) -> float:
        """Return the probability, or confidence, of a larger value."""

    def below(self, log_ratio: float) -> float:
        """Return that of a smaller value, since 1 - `above` would lose the digits of a small one."""

    def quantile(self, probability: float) -> float:
        """Return the value below which this share of the distribution lies."""


class LogRatioEstimate(LogEstimate, Protocol):
    def distribution(self) -> Posterior:
        """Return the whole distribution, on a grid."""


@dataclass(frozen=True)
class FromJackknife:
    """An estimate with a t distribution, whose confidence stands in for a probability."""

    log_ratio: float
    std_error: float
    df: float

    def above(self, log_ratio: float) -> float:
        return float(stdtr(self.df, (self.log_ratio - log_ratio) / self.std_error))

    def below(self, log_ratio: float) -> float:
        return float(stdtr(self.df, (log_ratio - self.log_ratio) / self.std_error))

    def quantile(self, probability: float) -> float:
        return self.log_ratio + self.std_error * float(stdtrit(self.df, probability))

    def distribution(self) -> Posterior:
        # The grid ends at 18 scales, and the tails of few degrees of freedom lie beyond 18 standard errors.
        scale = self.std_error * max(1.0, -float(stdtrit(self.df, _BEYOND_GRID)) / _WIDTH)
        below = stdtr(self.df, _EDGES * scale / self.std_error)
        return Posterior(self.log_ratio, scale, np.diff(below, prepend=0.0, append=1.0), 0.0)


def difference(first: LogRatioEstimate, second: LogRatioEstimate) -> LogRatioEstimate:
    """Return the first log ratio minus the second, which is independent of it."""
    return first.distribution().minus(second.distribution())


def ratio_at(estimate: LogEstimate, probability: float) -> float:
    """Return the ratio below which this share of an estimate's distribution lies."""
    at = estimate.quantile(probability)
    return inf if at > _BEYOND else exp(at)


def interval_of(estimate: LogEstimate, level: float) -> Interval:
    return Interval(ratio_at(estimate, (1 - level) / 2), ratio_at(estimate, (1 + level) / 2), level)


def two_sided_p(estimate: LogEstimate) -> float:
    """Return twice the smaller tail about a ratio of 1."""
    return min(2 * min(estimate.above(0.0), estimate.below(0.0)), 1.0)


# Fewer pairs often line up by chance, which would pass for a correlation of 1: with three of them and no
# difference at all, p is below 0.001 in one experiment of 25.
FEWEST_PAIRS = 5
# With more, memory runs out before any other test would differ.
MOST_SEEDS = 5000
# A bulk narrower than the standard deviation by this factor sets the scale: the floor would swamp it.
_DWARFED = 0.01


@dataclass(frozen=True)
class RobustRatio:
    """The posterior of a variance ratio: of the bulk of the runs, if tails are heavy."""

    seeds: tuple[int, int]
    pairs: int  # seeds that were used as pairs
    blocks: int
    ratio: float | None = None  # the median
    interval: Interval | None = None  # central
    p: float | None = None  # twice the smaller tail about 1
    nu: float | None = None  # degrees of freedom: near 3 very heavy tails, infinite normal ones
    note: str = ""  # why there is no ratio, or why there are no pairs
    posterior: Posterior | None = field(default=None, repr=False, compare=False)

    def above(self, ratio: float) -> float | None:
        """Return the probability of a larger ratio."""
        return None if self.posterior is None else self.posterior.above(log(ratio))

    def within(self, factor: float) -> float | None:
        """Return the probability that neither variance is more than `factor` times the other."""
        low, high = self.above(1 / factor), self.above(factor)
        return None if low is None or high is None else low - high


def robust_ratio(group: Group, baseline: Group, level: float = 0.95, pairs: bool = True) -> RobustRatio:
    """Return the ratio of two groups' variances within cells, by a Student-t model.

    With `pairs`, a seed's runs in the two groups are paired if both have it.
    """
    return robust_ratios([(group, baseline)], level, pairs)[0]


def robust_ratios(
    comparisons: Sequence[tuple[Group, Group]], level: float = 0.95, pairs: bool = True
) -> list[RobustRatio]:
    """Return `robust_ratio` of many comparisons; those of one design are computed together."""
    tables = [_Table.of(group, baseline, pairs) for group, baseline in comparisons]
    out = [table.blank for table in tables]
    designs: dict[tuple[bytes, tuple[int, ...], bool], list[int]] = {}
    for k, table in enumerate(tables):
        if table.present.size:  # else there is no ratio
            designs.setdefault((table.present.tobytes(), table.present.shape, table.paired), []).append(k)
    for places in designs.values():
        layout = Layout(tables[places[0]].present, tables[places[0]].paired)
        for start in range(0, len(places), BATCH):
            batch = places[start : start + BATCH]
            values, floors = zip(*((tables[k].values, tables[k].floor) for k in batch), strict=True)
            solved = posterior(layout, np.stack(values), np.array(floors))
            for k, found in zip(batch, solved, strict=True):
                out[k] = _result(tables[k].blank, found.shifted(tables[k].offset), level)
    return out


@dataclass(frozen=True)
class _Table:
    """Two groups as (n, 2, b) values by seed, group and block, without runs that are alone in their cell.

    Values are deviations from their cell's median in units of their group's scale (`scale_of`), so that none
    is too large or too small; `offset` is the log ratio of those scales, squared.
    """

    values: Floats
    present: NDArray[np.bool_]
    floor: tuple[float, float]
    offset: float
    blank: RobustRatio

    @property
    def paired(self) -> bool:
        return self.blank.pairs > 0

    @staticmethod
    def of(group: Group, baseline: Group, pairs: bool) -> "_Table":
        groups, blocks = (group, baseline), np.union1d(group.blocks, baseline.blocks)
        blank = RobustRatio((len(group.seed_codes), len(baseline.seed_codes)), 0, len(blocks))
        note = ""
        if not (group.has_spread and baseline.has_spread):
            note = "a group has no spread within its cells, so there is no ratio"
        elif max(blank.seeds) > MOST_SEEDS:
            note = f"not computed for more than {MOST_SEEDS:,} seeds in a group"
        if note:
            return _Table(np.empty(0), np.empty(0, bool), (0.0, 0.0), 0.0, replace(blank, note=note))
        values, present = _by_seed(groups, blocks, pairs)
        shared = int(np.all(present.any(axis=2), axis=1).sum()) if pairs else 0
        if 0 < shared < FEWEST_PAIRS:
            note = f"{shared} shared seeds are too few to use as pairs; it takes {FEWEST_PAIRS}"
            blank, shared = replace(blank, note=note), 0
        if not shared:
            values, present = _by_seed(groups, blocks, False)
        offset = 2 * (log(scale_of(group)) - log(scale_of(baseline)))
        first, second = (FLOOR + rounding(a) / scale_of(a) ** 2 for a in groups)
        return _Table(values, present, (first, second), offset, replace(blank, pairs=shared))


def _by_seed(groups: tuple[Group, Group], blocks: Ints, pairs: bool) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (n, 2, b) standardized residuals, and which of them exist; unpaired groups share no rows."""
    codes = [np.union1d(*(a.seed_codes for a in groups))] * 2 if pairs else [a.seed_codes for a in groups]
    values = np.zeros((max(map(len, codes)), 2, len(blocks)))
    present = np.zeros(values.shape, bool)
    for k, (group, seeds) in enumerate(zip(groups, codes, strict=True)):
        alone = np.bincount(group.blocks)[group.blocks] == 1
        at = np.searchsorted(seeds, group.seeds), k, np.searchsorted(blocks, group.blocks)
        values[at] = np.where(alone, 0.0, from_medians(group) / scale_of(group))
        present[at] = ~alone
        for first, second in combinations(range(len(blocks)), 2):  # a block that copies another adds nothing
            same = np.array_equal(present[:, k, first], present[:, k, second])
            if same and np.ptp(values[:, k, first] - values[:, k, second]) <= 1e-9:
                present[:, k, second], values[:, k, second] = False, 0.0
    kept = present.any(axis=(1, 2))
    return values[kept], present[kept]


def from_medians(group: Group) -> Floats:
    """Return (n,) deviations from the median of the run's own cell."""
    out = np.empty_like(group.values)
    for block, values in group.cells.items():
        out[group.blocks == block] = values - np.median(values)
    return out


def bulk_sd(group: Group) -> float:
    """Return the standard deviation of the bulk of the runs, assumed normal, or of rounding if larger."""
    return max(float(np.median(np.abs(from_medians(group)))) / 0.6745, float(rounding(group) ** 0.5))


def scale_of(group: Group) -> float:
    """Return the standard deviation within cells; that of the bulk if single runs dwarf all others."""
    bulk, whole = bulk_sd(group), float(group.within_variance**0.5)
    return bulk if 0 < bulk < _DWARFED * whole else whole


def _result(blank: RobustRatio, found: Posterior, level: float) -> RobustRatio:
    return replace(
        blank,
        ratio=ratio_at(found, 0.5),
        interval=interval_of(found, level),
        p=two_sided_p(found),
        nu=1 / found.tails if found.tails > 0 else inf,
        posterior=found,
    )
