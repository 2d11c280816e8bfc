"""Test-set noise: brute force, simulation and the binomial bound."""

import numpy as np
import pytest

from seedspread.stats.seed_summaries import noise_from_accuracies, noise_from_predictions


def test_the_floor_is_the_mean_covariance_of_pairs_of_examples() -> None:
    """Brute force over all pairs of different examples."""
    correct = np.random.default_rng(0).random((5, 40)) < np.linspace(0.3, 0.95, 40)
    floor = noise_from_predictions("a", correct)
    covariances = np.cov(correct.T.astype(float))
    off = covariances[~np.eye(40, dtype=bool)].mean()
    assert floor.remaining == pytest.approx(off)
    assert floor.observed == pytest.approx(correct.mean(axis=1).var(ddof=1))
    assert floor.observed == pytest.approx(floor.floor + off)


def test_the_floor_finds_the_true_spread_of_simulated_runs() -> None:
    rng, spread = np.random.default_rng(1), 0.02
    floors = []
    for _ in range(300):
        skill = rng.normal(0.8, spread, size=(10, 1))
        floors.append(noise_from_predictions("a", rng.random((10, 500)) < skill))
    remaining = np.array([f.remaining for f in floors])
    assert remaining.mean() == pytest.approx(spread**2, rel=0.15)
    inside = np.mean(
        [f.interval is not None and f.interval.low <= spread**2 <= f.interval.high for f in floors]
    )
    assert inside == pytest.approx(0.95, abs=0.05)


def test_the_bound_from_accuracies_is_binomial() -> None:
    floor = noise_from_accuracies("a", np.array([80.0, 80, 80, 80.4, 79.6]), 10_000, 100.0)
    assert floor.floor == pytest.approx(0.8 * 0.2 / 10_000 * 100**2)
    assert floor.is_bound
    assert floor.observed <= floor.floor
