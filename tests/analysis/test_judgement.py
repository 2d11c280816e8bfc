"""Several comparisons together: published examples, formulas, and the one rule of words and intervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from seedspread import audit
from seedspread.analysis.audit_result import AuditResult
from seedspread.analysis.display import MOST_ROWS, mean_and_sd
from seedspread.analysis.judgement import heterogeneity, holm, judged, random_effects, word
from seedspread.stats.headline import headlines
from seedspread.stats.result import Headline, Interval, Summary
from seedspread.stats.variance_ratio import FromJackknife
from tests.stats.arms import paper_arms

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


def test_holm_as_in_the_textbook() -> None:
    """Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, made monotone."""
    assert holm([0.01, 0.04, None, 0.03, 0.005]) == [
        pytest.approx(0.03), pytest.approx(0.06), None, pytest.approx(0.06), pytest.approx(0.02),
    ]  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_random_effects_of_the_bcg_trials() -> None:
    """metafor: rma(measure="RR", test="knha") has log RR -0.7145, tau^2 0.3132, p 0.0019, Q 152.23."""
    a, b, c, d = BCG.T
    effects = np.log(a / (a + b) / (c / (c + d)))
    errors = np.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))
    found = random_effects(effects, errors, 0.95)
    assert found.mean == pytest.approx(-0.7145, abs=5e-5)
    assert found.tau**2 == pytest.approx(0.3132, abs=5e-5)
    assert found.p == pytest.approx(0.0019, abs=5e-5)
    q, p = heterogeneity(effects, errors)
    assert q == pytest.approx(152.23, abs=0.005)
    assert p < 1e-20


def test_equal_errors_have_a_closed_form() -> None:
    """REML is then the sample variance less the errors' own, and the interval Student's."""
    effects = np.array([0.0, 1.0, 3.0, 4.0])
    found = random_effects(effects, np.full(4, 0.5), 0.9)
    assert found.tau**2 == pytest.approx(effects.var(ddof=1) - 0.25, rel=1e-6)
    low, high = stats.t.interval(0.9, 3, effects.mean(), stats.sem(effects))
    assert [found.low, found.high] == pytest.approx([low, high])
    assert found.p == pytest.approx(stats.ttest_1samp(effects, 0).pvalue)


def test_effects_that_happen_to_agree_are_not_surer_than_equal_ones() -> None:
    found = random_effects(np.array([1.0, 1.01, 0.99]), np.full(3, 0.6), 0.95)
    half = stats.norm.ppf(0.975) * 0.6 / 3**0.5
    assert found.tau == 0
    assert [found.low, found.high] == pytest.approx([1 - half, 1 + half])
    assert found.p == pytest.approx(2 * stats.norm.sf(1 / (0.6 / 3**0.5)))


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
    return audit(rows, "score", "arm", "b", by="data", resamples=100)


def test_three_groups_have_a_mean_over_strata_each() -> None:
    result = audited([9.0, 9.0, 9.0, 9.0], groups="abc")
    assert [(f.group, f.baseline, len(f.titles)) for f in result.forests] == [("a", "b", 4), ("c", "b", 4)]
    assert result.forest is None
    a, c = result.forests
    assert a.interval.low > 1
    assert c.interval.low < 1 < c.interval.high
    assert f"{a.pooled:.3g}" in result.to_text()


class TestWords:
    """The word, Holm's p and the interval that is shown cannot disagree."""

    @settings(max_examples=50, deadline=None)
    @given(
        st.lists(st.tuples(st.floats(-4, 4), st.floats(0.1, 2), st.floats(3, 30)), min_size=1, max_size=12),
        st.sampled_from([0.9, 0.95, 0.99]),
    )
    def test_one_rule(self, known: list[tuple[float, float, float]], level: float) -> None:
        estimates = [FromJackknife(*parameters) for parameters in known]
        comparisons = judged([_headline(e, level) for e in estimates], estimates, level)
        for c in comparisons:
            assert c.p_holm is not None
            assert c.headline.adjusted_interval is not None
            if abs(c.p_holm - (1 - level)) > 1e-9:
                assert (c.word == "shown") == (c.p_holm < 1 - level)
                assert (c.word == "shown") == (1.0 not in c.headline.adjusted_interval)
        if len(comparisons) == 1:
            adjusted, own = comparisons[0].headline.adjusted_interval, comparisons[0].headline.interval
            assert (adjusted.low, adjusted.high) == pytest.approx((own.low, own.high))  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("p", "p_small", "expected"),
        [
            (0.01, 0.9, "shown"), (0.01, 0.01, "shown"), (0.07, 0.5, "suggested"), (0.3, 0.6, "open"),
            (0.3, 0.01, "shown to be small"), (None, None, None), (0.199, None, "suggested"),
        ],
    )  # fmt: skip
    def test_definitions(self, p: float | None, p_small: float | None, expected: str | None) -> None:
        assert word(p, p_small, 0.05) == expected

    def test_many_equal_seeds_are_shown_to_be_small(self) -> None:
        rows = frame([1.0], seeds=150)
        c = audit(rows, "score", "arm", "b", resamples=100).comparisons[0]
        assert c.word == "shown to be small"
        assert c.headline.within is not None
        assert c.headline.within > 0.95
        narrow = audit(rows, "score", "arm", "b", resamples=100, equivalence=1.05).comparisons[0]
        assert narrow.word == "open"

    def test_the_verdict_quotes_what_holm_leaves(self) -> None:
        result = audited([40.0, 1.0, 1.0, 1.0], seeds=7)
        first = result.comparisons[0]
        assert first.headline.interval is not None
        assert first.headline.adjusted_interval is not None
        assert first.headline.adjusted_interval.high > first.headline.interval.high
        assert "adjusted over 4 comparisons (Holm)" in first.verdict
        assert f"{first.headline.adjusted_interval.low:.3g}" in first.verdict


