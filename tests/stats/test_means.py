"""The difference of means: scipy's t tests, and what must not change it."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.conditions import INDEPENDENT, PAIRS, Design, simulate
from seedspread.stats.classic import mean_difference
from seedspread.stats.result import Estimate
from tests.stats.groups import group_of

samples = st.lists(st.integers(-30, 30).map(float), min_size=3, max_size=9)


def ends(found: Estimate) -> list[float]:
    assert found.interval is not None
    return [found.interval.low, found.interval.high]


@given(samples, samples)
@settings(max_examples=40)
def test_the_interval_is_that_of_the_t_tests(x: list[float], y: list[float]) -> None:
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    n = min(len(x), len(y))
    assume(np.ptp(np.subtract(x[:n], y[:n])) > 0)
    expected = stats.ttest_rel(x[:n], y[:n]).confidence_interval()
    assert ends(mean_difference(group_of(x[:n]), group_of(y[:n]), 0.95)) == pytest.approx([*expected])
    expected = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    assert ends(mean_difference(group_of(x), group_of(y, first_seed=100), 0.95)) == pytest.approx([*expected])


@given(samples, samples)
@settings(max_examples=50)
def test_turning_the_groups_round_turns_the_sign(x: list[float], y: list[float]) -> None:
    one, other = (
        mean_difference(group_of(x), group_of(y), 0.95),
        mean_difference(group_of(y), group_of(x), 0.95),
    )
    assert one.value == pytest.approx(-other.value)
    assert (one.interval is None) == (other.interval is None)


def test_pairs_make_the_interval_narrower_and_copies_do_not() -> None:
    rng = np.random.default_rng(1)
    shared = rng.normal(size=12)
    x, y = shared + 0.2 * rng.normal(size=12) + 0.3, shared + 0.2 * rng.normal(size=12)
    once = mean_difference(group_of(x), group_of(y), 0.95)
    apart = mean_difference(group_of(x), group_of(y, first_seed=100), 0.95)
    twice = mean_difference(group_of(x, x + 5), group_of(y, y + 5), 0.95)
    assert np.ptp(ends(once)) < 0.7 * np.ptp(ends(apart))
    assert ends(twice) == pytest.approx(ends(once))


def test_what_has_no_interval_has_none() -> None:
    single = mean_difference(group_of([1.0]), group_of([2.0, 3.0], name="b"), 0.95)
    assert (single.value, single.interval) == (-1.5, None)
    assert mean_difference(group_of([1.0, 1, 1]), group_of([1.0, 1, 1], name="b"), 0.95).interval is None


@pytest.mark.soak
@pytest.mark.parametrize("design", [INDEPENDENT, PAIRS])
@pytest.mark.parametrize("shape", ["normal", "t5", "contaminated", "skewed"])
@pytest.mark.parametrize("n", [5, 7, 10, 20])
def test_intervals_cover_what_they_promise(design: Design, shape: str, n: int) -> None:
    """Of the differences at equal distributions: nothing; the docs have more conditions."""
    rng = np.random.default_rng(n)
    found = [mean_difference(*simulate(design, shape, n, 1.0, rng), 0.95).interval for _ in range(1000)]
    assert sum(interval is not None and 0.0 in interval for interval in found) >= 900
