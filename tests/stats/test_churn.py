"""Prediction churn: brute force over pairs of seeds, the jackknife by leaving out, and its calibration."""

from itertools import combinations

import numpy as np
import pytest

from seedspread.stats.classic import seed_means_test
from seedspread.stats.seed_summaries import churn_of


def test_churn_is_the_mean_disagreement_of_pairs_of_seeds() -> None:
    drawn = np.random.default_rng(0).integers(0, 4, (6, 50))
    found, examples = churn_of(drawn, np.arange(6))
    pairs = [drawn[i] != drawn[j] for i, j in combinations(range(6), 2)]
    assert found.values.mean() == pytest.approx(np.mean(pairs))
    assert examples == pytest.approx(np.mean(pairs, axis=0))
    without = [churn_of(np.delete(drawn, k, axis=0), np.arange(5))[0].values.mean() for k in range(6)]
    assert found.values == pytest.approx(6 * np.mean(pairs) - 5 * np.array(without))


def test_runs_of_one_seed_are_not_compared_and_share_its_weight() -> None:
    drawn = np.random.default_rng(1).integers(0, 3, (5, 40))
    once, examples = churn_of(drawn, np.arange(5))
    twice, again = churn_of(np.repeat(drawn, 2, axis=0), np.repeat(np.arange(5), 2))
    assert twice.values == pytest.approx(once.values)
    assert again == pytest.approx(examples)
    assert churn_of(np.zeros((3, 9), int), np.arange(3))[0].values == pytest.approx(0)


def test_the_difference_keeps_its_level_with_few_seeds() -> None:
    rng, p_values = np.random.default_rng(2), []
    for _ in range(250):
        base = 1 + 2 * rng.standard_normal(200)
        skill, own = rng.normal(0, 0.2, (8, 1)), rng.normal(0, 0.3, (8, 200))
        right = (base + skill + own > 0).astype(int)
        first, second = churn_of(right[:4], np.arange(4))[0], churn_of(right[4:], np.arange(4, 8))[0]
        p_values.append(seed_means_test(first, second, 0.95).p)
    assert np.mean([p is not None and p < 0.05 for p in p_values]) < 0.06
