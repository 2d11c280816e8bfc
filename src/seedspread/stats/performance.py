"""Which arm's runs are better: on average, in the middle, at their worst, and how often.

Every interval comes from the seed jackknife: the estimate without each seed in turn gives the influence of
that seed, which both arms have in common where they share it, and the squares of the influences give a t
interval. Percentile bootstraps of whole seeds are far too short with so few (docs/statistics.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import gammaln

from seedspread.stats.arms import Arm, Floats, Ints, common_seeds
from seedspread.stats.outcomes import Better, Contrast, Estimate, Performance
from seedspread.stats.result import Interval

_TENTH = 0.1
# With more seeds, groups of them are left out in turn.
_MOST_GROUPS = 100
# With more runs the worst tenth hardly depends on how many there are.
_MANY = 200
# A difference of means takes three pairs, as a paired t test does.
_FEWEST_PAIRS = 3


def performance(arm: Arm, baseline: Arm, better: Better, level: float, pairs: bool = True) -> Performance:
    """Means, interquartile means, worst tenths and the probability of improvement.

    Args:
        arm: one arm.
        baseline: the other.
        better: which direction of the values is better.
        level: of the intervals.
        pairs: whether a seed of the same number is the same seed in both arms.
    """
    sign = 1.0 if better == "higher" else -1.0
    shared = len(common_seeds(arm, baseline)[0]) if pairs else 0
    if shared < _FEWEST_PAIRS:
        shared = 0
    groups = _groups(arm, baseline, shared > 0)
    first, second = (_Sample.of(side, sign, g) for side, g in zip((arm, baseline), groups, strict=True))
    worst_of = min(len(first.values), len(second.values))
    return Performance(
        groups=(arm.name, baseline.name),
        better=better,
        seeds=(len(arm.seed_codes), len(baseline.seed_codes)),
        crashed=(len(arm.crashed), len(baseline.crashed)),
        pairs=shared,
        mean=_contrast(first.mean(), second.mean(), sign, level),
        iqm=_contrast(first.iqm(), second.iqm(), sign, level),
        # Only the lower half of the runs tells of the tail: half the degrees of freedom.
        worst=_contrast(first.worst(worst_of), second.worst(worst_of), sign, level, share=0.5),
        worst_of=worst_of,
        improvement=_improvement(first, second, level),
    )


@dataclass(frozen=True)
class _Summary:
    """A number, and how far each seed, or group of seeds, moved it: the squares add up to its variance."""

    value: float
    influence: Floats
    groups: Ints


@dataclass(frozen=True)
class _Sample:
    """The runs of an arm, block differences taken out, turned so that higher is better, in order.

    Args:
        values: (n,) sorted.
        places: (n,) the place of each run's seed, or group of seeds, in `groups`.
        groups: (k,) their codes; the same code in two samples is the same seed.
        seed_means: (s,) of all seeds.
        seed_places: (s,) the place of each seed in `groups`.
    """

    values: Floats
    places: Ints
    groups: Ints
    seed_means: Floats
    seed_places: Ints

    @staticmethod
    def of(arm: Arm, sign: float, group: Ints) -> "_Sample":
        """From an arm; `group` has the code of each of its seeds."""
        values = arm.values  # as they are, so that ties stay ties
        if len(arm.cells) > 1:
            values = arm.residuals + np.mean([cell.mean() for cell in arm.cells.values()])
        values = sign * values
        order = np.argsort(values, kind="stable")
        groups, of_seed = np.unique(group, return_inverse=True)
        of_run = of_seed[np.searchsorted(arm.seed_codes, arm.seeds)]
        return _Sample(values[order], of_run[order], groups, sign * arm.seed_means, of_seed)

    def mean(self) -> _Summary:
        """Of the seeds' means: its interval is that of a t test, paired or Welch's."""
        value = float(self.seed_means.mean())
        return self.summary(value, self.seed_means - value, self.seed_places)

    def iqm(self) -> _Summary:
        """The interquartile mean."""
        return self._jackknife(lambda n: _weights(n, 0.25, 0.75))

    def worst(self, of: int) -> _Summary:
        """The mean of the worst tenth of so many runs.

        With few runs that is one of them, and the jackknife is blind where the next one happens to lie near.
        So the influence is also had from mean and standard deviation, of which the worst lies so many
        below; the larger of the two counts.
        """
        found = self._jackknife(lambda n: _tail(n, min(n, of)))
        deviations = self.values - self.values.mean()
        sd = deviations.std()
        if sd == 0:
            return found
        depth = (self.values.mean() - found.value) / sd
        moved = deviations - depth * (deviations**2 - sd**2) / (2 * sd)
        other = self.summary(found.value, moved, self.places)
        return max(found, other, key=lambda one: float(one.influence @ one.influence))

    def summary(self, value: float, deviations: Floats, places: Ints) -> _Summary:
        """From the deviations of runs or seeds, which add up to nothing; `places` are their groups."""
        k = len(self.groups)
        influence = np.bincount(places, deviations, k) / len(places)
        return _Summary(value, influence * (k / max(k - 1, 1)) ** 0.5, self.groups)

    def _jackknife(self, weights: Callable[[int], Floats]) -> _Summary:
        """Of a weighted sum of the sorted values; `weights` gives those for a number of runs."""
        k, n = len(self.groups), len(self.values)
        value = float(self.values @ weights(n))
        if k < 2:
            return _Summary(value, np.zeros(k), self.groups)
        known: dict[int, Floats] = {}
        left = np.empty(k)
        for place in range(k):
            kept = self.values[self.places != place]
            left[place] = kept @ known.setdefault(len(kept), weights(len(kept)))
        return _Summary(value, ((k - 1) / k) ** 0.5 * (left.mean() - left), self.groups)


def _groups(arm: Arm, baseline: Arm, paired: bool) -> tuple[Ints, Ints]:
    """The code of each arm's seeds, by which they are left out: the same for both if they are pairs."""
    if paired:
        everyone = np.union1d(arm.seed_codes, baseline.seed_codes)
        first, second = (np.searchsorted(everyone, side.seed_codes) for side in (arm, baseline))
        return first % _MOST_GROUPS, second % _MOST_GROUPS
    first, second = (np.arange(len(side.seed_codes)) % _MOST_GROUPS for side in (arm, baseline))
    return first, second + _MOST_GROUPS


