"""Exact tests keep their level, robust ones keep near it, naive ones do not.

Rejections of simulated experiments without a difference, 1,000 or 400; bounds lie four standard errors of
the rate from 5 %, or further.
"""

import numpy as np
import pytest

from benchmarks import secondary_statistics
from benchmarks.calibration import measure, tables
from benchmarks.conditions import (
    COMMON,
    DESIGNS,
    INDEPENDENT,
    PAIRS,
    QUANTILES,
    SAME_SEED,
    Design,
    alike,
    draw,
    groups_of,
)
from seedspread.stats.classic import f_test, pitman_morgan, seed_jackknife
from seedspread.stats.failures import largest_gap
from seedspread.stats.groups import Group
from seedspread.stats.headline import MODEL
from seedspread.stats.result import TestResult

RNG = np.random.default_rng(0)
DRAWS, FEWER = 1000, 400


def f(x: Group, y: Group) -> TestResult:
    return f_test(x, y, 0.95, None, None)


def pitman(x: Group, y: Group) -> TestResult:
    return pitman_morgan(x, y, 0.95)


def jackknife(x: Group, y: Group) -> TestResult:
    return seed_jackknife(x, y, 0.95)


def rejections(test: object, design: Design, shape: str, n: int, draws: int = DRAWS) -> float:
    rng = np.random.default_rng([n, DESIGNS.index(design)])
    values, present = draw(design, alike(shape), n, 1.0, draws, rng)
    p_values = [test(*groups_of(design, experiment, present)).p for experiment in values]  # type: ignore[operator]
    return float(np.mean([p <= 0.05 for p in p_values]))


@pytest.mark.parametrize(
    ("test", "design", "n"),
    [(f, INDEPENDENT, 5), (f, INDEPENDENT, 14), (pitman, PAIRS, 5), (pitman, PAIRS, 10)],
)
def test_exact_tests_are_exact_for_normal_values(test: object, design: Design, n: int) -> None:
    assert rejections(test, design, "normal", n) == pytest.approx(0.05, abs=0.0275)


@pytest.mark.parametrize("design", [INDEPENDENT, PAIRS, SAME_SEED])
@pytest.mark.parametrize("shape", ["normal", "t5", "bimodal"])
def test_the_jackknife_keeps_near_its_level(design: Design, shape: str) -> None:
    assert rejections(jackknife, design, shape, 7, FEWER) < 0.094


def test_the_naive_f_test_does_not_keep_its_level_with_twins_or_heavy_tails() -> None:
    assert rejections(f, SAME_SEED, "normal", 7, FEWER) > 0.1
    assert rejections(f, INDEPENDENT, "t5", 14, FEWER) > 0.1


def test_the_gap_test_keeps_its_level() -> None:
    """Of exponential values, the most easily parted; below it of normal ones."""
    rng = np.random.default_rng(4)
    for draws, least in ((rng.exponential(size=(DRAWS, 7)), 0.0225), (rng.normal(size=(DRAWS, 7)), 0.0)):
        p_values = [largest_gap(values)[1] for values in draws]
        assert least <= np.mean([p is not None and p < 0.05 for p in p_values]) <= 0.0775


def test_the_tables_have_the_headline_beside_the_other_tests() -> None:
    done = [measure((place, 0, 5, 20, 4)) for place in range(len(DESIGNS))]
    text = tables(done, 20, 4)
    assert text.count(f"| {MODEL} (headline) |") == 2 * len(DESIGNS)
    assert text.count("| seed jackknife (Miller) |") == 2 * len(DESIGNS)
    assert "two blocks, shared seeds" in text.lower()


def test_secondary_statistics_have_a_row_per_condition() -> None:
    done = [secondary_statistics.measure(task) for task in secondary_statistics.tasks(12) if task[2] < 10]
    text = secondary_statistics.tables(done, 12)
    for words in (
        "gap test), skewed",
        "ICC, F test), t5",
        "Cochran's Q, normal",
        "test-set noise, 1000",
    ):
        assert words in text
    assert all(0 <= rate <= 1 for result in done for rate in result["rates"].values())


def test_pairs_that_share_their_tails_are_wide_together() -> None:
    """Squares of two groups correlate as the one factor makes them, and each group has variance 1."""
    for name in ("t5", "contaminated"):
        values, _ = draw(COMMON, alike(name), 20, 1.0, 5000, np.random.default_rng(5))
        x, y = values[:, :, 0, 0].ravel(), values[:, :, 1, 0].ravel()
        assert x.var() == pytest.approx(1, abs=0.04)
        assert (x * y).mean() == pytest.approx(0.6, abs=0.03)
    # Of normal pairs E x^2 y^2 is 1 + 2 r^2; here times the mean fourth power of the factor.
    assert (x**2 * y**2).mean() == pytest.approx((1 + 2 * 0.6**2) * (0.9 + 0.1 * 81) / 1.8**2, rel=0.13)


@pytest.mark.parametrize("name", sorted(QUANTILES))
def test_correlated_values_have_exactly_the_shape_they_should(name: str) -> None:
    """Variance 1 up to sampling, and the same distribution as independent ones."""
    rng = np.random.default_rng(3)
    pairs, apart = (
        draw(d, alike(name), 20, 1.0, 1000, rng)[0][:, :, 0, 0].ravel() for d in (PAIRS, INDEPENDENT)
    )
    levels = [0.01, 0.1, 0.5, 0.9, 0.99]
    assert np.quantile(pairs, levels) == pytest.approx(np.quantile(apart, levels), abs=0.25)
    assert np.quantile(pairs, levels) == pytest.approx(QUANTILES[name](np.array(levels)), abs=0.2)
