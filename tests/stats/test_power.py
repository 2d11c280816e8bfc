"""Seed budgets: the paper's example, simulation, and symmetry."""

import numpy as np
import pytest
from scipy import stats

from seedspread.analysis.budget import Design, seed_budget
from seedspread.stats.power import (
    BudgetError,
    detectable_ratio,
    f_power,
    seeds_for_ratio,
    seeds_for_standard_error,
)
from seedspread.stats.scale import planning


def test_the_papers_example_of_a_standard_error() -> None:
    """It says about 11 against 2 for 0.3 points; 11 seeds give 0.302, so that 12 are needed."""
    assert pytest.approx(11.1, abs=0.05) == (1.0 / 0.3) ** 2
    assert seeds_for_standard_error(1.0, 0.3) == 12
    assert seeds_for_standard_error(0.42, 0.3) == 2
    assert seeds_for_standard_error(0.9, 0.3) == 9


def test_absurd_budgets_are_refused_in_a_line() -> None:
    with pytest.raises(BudgetError, match="millionth"):
        seeds_for_standard_error(1.0, 1e-300)
    with pytest.raises(BudgetError, match="no number of seeds up to 100,000"):
        seed_budget(ratio=1.001)
    assert seed_budget(ratio=2.0, n=10**8).values["power"] == 1.0


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


def test_the_headline_is_planned_and_the_f_test_stands_beside_it() -> None:
    budget = seed_budget(ratio=5.9)
    assert budget.values["f_test"] == seeds_for_ratio(5.9)[0][0] == 12
    assert budget.values["seeds"] == list(planning.seeds_for(5.9))
    assert budget.values["seeds"][0] > 12
    assert budget.text.endswith("the F test, if values are exactly normal: 12).")
    assert seed_budget(n=7).values["f_test"] == pytest.approx(detectable_ratio((7, 7)))
    assert seed_budget(ratio=6.0, n=7).values["f_test"] == pytest.approx(f_power(6.0, (7, 7)))


@pytest.mark.parametrize(
    "design",
    [Design(blocks=2), Design(pairs=0.6), Design(shape="t5"), Design(blocks=2, pairs=0.3, twins=0.8)],
)
def test_the_f_test_has_no_figure_for_other_designs(design: Design) -> None:
    budget = seed_budget(ratio=6.0, n=9, design=design)
    assert budget.values["f_test"] is None
    assert "F test" not in budget.text
    assert budget.values["power"] == planning.power(6.0, (9, 9), **design.options)
    assert {"seeds", "ratio", "power", "alpha", "shape", "method"} <= set(budget.values)


def test_a_standard_error_and_a_ratio_are_both_answered() -> None:
    both = seed_budget(sd=1.0, se=0.3, ratio=5.9)
    one, other = seed_budget(sd=1.0, se=0.3), seed_budget(ratio=5.9)
    assert both.text.splitlines() == [one.text, other.text]
    assert both.values == {"standard_error": one.values, "spread": other.values}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({}, "say what is wanted"),
        ({"sd": 1.0}, "both --sd and --se"),
        ({"sd": 1.0, "se": 0.0}, "positive"),
        ({"n": 1}, "two seeds"),
        ({"sd": float("inf"), "se": 0.3}, "positive"),
        ({"ratio": 5.9, "n": 7, "alpha": 2.0}, "alpha must lie"),
        ({"ratio": 5.9, "n_baseline": 0}, "two seeds"),
        ({"ratio": 1.0}, "not 1"),
        ({"ratio": 4.0, "power": 1.2}, "power must lie"),
        ({"ratio": 4.0, "alpha": 0.0}, "alpha must lie"),
        ({"n": 7, "shape": "norml"}, "did you mean 'normal'"),
        ({"ratio": 1.5, "n_baseline": 3}, "no number of seeds"),
        ({"n": 2}, "3 seeds per arm or more"),
        ({"n": 7, "pairs": 1.5}, "a correlation lies"),
        ({"n_baseline": 7}, "say what is wanted"),
    ],
)
def test_impossible_questions_are_refused(question: dict[str, float], message: str) -> None:
    question = question.copy()
    design = {name: question.pop(name) for name in ("alpha", "shape", "pairs") if name in question}
    with pytest.raises(BudgetError, match=message):
        seed_budget(**question, design=Design(**design))  # type: ignore[arg-type]
