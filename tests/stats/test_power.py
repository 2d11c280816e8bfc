"""Seed budgets: the paper's example, simulation, and symmetry."""

import numpy as np
import pytest
from scipy import stats

from seedspread.stats.budget import seed_budget
from seedspread.stats.power import (
    SHAPES,
    BudgetError,
    detectable_ratio,
    f_power,
    sample,
    seeds_for_ratio,
    seeds_for_standard_error,
    simulated_power,
)


def test_the_papers_example_of_a_standard_error() -> None:
    """It says about 11 against 2 for 0.3 points; 11 seeds give 0.302, so that 12 are needed."""
    assert pytest.approx(11.1, abs=0.05) == (1.0 / 0.3) ** 2
    assert seeds_for_standard_error(1.0, 0.3) == 12
    assert seeds_for_standard_error(0.42, 0.3) == 2
    assert seeds_for_standard_error(0.9, 0.3) == 9


def test_without_a_difference_power_is_the_level() -> None:
    assert f_power(1.0, (7, 7)) == pytest.approx(0.05)
    assert f_power(1.0, (14, 7), alpha=0.01) == pytest.approx(0.01)


def test_power_is_what_simulation_finds() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20_000, 14)) * 3**0.5, rng.normal(size=(20_000, 7))
    ratio = x.var(axis=1, ddof=1) / y.var(axis=1, ddof=1)
    p = 2 * np.minimum(stats.f.sf(ratio, 13, 6), stats.f.cdf(ratio, 13, 6))
    assert f_power(3.0, (14, 7)) == pytest.approx(np.mean(p < 0.05), abs=0.012)


def test_exchanging_the_arms_inverts_the_ratio() -> None:
    assert f_power(4.0, (9, 5)) == pytest.approx(f_power(0.25, (5, 9)))


@pytest.mark.parametrize("seeds", [(7, 7), (14, 7), (5, 20)])
def test_the_detectable_ratio_is_detected_with_that_power(seeds: tuple[int, int]) -> None:
    assert f_power(detectable_ratio(seeds, 0.9, 0.01), seeds, 0.01) == pytest.approx(0.9)


@pytest.mark.parametrize("ratio", [5.9, 2.0, 0.25])
def test_one_seed_fewer_would_not_do(ratio: float) -> None:
    (n, _), reached = seeds_for_ratio(ratio)
    assert reached == f_power(ratio, (n, n))
    assert f_power(ratio, (n, n)) >= 0.8 > f_power(ratio, (n - 1, n - 1))


def test_simulated_power_of_normal_values_is_below_the_exact_tests() -> None:
    """The jackknife assumes less, so it sees less; with many seeds the two meet."""
    assert simulated_power(6.0, (7, 7), "normal") < f_power(6.0, (7, 7))
    assert simulated_power(2.0, (60, 60), "normal") == pytest.approx(f_power(2.0, (60, 60)), abs=0.04)


def test_simulated_budgets_agree_with_each_other() -> None:
    seeds, reached = seeds_for_ratio(8.0, shape="bimodal")
    assert reached >= 0.8
    assert detectable_ratio(seeds, shape="bimodal") <= 8.0 * 1.01


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_has_mean_0_and_variance_1(shape: str) -> None:
    values = sample(shape, (400_000,), np.random.default_rng(0))
    assert values.mean() == pytest.approx(0, abs=0.01)
    assert values.var() == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({}, "say what is wanted"),
        ({"sd": 1.0}, "both --sd and --se"),
        ({"sd": 1.0, "se": 0.0}, "positive"),
        ({"n": 1}, "two seeds"),
        ({"sd": float("inf"), "se": 0.3}, "positive"),
        ({"ratio": 5.9, "n": 7, "alpha": 2.0}, "alpha must lie"),
        ({"ratio": 5.9, "n_reference": 0}, "two seeds"),
        ({"ratio": 1.0}, "not 1"),
        ({"ratio": 4.0, "power": 1.2}, "power must lie"),
        ({"ratio": 4.0, "alpha": 0.0}, "alpha must lie"),
        ({"n": 7, "shape": "norml"}, "did you mean 'normal'"),
        ({"ratio": 1.5, "n_reference": 3}, "no number of seeds"),
    ],
)
def test_impossible_questions_are_refused(question: dict[str, float], message: str) -> None:
    defaults = dict.fromkeys(("sd", "se", "ratio", "n", "n_reference"))
    with pytest.raises(BudgetError, match=message):
        seed_budget(**(defaults | {"power": 0.8, "alpha": 0.05, "shape": "normal"} | question))  # type: ignore[arg-type]
