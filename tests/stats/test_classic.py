"""Tests of two groups against scipy, statsmodels, R and printed numbers."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from seedspread.stats.classic import (
    deviations_test,
    f_test,
    pitman_morgan,
    seed_jackknife,
    seed_means_test,
    shapiro,
    two_way,
    welch,
)
from seedspread.stats.groups import runs_per_seed
from tests.stats.groups import group_of, paper_groups


def test_the_f_test_gives_the_papers_numbers() -> None:
    test = f_test(*paper_groups(), 0.95, True, True)
    assert test.estimate == pytest.approx(5.90, abs=0.005)
    assert test.p == pytest.approx(0.003, abs=0.0005)
    assert test.df == (13, 13)


def test_the_f_interval_is_the_set_of_ratios_that_are_not_rejected() -> None:
    x, y = paper_groups()
    interval = f_test(x, y, 0.95, None, None).interval
    assert interval is not None
    for end in (interval.low, interval.high):
        scaled = group_of(x.values / end**0.5)
        assert f_test(scaled, y, 0.95, None, None).p == pytest.approx(0.05)


def test_the_f_test_does_not_care_which_arm_comes_first() -> None:
    x, y = paper_groups("svhn")
    one, other = f_test(x, y, 0.95, None, None), f_test(y, x, 0.95, None, None)
    assert one.p == pytest.approx(other.p)
    assert one.estimate is not None
    assert other.estimate == pytest.approx(1 / one.estimate)


@pytest.mark.parametrize(("center", "middle"), [("mean", np.mean), ("median", np.median)])
def test_levene_is_an_analysis_of_variance_of_deviations(center: str, middle: object) -> None:
    x, y = paper_groups()
    deviations = [np.abs(v.values - middle(v.values)) for v in (x, y)]  # type: ignore[operator]
    expected = stats.f_oneway(*deviations)
    test = deviations_test(x, y, center, None)
    assert test.statistic == pytest.approx(expected.statistic)
    assert test.p == pytest.approx(expected.pvalue)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(2, 9), min_size=4, max_size=6), st.integers(0, 10**6))
def test_the_two_way_analysis_is_statsmodels_type_ii_for_any_cell_sizes(sizes: list[int], seed: int) -> None:
    sizes = sizes[: len(sizes) // 2 * 2]
    blocks = len(sizes) // 2
    rng = np.random.default_rng(seed)
    cells = [(k // blocks, k % blocks, rng.gamma(2.0, size=n)) for k, n in enumerate(sizes)]
    table = pd.DataFrame([{"a": a, "b": b, "v": v} for a, b, values in cells for v in values])
    expected = sm.stats.anova_lm(smf.ols("v ~ C(a) * C(b)", table).fit(), typ=2)
    effects = two_way(cells)
    assert not isinstance(effects, str)
    for (f, df), (_, row) in zip(effects, expected.iterrows(), strict=False):
        assert f == pytest.approx(row["F"], rel=1e-6, abs=1e-9)
        assert df[0] == row["df"]


def test_welch_is_statsmodels() -> None:
    x, y = paper_groups("cifar10-low")
    test = welch(x, y, 0.95, None)
    both = CompareMeans(DescrStatsW(x.values), DescrStatsW(y.values))
    t, p, df = both.ttest_ind(usevar="unequal")
    assert test.statistic == pytest.approx(t)
    assert test.p == pytest.approx(p)
    assert test.df[0] == pytest.approx(df)
    assert test.interval is not None
    low, high = both.tconfint_diff(usevar="unequal")
    assert test.interval.low == pytest.approx(low)
    assert test.interval.high == pytest.approx(high)


def test_shapiro_gives_the_papers_numbers() -> None:
    clamp, subtract = (shapiro(a) for a in paper_groups())
    assert clamp.statistic == pytest.approx(0.9513, abs=5e-5)
    assert clamp.p == pytest.approx(0.5816, abs=5e-5)
    assert subtract.statistic == pytest.approx(0.9516, abs=5e-5)
    assert subtract.p == pytest.approx(0.5853, abs=5e-5)


def test_where_there_is_no_spread_there_is_a_sentence() -> None:
    flat, other = group_of([1.0, 1, 1]), group_of([1.0, 2, 3])
    for test in (f_test(flat, other, 0.95, None, None), shapiro(flat), welch(flat, flat, 0.95, None)):
        assert test.p is None
        assert test.note


def test_levene_of_two_runs_is_refused() -> None:
    assert "three" in deviations_test(group_of([1.0, 2]), group_of([1.0, 5, 2]), "mean", None).note


values = st.lists(st.integers(-1000, 1000), min_size=5, max_size=12, unique=True)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=4, max_size=15))
def test_pitman_morgan_is_the_correlation_of_sums_and_differences(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    if min(np.ptp(x), np.ptp(y), np.ptp(x + y), np.ptp(x - y)) == 0 or abs(np.corrcoef(x, y)[0, 1]) > 0.999:
        return
    expected = stats.pearsonr(x + y, x - y)
    test = pitman_morgan(group_of(x), group_of(y), 0.95)
    assert test.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-9)


def test_pitman_morgans_interval_is_the_set_of_ratios_that_are_not_rejected() -> None:
    x, y = paper_groups("svhn")
    interval = pitman_morgan(x, y, 0.95).interval
    assert interval is not None
    for end in (interval.low, interval.high):
        assert pitman_morgan(group_of(x.values / end**0.5), y, 0.95).p == pytest.approx(0.05)


def test_the_seed_jackknife_leaves_out_whole_seeds() -> None:
    """By brute force: every seed deleted with its runs, everything computed anew."""
    x, y = paper_groups()

    def log_variance(cells: list[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> float:
        squares = sum(((c - c.mean()) ** 2).sum() for c in cells)
        return float(np.log(squares / sum(len(c) - 1 for c in cells)))

    parts = []
    for one in (x, y):
        cells = list(one.cells.values())
        left = np.array([log_variance([np.delete(c, i) for c in cells]) for i in range(7)])
        parts.append((log_variance(cells), 6 / 7 * ((left - left.mean()) ** 2).sum()))
    (a, va), (b, vb) = parts
    df = (va + vb) ** 2 / (va**2 / 6 + vb**2 / 6)
    p = 2 * stats.t.sf(abs(a - b) / (va + vb) ** 0.5, df)
    test = seed_jackknife(x, y, 0.95)
    assert test.estimate == pytest.approx(np.exp(a - b))
    assert test.p == pytest.approx(p)
    assert test.df[0] == pytest.approx(df)


def test_copies_of_runs_add_nothing_to_the_jackknife() -> None:
    x, y = [1.0, 2, 4, 8, 3], [1.0, 2, 2, 3, 4]
    once, twice = (
        seed_jackknife(group_of(x), group_of(y), 0.95),
        seed_jackknife(group_of(x, x), group_of(y, y), 0.95),
    )
    assert once.p == pytest.approx(twice.p)


@settings(max_examples=50, deadline=None)
@given(values, values, st.floats(0.1, 10), st.floats(-50, 50))
def test_the_jackknife_knows_no_units(x: list[float], y: list[float], scale: float, shift: float) -> None:
    plain = seed_jackknife(group_of(x), group_of(y), 0.95)
    moved = seed_jackknife(group_of(np.array(x) * scale + shift), group_of(np.array(y) * scale), 0.95)
    if plain.p is not None:
        assert moved.p == pytest.approx(plain.p, rel=1e-5, abs=1e-9)
        assert moved.estimate == pytest.approx(plain.estimate, rel=1e-5)


@pytest.mark.parametrize("n", [2, 1])
def test_too_few_seeds_get_a_sentence(n: int) -> None:
    few, many = group_of([1.0, 3][:n]), group_of([1.0, 2, 5, 4, 3])
    for test in (
        seed_jackknife(few, many, 0.95),
        pitman_morgan(few, many, 0.95),
    ):
        assert test.p is None
        assert test.note


def test_means_of_shared_seeds_are_compared_in_pairs() -> None:
    x, y = paper_groups("svhn")
    expected = stats.ttest_rel(x.values, y.values)
    test = seed_means_test(x, y, 0.95)
    assert test.name.startswith("paired")
    assert test.p == pytest.approx(expected.pvalue)
    apart = seed_means_test(x, group_of(y.values, first_seed=90), 0.95)
    assert apart.p == pytest.approx(stats.ttest_ind(x.values, y.values, equal_var=False).pvalue)


def test_a_run_alone_in_its_cell_counts_for_nothing_in_the_jackknife() -> None:
    x, y = [1.0, 2, 4, 8, 3], [1.0, 2, 2, 3, 4]
    with_single = group_of(x, [100.0])
    assert seed_jackknife(with_single, group_of(y), 0.95).p == pytest.approx(
        seed_jackknife(group_of(x), group_of(y), 0.95).p
    )


def test_runs_per_seed_are_those_of_an_average_run() -> None:
    """Three seeds with two runs and two with one: a run has (3 * 4 + 2) / 8 runs of its seed on average."""
    assert runs_per_seed(group_of([1.0, 2, 3, 4, 5], [2.0, 1, 4])) == pytest.approx(14 / 8)
    assert runs_per_seed(group_of([1.0, 2, 3, 4, 5])) == 1
