"""Failed runs and two clusters: the published runs, chance levels and directions."""

import numpy as np
import pytest

from seedspread.stats.failures import failures, largest_gap, no_better
from seedspread.stats.result import FailedRuns
from tests.stats.groups import group_of, paper_groups


def test_the_hard_svhn_runs_are_two_clusters() -> None:
    clamp, subtract = paper_groups("svhn-hard")
    cut, p = largest_gap(clamp.values)
    assert cut == pytest.approx((19.02 + 34.41) / 2)
    assert p is not None
    assert p < 0.05
    found = failures(clamp, subtract, "higher", None, 0.95, 100.0)
    assert found is not None
    assert (found.kind, found.failed, found.seeds) == ("clusters", (3, 0), (5, 5))
    # Three of the six failures' places: C(5,3) C(5,0) / C(10,3) = 1/12, both tails.
    assert found.p == pytest.approx(1 / 6)


def test_values_near_chance_and_flags_are_failures() -> None:
    x, y = group_of([10.2, 60, 61, 62]), group_of([60.0, 61, 62, 63], name="b")
    assert not failures(x, y, "higher", None, 0.95, 100.0)
    found = failures(x, y, "higher", 10.0, 0.95, 100.0)
    assert found is not None
    assert found.failed == (1, 0)
    assert found.signs == (FailedRuns("a", "chance", 1, 4, 10.0),)


@pytest.mark.parametrize(("value", "failed"), [(10.9, 1), (11.5, 0)])
def test_near_chance_is_within_a_point(value: float, failed: int) -> None:
    found = failures(
        group_of([value, 60, 61, 62]), group_of([60.0, 61, 62, 63], name="b"), "higher", 10.0, 0.95, 100.0
    )
    assert bool(found) == bool(failed)


def test_which_runs_are_no_better_than_chance() -> None:
    accuracies, losses = np.array([0.105, 0.5, 0.05]), np.array([2.295, 0.4, 2.6])
    assert no_better(accuracies, 0.1, 0.5, 1.0).tolist() == [True, False, True]
    assert no_better(-losses, -2.3, -0.4, None).tolist() == [True, False, True]
    # Of a unit that says nothing, the scale is what the best run has gained.
    rewards = np.array([101.0, 300.0, 90.0])
    assert no_better(rewards, 100.0, 300.0, None).tolist() == [True, False, True]


def test_which_runs_have_failed_depends_on_the_direction() -> None:
    losses = group_of([2.295, 0.4, 0.41, 2.6]), group_of([0.4, 0.42, 0.43, 0.44], name="b")
    found = failures(*losses, "lower", 2.3, 0.95)
    assert found is not None
    assert found.failed == (2, 0)
