"""Plans for means: against statsmodels' power functions, and by simulation."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower

from seedspread import seed_budget
from seedspread.stats.planning import BudgetError, Design, equivalence_power, standard_error, t_power


@pytest.mark.parametrize("effect", [0.2, 0.5, 1.0, 2.5])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_seeds_for_a_difference_are_those_of_statsmodels(effect: float, alpha: float) -> None:
    for pairs in (None, 0.4):
        scale = 1.0 if pairs is None else (2 * (1 - pairs)) ** 0.5
        oracle = TTestIndPower() if pairs is None else TTestPower()
        budget = seed_budget(0.3, difference=0.3 * effect, design=Design(pairs=pairs, alpha=alpha))
        n = budget.values["seeds"][0]
        reached = [oracle.power(effect / scale, m, alpha) for m in (n - 1, n)]
        assert reached[0] < 0.8 <= reached[1]
        assert budget.values["power"] == pytest.approx(reached[1], abs=1e-6)


def test_the_power_of_unequal_groups_is_that_of_statsmodels() -> None:
    expected = TTestIndPower().power(1.5, 4, 0.05, ratio=3)
    found = seed_budget(2.0, n=4, n_baseline=12, difference=3.0).values["power"]
    assert found == pytest.approx(expected)


def test_seeds_for_equivalence_are_kept_by_two_one_sided_tests() -> None:
    budget = seed_budget(1.0, margin=0.8)
    n = budget.values["seeds"][0]
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 4000, n))
    above = stats.ttest_ind(x + 0.8, y, axis=1, alternative="greater").pvalue
    below = stats.ttest_ind(x - 0.8, y, axis=1, alternative="less").pvalue
    assert np.mean(np.maximum(above, below) < 0.05) == pytest.approx(budget.values["power"], abs=0.025)
    assert equivalence_power(0.8 / standard_error(1.0, (n - 1, n - 1), None)[0], 2 * n - 4, 0.05) < 0.8


def test_new_runs_for_a_drop_count_the_gates_past_runs() -> None:
    budget = seed_budget(0.3, drop=0.5)
    assert (budget.values["seeds"], budget.values["past_runs"]) == ([3], 30)
    oracle = TTestIndPower()
    assert oracle.power(0.5 / 0.3, 3, 0.05, ratio=10, alternative="larger") == pytest.approx(
        budget.values["power"], abs=1e-6
    )
    assert seed_budget(0.3, drop=0.9, n=10).text.startswith(
        "1 new run detects a drop of 0.9 below 10 past runs with power "
    )


def test_power_is_a_number_however_large_the_difference() -> None:
    assert [t_power(x, 10_000, 0.05) for x in (20.0, 38.0, 60.0)] == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"difference": 0.1}, "with sd="),
        ({"sd": 1.0, "difference": -0.1}, "positive"),
        ({"sd": 1.0, "difference": 0.1, "margin": 0.1}, "one thing at a time"),
        ({"sd": 1.0, "difference": 0.1, "se": 0.1}, "one thing at a time"),
        ({"sd": 1.0, "drop": 0.1, "n": 5}, "no number of runs"),
        ({"sd": 1.0, "drop": 0.1, "design": Design(pairs=0.5)}, "one run per seed"),
        ({"sd": 1.0, "difference": 0.1, "design": Design(pairs=1.0)}, "correlation"),
        ({"sd": 1.0, "difference": 0.1, "power": 2.0}, "power"),
    ],
)
def test_what_cannot_be_planned_is_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(BudgetError, match=said):
        seed_budget(**options)  # type: ignore[arg-type]