def _weights(n: int, low: float, high: float) -> Floats:
    """(n,) of a mean of sorted values from one share of them to another; those at the ends count in part."""
    shares = np.clip(np.arange(n + 1) / n, low, high)
    return np.asarray(np.diff(shares) / (high - low))


def _tail(n: int, of: int) -> Floats:
    """(n,) of what the worst tenth of `of` runs, drawn from n without replacement, gives on average.

    The r-th of n is the j-th of those drawn with probability C(r-1, j-1) C(n-r, of-j) / C(n, of).
    """
    if of in (n, 0) or of > _MANY:
        return _weights(n, 0.0, _TENTH)
    inner = _weights(of, 0.0, _TENTH)
    j = np.flatnonzero(inner) + 1
    r = np.arange(1, n + 1)[:, None]
    possible = (r >= j) & (n - r >= of - j)
    with np.errstate(invalid="ignore"):
        log_chance = _log_choose(r - 1, j - 1) + _log_choose(n - r, of - j) - _log_choose(n, of)
    return np.asarray(np.where(possible, np.exp(log_chance), 0.0) @ inner[j - 1])


def _log_choose(n: "Ints | int", k: "Ints | int") -> Floats:
    n, k = np.maximum(n, 0), np.maximum(k, 0)
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0) + 1))


