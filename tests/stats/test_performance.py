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


@given(samples, samples)
@settings(max_examples=50)
def test_the_probability_of_improvement_is_mann_and_whitneys_u(x: list[float], y: list[float]) -> None:
    found = judge(arm(x), arm(y, name="b")).improvement
    assert found.value == pytest.approx(stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)))
    low, high = ends(found.interval)
    assert 0 <= low <= found.value <= high <= 1


@given(samples, samples, st.booleans())
@settings(max_examples=50)
def test_turning_the_arms_round_turns_every_answer(x: list[float], y: list[float], pairs: bool) -> None:
    one, other = judge(arm(x), arm(y), pairs=pairs), judge(arm(y), arm(x), pairs=pairs)
    assert one.improvement.value + other.improvement.value == pytest.approx(1)
    low, high = ends(one.improvement.interval)
    assert ends(other.improvement.interval) == pytest.approx([1 - high, 1 - low], abs=1e-6)
    for name in ("mean", "iqm", "worst"):
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
    assert down.improvement == up.improvement
    for name in ("mean", "iqm", "worst"):
        a, b = getattr(up, name).difference, getattr(down, name).difference
        assert a.value == pytest.approx(-b.value)
        assert (a.interval is None) == (b.interval is None)


@given(samples, samples)
@settings(max_examples=30)
def test_a_monotone_change_of_scale_leaves_the_probability_alone(x: list[float], y: list[float]) -> None:
    a, b = (arm(np.exp(np.array(v) / 5) + 3, name=n) for v, n in ((x, "a"), (y, "b")))
    found, expected = judge(a, b).improvement, judge(arm(x), arm(y, name="b")).improvement
    assert found.value == expected.value
    assert ends(found.interval) == pytest.approx(ends(expected.interval))


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


@given(st.lists(st.floats(-5, 5), min_size=12, max_size=12))
@settings(max_examples=30)
def test_the_interquartile_mean_is_scipys_where_quarters_are_whole(x: list[float]) -> None:
    found = judge(arm(x), arm(range(12))).iqm
    assert found.arm.value == pytest.approx(stats.trim_mean(x, 0.25))
    assert found.baseline.value == 5.5


def test_an_interquartile_mean_of_five_has_its_ends_in_part() -> None:
    """A quarter of five is one and a quarter: weights 0, 0.75, 1, 0.75, 0."""
    found = judge(arm([0.0, 1, 5, 7, 100]), arm(range(5))).iqm
    assert found.arm.value == pytest.approx((0.75 * 1 + 5 + 0.75 * 7) / 2.5)


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
    for name in ("mean", "iqm", "worst"):
        size, alone, copied = (
            np.ptp(ends(getattr(p, name).difference.interval)) for p in (once, apart, twice)
        )
        assert size < 0.7 * alone
        assert copied > 0.8 * size
    assert np.ptp(ends(once.improvement.interval)) < np.ptp(ends(apart.improvement.interval))
    assert ends(twice.mean.difference.interval) == pytest.approx(ends(once.mean.difference.interval))
    assert ends(twice.improvement.interval) == pytest.approx(ends(once.improvement.interval))


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
    assert single.improvement.interval is None
    assert single.mean.difference.value == -1.5
    flat = judge(arm([1.0, 1, 1]), arm([1.0, 1, 1], name="b"))
    assert flat.worst.difference.interval is None


@pytest.mark.soak
@pytest.mark.parametrize("design", [INDEPENDENT, PAIRS])
@pytest.mark.parametrize("shape", ["normal", "t5", "contaminated", "skewed"])
@pytest.mark.parametrize("n", [5, 7, 10, 20])
def test_intervals_cover_what_they_promise(design: Design, shape: str, n: int) -> None:
    """Of the differences at equal distributions: nothing, and one half; the docs have more conditions."""
    rng = np.random.default_rng(n)
    hits = dict.fromkeys(("mean", "iqm", "worst", "improvement"), 0)
    for _ in range(1000):
        found = judge(*simulate(design, shape, n, 1.0, rng))
        for name in hits:
            one = getattr(found, name)
            interval = one.interval if name == "improvement" else one.difference.interval
            hits[name] += (0.5 if name == "improvement" else 0.0) in interval
    assert min(hits.values()) >= 900, hits
