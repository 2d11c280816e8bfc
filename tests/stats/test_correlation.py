"""Correlation over seeds."""

import numpy as np
import pytest
from scipy import stats

from seedspread.stats.correlation import seed_correlation


def test_it_is_scipys_of_seed_means_with_fishers_interval() -> None:
    rng = np.random.default_rng(1)
    seeds = [str(i) for i in range(8) for _ in range(2)]
    x, y = rng.normal(size=16), rng.normal(size=16)
    correlation = seed_correlation(seeds, list(x), list(y))
    assert correlation is not None
    means = x.reshape(8, 2).mean(axis=1), y.reshape(8, 2).mean(axis=1)
    r = stats.pearsonr(*means).statistic
    assert correlation.r == pytest.approx(r)
    assert correlation.seeds == 8
    half = stats.norm.ppf(0.975) / np.sqrt(8 - 3)
    assert correlation.interval is not None
    assert (correlation.interval.low, correlation.interval.high) == pytest.approx(
        (np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half))
    )


def test_too_few_seeds_and_values_that_do_not_vary_have_none() -> None:
    assert seed_correlation(["1", "2"], [1, 2], [1, 2]) is None
    assert seed_correlation(["1", "2", "3"], [1, 1, 1], [1, 2, 3]) is None
    three = seed_correlation(["1", "2", "3"], [1, 2, 3], [1, 2, 4])
    assert three is not None
    assert three.interval is None
