"""Plans against fresh experiments judged by the headline, and what a plan must obey."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.conditions import (
    INDEPENDENT,
    PAIRS,
    SAME_SEED,
    UNBALANCED,
    Design,
    alike,
    draw,
)
from seedspread.analysis import seeds as budgets
from seedspread.stats import planning
from seedspread.stats.planning import (
    BudgetError,
    detectable,
    power,
    seeds_for,
    seeds_for_standard_error,
)
from seedspread.stats.planning import Design as Plan
from seedspread.stats.variance_ratio import posterior_of, two_sided_p


@pytest.mark.parametrize(
    ("design", "shape", "n", "ratio"),
    [
        (INDEPENDENT, "normal", 8, 6.0),
        (PAIRS, "t5", 10, 5.0),
        (UNBALANCED, "normal", 5, 1 / 8.0),
        (Design("", True, 0.6, 2, (0.8, 0.8)), "normal", 8, 4.0),
        *(
            pytest.param(*case, marks=pytest.mark.soak)
            for case in (
                (INDEPENDENT, "t5", 12, 6.0),
                (PAIRS, "normal", 9, 4.0),
                (UNBALANCED, "normal", 5, 8.0),
                (SAME_SEED, "normal", 8, 5.0),
                (Design("", blocks=3, same_seed=(0.5, 0.5)), "normal", 6, 4.0),
            )
        ),
    ],
)
def test_plans_are_kept_by_the_headline(design: Design, shape: str, n: int, ratio: float) -> None:
    """How often 400 fresh experiments are judged different: three standard errors, and the table's own."""
    rng = np.random.default_rng(n)
    values, present = draw(design, alike(shape), n, ratio, 400, rng)
    seen = np.mean([two_sided_p(one) < 0.05 for one in posterior_of(values, present, design.shared)])
    pairs = design.pairs if design.shared else None
    plan = Plan(design.blocks, pairs, design.same_seed[0], shape=shape)
    planned = power(ratio, (n, n * design.extra), plan)
    assert planned == pytest.approx(seen, abs=0.085)


def f_power(ratio: float, n: int) -> float:
    """Return the exact power of the F test at 5% with n seeds per group, on normal values."""
    low, high = stats.f.ppf([0.025, 0.975], n - 1, n - 1)
    return float(stats.f.cdf(low / ratio, n - 1, n - 1) + stats.f.sf(high / ratio, n - 1, n - 1))


@pytest.mark.parametrize("ratio", [1.2, 1.3, 1.5])
def test_many_seeds_are_planned_as_for_the_f_test(ratio: float) -> None:
    """With normal values and many seeds the heavy tails of the model have no weight left."""
    exact = planning.fewest(lambda n: f_power(ratio, n) >= 0.8, 2, "")
    assert exact <= seeds_for(ratio)[0] <= 1.03 * exact
    for n in (exact, 2 * exact):
        assert power(ratio, (n, n)) == pytest.approx(f_power(ratio, n), abs=0.015)


@pytest.mark.parametrize("r", [0.3, 0.6, 0.9])
def test_many_pairs_are_planned_as_for_pitman_and_morgan(r: float) -> None:
    """The correlation of sums and differences of the pairs is tested, here by Fisher's z."""
    ratio = 1.3
    correlation = (ratio - 1) / ((ratio + 1) ** 2 - 4 * ratio * r**2) ** 0.5
    z = stats.norm.isf(0.025) + stats.norm.ppf(0.8)
    assert seeds_for(ratio, design=Plan(pairs=r))[0] == pytest.approx(
        (z / np.arctanh(correlation)) ** 2 + 3, rel=0.05
    )


def test_more_seeds_larger_ratios_and_correlated_pairs_show_more() -> None:
    by_size = [power(6.0, (n, n)) for n in (3, 5, 8, 13, 21, 40, 80)]
    assert by_size == sorted(by_size)
    by_ratio = [power(ratio, (7, 7)) for ratio in (1.0, 2.0, 6.0, 20.0, 1e3, 1e6)]
    assert by_ratio == sorted(by_ratio)
    assert by_ratio[0] == 0.05
    assert by_ratio[-1] > 0.999
    by_pairs = [power(2.0, (10, 10), design=Plan(pairs=r)) for r in (0.0, 0.5, 0.7, 0.95, 0.99, 1.0)]
    assert by_pairs == sorted(by_pairs)
    by_same_seed = [
        power(3.0, (10, 10), design=Plan(blocks=2, same_seed_runs=r)) for r in (1.0, 0.9, 0.7, 0.2)
    ]
    assert by_same_seed == sorted(by_same_seed)
    by_blocks = [power(3.0, (10, 10), design=Plan(blocks=b, same_seed_runs=0.3)) for b in (1, 2, 3, 4)]
    assert by_blocks == sorted(by_blocks)
    assert power(3.0, (10, 10), design=Plan(blocks=2, same_seed_runs=1.0)) == pytest.approx(
        power(3.0, (10, 10))
    )