ANY = audit(frame([2.0], seeds=3), "score", "arm", "b", resamples=100).comparisons[0]


def _headline(estimate: FromJackknife, level: float) -> Headline:
    """A headline of which nothing is known but its estimate."""
    p = 2 * min(estimate.above(0.0), estimate.below(0.0))
    ends = (np.exp(estimate.quantile(q)) for q in ((1 - level) / 2, (1 + level) / 2))
    interval = Interval(float(next(ends)), float(next(ends)), level)
    return replace(ANY.headline, p=p, interval=interval)


def test_the_headlines_numbers_belong_together() -> None:
    (h, estimate), *_ = headlines([paper_arms()], 0.95, 2.0)
    assert estimate is not None
    assert h.above_1 is not None
    assert h.p == pytest.approx(2 * min(h.above_1, 1 - h.above_1))
    assert h.within == pytest.approx(1 - (h.above_2 or 0) - (h.below_half or 0))
    assert h.interval is not None
    assert h.at_most is not None
    assert h.interval.low < (h.at_least or 0) < (h.ratio or 0) < h.at_most < h.interval.high
    assert estimate.below(np.log(h.at_most)) == pytest.approx(0.95, abs=1e-6)


def test_beyond_500_comparisons_the_jackknife_stands_in() -> None:
    result = audited([3.0] * 501, seeds=4)
    assert {c.headline.method for c in result.comparisons} == {"seed jackknife (Miller)"}
    assert any("stands in" in note for note in result.notes)
    c = result.comparisons[0]
    assert c.headline.interval == c.test("seed_jackknife").interval
    assert c.headline.p == pytest.approx(c.test("seed_jackknife").p)
    text = result.to_text()
    assert len(text.splitlines()) < MOST_ROWS + 20
    assert "471 more comparisons" in text


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
    assert answer.word is None
    assert answer.p_holm is None


@pytest.mark.parametrize("width", [50, 60, 80, 100, 120, 200])
def test_the_overview_fits_and_cuts_no_number(width: int) -> None:
    result = audited([9.0, 1.0, 30.0], groups="abc", seeds=6)
    text = result.to_text(width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for c in result.comparisons:
        assert f"{c.headline.ratio:.3g}" in text
        assert c.word in text  # type: ignore[operator]


@pytest.mark.parametrize(("seeds", "pairs"), [(3, 0), (4, 0), (5, 5)])
def test_few_shared_seeds_are_no_pairs(seeds: int, pairs: int) -> None:
    """Three often lie on a line: pairs would be sure of a ratio that is none."""
    c = audit(frame([1.0], seeds=seeds), "score", "arm", "b", resamples=100).comparisons[0]
    assert c.headline.pairs == pairs
    assert ("too few to use as pairs" in c.headline.why) == (pairs == 0)


def test_three_seeds_of_which_all_lie_on_a_line_show_nothing() -> None:
    rows = [("a", k, 5.0 * k) for k in range(3)] + [("b", k, 2.0 * k) for k in range(3)]
    table = pd.DataFrame(rows, columns=["arm", "seed", "score"])
    assert audit(table, "score", "arm", "b", resamples=100).comparisons[0].word == "open"


def test_a_stratum_with_the_runs_of_another_is_not_a_second_witness() -> None:
    """Runs that a factor makes no difference to stand in both of its levels: their ratios are dependent."""
    rng = np.random.default_rng(0)
    rows = [
        {"arm": arm, "margin": margin, "seed": seed, "score": score}
        for arm in ("a", "b")
        for margin in (1, 2, 3)
        for seed, score in enumerate(rng.normal(size=6))
    ]
    apart = pd.DataFrame(rows)
    assert audit(apart, "score", "arm", "a", by="margin").forests[0].titles == (
        "margin = 1: b against a", "margin = 2: b against a", "margin = 3: b against a",
    )  # fmt: skip
    first = apart[(apart["arm"] == "a") & (apart["margin"] == 1)]
    shared = pd.concat([apart[(apart["arm"] == "b") | (apart["margin"] != 2)], first.assign(margin=2)])
    found = audit(shared, "score", "arm", "a", by="margin")
    assert found.forests[0].titles == ("margin = 1: b against a", "margin = 3: b against a")
    assert any("margin = 2" in note and "margin = 1" in note for note in found.notes)
    both = audit(shared[shared["margin"] < 3], "score", "arm", "a", by="margin")
    assert both.forests == ()
