"""The ladder: the figures of an independent recomputation, and which rungs a design has."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seedspread.analysis.display import ladder_table
from seedspread.stats.groups import Group, runs_per_seed
from seedspread.stats.headline import sensitivity
from seedspread.stats.result import SensitivityTest
from tests.stats.arms import arm, paper_arms

PAPER = sensitivity(*paper_arms())


def rung(key: str, rungs: tuple[SensitivityTest, ...] = PAPER) -> SensitivityTest:
    return next(r for r in rungs if r.key == key)


@pytest.mark.parametrize(
    ("key", "ratio", "p", "df"),
    [  # recomputed independently from the paper's Table 16
        ("pooled_f", 5.90, 0.0030, (13, 13)),
        ("within_f", 8.22, 0.0009, (12, 12)),
        ("effective_f", 8.22, 0.0018, (7.2, 11.9)),
        ("copies_f", 8.22, 0.022, (6, 6)),
        ("run_jackknife", 8.22, 0.027, None),
        ("seed_jackknife", 8.22, 0.070, None),
    ],
)
def test_the_papers_ladder(key: str, ratio: float, p: float, df: tuple[float, float] | None) -> None:
    found = rung(key)
    assert found.ratio == pytest.approx(ratio, abs=0.005)
    digits = len(str(p).split(".")[1])
    assert round(found.p, digits) == p
    if df is not None:
        assert found.df == pytest.approx(df, abs=0.05)


def test_the_f_rungs_are_scipys() -> None:
    x, y = paper_arms()
    ratio = np.mean([c.var(ddof=1) for c in x.cells.values()]) / np.mean(
        [c.var(ddof=1) for c in y.cells.values()]
    )
    assert rung("within_f").p == pytest.approx(2 * stats.f.sf(ratio, 12, 12))
    assert rung("copies_f").p == pytest.approx(2 * stats.f.sf(ratio, 6, 6))


def test_pitman_morgan_is_the_correlation_of_sum_and_difference() -> None:
    x, y = (np.array(a.matrix.mean(axis=1)) for a in paper_arms())
    assert rung("pitman_morgan").p == pytest.approx(stats.pearsonr(x + y, x - y).pvalue)
    assert rung("pitman_morgan").of == "variances of seed means"


def test_the_last_rung_is_the_headline_with_pairs() -> None:
    assert [r.key for r in PAPER][-2:] == ["unpaired", "pairs"]
    assert 0.005 < rung("pairs").p < 0.03
    interval = rung("pairs").interval
    assert interval is not None
    assert interval.low > 1


def test_each_rung_says_what_it_changes_and_what_it_assumes() -> None:
    assert [r.changes == "" for r in PAPER] == [True] + [False] * (len(PAPER) - 1)
    assert all(r.assumes and r.of.startswith("variances") for r in PAPER)
    assert len({r.name for r in PAPER}) == len(PAPER)


def test_without_blocks_there_are_no_rungs_for_them() -> None:
    keys = [r.key for r in sensitivity(*paper_arms("svhn"))]
    assert keys == ["pooled_f", "seed_jackknife", "pitman_morgan", "unpaired", "pairs"]


def test_without_shared_seeds_there_are_no_pairs() -> None:
    x, y = paper_arms("svhn")
    keys = [r.key for r in sensitivity(x, Group("b", y.values, y.blocks, y.seeds + 100))]
    assert keys == ["pooled_f", "seed_jackknife", "unpaired"]


def test_blocks_with_seeds_of_their_own_have_no_twins() -> None:
    x, y = paper_arms()
    first, second = (Group(a.name, a.values, a.blocks, np.arange(len(a.values))) for a in (x, y))
    assert [r.key for r in sensitivity(first, second)][:3] == ["pooled_f", "within_f", "seed_jackknife"]
    assert runs_per_seed(first) == 1


def test_seeds_with_more_runs_than_others() -> None:
    """Three seeds with two runs and two with one: a run has (3 * 4 + 2) / 8 runs of its seed on average."""
    assert runs_per_seed(arm([1.0, 2, 3, 4, 5], [2.0, 1, 4])) == pytest.approx(14 / 8)


def test_copies_of_runs_change_no_rung_that_counts_seeds() -> None:
    x, y = (a.cells[0] for a in paper_arms())
    single, double = sensitivity(arm(x), arm(y)), sensitivity(arm(x, x), arm(y, y))
    for key in ("seed_jackknife", "unpaired", "pairs"):
        assert rung(key, double).p == pytest.approx(rung(key, single).p, rel=1e-6)
    assert rung("copies_f", double).p == pytest.approx(rung("pooled_f", single).p)


def test_two_seeds_have_no_jackknife() -> None:
    assert [r.key for r in sensitivity(arm([1.0, 2]), arm([1.0, 5]))] == ["pooled_f", "unpaired"]


def test_no_spread_has_no_ladder() -> None:
    assert sensitivity(arm([1.0, 1, 1]), arm([1.0, 2, 3])) == ()


def test_the_table_has_a_row_for_each_rung() -> None:
    table = ladder_table(PAPER)
    assert [row[0] for row in table.rows] == [r.name for r in PAPER]
    assert table.rows[2][-2:] == ("7.2, 11.9", "0.0018")


@settings(max_examples=6, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-3, 3),
    st.integers(3, 6),
    st.integers(1, 2),
)
def test_a_change_of_scale_changes_no_p(seed: int, log_scale: float, seeds: int, blocks: int) -> None:
    cells = np.random.default_rng(seed).normal(size=(2, blocks, seeds))
    plain = sensitivity(arm(*cells[0]), arm(*cells[1]))
    scaled = sensitivity(arm(*(10**log_scale * cells[0])), arm(*(10**log_scale * cells[1])))
    assert [r.key for r in plain] == [r.key for r in scaled]
    assert [r.p for r in plain] == pytest.approx([r.p for r in scaled], rel=1e-4, abs=1e-6)
    assert all(0 <= r.p <= 1 and r.interval is not None for r in plain)
