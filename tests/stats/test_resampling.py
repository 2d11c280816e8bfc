"""Bootstrap intervals against scipy's, permutations against enumeration and brute force."""

import warnings
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from seedspread.stats.classic import (
    clustered_bootstrap,
    fewest,
    pooled_bootstrap,
    ratio_resamples,
    seed_permutation,
    within_seed_permutation,
)
from seedspread.stats.groups import Floats, Group
from tests.stats.arms import arm, paper_arms


def ratio(x: Floats, y: Floats, axis: int) -> Floats:
    out: Floats = np.var(x, axis=axis, ddof=1) / np.var(y, axis=axis, ddof=1)
    return out


def test_the_interval_is_scipys_up_to_the_draws() -> None:
    x, y = paper_arms()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = stats.bootstrap(
            (x.values, y.values), ratio, n_resamples=50_000, method="percentile", vectorized=True, rng=1
        ).confidence_interval
    interval = pooled_bootstrap(x, y, 0.95, 50_000, np.random.default_rng(2)).interval
    assert interval is not None
    assert interval.low == pytest.approx(expected.low, rel=0.03)
    assert interval.high == pytest.approx(expected.high, rel=0.03)


def test_the_papers_interval_is_one_of_those_that_the_draws_give() -> None:
    x, y = paper_arms()
    ends = np.array(
        [
            (t.interval.low, t.interval.high)
            for seed in range(30)
            if (t := pooled_bootstrap(x, y, 0.95, 10_000, np.random.default_rng(seed))).interval
        ]
    )
    assert ends[:, 0].min() < 1.62 < ends[:, 0].max()
    assert ends[:, 1].min() < 15.80 < ends[:, 1].max()


def test_the_same_seed_gives_the_same_bytes() -> None:
    x, y = (a.values for a in paper_arms())
    one, two = (ratio_resamples(x, y, 1000, np.random.default_rng(7)).tobytes() for _ in range(2))
    assert one == two


def test_resampled_variances_are_those_of_the_resamples() -> None:
    """Against numpy's variance of the values that the same generator draws."""
    x, y = np.array([78.49, 80.12, 76.96]), np.array([78.82, 79.29, 77.87, 78.4])
    rng = np.random.default_rng(5)
    drawn = [v[rng.integers(0, len(v), size=(200, len(v)), dtype=np.uint8)] for v in (x, y)]
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = drawn[0].var(axis=1, ddof=1) / drawn[1].var(axis=1, ddof=1)
    ratios = ratio_resamples(x, y, 200, np.random.default_rng(5))
    finite = np.isfinite(expected) & (expected < 1e10) & np.isfinite(ratios)
    assert finite.sum() > 180
    assert ratios[finite] == pytest.approx(expected[finite], rel=1e-6, abs=1e-9)


def test_whole_seeds_are_drawn_by_hand() -> None:
    """Every draw gone through in a plain loop: two cells, twins of a seed always together."""
    x, y = paper_arms()
    ratios = [
        np.mean([c[rows].var(ddof=1) for c in x.matrix.T])
        / np.mean([c[rows].var(ddof=1) for c in y.matrix.T])
        for rows in np.random.default_rng(3).integers(0, 7, size=(500, 7))
    ]
    interval = clustered_bootstrap(x, y, 0.95, 500, np.random.default_rng(3)).interval
    assert interval is not None
    low, high = np.percentile(ratios, [2.5, 97.5])
    assert interval.low == pytest.approx(low)
    assert interval.high == pytest.approx(high)


def test_twins_that_are_copies_do_not_shorten_the_interval() -> None:
    x, y = [78.4, 78.2, 77.0, 78.8, 80.1, 78.6, 78.5], [78.8, 79.3, 78.9, 79.0, 77.9, 78.4, 78.7]
    single = clustered_bootstrap(arm(x), arm(y), 0.95, 2000, np.random.default_rng(0)).interval
    doubled = clustered_bootstrap(arm(x, x), arm(y, y), 0.95, 2000, np.random.default_rng(0)).interval
    assert single is not None
    assert doubled is not None
    assert single.low == pytest.approx(doubled.low)
    assert single.high == pytest.approx(doubled.high)


def test_no_spread_is_said() -> None:
    test = pooled_bootstrap(arm([1.0, 1, 1]), arm([1.0, 2, 3]), 0.95, 100, np.random.default_rng(0))
    assert test.interval is None
    assert "no spread" in test.note


@pytest.mark.parametrize("seeds", [2, 3])
def test_two_or_three_seeds_have_no_interval(seeds: int) -> None:
    """Two seeds gave [20.3, 20.3]: every resample that has spread has the same ratio."""
    x, y = arm([78.0, 82.5, 79.1][:seeds]), arm([80.0, 81.0, 80.7][:seeds], first_seed=10)
    rng = np.random.default_rng(0)
    for test in (clustered_bootstrap(x, y, 0.95, 1000, rng), pooled_bootstrap(x, y, 0.95, 1000, rng)):
        assert test.interval is None
        assert test.note.startswith("needs 4 ")
        assert f"with {seeds} too many resamples" in test.note


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99, 0.999])
def test_resamples_without_spread_do_not_reach_the_ends(level: float) -> None:
    """How many of all n^n resamples are of one value only, counted."""
    n = fewest(level)
    draws = np.stack(np.meshgrid(*[np.arange(n)] * n), axis=-1).reshape(-1, n) if n <= 6 else None
    assert draws is not None
    flat = np.mean(np.ptp(draws, axis=1) == 0)
    assert flat < (1 - level) / 2
    assert n == 4 or (n - 1) ** (2.0 - n) >= (1 - level) / 2


def test_four_seeds_have_an_interval_with_two_ends() -> None:
    x, y = arm([78.0, 82.5, 79.1, 80.3]), arm([80.0, 81.0, 80.7, 80.1], first_seed=10)
    interval = clustered_bootstrap(x, y, 0.95, 2000, np.random.default_rng(0)).interval
    assert interval is not None
    assert 0 < interval.low < interval.high < np.inf


RNG = np.random.default_rng(0)


def log_ratio(top: list[Floats], bottom: list[Floats]) -> float:
    """Of the cell variances, averaged over cells; each row is a seed."""
    return abs(float(np.log(np.var(top, axis=0, ddof=1).mean() / np.var(bottom, axis=0, ddof=1).mean())))


def centred(one: Group) -> list[Floats]:
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
    monkeypatch.setattr("seedspread.stats.classic._ALL", 1)
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
