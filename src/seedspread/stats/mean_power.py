"""Power of t tests on normal values: of a difference of means, of their equivalence, of the gate's drop."""

from collections.abc import Callable
from math import sqrt

import numpy as np
from scipy import stats

from seedspread.stats.planning import BudgetError

_MOST_SEEDS = 100_000
# Points of the distribution of the sample's standard deviation.
_POINTS = (np.arange(2_000) + 0.5) / 2_000


def standard_error(sd: float, seeds: tuple[int, int], pairs: float | None) -> tuple[float, int]:
    """Return the standard error of a difference of two means, and its degrees of freedom.

    Groups that share their seeds and correlate by `pairs` have as many pairs as the smaller one has seeds.
    """
    if pairs is None:
        return sd * sqrt(1 / seeds[0] + 1 / seeds[1]), sum(seeds) - 2
    return sd * sqrt(2 * (1 - pairs) / min(seeds)), min(seeds) - 1


def t_power(shift: float, df: float, alpha: float, two_sided: bool = True) -> float:
    """Return the power of a t test whose true difference is `shift` standard errors."""
    critical = float(stats.t.isf(alpha / (1 + two_sided), df))
    if shift > critical + 40:
        return 1.0
    above = float(stats.nct.sf(critical, df, shift))
    return above + (float(stats.nct.cdf(-critical, df, shift)) if two_sided else 0.0)


def equivalence_power(margin: float, df: float, alpha: float) -> float:
    """Return the power of two one-sided t tests if means are equal; the margin is in standard errors."""
    sd = np.sqrt(stats.chi2.ppf(_POINTS, df) / df)
    room = np.maximum(margin - float(stats.t.isf(alpha, df)) * sd, 0.0)
    return float(np.mean(stats.norm.cdf(room) - stats.norm.cdf(-room)))


def fewest(power_of: Callable[[int], float], power: float, start: int, what: str) -> int:
    """Return the smallest number, from `start` on, whose power is enough to show `what`."""
    low, high = start - 1, start
    while power_of(high) < power:
        low, high = high, 2 * high
        if high > _MOST_SEEDS:
            raise BudgetError(f"no number of runs up to {_MOST_SEEDS:,} shows {what} with power {power:g}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of(middle) >= power else (middle, high)
    return high
