"""Test-set noise: brute force, simulation and the binomial bound."""

import math

import numpy as np
import pytest
from scipy.stats import f

from seedspread.stats.result import TestSetNoise
from seedspread.stats.seed_summaries import net_ratio, noise_from_accuracies, noise_from_predictions


def test_the_floor_is_the_mean_covariance_of_pairs_of_examples() -> None:
    """Brute force over all pairs of different examples."""
    correct = np.random.default_rng(0).random((5, 40)) < np.linspace(0.3, 0.95, 40)
    floor = noise_from_predictions("a", correct)
    covariances = np.cov(correct.T.astype(float))
    off = covariances[~np.eye(40, dtype=bool)].mean()
    assert floor.remaining == pytest.approx(off)
    assert floor.observed == pytest.approx(correct.mean(axis=1).var(ddof=1))
    assert floor.observed == pytest.approx(floor.explained + off)


def test_the_floor_finds_the_true_spread_of_simulated_runs() -> None:
    rng, spread = np.random.default_rng(1), 0.02
    floors = []
    for _ in range(300):
        skill = rng.normal(0.8, spread, size=(10, 1))
        floors.append(noise_from_predictions("a", rng.random((10, 500)) < skill))
    remaining = np.array([one.remaining for one in floors])
    assert remaining.mean() == pytest.approx(spread**2, rel=0.15)
    inside = np.mean([one.interval is not None and spread**2 in one.interval for one in floors])
    assert inside == pytest.approx(0.95, abs=0.05)


def test_the_bound_from_accuracies_is_binomial() -> None:
    floor = noise_from_accuracies("a", np.array([80.0, 80, 80, 80.4, 79.6]), 10_000, 100.0)
    assert floor.explained == pytest.approx(0.8 * 0.2 / 10_000 * 100**2)
    assert floor.is_bound
    assert floor.observed <= floor.explained


def _noise(observed: float, floor: float, runs: int = 24) -> TestSetNoise:
    return TestSetNoise("a", 10_000, observed, floor, False, observed - floor, None, runs)


def test_without_test_set_noise_the_net_ratio_is_that_of_the_f_distribution() -> None:
    found = net_ratio(_noise(3.0, 0.0, 11), _noise(1.0, 0.0, 21))
    low, high = 3 / f.ppf([0.975, 0.025], 10, 20)
    assert found is not None
    assert found.interval is not None
    assert (found.value, found.interval.low, found.interval.high) == pytest.approx((3, low, high), rel=2e-3)


def test_the_net_ratio_has_the_quantiles_of_drawn_pivots() -> None:
    """The recipe of Weerahandi as he has it, by drawing."""
    rng, first, second = np.random.default_rng(0), _noise(1.0, 0.5), _noise(2.1, 0.45)
    drawn = [s.observed * 23 / rng.chisquare(23, 400_000) - s.explained for s in (first, second)]
    low, high = np.quantile(np.maximum(drawn[0], 0) / np.maximum(drawn[1], 1e-12), [0.025, 0.975])
    found = net_ratio(first, second)
    assert found is not None
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), rel=0.03)


def test_a_variance_that_the_test_set_may_account_for_leaves_an_end_of_the_net_ratio_open() -> None:
    nothing, much = _noise(1.0, 1.1), _noise(4.0, 1.0)
    over, under, neither = net_ratio(much, nothing), net_ratio(nothing, much), net_ratio(nothing, nothing)
    assert over is not None
    assert over.interval is not None
    assert (over.value, over.interval.high) == (math.inf, math.inf)
    assert under is not None
    assert under.interval is not None
    assert (under.value, under.interval.low) == (0, 0)
    assert neither is None
    bound = noise_from_accuracies("a", np.array([80.0, 81.0]), 100, 100.0)
    assert net_ratio(bound, much) is None
