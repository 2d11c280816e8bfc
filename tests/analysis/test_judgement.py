"""Several comparisons together: published examples, formulas, and the one rule of words and intervals."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from seedspread import audit
from seedspread.analysis.audit_result import AuditResult, Comparison
from seedspread.analysis.display import mean_and_sd
from seedspread.analysis.judgement import adjusted, averages, heterogeneity, judged, word_of
from seedspread.analysis.words import left_out
from seedspread.stats.groups import Group
from seedspread.stats.headline import headlines
from seedspread.stats.result import Headline, Interval, Summary
from seedspread.stats.variance_ratio import FromJackknife
from seedspread.tables.question import TableError
from tests.analysis.made import runs
from tests.stats.groups import paper_groups

# Tuberculosis with and without BCG vaccination in 13 trials: cases and others among the vaccinated, then
# among the rest (Colditz et al., JAMA 271, 1994), the standard example of the R package metafor.
BCG = np.array(
    [
        (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619),
        (33, 5036, 47, 5761), (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892),
        (29, 7470, 45, 7232), (17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338),
        (27, 16886, 29, 17825),
    ],
    dtype=float,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_the_adjustment_is_that_of_statsmodels(p_values: list[float]) -> None:
    assert adjusted(p_values) == pytest.approx(list(multipletests(p_values, method="bonferroni")[1]))
    assert adjusted([*p_values, None])[:-1] == adjusted(p_values)


def test_heterogeneity_of_the_bcg_trials() -> None:
    """metafor: rma(measure="RR") has Q 152.23."""
    a, b, c, d = BCG.T
    effects = np.log(a / (a + b) / (c / (c + d)))
    q, p = heterogeneity(effects, np.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)))
    assert q == pytest.approx(152.23, abs=0.005)
    assert p < 1e-20


def frame(ratios: list[float], groups: str = "ab", seeds: int = 8, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        (f"d{k}", g, s, rng.normal() * (ratio**0.5 if g == "a" else 1))
        for k, ratio in enumerate(ratios)
        for g in groups
        for s in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["data", "arm", "seed", "score"])


def audited(ratios: list[float], **options: object) -> AuditResult:
    rows = frame(ratios, **options)  # type: ignore[arg-type]
    return audit(rows, "score", "arm", "b", by="data")


def test_three_groups_have_a_mean_over_strata_each() -> None:
    result = audited([9.0, 9.0, 9.0, 9.0], groups="abc")
    assert [(f.group, f.baseline, len(f.titles)) for f in result.averages] == [("a", "b", 4), ("c", "b", 4)]
    a, c = result.averages
    assert a.interval.low > 1
    assert c.interval.low < 1 < c.interval.high
    assert f"{a.pooled:.2g}" in result.to_text()


def test_two_clear_datasets_are_clear_together() -> None:
    """Hartung and Knapp's interval of two such ratios spans a factor of a million."""
    result = audited([12.0, 25.0], seeds=12)
    assert [c.word for c in result.comparisons] == ["YES", "YES"]
    (average,) = result.averages
    assert average.prediction is not None
    assert 1 < average.interval.low < average.pooled < average.interval.high < 1000
    assert average.pooled_p < 0.05
    assert average.prediction.low < average.interval.low < average.interval.high < average.prediction.high
    # Without the posteriors, their intervals stand in.
    (normal,) = averages(result.comparisons, 0.95)
    assert np.log(normal.pooled) == pytest.approx(np.log(average.pooled), abs=0.2)