def test_a_stricter_level_needs_more() -> None:
    by_alpha = [seeds_for(6.0, design=Plan(alpha=alpha))[0] for alpha in (0.1, 0.05, 0.02, 0.01, 0.001)]
    assert by_alpha == sorted(by_alpha)
    assert by_alpha[0] < by_alpha[-1]


def test_a_ratio_and_its_reciprocal_are_as_easy_to_see() -> None:
    assert power(6.0, (7, 7)) == power(1 / 6.0, (7, 7))


def test_power_detectable_ratio_and_seeds_are_one_plan() -> None:
    ratio = detectable((9, 12), 0.7, design=Plan(pairs=0.4))
    assert power(ratio, (9, 12), design=Plan(pairs=0.4)) == pytest.approx(0.7)
    seeds = seeds_for(6.0)
    assert power(6.0, seeds) >= 0.8 > power(6.0, (seeds[0] - 1, seeds[1] - 1))
    assert seeds_for(6.0, baseline_seeds=40)[0] < seeds[0]


def test_there_are_plans_that_cannot_be_made() -> None:
    with pytest.raises(BudgetError, match="3 seeds per group or more"):
        power(6.0, (2, 9))
    with pytest.raises(BudgetError, match=r"alpha must lie between 0\.001 and 0\.1"):
        detectable((7, 7), design=Plan(alpha=0.0001))
    with pytest.raises(BudgetError, match="no number of seeds"):
        seeds_for(1.5, baseline_seeds=4)
    with pytest.raises(BudgetError, match="positive and not 1"):
        seeds_for(1.0)


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
        budgets.seed_budget(ratio=1.001)
    assert budgets.seed_budget(ratio=2.0, n=10**8).values["power"] == 1.0


@pytest.mark.parametrize(
    "design",
    [
        Plan(blocks=2),
        Plan(pairs=0.6),
        Plan(shape="t5"),
        Plan(blocks=2, pairs=0.3, same_seed_runs=0.8),
    ],
)
def test_a_budget_is_that_of_its_design(design: Plan) -> None:
    budget = budgets.seed_budget(ratio=6.0, n=9, design=design)
    assert budget.values["power"] == planning.power(6.0, (9, 9), design)
    assert {"seeds", "ratio", "power", "alpha", "shape", "method"} <= set(budget.values)


def test_a_standard_error_and_a_ratio_are_both_answered() -> None:
    both = budgets.seed_budget(sd=1.0, se=0.3, ratio=5.9)
    one, other = budgets.seed_budget(sd=1.0, se=0.3), budgets.seed_budget(ratio=5.9)
    assert both.text.splitlines() == [one.text, other.text]
    assert both.values == {"standard_error": one.values, "spread": other.values}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({}, "say what is wanted"),
        ({"sd": 1.0}, r"both sd=\.\.\. and se="),
        ({"sd": 1.0, "se": 0.0}, "positive"),
        ({"n": 1}, "two seeds"),
        ({"sd": float("inf"), "se": 0.3}, "positive"),
        ({"ratio": 5.9, "n": 7, "alpha": 2.0}, "alpha must lie"),
        ({"ratio": 5.9, "n_baseline": 0}, "two seeds"),
        ({"ratio": 1.0}, "not 1"),
        ({"ratio": 4.0, "power": 1.2}, "power must lie"),
        ({"ratio": 4.0, "alpha": 0.0}, "alpha must lie"),
        ({"n": 7, "shape": "norml"}, "'normal'"),
        ({"ratio": 1.5, "n_baseline": 3}, "no number of seeds"),
        ({"n": 2}, "3 seeds per group or more"),
        ({"n": 7, "pairs": 1.5}, "a correlation lies"),
        ({"n_baseline": 7}, "say what is wanted"),
    ],
)
def test_impossible_questions_are_refused(question: dict[str, float], message: str) -> None:
    question = question.copy()
    design = {name: question.pop(name) for name in ("alpha", "shape", "pairs") if name in question}
    with pytest.raises(BudgetError, match=message):
        budgets.seed_budget(**question, design=Plan(**design))  # type: ignore[arg-type]
