"""Same-seed runs and unequal cells: published examples, scipy, simulation."""

import numpy as np
import pytest
from scipy import stats

from seedspread.stats.groups import (
    are_dependent,
    are_opposed,
    bartlett_p,
    effective_df,
    intraclass_correlation,
    same_seed_runs,
    unequal_cells,
)
from tests.stats.groups import group_of, paper_groups


def test_the_intraclass_correlation_of_shrout_and_fleiss() -> None:
    """Their example of 1979: six targets, four judges; ICC(3,1) = 0.71, F = 11.03."""
    ratings = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]])
    correlation, p = intraclass_correlation(ratings.astype(float))
    assert correlation == pytest.approx(0.71, abs=0.005)
    assert p == pytest.approx(0.0001, abs=0.0001)


def test_the_papers_twins_are_alike_under_clamp() -> None:
    clamp, subtract = (same_seed_runs(a) for a in paper_groups())
    assert clamp is not None
    assert subtract is not None
    assert clamp.correlation == pytest.approx(0.81, abs=0.01)
    assert clamp.p is not None
    assert clamp.p < 0.01
    assert 6 < clamp.effective_df < 8
    assert subtract.p is not None
    assert subtract.p > 0.5


def test_identical_twins_are_counted() -> None:
    pairs = same_seed_runs(group_of([1.0, 2, 3, 4], [1.0, 2, 3, 4.5]))
    assert pairs is not None
    assert (pairs.seeds, pairs.identical) == (4, 3)
    copies = same_seed_runs(group_of([1.0, 2, 3], [1.0, 2, 3]))
    assert copies is not None
    assert (copies.identical, copies.correlation, copies.effective_df) == (3, 1.0, 2.0)
    assert same_seed_runs(group_of([1.0, 2, 3])) is None


@pytest.mark.parametrize("shared", [-0.9, 0.0, 0.9])
def test_same_seed_runs_may_be_opposed(shared: float) -> None:
    """Pearson's two-sided test of two blocks says the same."""
    rng = np.random.default_rng(4)
    opposed, significant = [], []
    for x, z in rng.normal(size=(300, 2, 9)):
        y = shared * x + (1 - shared**2) ** 0.5 * z
        pairs = same_seed_runs(group_of(x, y))
        assert pairs is not None
        opposed.append(are_opposed(pairs))
        pearson = stats.pearsonr(x, y)
        significant.append(pearson.statistic < 0 and pearson.pvalue < 0.05)
        assert are_dependent(pairs) or not opposed[-1]
    assert np.mean(opposed) == pytest.approx(np.mean(significant), abs=0.02)


def test_effective_degrees_of_freedom_by_simulation() -> None:
    """Var(s^2) = 2 sigma^4 / df defines them."""
    rng, n, r = np.random.default_rng(0), 7, 0.8
    values = np.sqrt(r) * rng.normal(size=(40_000, n, 1)) + np.sqrt(1 - r) * rng.normal(size=(40_000, n, 2))
    s2 = values.var(axis=1, ddof=1).mean(axis=1)
    assert effective_df(2 * (n - 1), 2, r) == pytest.approx(2 / s2.var(), rel=0.03)


RNG = np.random.default_rng(11)
LIKE = RNG.normal(size=(2, 3, 8))


def test_bartletts_test_is_scipys() -> None:
    cells = [RNG.normal(size=n) * s for n, s in ((5, 1.0), (8, 3.0), (12, 0.4))]
    variances, df = (
        np.array([f(c) for c in cells]) for f in (lambda c: c.var(ddof=1), lambda c: len(c) - 1.0)
    )
    assert bartlett_p(variances, df) == pytest.approx(stats.bartlett(*cells).pvalue)


def test_like_cells_get_no_warning() -> None:
    assert not unequal_cells(group_of(*LIKE[0]), group_of(*LIKE[1]))
    assert not unequal_cells(*paper_groups())
    assert not unequal_cells(*paper_groups("svhn"))


def test_a_warning_has_the_ends() -> None:
    scales = np.array([0.15, 3.0, 120.0])[:, None]
    x, y = group_of(*(scales * LIKE[0]), name="clamp"), group_of(*(2 * scales * LIKE[1]), name="subtract")
    found = unequal_cells(x, y)
    low, high = (c.var(ddof=1) for c in (x.cells[0], x.cells[2]))
    first = found[0]
    assert (first.low, first.high) == pytest.approx((low, high))
    assert (first.low_block, first.high_block) == (("0",), ("2",))
    assert [span.group for span in found] == ["clamp", "subtract"]


def test_one_arm_is_enough() -> None:
    found = unequal_cells(
        group_of(*(np.array([[1.0], [1.0], [50.0]]) * LIKE[0])), group_of(*LIKE[1], name="b")
    )
    assert [span.group for span in found] == ["a"]


def test_tenfold_by_chance_is_no_warning() -> None:
    """Of normal cells of two runs, the largest variance is often a hundred times the smallest."""
    draws = np.random.default_rng(3).normal(size=(400, 2, 4, 2))
    assert sum(bool(unequal_cells(group_of(*x), group_of(*y))) for x, y in draws) <= 4


def test_a_cell_of_equal_values_is_only_rounded() -> None:
    """Whole per cents: a cell of three equal ones is no cell without variance."""
    x, y = group_of([78.0, 78, 78], [77.0, 78, 79]), group_of([78.0, 79, 78], [77.0, 78, 79])
    assert not unequal_cells(x, y)
    exact = group_of([78.0] * 6, list(RNG.normal(78, 5, size=6)))
    found = unequal_cells(exact, group_of([78.0] * 6, list(RNG.normal(78, 5, size=6))))
    assert (found[0].low, found[0].low_block) == (0, ("0",))
