"""How bad is a bad seed? The rate of seeds beyond a threshold, and a quantile on the worse side."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from seedspread.stats.failures import difference_of, fisher_p, rate_of
from seedspread.stats.groups import Floats, Group, Ints
from seedspread.stats.result import Better, Contrast, Estimate, Interval


@dataclass(frozen=True)
class Tails:
    """The worse tails of a group and its baseline; seeds count once, failed ones as worse than any value."""

    threshold: float | None
    counts: tuple[int, int]  # seeds that are worse than the threshold
    seeds: tuple[int, int]
    rates: Contrast | None  # of those seeds; intervals are exact, that of the difference is conservative
    p: float | None  # Fisher's exact test of equal rates
    share: float | None  # of seeds that are worse than the quantile
    quantiles: Contrast | None  # infinite if so many seeds failed; intervals end at order statistics


def tails(
    sides: tuple[Group, Group],
    failed: tuple[Ints, Ints],
    better: Better,
    threshold: float | None,
    share: float | None,
    level: float,
) -> Tails:
    """Compare the worse tails of two groups.

    Args:
        sides: the group and its baseline. Runs of one seed are averaged.
        failed: codes of the seeds that failed, in each.
        better: which direction of the values is better.
        threshold: a seed whose value is worse than this counts.
        share: of the quantile, such as 0.1.
        level: of the intervals.
    """
    sign = 1.0 if better == "higher" else -1.0
    first, second = (_scores(side, lost, sign) for side, lost in zip(sides, failed, strict=True))
    sizes, counts, rates, p, quantiles = (len(first), len(second)), (0, 0), None, None, None
    if threshold is not None:
        counts = int(np.sum(first < sign * threshold)), int(np.sum(second < sign * threshold))
        a, b = zip(counts, sizes, strict=True)
        rates, p = _contrast(rate_of(*a, level), rate_of(*b, level)), fisher_p(a, b)
    if share is not None:
        quantiles = _contrast(*(_quantile(scores, share, sign, level) for scores in (first, second)))
    return Tails(threshold, counts, sizes, rates, p, share, quantiles)


def _contrast(first: Estimate, second: Estimate) -> Contrast:
    return Contrast(first, second, difference_of(first, second))


def _scores(side: Group, failed: Ints, sign: float) -> Floats:
    """Return the sorted values of seeds, higher being better; failed ones are -inf."""
    means = sign * np.bincount(side.seed_index, side.values) / np.bincount(side.seed_index)
    kept = means[~np.isin(side.seed_codes, failed)]
    return np.sort(np.r_[np.full(len(failed), -np.inf), kept])


def _quantile(scores: Floats, share: float, sign: float, level: float) -> Estimate:
    """Return the value that a share of seeds does not exceed, with a distribution-free interval.

    The number of seeds below the true quantile is binomial; so few may be that nothing bounds it.
    H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed., Wiley (2003), section 7.1.
    """
    n = len(scores)
    low, high = (int(stats.binom.ppf(tail, n, share)) for tail in ((1 - level) / 2, (1 + level) / 2))
    padded = np.r_[-np.inf, scores, np.inf]
    ends = sorted((float(sign * padded[low]), float(sign * padded[high + 1])))
    value = float(scores[max(math.ceil(n * share - 1e-9), 1) - 1])
    return Estimate(sign * value, Interval(ends[0], ends[1], level))