class TestWords:
    """The verdict, its p and the interval that is shown cannot disagree."""

    @settings(max_examples=50, deadline=None)
    @given(
        st.lists(st.tuples(st.floats(-4, 4), st.floats(0.1, 2), st.floats(3, 30)), min_size=1, max_size=12),
        st.sampled_from([0.9, 0.95, 0.99]),
    )
    def test_one_rule(self, known: list[tuple[float, float, float]], level: float) -> None:
        estimates = [FromJackknife(*parameters) for parameters in known]
        comparisons = judged([_headline(e, level) for e in estimates], estimates, level)
        for c, estimate in zip(comparisons, estimates, strict=True):
            interval, p = c.headline.adjusted_interval, c.p_adjusted
            assert interval is not None
            assert p is not None
            if abs(p - (1 - level)) > 1e-9 and c.word != "NO":
                assert (c.word == "YES") == (p < 1 - level)
                assert (c.word == "YES") == (1.0 not in interval)
            if c.word == "NO":  # two one-sided tests: the 90% interval lies within the factor
                assert interval.level == pytest.approx(2 * level - 1)
                assert 0.5 <= interval.low <= interval.high <= 2.0
            tails = (1 - interval.level) / (2 * len(known))
            ends = [np.exp(estimate.quantile(q)) for q in (tails, 1 - tails)]
            assert [interval.low, interval.high] == pytest.approx(ends)

    @pytest.mark.parametrize(
        ("p", "expected"), [(0.01, "YES"), (0.07, "MAYBE"), (0.199, "MAYBE"), (0.3, "CAN'T TELL")]
    )
    def test_definitions(self, p: float, expected: str) -> None:
        assert word_of(p) == expected

    def test_many_equal_seeds_are_a_no(self) -> None:
        rows = frame([1.0], seeds=150)
        c = audit(rows, "score", "arm", "b").comparisons[0]
        assert c.word == "NO"
        narrow = audit(rows, "score", "arm", "b", equivalence=1.05).comparisons[0]
        assert narrow.word == "CAN'T TELL"

    def test_the_verdict_quotes_the_adjusted_interval(self) -> None:
        result = audited([40.0, 1.0, 1.0, 1.0], seeds=7)
        first = result.comparisons[0]
        assert first.headline.interval is not None
        assert first.headline.adjusted_interval is not None
        assert first.headline.adjusted_interval.high > first.headline.interval.high
        assert first.family == 4
        assert f"{first.headline.adjusted_interval.low:.2g}" in first.verdict


ANY = audit(frame([2.0], seeds=5), "score", "arm", "b").comparisons[0]


def _headline(estimate: FromJackknife, level: float) -> Headline:
    """A headline of which nothing is known but its estimate."""
    p = 2 * min(estimate.above(0.0), estimate.below(0.0))
    ends = (np.exp(estimate.quantile(q)) for q in ((1 - level) / 2, (1 + level) / 2))
    interval = Interval(float(next(ends)), float(next(ends)), level)
    return replace(ANY.headline, p=p, interval=interval)


def test_the_headlines_numbers_belong_together() -> None:
    (h, estimate), *_ = headlines([paper_groups()], 0.95, 2.0)
    assert estimate is not None
    assert h.above_1 is not None
    assert h.p == pytest.approx(2 * min(h.above_1, 1 - h.above_1))
    assert h.interval is not None
    assert h.interval.low < (h.ratio or 0) < h.interval.high


def test_beyond_500_comparisons_the_jackknife_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("seedspread.stats.headline", "seedspread.analysis.audit"):
        assert sys.modules[place].MOST_MODELED == 500
        monkeypatch.setattr(sys.modules[place], "MOST_MODELED", 20)
    result = audited([3.0] * 21, seeds=5)
    modelled = audited([3.0] * 20, seeds=5)
    jackknife = modelled.comparisons[0].test("seed_jackknife").name
    assert modelled.comparisons[0].headline.method != jackknife
    assert {c.headline.method for c in result.comparisons} == {jackknife}
    assert len(result.notes) == len(modelled.notes) + 1
    c = result.comparisons[0]
    assert c.headline.interval == c.test("headline").interval
    assert c.headline.p == pytest.approx(c.test("headline").p)
    text = result.to_text()
    assert len(text.splitlines()) <= 40
    assert left_out(11)[0] in text


@pytest.mark.parametrize(
    ("mean", "sd", "expected"),
    [(93.1234, 0.4123, "93.12 ± 0.41"), (0.91234, 0.0031, "0.9123 ± 0.0031"), (1234.5, 321.0, "1234 ± 321"),
     (5.0, 0.0, "5 ± 0"), (1e-9, 1e-12, "1e-09 ± 1e-12")],
)  # fmt: skip
def test_means_and_sds_as_papers_print_them(mean: float, sd: float, expected: str) -> None:
    assert mean_and_sd(Summary("a", (), 5, mean, sd, sd**2)) == expected


def test_a_headline_without_a_ratio_is_not_judged() -> None:
    blank = Headline(None, None, None, None, "", "no spread")
    (answer,) = judged([blank], [None], 0.95)
    assert answer.word == "CAN'T TELL"
    assert answer.p_adjusted is None


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_many_comparisons_fit_a_screen_and_cut_no_number(width: int) -> None:
    result = audited([9.0, 1.0, 30.0], groups="abc", seeds=6)
    text = result.to_text(width=width)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= (25 if width >= 80 else 32)  # means and ratios apart
    assert "…" not in text
    for c in result.comparisons:
        assert f"{c.headline.ratio:.2g}" in text
        assert c.word in text


