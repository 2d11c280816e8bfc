"""Bounds and tests from past runs: against published factors, scipy, and by simulation."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.conditions import QUANTILES
from seedspread.stats.tolerance import (
    MeanTest,
    bound,
    fewest_runs,
    order_rank,
    tolerance_factor,
)


@pytest.mark.parametrize(
    ("n", "share", "confidence", "factor"),
    [
        (5, 0.05, 0.95, 4.203),  # M. G. Natrella, Experimental Statistics (1963), table A-7
        (10, 0.05, 0.95, 2.911),
        (30, 0.05, 0.95, 2.220),
        (10, 0.01, 0.95, 3.981),
        (43, 0.10, 0.99, 1.8740),  # NIST/SEMATECH e-Handbook of Statistical Methods, 7.2.6.3
    ],
)
def test_factors_are_the_published_ones(n: int, share: float, confidence: float, factor: float) -> None:
    assert tolerance_factor(n, share, confidence) == pytest.approx(factor, abs=6e-4)


def test_a_distribution_free_bound_takes_59_runs_and_299_for_1_per_cent() -> None:
    assert (fewest_runs(0.05, 0.95), fewest_runs(0.01, 0.95)) == (59, 299)
    assert [order_rank(n, 0.05, 0.95) for n in (58, 59, 92, 93, 124)] == [0, 1, 1, 2, 3]  # Wilks (1941)


@pytest.mark.parametrize("n", [5, 30, 60])
def test_the_bound_holds_with_its_confidence_on_normal_values(n: int) -> None:
    rng = np.random.default_rng(n)
    found = [bound(rng.standard_normal(n), 0.05, 0.95) for _ in range(1000)]
    held = np.mean([one is not None and stats.norm.cdf(one.value) <= 0.05 for one in found])
    assert held >= 0.93
    assert {one.method for one in found if one} <= {"order statistics"} if n >= 59 else {"normal", "lowered"}


def test_values_that_are_not_normal_lower_the_bound_to_the_worst_of_them() -> None:
    values = np.array([*np.linspace(0.9, 0.91, 20), 0.5])
    found = bound(values, 0.05, 0.95)
    assert found is not None
    assert (found.method, found.value <= 0.5) == ("lowered", True)
    assert bound(np.full(10, 0.9), 0.05, 0.95) is None


def test_the_test_of_means_is_the_t_test_and_of_one_run_the_prediction_interval() -> None:
    rng = np.random.default_rng(0)
    past, new = rng.standard_normal(12), rng.standard_normal(4) - 1
    test = MeanTest(past, new, 0.05)
    expected = stats.ttest_ind(new, past, alternative="less")
    assert test.p_below() == pytest.approx(expected.pvalue)
    assert test.p_above() == pytest.approx(1 - expected.pvalue)
    shifted = stats.ttest_ind(new + 0.5, past, alternative="less").pvalue
    assert test.p_below(-0.5) == pytest.approx(shifted)
    one = past.mean() - stats.t.isf(0.05, 11) * past.std(ddof=1) * (1 + 1 / 12) ** 0.5
    assert MeanTest(past, np.array([one]), 0.05).p_below() == pytest.approx(0.05)


def test_the_permutation_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(1)
    past = -rng.exponential(size=25)
    past[:3] -= 3.0
    new = past[:2] + 0.1
    test = MeanTest(past, new, 0.05)
    assert test.permutes
    expected = stats.permutation_test(
        (new, past), lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
        vectorized=True, n_resamples=np.inf, alternative="less",
    )  # fmt: skip
    assert test.p_below() == pytest.approx(expected.pvalue, abs=0.005)
    lower = int(np.sum(past <= new[0]))
    assert MeanTest(past, new[:1], 0.05).p_below() == pytest.approx((1 + lower) / 26)


@pytest.mark.parametrize("shape", ["normal", "t5"])
@pytest.mark.parametrize(("n", "k"), [(5, 1), (10, 3), (30, 1)])
def test_healthy_runs_rarely_fail(shape: str, n: int, k: int) -> None:
    """Goal: 1.2 times the level; here with three standard errors."""
    rng = np.random.default_rng([n, k])
    values = QUANTILES[shape](rng.random((800, n + k)))
    p = np.array([MeanTest(row[:n], row[n:], 0.05).p_below() for row in values])
    assert np.mean(p < 0.05) < 1.2 * 0.05 + 3 * (0.05 * 0.95 / 800) ** 0.5
