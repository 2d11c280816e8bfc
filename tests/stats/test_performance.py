"""Which arm is better: scipy's answers, brute force, and what must not change the result."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.conditions import INDEPENDENT, PAIRS, Design, simulate
from seedspread.stats.groups import Floats, Group
from seedspread.stats.performance import performance
from seedspread.stats.result import Better, Interval, Performance
from tests.stats.arms import arm

HIGHER: Better = "higher"
LOWER: Better = "lower"
samples = st.lists(st.integers(-30, 30).map(float), min_size=3, max_size=9)


def judge(x: Group, y: Group, better: Better = HIGHER, pairs: bool = True) -> Performance:
    return performance(x, y, better, 0.95, pairs)


def ends(interval: Interval | None) -> list[float]:
    assert interval is not None
    return [interval.low, interval.high]


@given(samples, samples, st.booleans())
@settings(max_examples=50)
def test_turning_the_arms_round_turns_every_answer(x: list[float], y: list[float], pairs: bool) -> None:
    one, other = judge(arm(x), arm(y), pairs=pairs), judge(arm(y), arm(x), pairs=pairs)
    for name in ("mean", "worst"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.arm == b.baseline
        assert a.difference.value == pytest.approx(-b.difference.value)


@given(samples, samples)
@settings(max_examples=50)
def test_a_direction_is_a_sign(x: list[float], y: list[float]) -> None:
    """Of negated values of which lower is better all the same is said."""
    first, second = arm(x), arm(y, name="b")
    up = judge(first, second)
    down = judge(replace(first, values=-first.values), replace(second, values=-second.values), LOWER)
    for name in ("mean", "worst"):
        a, b = getattr(up, name).difference, getattr(down, name).difference
        assert a.value == pytest.approx(-b.value)
        assert (a.interval is None) == (b.interval is None)


@given(samples, samples)
@settings(max_examples=40)
def test_the_means_interval_is_that_of_the_t_tests(x: list[float], y: list[float]) -> None:
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    n = min(len(x), len(y))
    assume(np.ptp(np.subtract(x[:n], y[:n])) > 0)
    paired = judge(arm(x[:n]), arm(y[:n]))
    assert paired.pairs == n
    expected = stats.ttest_rel(x[:n], y[:n]).confidence_interval()
    assert ends(paired.mean.difference.interval) == pytest.approx([expected.low, expected.high])
    apart = judge(arm(x), arm(y, first_seed=100))
    assert apart.pairs == 0
    expected = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    assert ends(apart.mean.difference.interval) == pytest.approx([expected.low, expected.high])


def worst(values: Floats) -> float:
    """By its definition: a tenth of the runs' weight, from the lowest on."""
    left, total = len(values) / 10, 0.0
    for value in np.sort(values):
        total += min(left, 1) * value
        left = max(left - 1, 0)
    return total / (len(values) / 10)


@pytest.mark.parametrize("n", [3, 10, 15, 20, 37])
def test_the_worst_tenth_is_the_mean_of_the_worst_runs(n: int) -> None:
    x = np.random.default_rng(n).normal(size=n)
    found = judge(arm(x), arm(-x))
    assert found.worst.arm.value == pytest.approx(worst(x))
    assert found.worst.baseline.value == pytest.approx(worst(-x))
    assert found.worst_of == n
    assert judge(arm(x), arm(-x), LOWER).worst.arm.value == pytest.approx(-worst(-x))
    if n <= 10:
        assert found.worst.arm.value == x.min()


def test_more_runs_are_not_worse_for_being_more() -> None:
    """The worst of 14 runs is judged as that of 12 of them, on average over all choices."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=14), rng.normal(size=12)
    found = judge(arm(x), arm(y, first_seed=50))
    expected = np.mean([worst(np.array(some)) for some in combinations(x, 12)])
    assert found.worst_of == 12
    assert found.worst.arm.value == pytest.approx(expected)
    assert found.worst.baseline.value == pytest.approx(worst(y))


def test_pairs_make_intervals_narrower_and_copies_do_not() -> None:
    rng = np.random.default_rng(1)
    shared = rng.normal(size=12)
    x, y = shared + 0.2 * rng.normal(size=12) + 0.3, shared + 0.2 * rng.normal(size=12)
    once = judge(arm(x), arm(y))
    apart, twice = judge(arm(x), arm(y), pairs=False), judge(arm(x, x + 5), arm(y, y + 5))
    for name in ("mean", "worst"):
        size, alone, copied = (
            np.ptp(ends(getattr(p, name).difference.interval)) for p in (once, apart, twice)
        )
        assert size < 0.7 * alone
        assert copied > 0.8 * size
    assert ends(twice.mean.difference.interval) == pytest.approx(ends(once.mean.difference.interval))


def test_many_seeds_are_left_out_in_groups() -> None:
    x, y = np.random.default_rng(2).normal(size=(2, 1000))
    found = judge(arm(x + 0.1), arm(y))
    expected = stats.ttest_rel(x + 0.1, y).confidence_interval()
    half = (expected.high - expected.low) / 2
    assert ends(found.mean.difference.interval) == pytest.approx(
        [expected.low, expected.high], abs=0.25 * half
    )


def test_what_has_no_interval_says_so() -> None:
    single = judge(arm([1.0]), arm([2.0, 3.0], name="b"))
    assert single.mean.difference.interval is None
    assert single.mean.difference.value == -1.5
    flat = judge(arm([1.0, 1, 1]), arm([1.0, 1, 1], name="b"))
    assert flat.worst.difference.interval is None


@pytest.mark.soak
@pytest.mark.parametrize("design", [INDEPENDENT, PAIRS])
@pytest.mark.parametrize("shape", ["normal", "t5", "contaminated", "skewed"])
@pytest.mark.parametrize("n", [5, 7, 10, 20])
def test_intervals_cover_what_they_promise(design: Design, shape: str, n: int) -> None:
    """Of the differences at equal distributions: nothing; the docs have more conditions."""
    rng = np.random.default_rng(n)
    hits = dict.fromkeys(("mean", "worst"), 0)
    for _ in range(1000):
        found = judge(*simulate(design, shape, n, 1.0, rng))
        for name in hits:
            hits[name] += 0.0 in getattr(found, name).difference.interval
    assert min(hits.values()) >= 900, hits
