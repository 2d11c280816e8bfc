"""Dependence, collapse, the floor: published examples, brute force, simulation."""

import numpy as np
import pytest

from seedspread.stats.collapse import detect_collapse, largest_gap, no_better
from seedspread.stats.dependence import effective_df, intraclass_correlation, twins
from seedspread.stats.floor import floor_from_accuracies, floor_from_predictions
from seedspread.stats.result import FailedRuns
from tests.stats.arms import arm, paper_arms


def test_the_intraclass_correlation_of_shrout_and_fleiss() -> None:
    """Their example of 1979: six targets, four judges; ICC(3,1) = 0.71, F = 11.03."""
    ratings = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    correlation, p = intraclass_correlation(ratings.astype(float))
    assert correlation == pytest.approx(0.71, abs=0.005)
    assert p == pytest.approx(0.0001, abs=0.0001)


def test_the_papers_twins_are_alike_under_clamp() -> None:
    clamp, subtract = (twins(a) for a in paper_arms())
    assert clamp is not None
    assert subtract is not None
    assert clamp.correlation == pytest.approx(0.81, abs=0.01)
    assert clamp.p is not None
    assert clamp.p < 0.01
    assert 6 < clamp.effective_df < 8
    assert subtract.p is not None
    assert subtract.p > 0.5


def test_identical_twins_are_counted() -> None:
    pairs = twins(arm([1.0, 2, 3, 4], [1.0, 2, 3, 4.5]))
    assert pairs is not None
    assert (pairs.seeds, pairs.identical) == (4, 3)
    copies = twins(arm([1.0, 2, 3], [1.0, 2, 3]))
    assert copies is not None
    assert (copies.identical, copies.correlation, copies.effective_df) == (3, 1.0, 2.0)
    assert twins(arm([1.0, 2, 3])) is None


def test_effective_degrees_of_freedom_by_simulation() -> None:
    """Var(s^2) = 2 sigma^4 / df defines them."""
    rng, n, r = np.random.default_rng(0), 7, 0.8
    values = np.sqrt(r) * rng.normal(size=(40_000, n, 1)) + np.sqrt(1 - r) * rng.normal(size=(40_000, n, 2))
    s2 = values.var(axis=1, ddof=1).mean(axis=1)
    assert effective_df(2 * (n - 1), 2, r) == pytest.approx(2 / s2.var(), rel=0.03)


def test_the_hard_svhn_runs_are_two_clusters() -> None:
    clamp, subtract = paper_arms("svhn-hard")
    cut, p = largest_gap(clamp.values)
    assert cut == pytest.approx((19.02 + 34.41) / 2)
    assert p is not None
    assert p < 0.05
    collapse = detect_collapse(clamp, subtract, "higher", None, 0.95, 100.0)
    assert collapse.found
    assert [(a.failed, a.seeds) for a in collapse.arms] == [(3, 5), (0, 5)]
    # Three of the six failures' places: C(5,3) C(5,0) / C(10,3) = 1/12, both tails.
    assert collapse.test is not None
    assert collapse.test.p == pytest.approx(1 / 6)


def test_values_near_chance_and_flags_are_failures() -> None:
    x, y = arm([10.2, 60, 61, 62]), arm([60.0, 61, 62, 63], name="b")
    assert not detect_collapse(x, y, "higher", None, 0.95, 100.0).found
    collapse = detect_collapse(x, y, "higher", 10.0, 0.95, 100.0)
    assert [a.failed for a in collapse.arms] == [1, 0]
    assert collapse.signs == (FailedRuns("a", "chance", 1, 4, 10.0),)


def test_the_floor_is_the_mean_covariance_of_pairs_of_examples() -> None:
    """Brute force over all pairs of different examples."""
    correct = np.random.default_rng(0).random((5, 40)) < np.linspace(0.3, 0.95, 40)
    floor = floor_from_predictions("a", correct)
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
        floors.append(floor_from_predictions("a", rng.random((10, 500)) < skill))
    remaining = np.array([f.remaining for f in floors])
    assert remaining.mean() == pytest.approx(spread**2, rel=0.15)
    inside = np.mean(
        [f.interval is not None and f.interval.low <= spread**2 <= f.interval.high for f in floors]
    )
    assert inside == pytest.approx(0.95, abs=0.05)


def test_the_bound_from_accuracies_is_binomial() -> None:
    floor = floor_from_accuracies("a", np.array([80.0, 80, 80, 80.4, 79.6]), 10_000, 100.0)
    assert floor.floor == pytest.approx(0.8 * 0.2 / 10_000 * 100**2)
    assert floor.is_bound
    assert floor.observed <= floor.floor


@pytest.mark.parametrize(("value", "failed"), [(10.9, 1), (11.5, 0)])
def test_near_chance_is_within_a_point(value: float, failed: int) -> None:
    collapse = detect_collapse(
        arm([value, 60, 61, 62]), arm([60.0, 61, 62, 63], name="b"), "higher", 10.0, 0.95, 100.0
    )
    assert collapse.found == bool(failed)


def test_which_runs_are_no_better_than_chance() -> None:
    accuracies, losses = np.array([0.105, 0.5, 0.05]), np.array([2.295, 0.4, 2.6])
    assert no_better(accuracies, 0.1, 0.5, 1.0).tolist() == [True, False, True]
    assert no_better(-losses, -2.3, -0.4, None).tolist() == [True, False, True]
    # Of a unit that says nothing, the scale is what the best run has gained.
    rewards = np.array([101.0, 300.0, 90.0])
    assert no_better(rewards, 100.0, 300.0, None).tolist() == [True, False, True]


def test_which_runs_have_failed_depends_on_the_direction() -> None:
    losses = arm([2.295, 0.4, 0.41, 2.6]), arm([0.4, 0.42, 0.43, 0.44], name="b")
    assert [a.failed for a in detect_collapse(*losses, "lower", 2.3, 0.95).arms] == [2, 0]
