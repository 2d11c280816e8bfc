"""Looks at what grows: the boundaries of normal theory, the headline's levels, and what is expected."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import pearsonr

from seedspread import audit
from seedspread.analysis.sequential import factor_for, factor_of, known_factor
from seedspread.errors import SeedspreadError
from seedspread.runs.studies import SequentialSpec
from seedspread.stats import sequential
from seedspread.stats.groups import Floats
from seedspread.stats.result import InterimLook
from seedspread.stats.sequential import (
    _TAILS,
    adjusted_p,
    crossing,
    expected,
    nominal_level,
    shape,
    simulated_p_values,
    simulated_values,
)

RULE = SequentialSpec(start=8, step=4, limit=40)
SIZES = RULE.sizes


@pytest.mark.parametrize(
    ("looks", "delta", "constant"),
    # Pocock 1977; O'Brien and Fleming 1979; Wang and Tsiatis 1987: two-sided, 5 %.
    [(2, 0.5, 2.178), (5, 0.5, 2.413), (10, 0.5, 2.555), (5, 0.0, 2.040), (2, 0.25, 2.038), (5, 0.25, 2.136)],
)
def test_published_boundaries_are_crossed_in_one_of_twenty(looks: int, delta: float, constant: float) -> None:
    evenly = tuple(range(1, looks + 1))
    assert crossing(constant, evenly, delta) == pytest.approx(0.05, abs=1e-4)


def test_one_look_is_an_ordinary_test() -> None:
    once = InterimLook((20,), 1, 1.0)
    assert nominal_level(once, 0.05) == pytest.approx(0.05, rel=0.001)
    assert adjusted_p(once, 0.003) == pytest.approx(0.003, rel=0.01)


@given(st.floats(1e-9, 1.0), st.integers(1, len(SIZES)))
def test_what_a_look_allows_is_what_it_counts(alpha: float, number: int) -> None:
    looks = InterimLook(SIZES, number, 1.02)
    assert adjusted_p(looks, nominal_level(looks, alpha)) == pytest.approx(alpha, rel=1e-6)
    assert nominal_level(looks, alpha) <= alpha * (1 + 1e-9)


def test_earlier_looks_ask_for_more() -> None:
    each = [nominal_level(InterimLook(SIZES, k + 1, 1.0), 0.05) for k in range(len(SIZES))]
    assert each == sorted(each)
    assert sum(each) > 0.05  # looks see much of the same runs


def test_looks_at_the_headline_err_no_more_often_than_one_and_peeking_does() -> None:
    sizes = (6, 12, 18)
    factor = known_factor(sizes) or known_factor((6, 12)) or 1.03
    p = simulated_p_values(simulated_values("contaminated", 400, 18, np.random.default_rng(5)), sizes)
    allowed = [nominal_level(InterimLook(sizes, k + 1, factor), 0.05) for k in range(3)]
    counting, peeking = (np.mean((p < level).any(axis=1)) for level in (allowed, 0.05))
    once = np.mean(p[:, -1] < 0.05)
    assert counting <= once + 0.015
    assert peeking > once + 0.03


def test_normal_sums_need_no_wider_boundaries() -> None:
    steps = np.random.default_rng(1).standard_normal((20_000, SIZES[-1]))
    z = np.cumsum(steps, axis=1)[:, np.array(SIZES) - 1] / np.sqrt(SIZES)
    assert sequential.factor_from(SIZES, [2 * ndtr(-np.abs(z))]) == pytest.approx(1.0, abs=0.03)


def test_levels_are_simulated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sequential, "DRAWS", 100)
    heard: list[float] = []
    first = factor_of((3, 4), heard.append)
    assert heard[-1] == 1
    assert 1 <= first < 1.5
    assert factor_of((3, 4), lambda _: pytest.fail("simulated again")) == first
    (kept,) = (tmp_path / "seedspread" / "looks").iterdir()
    kept.write_text('{"factor": 99}')
    assert known_factor((3, 4)) is None


def test_the_table_has_the_rule_of_the_docs() -> None:
    factor = known_factor(SIZES)
    assert factor is not None
    assert 1 <= factor < 1.1


def test_a_large_effect_ends_at_once_and_none_goes_to_the_limit() -> None:
    factor = 1.03
    assert expected(RULE.sizes, factor, 1e6).seeds == 8
    assert expected(RULE.sizes, factor, 1.0).seeds > 36
    four = expected(RULE.sizes, factor, 4.0)
    assert 18 < four.seeds < 26
    assert four.met > 0.95
    assert expected(RULE.sizes, factor, 4.0, comparisons=3).seeds > four.seeds


def test_what_stands_in_for_the_headline_gives_away_as_much_to_tails() -> None:
    values = simulated_values("normal", 80, 12, np.random.default_rng(7))
    headline = -ndtri(0.5 * simulated_p_values(values, (12,))[:, 0])
    r = [pitman(x, y) for x, y in zip(values[:, :, 0, 0], values[:, :, 1, 0], strict=True)]
    ratios = headline / -ndtri(0.5 * np.array(r))
    assert np.median(ratios[headline > 0.7]) == pytest.approx(_TAILS, abs=0.03)


def pitman(x: Floats, y: Floats) -> float:
    """The p value of Pitman and Morgan's test: sums and differences do not correlate."""
    return float(pearsonr(x + y, x - y).pvalue)


def test_precision_is_met_when_the_interval_is_narrow() -> None:
    """An interval of n uncorrelated pairs is at least exp(4 z / sqrt(n)) wide, and little more."""
    rule = SequentialSpec(start=8, step=4, limit=60, precision=4)
    seeds = expected(rule.sizes, 1.0, 1.0, precision=rule.precision).seeds
    z = -ndtri(nominal_level(InterimLook(rule.sizes, rule.sizes.index(20) + 1, 1.0), 0.05) / 2)
    fewest = (2 * z / np.log(4)) ** 2
    assert fewest < seeds < fewest + 8  # a whole step, and Student's t for z
    with pytest.raises(SeedspreadError, match=r"precision = 1\.05 is never met with 60 seeds"):
        factor_for(SequentialSpec(start=8, step=4, limit=60, precision=1.05), 1, lambda _: None)


def grown(seeds: int, ratio: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    rows = [
        {"arm": arm, "seed": seed, "score": sd * rng.standard_normal()}
        for seed in range(seeds)
        for arm, sd in (("a", 1.0), ("b", ratio**0.5))
    ]
    return pd.DataFrame(rows)


def test_one_look_at_a_table_counts_the_looks() -> None:
    table = grown(16, 30.0)
    once = audit(table, "score", "arm", "a")
    look = audit(table, "score", "arm", "a", look=InterimLook(SIZES, 3, factor_of(SIZES)))
    assert look.looks is not None
    assert look.looks.sizes == SIZES
    one, counting = once.comparisons[0].headline, look.comparisons[0].headline
    assert one.ratio == counting.ratio
    assert one.interval is not None
    assert counting.interval is not None
    assert counting.interval.low < one.interval.low < one.interval.high < counting.interval.high
    assert counting.p is not None
    assert one.p is not None
    assert counting.p > one.p
    assert (1.0 in counting.interval) == (counting.p >= 0.05)
    assert counting.looks is not None
    assert (counting.looks.number, len(counting.looks.sizes)) == (3, 9)
    assert '"looks"' in look.to_json()


def test_boundaries_narrow_with_the_seeds() -> None:
    assert list(shape((10, 40))) == pytest.approx([4**0.25, 1.0])
