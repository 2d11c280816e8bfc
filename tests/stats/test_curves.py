"""Curves: mean and sd by step, against numpy, scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from seedspread.stats.seed_summaries import curve_over_seeds


def test_equal_steps_have_the_mean_and_sd_of_numpy() -> None:
    grid, values = np.arange(5.0), np.random.default_rng(0).normal(size=(7, 5))
    found = curve_over_seeds(np.arange(7), [(grid, row) for row in values], grid, 0.9)
    assert found.mean == pytest.approx(values.mean(axis=0))
    assert found.sd == pytest.approx(values.std(axis=0, ddof=1))
    test = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert [found.mean_low, found.mean_high] == [pytest.approx(test.low), pytest.approx(test.high)]
    low, high = (6 * values.var(axis=0, ddof=1) / stats.chi2.ppf(p, 6) for p in (0.95, 0.05))
    assert [found.sd_low**2, found.sd_high**2] == [pytest.approx(low), pytest.approx(high)]


def test_a_run_is_interpolated_between_its_steps_and_ends_with_them() -> None:
    runs = [(np.array([0.0, 10.0]), np.array([0.0, 1.0])), (np.array([5.0, 20.0]), np.array([3.0, 6.0]))]
    found = curve_over_seeds(np.arange(2), runs, np.array([0.0, 5.0, 10.0, 20.0]), 0.95)
    assert found.n.tolist() == [1, 2, 2, 1]
    assert found.mean == pytest.approx([0, 1.75, 2.5, 6])
    assert np.isnan(found.sd).tolist() == [True, False, False, True]


def test_runs_of_one_seed_are_averaged_where_all_reach_a_step() -> None:
    grid = np.array([0.0, 1.0])
    runs = [(grid, np.array([1.0, 1.0])), (grid[:1], np.array([3.0])), (grid, np.array([6.0, 6.0]))]
    found = curve_over_seeds(np.array([0, 0, 1]), runs, grid, 0.95)
    assert (found.n.tolist(), found.mean.tolist()) == ([2, 1], [4, 6])
