"""Means and correlations over seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.conditions import QUANTILES
from seedspread.stats.seed_summaries import mean_and_sd, seed_correlation, summarize
from tests.stats.arms import arm


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


@pytest.mark.parametrize(
    ("shape", "n"),
    [
        ("normal", 5),
        ("t5", 20),
        ("contaminated", 5),
        ("skewed", 20),
        *(pytest.param(*pair, marks=pytest.mark.soak) for pair in (("normal", 20), ("t5", 5))),
        *(pytest.param(*pair, marks=pytest.mark.soak) for pair in (("contaminated", 20), ("skewed", 5))),
    ],
)
def test_the_interval_of_the_sd_covers_whatever_the_tails(shape: str, n: int) -> None:
    """93% or more, less two standard errors of the simulation."""
    values = QUANTILES[shape](np.random.default_rng(n).random((400, n)))
    intervals = [summarize(arm(x), 0, n).sd_interval for x in values]
    assert np.mean([i is not None and 1.0 in i for i in intervals]) > 0.93 - 0.025


def test_values_of_known_kurtosis_give_the_formula() -> None:
    """2 n / (kurtosis - 7/9) degrees of freedom at either end."""
    x = np.array([1.0, 2, 2, 3, 3, 3, 4, 4, 5, 9])
    excess = stats.kstat(x, 4) / stats.kstat(x, 2) ** 2  # Fisher's k statistics, an independent way
    found = summarize(arm(x), 0, 10).sd_interval
    assert found is not None
    for end, tail, expected, worth in ((found.low, 0.975, 1, 20), (found.high, 0.025, 4, 60)):
        df = 20 / (3 + (10 * excess + worth * expected) / (10 + worth) - 7 / 9)
        assert end == pytest.approx((x.var(ddof=1) * df / stats.chi2.ppf(tail, df)) ** 0.5)


def test_copies_of_runs_do_not_narrow_the_interval_of_the_sd() -> None:
    x = np.random.default_rng(2).normal(size=12)
    once, twice = summarize(arm(x), 0, 12).sd_interval, summarize(arm(x, x), 0, 12).sd_interval
    assert once is not None
    assert twice is not None
    assert [twice.low, twice.high] == pytest.approx([once.low, once.high], rel=0.03)
