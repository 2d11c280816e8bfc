"""Plans against fresh experiments judged by the headline, and what a plan must obey."""

import numpy as np
import pytest

from seedspread.benchmarks.conditions import INDEPENDENT, PAIRS, UNBALANCED, Design, alike, draw
from seedspread.stats.power import BudgetError
from seedspread.stats.scale.planning import detectable, power, seeds_for
from seedspread.stats.scale.posterior import posterior_of


@pytest.mark.parametrize(
    ("design", "shape", "n", "ratio", "pairs"),
    [
        (INDEPENDENT, "normal", 8, 6.0, None),
        (INDEPENDENT, "t5", 12, 6.0, None),
        (PAIRS, "normal", 9, 4.0, 0.6),
        (UNBALANCED, "normal", 5, 8.0, None),
    ],
)
def test_plans_hold_in_fresh_experiments(
    design: Design, shape: str, n: int, ratio: float, pairs: float | None
) -> None:
    """500 experiments, of sizes that are not in the table too; three standard errors, and the table's own."""
    values, present = draw(design, alike(shape), n, ratio, 500, np.random.default_rng(n))
    seen = np.mean(posterior_of(values, present, design.shared).p <= 0.05)
    planned = power(ratio, (n, n * design.extra), pairs=pairs, shape=shape)
    assert planned == pytest.approx(seen, abs=0.085)


def test_more_seeds_larger_ratios_and_correlated_pairs_show_more() -> None:
    by_size = [power(6.0, (n, n)) for n in (3, 5, 8, 13, 21, 40, 80)]
    assert by_size == sorted(by_size)
    by_ratio = [power(ratio, (7, 7)) for ratio in (1.0, 2.0, 6.0, 20.0, 1e3, 1e6)]
    assert by_ratio == sorted(by_ratio)
    assert by_ratio[0] < 0.05
    assert by_ratio[-1] > 0.999
    by_pairs = [power(3.0, (10, 10), pairs=r) for r in (0.0, 0.5, 0.7, 0.95)]
    assert by_pairs == sorted(by_pairs)
    assert power(3.0, (10, 10), blocks=2, twins=0.2) > power(3.0, (10, 10), blocks=2, twins=0.9)


def test_a_ratio_and_its_reciprocal_are_as_easy_to_see() -> None:
    assert power(6.0, (7, 7)) == power(1 / 6.0, (7, 7))


def test_power_detectable_ratio_and_seeds_are_one_plan() -> None:
    ratio = detectable((9, 12), 0.7, pairs=0.4)
    assert power(ratio, (9, 12), pairs=0.4) == pytest.approx(0.7)
    seeds = seeds_for(6.0)
    assert power(6.0, seeds) >= 0.8 > power(6.0, (seeds[0] - 1, seeds[1] - 1))
    assert seeds_for(6.0, reference_seeds=40)[0] < seeds[0]


def test_there_are_plans_that_cannot_be_made() -> None:
    with pytest.raises(BudgetError, match="3 seeds per arm or more"):
        power(6.0, (2, 9))
    with pytest.raises(BudgetError, match=r"alpha must lie between 0\.01 and 0\.1"):
        detectable((7, 7), alpha=0.001)
    with pytest.raises(BudgetError, match="no number of seeds"):
        seeds_for(1.5, reference_seeds=4)
    with pytest.raises(BudgetError, match="positive and not 1"):
        seeds_for(1.0)
