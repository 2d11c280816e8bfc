"""Means and correlations over seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seedspread.stats.seed_summaries import mean_and_sd, seed_correlation


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 3))
def test_repeating_every_run_changes_nothing(seed: int, seeds: int, times: int) -> None:
    values = list(np.random.default_rng(seed).normal(size=(seeds, 2, 3)))
    names = [str(i) for i in range(seeds)]
    once, again = mean_and_sd(names, values), mean_and_sd(names * times, values * times)
    assert once.sd is not None
    assert again.sd is not None
    np.testing.assert_allclose(again.mean, once.mean)
    np.testing.assert_allclose(again.sd, once.sd)
    np.testing.assert_allclose(once.sd, np.stack(values).std(axis=0, ddof=1))


def test_a_single_seed_has_no_spread() -> None:
    band = mean_and_sd(["1", "1"], [np.array([1.0]), np.array([3.0])])
    assert (band.mean.tolist(), band.sd, band.seeds) == ([2.0], None, 1)


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
