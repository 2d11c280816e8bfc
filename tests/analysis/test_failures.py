"""Failed runs: which they are, how often they occur, and how much the others spread."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seedspread.analysis.audit import audit
from seedspread.analysis.samples import groups_by_stratum
from seedspread.stats.failures import difference_of, failures, find_failed_seeds, rate_of, two_clusters
from seedspread.stats.groups import Group
from seedspread.stats.result import Better, FailureModel
from seedspread.stats.variance_ratio import robust_ratio
from seedspread.tables.check import check_table
from seedspread.tables.question import Question
from tests.stats.groups import group_of

SOUND = [60.0, 61.2, 62.1, 60.7, 63.0, 61.9, 62.6, 60.3]


def found(x: Group, y: Group, better: Better = "higher", chance: float | None = None) -> FailureModel:
    model = failures(x, y, better, chance, 0.95, 100.0 if better == "higher" else None)
    assert model is not None
    return model


def test_flagged_crashed_and_guessing_runs_have_failed() -> None:
    x = replace(
        group_of([10.2, 60, 61.5, 62, 63, 64]),
        failed=np.array([0, 1, 0, 0, 0, 0], bool),
        crashed=np.array([6, 7]),
    )
    model = found(x, group_of(SOUND, name="b"), chance=10.0)
    assert (model.kind, model.failed, model.crashed, model.seeds) == ("failed", (4, 0), (2, 0), (8, 8))
    assert model.p == pytest.approx(stats.fisher_exact([[4, 4], [0, 8]]).pvalue)


def test_the_spread_of_the_sound_runs_is_the_headlines_without_the_failed_seeds() -> None:
    values = [*SOUND[:6], 10.1, 10.0]
    model = found(group_of(values), group_of(SOUND, name="b"), chance=10.0)
    expected = robust_ratio(group_of(SOUND[:6]), group_of(SOUND, name="b"))
    assert model.successful_ratio is not None
    assert (model.successful_ratio.value, model.successful_ratio.interval) == (
        expected.ratio,
        expected.interval,
    )
    assert model.successful_p == expected.p


def test_an_arm_of_which_every_run_failed_has_a_rate_and_no_spread() -> None:
    model = found(group_of([10.0, 10.1, 9.9]), group_of([60.0, 61, 62], name="b"), chance=10.0)
    assert (model.rates[0].value, model.successful_ratio) == (1.0, None)


values = st.lists(st.floats(0, 1).map(lambda v: round(v, 3)), min_size=5, max_size=9)


@given(values, values)
@settings(max_examples=40)
def test_a_loss_fails_where_it_is_high(x: list[float], y: list[float]) -> None:
    """What is said of values is said of their negatives where lower is better."""
    first, second = group_of(x), group_of(y, name="b")
    up, _, _ = find_failed_seeds(first, second, "higher", 0.1)
    turned = replace(first, values=-first.values), replace(second, values=-second.values)
    down, _, _ = find_failed_seeds(*turned, "lower", -0.1)
    for a, b in zip(up, down, strict=True):
        assert (a.failed.tolist(), a.clustered.tolist()) == (b.failed.tolist(), b.clustered.tolist())


def test_the_good_runs_of_a_loss_have_not_failed() -> None:
    losses = (
        group_of([0.51, 0.5, 0.52, 0.505, 2.3, 2.31, 2.29]),
        group_of([0.5, 0.51, 0.52, 0.53, 0.54], name="b"),
    )
    assert found(*losses, "lower").failed == (3, 0)
    assert found(*losses, "lower", 2.3).kind == "both"


@pytest.mark.parametrize("n", [5, 7])
def test_the_difference_of_rates_covers_whatever_the_rates_are(n: int) -> None:
    """Exactly, by summing over all outcomes: it is conservative, as the exact intervals are."""
    counts = range(n + 1)
    table = [
        [difference_of(rate_of(x, n, 0.95), rate_of(y, n, 0.95)).interval for y in counts] for x in counts
    ]
    for p in (0.0, 0.05, 0.1, 0.2, 0.4, 0.7):
        for q in (0.0, 0.1, 0.3, 0.5):
            chances = np.outer(stats.binom.pmf(counts, n, p), stats.binom.pmf(counts, n, q))
            inside = [
                [i is not None and i.low - 1e-9 <= p - q <= i.high + 1e-9 for i in row] for row in table
            ]
            assert chances[np.array(inside)].sum() >= 0.95


def test_the_difference_of_rates_by_hand() -> None:
    """Exact limits of 3 of 5 are 0.14663 and 0.94726, of 0 of 5 they are 0 and 0.52182."""
    estimate = difference_of(rate_of(3, 5, 0.95), rate_of(0, 5, 0.95))
    assert estimate.interval is not None
    assert estimate.value == pytest.approx(0.6)
    assert estimate.interval.low == pytest.approx(0.6 - (0.45337**2 + 0.52182**2) ** 0.5, abs=1e-4)
    assert estimate.interval.high == pytest.approx(0.94726, abs=1e-4)


@pytest.mark.parametrize("n", [5, 7, 10, 20])
@pytest.mark.parametrize("shape", ["normal", "t5", "gamma"])
def test_values_of_one_mode_seldom_fall_into_two_clusters(shape: str, n: int) -> None:
    """At most 0.7 % in 4,000 draws of each."""
    rng = np.random.default_rng(n)
    uniform = rng.random((500, n))
    draws = {"normal": stats.norm(), "t5": stats.t(5), "gamma": stats.gamma(2)}[shape].ppf(uniform)
    assert sum(two_clusters(x) is not None for x in draws) <= 10


def test_one_outlier_and_rounded_values_are_no_clusters() -> None:
    other = group_of([0.5, 0.6, 0.7, 0.8], name="b")
    for x in ([0.9, 0.91, 0.92, 0.93, 0.94, 0.1], [0.91, 0.91, 0.92, 0.92, 0.92, 0.92, 0.91]):
        assert failures(group_of(x), other, "higher", None, 0.95, 100.0) is None


def crashing() -> pd.DataFrame:
    """Eight seeds in two groups; of a, seed 1 has no value, and seed 2 has one in a second row."""
    rows = [("a", s, v) for s, v in enumerate(SOUND)] + [("b", s, v + 0.5) for s, v in enumerate(SOUND)]
    table = pd.DataFrame(rows, columns=["arm", "seed", "accuracy"])
    table.loc[1, "accuracy"] = np.nan
    return pd.concat([table, pd.DataFrame([("a", 2, np.nan)], columns=table.columns)], ignore_index=True)


def test_a_row_without_a_value_is_a_failed_run_unless_it_was_repeated() -> None:
    runs = check_table(crashing(), Question.of("accuracy", "arm", "b"))
    ((_, (b, a)),) = groups_by_stratum(runs)
    assert (len(a.crashed), len(b.crashed), len(a.values)) == (1, 0, 7)
    assert a.crashed[0] == b.seed_codes[1]
    assert "1 run without a value counts as failed (row 3)." in runs.notes
    assert "1 run without a value was left out (row 18)." in runs.notes
    (comparison,) = audit(crashing(), "accuracy", "arm", "b").comparisons
    assert comparison.failures is not None
    assert (comparison.failures.failed, comparison.failures.seeds) == ((1, 0), (8, 8))
    assert comparison.failures.kind == "failed"
