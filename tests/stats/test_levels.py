"""Exact tests keep their level, robust ones keep near it, naive ones do not.

Rejections of 1,500 simulated experiments without a difference; bounds lie four standard errors from 5 %.
"""

import numpy as np
import pytest

from seedspread.benchmarks.conditions import DESIGNS, IDLE_PAIRS, INDEPENDENT, PAIRS, TWINS, Design, simulate
from seedspread.stats.arms import Arm
from seedspread.stats.classic import f_test
from seedspread.stats.collapse import largest_gap
from seedspread.stats.permutation import within_seed_permutation
from seedspread.stats.result import TestResult
from seedspread.stats.robust import pitman_morgan, seed_jackknife

RNG = np.random.default_rng(0)
DRAWS = 1500


def f(x: Arm, y: Arm) -> TestResult:
    return f_test(x, y, 0.95, None, None)


def pitman(x: Arm, y: Arm) -> TestResult:
    return pitman_morgan(x, y, 0.95)


def jackknife(x: Arm, y: Arm) -> TestResult:
    return seed_jackknife(x, y, 0.95)


def within(x: Arm, y: Arm) -> TestResult:
    return within_seed_permutation(x, y, 100, RNG)


def rejections(test: object, design: Design, shape: str, n: int) -> float:
    rng = np.random.default_rng([n, DESIGNS.index(design)])
    p_values = [test(*simulate(design, shape, n, 1.0, rng)).p for _ in range(DRAWS)]  # type: ignore[operator]
    return float(np.mean([p <= 0.05 for p in p_values]))


@pytest.mark.parametrize(
    ("test", "design", "n"),
    [(f, INDEPENDENT, 5), (f, INDEPENDENT, 14), (pitman, PAIRS, 5), (pitman, PAIRS, 10)],
)
def test_exact_tests_are_exact_for_normal_values(test: object, design: Design, n: int) -> None:
    assert rejections(test, design, "normal", n) == pytest.approx(0.05, abs=0.0225)


@pytest.mark.parametrize("design", [INDEPENDENT, PAIRS, TWINS])
@pytest.mark.parametrize("shape", ["normal", "t5", "bimodal"])
def test_the_headline_keeps_near_its_level_whatever_the_shape(design: Design, shape: str) -> None:
    assert rejections(jackknife, design, shape, 7) < 0.09


def test_the_permutation_within_seeds_keeps_near_its_level() -> None:
    assert rejections(within, IDLE_PAIRS, "normal", 7) < 0.0725


def test_the_naive_f_test_does_not_keep_its_level_with_twins_or_heavy_tails() -> None:
    assert rejections(f, TWINS, "normal", 7) > 0.1
    assert rejections(f, INDEPENDENT, "t5", 14) > 0.1


def test_the_gap_test_keeps_its_level() -> None:
    rng = np.random.default_rng(4)
    p_values = [largest_gap(rng.normal(size=7))[1] for _ in range(DRAWS)]
    assert np.mean([p is not None and p < 0.05 for p in p_values]) == pytest.approx(0.05, abs=0.0225)