def _contrast(first: _Summary, second: _Summary, sign: float, level: float, share: float = 1.0) -> Contrast:
    """Both and their difference, in the metric's own direction; `share` is of the degrees of freedom."""
    turned = replace(second, value=-second.value, influence=-second.influence)
    nothing = _Summary(0.0, np.empty(0), np.empty(0, np.intp))
    return Contrast(
        *(
            _estimate(a, b, sign, level, share)
            for a, b in ((first, nothing), (second, nothing), (first, turned))
        )
    )


def _estimate(first: _Summary, second: _Summary, sign: float, level: float, share: float) -> Estimate:
    value = sign * (first.value + second.value)
    variance, df = _variance(first, second)
    if df == 0 or variance <= (1e-12 * abs(value)) ** 2:
        return Estimate(value)
    half = float(stats.t.ppf((1 + level) / 2, max(share * df, 1.0))) * variance**0.5
    return Estimate(value, Interval(value - half, value + half, level))


def _variance(first: _Summary, second: _Summary) -> tuple[float, float]:
    """Of a sum: shared seeds have one influence; and its degrees of freedom, by Satterthwaite's formula."""
    _, in_a, in_b = np.intersect1d(first.groups, second.groups, return_indices=True)
    a, b = first.influence, second.influence
    parts = (a[in_a] + b[in_b], np.delete(a, in_a), np.delete(b, in_b))
    squares = np.array([part @ part for part in parts])
    df = np.array([max(len(part) - 1, 1) for part in parts])
    # An arm with a single seed has no variance.
    if min(len(s.groups) for s in (first, second) if len(s.groups)) < 2 or squares.sum() == 0:
        return 0.0, 0.0
    total = float(squares.sum())
    return total, 1 / float(((squares / total) ** 2 / df).sum())


def _improvement(first: _Sample, second: _Sample, level: float) -> Estimate:
    """How often a run of the first is better, ties half; Mann and Whitney's U over the number of pairs.

    Its interval is a score interval: Newcombe's method 5 (2006), with his variance multiplied so that at the
    estimate it is the seeds' own, in which pairs count, moved towards his as by two seeds. Near 0 and 1,
    where seeds hardly differ whatever the truth is, it is his own.
    """
    above = _share_below(second.values, first.values)
    below = 1 - _share_below(first.values, second.values)
    value = float(above.mean())
    seeds = len(first.seed_means), len(second.seed_means)
    if min(seeds) < 2:
        return Estimate(value)
    variance, df = _variance(
        first.summary(value, above - value, first.places), second.summary(value, below - value, second.places)
    )
    df = max(df, min(seeds) - 1.0)
    at = _score_variance(float(np.clip(value, 0.5 / np.prod(seeds), 1 - 0.5 / np.prod(seeds))), *seeds)
    factor = (variance * df + 2 * at) / (at * (df + 2))
    extreme = (2 * value - 1) ** 4
    tail = (1 + level) / 2
    bound = (1 - extreme) * factor * stats.t.ppf(tail, df) ** 2 + extreme * stats.norm.ppf(tail) ** 2

    def excess(theta: float) -> float:
        return float((value - theta) ** 2 - bound * _score_variance(theta, *seeds))

    inside = 1e-9  # the estimate is a root itself where it is 0 or 1
    low = brentq(excess, 0.0, value * (1 - inside)) if value > 0 else 0.0
    high = brentq(excess, value + inside * (1 - value), 1.0) if value < 1 else 1.0
    return Estimate(value, Interval(float(low), float(high), level))


def _share_below(values: Floats, x: Floats) -> Floats:
    """(n,) of each of `x`, the share of sorted values below it, ties half."""
    ends = np.searchsorted(values, x, "left") + np.searchsorted(values, x, "right")
    return np.asarray(ends / (2 * len(values)))


def _score_variance(theta: float, n: int, m: int) -> float:
    """Of the estimate if the probability is `theta`, as Newcombe's method 5 has it."""
    half = (n + m) / 2 - 1
    return theta * (1 - theta) * (1 + half * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (n * m)
