"""Plans against fresh experiments judged by the headline, and what a plan must obey."""

import numpy as np
import pytest

from benchmarks.conditions import (
    INDEPENDENT,
    PAIRS,
    TWINS,
    UNBALANCED,
    Design,
    alike,
    arms_of,
    draw,
)
from seedspread.stats.power import BudgetError
from seedspread.stats.scale.planning import detectable, power, seeds_for
from seedspread.stats.scale.ratio import scale_ratios


@pytest.mark.parametrize(
    ("design", "shape", "n", "ratio"),
    [
        (INDEPENDENT, "normal", 8, 6.0),
        (INDEPENDENT, "t5", 12, 6.0),
        (PAIRS, "normal", 9, 4.0),
        (PAIRS, "t5", 10, 5.0),
        (UNBALANCED, "normal", 5, 8.0),
        (UNBALANCED, "normal", 5, 1 / 8.0),
        (TWINS, "normal", 8, 5.0),
        (Design("", True, 0.6, 2, (0.8, 0.8)), "normal", 8, 4.0),
        (Design("", blocks=3, twins=(0.5, 0.5)), "normal", 6, 4.0),
    ],
)
def test_plans_are_kept_by_the_headline(design: Design, shape: str, n: int, ratio: float) -> None:
    """How often 400 fresh experiments are judged different: three standard errors, and the table's own."""
    rng = np.random.default_rng(n)
    values, present = draw(design, alike(shape), n, ratio, 400, rng)
    results = scale_ratios([arms_of(design, experiment, present) for experiment in values])
    seen = np.mean([result.p is not None and result.p < 0.05 for result in results])
    pairs = design.pairs if design.shared else None
    planned = power(ratio, (n, n * design.extra), design.blocks, pairs, design.twins[0], shape=shape)
    assert planned == pytest.approx(seen, abs=0.085)


def test_more_seeds_larger_ratios_and_correlated_pairs_show_more() -> None:
    by_size = [power(6.0, (n, n)) for n in (3, 5, 8, 13, 21, 40, 80)]
    assert by_size == sorted(by_size)
    by_ratio = [power(ratio, (7, 7)) for ratio in (1.0, 2.0, 6.0, 20.0, 1e3, 1e6)]
    assert by_ratio == sorted(by_ratio)
    assert by_ratio[0] == 0.05
    assert by_ratio[-1] > 0.999
    by_pairs = [power(2.0, (10, 10), pairs=r) for r in (0.0, 0.5, 0.7, 0.95, 0.99, 1.0)]
    assert by_pairs == sorted(by_pairs)
    by_twins = [power(3.0, (10, 10), blocks=2, twins=r) for r in (1.0, 0.9, 0.7, 0.2)]
    assert by_twins == sorted(by_twins)
    by_blocks = [power(3.0, (10, 10), blocks=b, twins=0.3) for b in (1, 2, 3, 4)]
    assert by_blocks == sorted(by_blocks)
    assert power(3.0, (10, 10), blocks=2, twins=1.0) == pytest.approx(power(3.0, (10, 10)))


def test_a_stricter_level_needs_more() -> None:
    by_alpha = [seeds_for(6.0, alpha=alpha)[0] for alpha in (0.1, 0.05, 0.02, 0.01, 0.001)]
    assert by_alpha == sorted(by_alpha)
    assert by_alpha[0] < by_alpha[-1]


def test_a_ratio_and_its_reciprocal_are_as_easy_to_see() -> None:
    assert power(6.0, (7, 7)) == power(1 / 6.0, (7, 7))


def test_power_detectable_ratio_and_seeds_are_one_plan() -> None:
    ratio = detectable((9, 12), 0.7, pairs=0.4)
    assert power(ratio, (9, 12), pairs=0.4) == pytest.approx(0.7)
    seeds = seeds_for(6.0)
    assert power(6.0, seeds) >= 0.8 > power(6.0, (seeds[0] - 1, seeds[1] - 1))
    assert seeds_for(6.0, baseline_seeds=40)[0] < seeds[0]


def test_there_are_plans_that_cannot_be_made() -> None:
    with pytest.raises(BudgetError, match="3 seeds per arm or more"):
        power(6.0, (2, 9))
    with pytest.raises(BudgetError, match=r"alpha must lie between 0\.001 and 0\.1"):
        detectable((7, 7), alpha=0.0001)
    with pytest.raises(BudgetError, match="no number of seeds"):
        seeds_for(1.5, baseline_seeds=4)
    with pytest.raises(BudgetError, match="positive and not 1"):
        seeds_for(1.0)
