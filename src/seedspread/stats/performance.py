"""Which group's runs are better: on average, and at their worst.

Every interval comes from the seed jackknife: the estimate without each seed in turn gives that seed's
influence, the groups' influences of a shared seed are added, and their squares give a t interval.
Percentile bootstraps of whole seeds are far too short with so few (docs/statistics.md).
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import stats

from seedspread.stats.groups import Floats, Group, Ints, common_seeds
from seedspread.stats.result import Better, Contrast, Estimate, Interval, Performance

_TENTH = 0.1
# With more seeds, groups of them are left out in turn.
_MOST_UNITS = 100
# With more runs the worst tenth hardly depends on how many there are.
_MANY = 200
# A difference of means needs three pairs, as a paired t test does.
_FEWEST_PAIRS = 3


def performance(
    group: Group, baseline: Group, better: Better, level: float, pairs: bool = True
) -> Performance:
    """Compare means and worst tenths.

    Args:
        group: runs of one group.
        baseline: runs of the other.
        better: which direction of the values is better.
        level: of the intervals.
        pairs: whether a seed that both groups have is the same seed.
    """
    sign = 1.0 if better == "higher" else -1.0
    shared = len(common_seeds(group, baseline)[0]) if pairs else 0
    if shared < _FEWEST_PAIRS:
        shared = 0
    units = _units(group, baseline, shared > 0)
    first, second = (_Sample.of(side, sign, u) for side, u in zip((group, baseline), units, strict=True))
    worst_of = min(len(first.values), len(second.values))
    return Performance(
        groups=(group.name, baseline.name),
        better=better,
        seeds=(len(group.seed_codes), len(baseline.seed_codes)),
        crashed=(len(group.crashed), len(baseline.crashed)),
        pairs=shared,
        mean=_contrast(first.mean(), second.mean(), sign, level),
        # Only the lower half of the runs describes the tail: half the degrees of freedom.
        worst=_contrast(first.worst(worst_of), second.worst(worst_of), sign, level, share=0.5),
        worst_of=worst_of,
    )


@dataclass(frozen=True)
class _Summary:
    """A number and the influence of each unit (a seed, or several) on it; squares add up to its variance."""

    value: float
    influence: Floats
    units: Ints


@dataclass(frozen=True)
class _Sample:
    """The runs of a group, block differences removed, with signs such that higher is better."""

    values: Floats  # (n,) sorted
    places: Ints  # (n,) index of each run's unit in `units`
    units: Ints  # (k,) codes of what is left out at once, seeds or several seeds; shared by both groups
    seed_means: Floats  # (s,)
    seed_places: Ints  # (s,) index of each seed's unit in `units`

    @staticmethod
    def of(group: Group, sign: float, unit: Ints) -> "_Sample":
        """Build it from a group and the (s,) units of its seeds."""
        values = group.values  # as they are, so that ties stay ties
        if len(group.cells) > 1:
            values = group.residuals + np.mean([cell.mean() for cell in group.cells.values()])
        values = sign * values
        order = np.argsort(values, kind="stable")
        units, of_seed = np.unique(unit, return_inverse=True)
        of_run = of_seed[group.seed_index]
        return _Sample(values[order], of_run[order], units, sign * group.seed_means, of_seed)

    def mean(self) -> _Summary:
        """Average the seeds' means: the interval is that of a t test, paired or Welch's."""
        value = float(self.seed_means.mean())
        return self.summary(value, self.seed_means - value, self.seed_places)

    def worst(self, of: int) -> _Summary:
        """Average the worst tenth of so many runs.

        With few runs that is one of them, and the jackknife is blind if the next one happens to lie near. So
        the influence is also computed for the mean minus so many standard deviations; the larger one counts.
        """
        k, n = len(self.units), len(self.values)
        kept = [self.values[self.places != place] for place in range(k)] if k > 1 else []
        left = np.array([values @ _tail(len(values), min(len(values), of)) for values in kept])
        influence = ((k - 1) / k) ** 0.5 * (left.mean() - left) if k > 1 else np.zeros(k)
        found = _Summary(float(self.values @ _tail(n, min(n, of))), influence, self.units)
        deviations = self.values - self.values.mean()
        sd = deviations.std()
        if sd == 0:
            return found
        depth = (self.values.mean() - found.value) / sd
        moved = deviations - depth * (deviations**2 - sd**2) / (2 * sd)
        other = self.summary(found.value, moved, self.places)
        return max(found, other, key=lambda one: float(one.influence @ one.influence))

    def summary(self, value: float, deviations: Floats, places: Ints) -> _Summary:
        """Add up deviations of runs or seeds, whose sum is zero, by unit."""
        k = len(self.units)
        influence = np.bincount(places, deviations, k) / len(places)
        return _Summary(value, influence * (k / max(k - 1, 1)) ** 0.5, self.units)


def _units(group: Group, baseline: Group, paired: bool) -> tuple[Ints, Ints]:
    """Return the units of each group's seeds: the same for both if they are pairs."""
    if paired:
        everyone = np.union1d(group.seed_codes, baseline.seed_codes)
        first, second = (np.searchsorted(everyone, side.seed_codes) for side in (group, baseline))
        return first % _MOST_UNITS, second % _MOST_UNITS
    first, second = (np.arange(len(side.seed_codes)) % _MOST_UNITS for side in (group, baseline))
    return first, second + _MOST_UNITS


def _worst_weights(n: int) -> Floats:
    """Return (n,) weights of the mean of the lowest tenth of sorted values; the last counts in part."""
    return np.asarray(np.diff(np.clip(np.arange(n + 1) / n, 0.0, _TENTH)) / _TENTH)


@cache
def _tail(n: int, of: int) -> Floats:
    """Return (n,) weights of the expected worst tenth of `of` runs drawn from n without replacement.

    The r-th of n is the j-th of those drawn with probability C(r-1, j-1) C(n-r, of-j) / C(n, of).
    """
    if of in (n, 0) or of > _MANY:
        return _worst_weights(n)
    inner = _worst_weights(of)
    j = np.flatnonzero(inner) + 1
    r = np.arange(1, n + 1)[:, None]
    return np.asarray(of / n * stats.hypergeom.pmf(j - 1, n - 1, r - 1, of - 1) @ inner[j - 1])


def _contrast(first: _Summary, second: _Summary, sign: float, level: float, share: float = 1.0) -> Contrast:
    """Return both and their difference, in the metric's own direction, with a share of the df."""
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
    """Return the variance of a sum, in which shared units count once, and Satterthwaite's df."""
    _, in_a, in_b = np.intersect1d(first.units, second.units, return_indices=True)
    a, b = first.influence, second.influence
    parts = (a[in_a] + b[in_b], np.delete(a, in_a), np.delete(b, in_b))
    squares = np.array([part @ part for part in parts])
    df = np.array([max(len(part) - 1, 1) for part in parts])
    # A group with a single seed has no variance.
    if min(len(s.units) for s in (first, second) if len(s.units)) < 2 or squares.sum() == 0:
        return 0.0, 0.0
    total = float(squares.sum())
    return total, 1 / float(((squares / total) ** 2 / df).sum())
