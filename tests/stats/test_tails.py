"""Tails: exact rates, order statistics, and what failed."""

import math

import numpy as np
import pytest
from scipy import stats

from seedspread.stats.groups import Group
from seedspread.stats.result import Estimate, Interval
from seedspread.stats.tails import Tails, tails

NONE = np.empty(0, np.intp)


def found(a: list[float], b: list[float], better: str = "higher", failed: int = 0) -> Tails:
    lost = np.arange(1000, 1000 + failed)
    return tails((Group.of(a), Group.of(b)), (lost, NONE), better, 0.7, 0.25, 0.95)  # type: ignore[arg-type]


def interval(estimate: Estimate) -> Interval:
    assert estimate.interval is not None
    return estimate.interval


def test_rates_are_exact_and_a_value_at_the_threshold_is_not_below_it() -> None:
    one = found([0.5, 0.6, 0.7, 0.8], [0.8, 0.9, 0.95, 0.99])
    exact = stats.binomtest(2, 4).proportion_ci(0.95, "exact")
    assert one.counts == (2, 0)
    assert one.rates is not None
    own = interval(one.rates.arm)
    assert (own.low, own.high) == pytest.approx((exact.low, exact.high))
    assert one.rates.difference.value == 0.5
    assert one.p == pytest.approx(stats.fisher_exact([[2, 2], [0, 4]]).pvalue)
    above = found([0.5, 0.6, 0.7, 0.8], [0.8, 0.9, 0.95, 0.99], better="lower")
    assert above.counts == (1, 4)


def test_failed_seeds_count_as_worse_than_any_value() -> None:
    one = found([0.8, 0.9], [0.8, 0.9], failed=2)
    assert (one.counts, one.seeds) == ((2, 0), (4, 2))
    assert one.quantiles is not None
    assert one.quantiles.arm.value == -math.inf
    assert math.isnan(one.quantiles.difference.value)


def test_a_quantile_lies_between_order_statistics() -> None:
    """Of 40 seeds, the interval of the 25% quantile ends at the 5th and the 16th: binomial tails."""
    values = np.arange(1.0, 41.0)
    one = found(list(values), list(values[::-1]))
    assert one.quantiles is not None
    low, high = interval(one.quantiles.arm).low, interval(one.quantiles.arm).high
    assert one.quantiles.arm.value == 10
    assert stats.binom.cdf(low - 1, 40, 0.25) <= 0.025 < stats.binom.cdf(low, 40, 0.25)
    assert stats.binom.sf(high - 1, 40, 0.25) <= 0.025 < stats.binom.sf(high - 2, 40, 0.25)
    turned = found(list(-values), list(-values), better="lower").quantiles
    assert turned is not None
    assert (turned.arm.value, interval(turned.arm).high) == (-10, -low)
    few = found([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).quantiles
    assert few is not None
    assert (interval(few.arm).low, interval(few.difference).low) == (-math.inf, -math.inf)


def test_runs_of_one_seed_count_once() -> None:
    both = Group("a", np.array([0.6, 0.9, 0.5, 0.6]), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))
    one = tails((both, both), (NONE, NONE), "higher", 0.7, None, 0.95)
    assert (one.counts, one.seeds, one.quantiles) == ((1, 1), (2, 2), None)
