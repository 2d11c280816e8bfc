"""Permutation tests against plain enumeration."""

from itertools import combinations, product

import numpy as np
import pytest

from seedspread.stats.arms import Arm, Floats
from seedspread.stats.permutation import seed_permutation, within_seed_permutation
from tests.stats.arms import arm, paper_arms

RNG = np.random.default_rng(0)


def log_ratio(top: list[Floats], bottom: list[Floats]) -> float:
    """Of the cell variances, averaged over cells; each row is a seed."""
    return abs(float(np.log(np.var(top, axis=0, ddof=1).mean() / np.var(bottom, axis=0, ddof=1).mean())))


def centred(one: Arm) -> list[Floats]:
    """Per seed, the deviations from the cell means."""
    return list(one.matrix - one.matrix.mean(axis=0))


def test_permuting_seeds_by_hand() -> None:
    x, y = paper_arms()
    q = centred(x) + centred(y)
    observed = log_ratio(q[:7], q[7:])
    test = [
        log_ratio([q[i] for i in chosen], [q[i] for i in range(14) if i not in chosen])
        for chosen in combinations(range(14), 7)
    ]
    expected = np.mean([f >= observed * (1 - 1e-10) for f in test])
    assert seed_permutation(x, y, 100, RNG).p == pytest.approx(expected)


def test_permuting_within_seeds_by_hand() -> None:
    x, y = paper_arms()
    a, b = centred(x), centred(y)
    observed = log_ratio(a, b)
    test = []
    for swaps in product([False, True], repeat=7):
        top = [b[i] if swap else a[i] for i, swap in enumerate(swaps)]
        bottom = [a[i] if swap else b[i] for i, swap in enumerate(swaps)]
        test.append(log_ratio(top, bottom))
    expected = np.mean([f >= observed * (1 - 1e-10) for f in test])
    assert within_seed_permutation(x, y, 100, RNG).p == pytest.approx(expected)


def test_a_sample_of_rearrangements_agrees_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = paper_arms()
    exact = [t(x, y, 100, RNG).p for t in (seed_permutation, within_seed_permutation)]
    monkeypatch.setattr("seedspread.stats.permutation._ALL", 1)
    rng = np.random.default_rng(1)
    sampled = [t(x, y, 20_000, rng).p for t in (seed_permutation, within_seed_permutation)]
    assert sampled == [pytest.approx(p, abs=0.008) for p in exact]


def test_five_shared_seeds_can_never_be_significant_within_seeds() -> None:
    test = within_seed_permutation(arm([1.0, 9, 2, 8, 30]), arm([5.0, 5.1, 4.9, 5, 5.05]), 100, RNG)
    assert test.p == pytest.approx(2 / 32)
    assert "never below 0.0625" in test.note


def test_too_few_seeds_and_no_spread_are_said() -> None:
    assert "three seeds" in seed_permutation(arm([1.0, 2]), arm([1.0, 2, 3]), 100, RNG).note
    assert "share" in within_seed_permutation(arm([1.0, 2]), arm([1.0, 2], first_seed=9), 100, RNG).note
    assert "spread" in seed_permutation(arm([1.0, 1, 1]), arm([2.0, 2, 2]), 100, RNG).note


def test_arms_of_different_size_by_hand() -> None:
    x, y = arm([1.0, 4, 9, 3]), arm([2.0, 2.5, 3.1, 2.2, 2.9, 1.7])
    q = centred(x) + centred(y)
    observed = log_ratio(q[:4], q[4:])
    test = [
        log_ratio([q[i] for i in chosen], [q[i] for i in range(10) if i not in chosen])
        for chosen in combinations(range(10), 4)
    ]
    expected = np.mean([f >= observed * (1 - 1e-10) for f in test])
    assert seed_permutation(x, y, 100, RNG).p == pytest.approx(expected)