@pytest.mark.parametrize(("seeds", "word"), [(3, "CAN'T TELL"), (4, "CAN'T TELL"), (5, "YES")])
def test_fewer_than_five_seeds_cannot_tell(seeds: int, word: str) -> None:
    """An exact permutation test of 3 against 3 cannot go below 0.1, whatever the ratio."""
    c = audit(frame([1e6], seeds=seeds), "score", "arm", "b").comparisons[0]
    assert c.word == word
    assert (c.headline.interval is None) == (word != "YES")
    assert c.headline.ratio is not None
    assert c.detectable is not None


def test_a_stratum_with_the_runs_of_another_is_not_independent_evidence() -> None:
    """Runs that a factor makes no difference to stand in both of its levels: their ratios are dependent."""
    rng = np.random.default_rng(0)
    rows = [
        {"arm": arm, "margin": margin, "seed": seed, "score": score}
        for arm in ("a", "b")
        for margin in (1, 2, 3)
        for seed, score in enumerate(rng.normal(size=6))
    ]
    apart = pd.DataFrame(rows)
    assert audit(apart, "score", "arm", "a", by="margin").averages[0].titles == (
        "margin = 1: b vs a", "margin = 2: b vs a", "margin = 3: b vs a",
    )  # fmt: skip
    first = apart[(apart["arm"] == "a") & (apart["margin"] == 1)]
    shared = pd.concat([apart[(apart["arm"] == "b") | (apart["margin"] != 2)], first.assign(margin=2)])
    found = audit(shared, "score", "arm", "a", by="margin")
    assert found.averages[0].titles == ("margin = 1: b vs a", "margin = 3: b vs a")
    assert any("margin = 2" in note and "margin = 1" in note for note in found.notes)
    both = audit(shared[shared["margin"] < 3], "score", "arm", "a", by="margin")
    assert both.averages == ()


SHAPES = st.sampled_from(["normal", "t", "lognormal", "outlier", "clusters"])


