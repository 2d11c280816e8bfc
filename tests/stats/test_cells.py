"""Cells of unlike variance: Bartlett's test against scipy's, and when there is a warning."""

import numpy as np
import pytest
from scipy import stats

from seedspread.stats.cells import bartlett_p, unlike_cells
from tests.stats.arms import arm, paper_arms

RNG = np.random.default_rng(11)
LIKE = RNG.normal(size=(2, 3, 8))


def test_bartletts_test_is_scipys() -> None:
    cells = [RNG.normal(size=n) * s for n, s in ((5, 1.0), (8, 3.0), (12, 0.4))]
    variances, df = (
        np.array([f(c) for c in cells]) for f in (lambda c: c.var(ddof=1), lambda c: len(c) - 1.0)
    )
    assert bartlett_p(variances, df) == pytest.approx(stats.bartlett(*cells).pvalue)


def test_like_cells_get_no_warning() -> None:
    assert unlike_cells(arm(*LIKE[0]), arm(*LIKE[1])) is None
    assert unlike_cells(*paper_arms()) is None
    assert unlike_cells(*paper_arms("svhn")) is None


def test_a_warning_has_the_ends_and_the_ratio_of_every_cell() -> None:
    scales = np.array([0.15, 3.0, 120.0])[:, None]
    x, y = arm(*(scales * LIKE[0]), name="clamp"), arm(*(2 * scales * LIKE[1]), name="subtract")
    found = unlike_cells(x, y)
    assert found is not None
    expected = [a.var(ddof=1) / (4 * b.var(ddof=1)) for a, b in zip(*LIKE, strict=True)]
    assert [r.ratio for r in found.ratios] == pytest.approx(expected)
    assert [r.block for r in found.ratios] == ["0", "1", "2"]
    low, high = (c.var(ddof=1) for c in (x.cells[0], x.cells[2]))
    first = found.spans[0]
    assert (first.low, first.high) == pytest.approx((low, high))
    assert (first.low_block, first.high_block) == ("0", "2")
    assert [span.group for span in found.spans] == ["clamp", "subtract"]


def test_one_arm_is_enough() -> None:
    found = unlike_cells(arm(*(np.array([[1.0], [1.0], [50.0]]) * LIKE[0])), arm(*LIKE[1], name="b"))
    assert found is not None
    assert [span.group for span in found.spans] == ["a"]


def test_tenfold_by_chance_is_no_warning() -> None:
    """Of normal cells of two runs, the largest variance is often a hundred times the smallest."""
    draws = np.random.default_rng(3).normal(size=(1000, 2, 4, 2))
    assert sum(unlike_cells(arm(*x), arm(*y)) is not None for x, y in draws) <= 10


def test_a_cell_of_equal_values_is_only_rounded() -> None:
    """Whole per cents: a cell of three equal ones is no cell without variance."""
    x, y = arm([78.0, 78, 78], [77.0, 78, 79]), arm([78.0, 79, 78], [77.0, 78, 79])
    assert unlike_cells(x, y) is None
    exact = arm([78.0] * 6, list(RNG.normal(78, 5, size=6)))
    found = unlike_cells(exact, arm([78.0] * 6, list(RNG.normal(78, 5, size=6))))
    assert found is not None
    assert (found.spans[0].low, found.spans[0].low_block) == (0, "0")