def values_of(shape: str, n: int, scale: float, rng: np.random.Generator) -> np.ndarray:
    """Values of a shape, of which some have a few that are much worse."""
    drawn = {
        "normal": rng.normal(size=n),
        "t": rng.standard_t(2.5, size=n),
        "lognormal": -np.exp(rng.normal(size=n)),
        "outlier": rng.normal(size=n) - 10 * (np.arange(n) < 1),
        "clusters": rng.normal(size=n) - 8 * (np.arange(n) < max(n // 5, 1)),
    }[shape]
    return scale * drawn


@given(SHAPES, SHAPES, st.integers(5, 25), st.floats(0.05, 20), st.booleans(), st.integers(0, 2**31))
def test_no_yes_contradicts_the_sample(
    first: str, second: str, n: int, scale: float, shared: bool, seed: int
) -> None:
    """YES in one direction beside a raw variance ratio in the other cannot be."""
    rng = np.random.default_rng(seed)
    x, y = values_of(first, n, scale, rng), values_of(second, n, 1.0, rng)
    seeds = [*range(n), *(range(n) if shared else range(n, 2 * n))]
    table = pd.DataFrame({"score": [*x, *y], "arm": ["x"] * n + ["y"] * n, "seed": seeds})
    c = audit(table, "score", "arm", "y").comparisons[0]
    raw = x.var(ddof=1) / y.var(ddof=1)
    assert c.headline.raw_ratio == pytest.approx(raw)
    if c.word == "YES":
        assert ((c.headline.ratio or 1) > 1) == (raw > 1)


def doubted(x: np.ndarray, y: np.ndarray, value: str = "score", **options: object) -> Comparison:
    table = pd.DataFrame({value: [*x, *y], "arm": ["x"] * len(x) + ["y"] * len(y)})
    seeds = pd.Series([*range(len(x)), *range(100, 100 + len(y))])
    found = audit(table.assign(seed=seeds), value, "arm", "y", **options)  # type: ignore[arg-type]
    return found.comparisons[0]


def test_bad_seeds_of_a_tight_group_do_not_turn_the_answer_round() -> None:
    rng = np.random.default_rng(3)
    tight = np.r_[90 + 0.3 * rng.normal(size=18), 84.0, 88.0]
    wide = 90 + rng.normal(size=20)
    c = doubted(tight, wide)
    unlike = c.headline.unlike
    assert unlike is not None
    assert unlike.typical_ratio < 1 < (c.headline.ratio or 0)  # the bulk is tighter, the variance larger
    assert c.headline.ratio == pytest.approx(tight.var(ddof=1) / wide.var(ddof=1))
    far = unlike.far[0]
    assert (far.below, far.above, far.seeds) == (2, 0, 20)
    low, high = stats.binomtest(2, 20).proportion_ci(method="exact")
    assert [far.interval.low, far.interval.high] == pytest.approx([low, high])
    assert c.word != "YES"


def test_a_yes_that_one_seed_carries_is_a_maybe_that_names_it() -> None:
    rng = np.random.default_rng(10)
    x, y = 1.5 * rng.normal(size=7), rng.normal(size=7)
    x[5] = -9.0
    c = doubted(x, y)
    assert c.word == "MAYBE"
    assert (c.doubts[0].kind, c.doubts[0].what, c.doubts[0].group) == ("seed", "5", "x")
    rest = doubted(np.delete(x, 5), y)
    assert rest.word != "YES"
    assert c.doubts[0].ratio == pytest.approx(rest.headline.ratio)


def test_a_yes_at_a_ceiling_must_hold_on_the_logit_scale() -> None:
    rng = np.random.default_rng(7)
    low, high = (1 / (1 + np.exp(-(mean + 0.6 * rng.normal(size=15)))) for mean in (2.2, 5.0))
    c = doubted(low, high, "accuracy")
    assert c.word == "MAYBE"
    assert [d.what for d in c.doubts] == ["logit"]
    on_logit = doubted(low, high, "accuracy", scale="logit")
    assert on_logit.word != "YES"
    assert on_logit.headline.ratio == pytest.approx(c.doubts[0].ratio)


def test_clusters_whose_rates_do_not_differ_carry_no_yes() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=7), rng.normal(size=7)
    x[:2] -= 30
    c = doubted(x, y)
    assert stats.fisher_exact([[2, 5], [0, 7]]).pvalue > 0.05
    assert c.word == "MAYBE"
    assert "clusters" in {d.kind for d in c.doubts}


@pytest.mark.parametrize(
    ("scale", "values", "said"),
    [
        ("log", [-1.0, 2.0, 3.0], "needs positive values"),
        ("logit", [0.5, 1.0, 0.7], "between 0 and 1, bounds excluded"),
    ],
)
def test_a_scale_that_values_do_not_have_is_refused(scale: str, values: list[float], said: str) -> None:
    with pytest.raises(TableError, match=said):
        doubted(np.array(values), np.array(values), "accuracy", scale=scale)
    with pytest.raises(TableError, match="is neither"):
        doubted(np.array([1.0, 2]), np.array([1.0, 2]), "reward", scale="logit")


def test_the_log_scale_is_that_of_logarithms() -> None:
    rng = np.random.default_rng(2)
    x, y = np.exp(rng.normal(size=9)), np.exp(2 * rng.normal(size=9))
    scaled, by_hand = doubted(x, y, "loss", scale="log"), doubted(np.log(x), np.log(y), "loss")
    assert scaled.headline.ratio == pytest.approx(by_hand.headline.ratio)
    assert scaled.word == by_hand.word


def test_intervals_hold_together() -> None:
    """Ten comparisons with true ratios of 1, 3 and 20: all 95% intervals cover in about 95% of tables."""
    rng = np.random.default_rng(11)
    ratios = [1.0, 3.0, 20.0] * 3 + [1.0]
    missed = 0
    for _ in range(60):
        pairs = [
            (Group.of(ratio**0.5 * rng.normal(size=8)), Group.of(rng.normal(size=8))) for ratio in ratios
        ]
        found = headlines(pairs, 0.95, 2.0)
        answers = judged([h for h, _ in found], [e for _, e in found], 0.95)
        missed += any(
            ratio not in (a.headline.adjusted_interval or Interval(0, 0, 0)) and a.word != "NO"
            for a, ratio in zip(answers, ratios, strict=True)
        )
    assert missed <= 8  # a share of 5% gives more in 1 of 500 such series


def test_numeric_levels_are_in_numeric_order_the_baseline_among_them() -> None:
    result = audit(runs({"10": 0.1, "1": 0.3, "100": 0.2}), "score", "arm", "10")
    assert [c.group for c in result.comparisons] == ["1", "100"]
    rows = [line.split()[0] for line in result.to_text().splitlines() if "±" in line and "mean" not in line]
    assert rows == ["1", "10", "100"]
