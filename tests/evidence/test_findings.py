"""What follows from the published runs, held to the runs themselves."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from evidence.estimates import estimated, net, net_change, paper_over
from evidence.findings import Finding, compared, findings, rates_and_outcomes, seed_correlation
from evidence.plan import ALL, LOCAL_RULES, PRECISION, SOURCES, STUDIES
from evidence.saturated import saturated
from evidence.sources import is_source, sources
from evidence.strata import change, further
from evidence.tables import published_runs
from evidence.verdicts import verdict_rows, verdict_table
from seedspread import components
from seedspread.analysis import words
from seedspread.analysis.audit_result import AuditResult, Comparison
from seedspread.analysis.words import two
from seedspread.stats.result import Estimate


def audited() -> list[tuple[Finding, AuditResult]]:
    """The studies with their audits; those that have none are left out."""
    return [(found, found.audit) for found in findings() if found.audit is not None]


def comparisons() -> list[tuple[Finding, Comparison]]:
    return [(found, c) for found, audit in audited() for c in audit.comparisons]


def test_every_study_is_there_with_its_question_and_its_prediction() -> None:
    elsewhere = {ALL, SOURCES, LOCAL_RULES, PRECISION}  # pages of their own, and collections
    there = {path.stem for path in STUDIES.iterdir()} - elsewhere
    assert {found.name for found in findings()} == there
    for found in findings():
        assert found.study.file.question.endswith((".", "?"))
        assert found.study.file.prediction.endswith(".")


def test_ratios_are_those_of_the_runs() -> None:
    """The plain ratio and the spreads, by hand."""
    for found, c in comparisons():
        spec = found.study.audit
        assert spec is not None
        runs = found.runs
        for name, level in zip(spec.strata, c.stratum, strict=True):
            runs = runs[runs[name] == level]
        group, baseline = (runs.loc[runs[spec.group] == level, "accuracy"] for level in (c.group, c.baseline))
        assert c.pooled[0].sd == pytest.approx(100 * np.std(group, ddof=1))
        assert c.pooled[1].sd == pytest.approx(100 * np.std(baseline, ddof=1))
        if not spec.blocks:
            assert c.headline.raw_ratio == pytest.approx(np.var(group, ddof=1) / np.var(baseline, ddof=1))
        assert c.headline.interval is not None
        assert c.headline.ratio is not None
        assert c.headline.interval.low < c.headline.ratio < c.headline.interval.high


def test_rate_and_outcome_is_pearsons_correlation() -> None:
    runs = published_runs()
    streams = [name for name in runs.columns if name.startswith("seeds.") and name != "seeds.run"]
    runs = runs[runs[streams].isna().all(axis=1) & (runs["objective.stability"] == "detach")]
    runs = runs[runs["objective.loss"].isin(["supcon", np.nan]) & (runs["runtime.precision"] == "fp32")]
    usual = {"superclass": "class", "end_to_end": "layer_local"}
    found = rates_and_outcomes()
    for one in found:
        margin, first, *special = one.group.split(", ")
        positives, rule = (name if name in special else default for name, default in usual.items())
        group = runs[
            (runs["dataset"] == one.dataset)
            & (runs["objective.margin_type"] == margin)
            & (runs["objective.margin_first"] == float(first))
            & (runs["objective.positives"] == positives)
            & (runs["training.rule"] == rule)
            & (runs["training.epochs"] == (16 if "16 epochs" in special else 4))
        ]
        expected = stats.pearsonr(group["mean_clamp_activation_rate.0"], group["accuracy"]).statistic
        assert one.correlation.r == pytest.approx(expected)
        assert one.correlation.seeds == len(group)
    assert len(found) >= 5


def test_how_ratios_change_is_what_the_audits_say() -> None:
    """Of independent strata Cochran's Q is its square; with a shared baseline it is the group's own ratio."""
    changed = {found.study.name: (found, one) for found, _ in audited() if (one := change(found)) is not None}
    found, one = changed["dose"]
    assert found.audit is not None
    assert not found.audit.averages  # subtraction has one set of runs for both margins
    runs = found.runs[found.runs["margin_type"] == "clamp"].groupby("margin_first")["accuracy"]
    assert one.ratio == pytest.approx(runs.var()["0.8"] / runs.var()["0.4"], rel=0.15)  # plain variances
    for found, one in changed.values():
        assert found.audit is not None
        if found.audit.averages:
            ratios = [c.headline.ratio or np.nan for c in found.audit.comparisons]
            assert one.ratio == pytest.approx(ratios[1] / ratios[0])
            assert one.p == pytest.approx(found.audit.averages[0].p)


def test_high_rates_are_put_together_from_runs_that_are_apart() -> None:
    """By the paper's rule of thumb, and about as inverse variances weigh them."""
    together = saturated()
    assert together is not None
    chosen = {
        f"{found.name}: {compared(c)}": (found, c)
        for found, c in comparisons()
        if (c.group, c.baseline) == ("clamp", "subtract") and found.is_whole and found.rate(c) >= 0.5
    }
    assert together.names == tuple(chosen)
    assert min(together.rates) >= 0.5
    keys = [key for found, c in chosen.values() for key in found.keys(c)]
    assert len(keys) == len(set(keys))
    average = together.average
    logs, weights = np.array(average.log_ratios), 1 / np.array(average.standard_errors) ** 2
    assert np.exp(logs) == pytest.approx([c.headline.ratio for _, c in chosen.values()])
    mean, half = (logs * weights).sum() / weights.sum(), stats.norm.ppf(0.975) / weights.sum() ** 0.5
    # Allowing for datasets that differ moves the mean little and widens its interval.
    assert np.log(average.pooled) == pytest.approx(mean, abs=0.1)
    assert average.interval.low < np.exp(mean - half) < np.exp(mean + half) < average.interval.high


def test_every_comparison_stands_once_among_the_verdicts() -> None:
    rows = [row[:2] for row in verdict_table().rows]
    assert ("margin", "clamp") in rows
    assert ("dose", "clamp, 0.8") in rows
    assert ("dose", "clamp, 0.4") not in rows  # the runs of the first
    assert len(rows) == len({found.keys(c) for found, c in comparisons() if not is_source(found.study)})
    for row in verdict_rows():  # all of them adjusted for all of them
        p, n = row.judged.headline.p, len(rows)
        assert p is not None
        assert row.judged.p_adjusted == pytest.approx(min(n * p, 1.0))
        assert row.net is not None
        assert row.net.interval is not None
        assert row.net.interval.level == pytest.approx(1 - 0.05 / n)


def test_net_ratios_and_the_papers_ratio_over_ours_are_those_computed_independently() -> None:
    """By another program: 0.30 [0.05, 1.08] net; the paper over ours 6.0 [0.99, 53] and 15 [2.5, 136]."""
    by_name = {(found.name, compared(c)): (found, c) for found, c in comparisons()}
    small, large = by_name["margin", "clamp"], by_name["dose", "clamp, 0.8"]
    told = net(*small)
    assert told is not None
    assert told.interval is not None
    assert (told.value, *ends(told)) == pytest.approx((0.30, 0.05, 1.08), rel=0.1)
    for pair, expected in ((large, (6.0, 0.99, 53)), (small, (15, 2.5, 136))):
        over = paper_over(estimated(*pair)[1])
        assert (over.value, *ends(over)) == pytest.approx(expected, rel=0.03)


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.interval is not None
    return estimate.interval.low, estimate.interval.high


@pytest.mark.soak
def test_sources_are_split_by_the_runs_of_their_studies() -> None:
    """The page's components, by the studies' keys, and those of rows that are chosen by hand."""
    split = sources()
    assert split is not None
    runs = published_runs()
    streams = [name for name in runs.columns if name.startswith("seeds.") and name != "seeds.run"]
    one_stream, twins = runs[streams].notna().any(axis=1), runs["seeds.run"].between(1, 8)
    is_plain = (
        (runs["dataset"] == "CIFAR-10")
        & runs["objective.margin_type"].isin(["clamp", "subtract"])
        & (runs["objective.margin_first"] == 0.4)
        & (runs["objective.positives"] == "class")
        & (runs["training.rule"] == "layer_local")
        & (runs["training.epochs"] == 4)
        & (runs["runtime.precision"] == "fp32")
        & runs["objective.loss"].isin(["supcon", np.nan])
    )
    chosen = runs[is_plain & (one_stream | twins)]
    told = components(chosen, "accuracy", "objective.margin_type", "objective.stability", baseline="subtract")
    for ours, theirs in zip(split.strata[0].groups, told.strata[0].groups, strict=True):
        assert ours.group == theirs.group
        for part, other in zip(ours.components, theirs.components, strict=True):
            assert part.name == other.name
            assert part.variance == pytest.approx(100**2 * other.variance, rel=1e-3, abs=1e-6)


HIGH = (("fashion-mnist", "clamp"), ("dose", "clamp, 0.8"), ("pair-density", "clamp, superclass"))


def one_of(study: str, compared_as: str = "clamp") -> tuple[Finding, Comparison]:
    """A comparison of a study all of whose runs are there."""
    found, c = next(
        (found, c) for found, c in comparisons() if (found.name, compared(c)) == (study, compared_as)
    )
    assert found.is_whole
    return found, c


def test_readme_quotes_the_first_table() -> None:
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text().split())
    of = {(row.found.name, compared(row.comparison)): row for row in verdict_rows()}
    for row in (of["margin", "clamp"], of["longer", "clamp"]):
        assert f"{two(row.judged.headline.ratio)} (95% CI {words.ends(row.interval)})" in readme


def test_no_verdict_of_the_first_table_claims_alike_spreads_or_a_wider_one_under_the_clamp() -> None:
    """As the answer says: no NO, and one YES, in which the clamp spreads less."""
    shown = [row for row in verdict_rows() if row.word != "CAN'T TELL"]
    assert [(row.found.name, row.word) for row in shown] == [("saturation", "YES")]
    assert (shown[0].judged.headline.ratio or 0) < 1


def test_changes_net_of_the_test_set_are_those_of_the_pivots() -> None:
    """By another program: 3.8 [1.04, 25] for the dose, 7.7 [1.3, 74] from 4 to 16 epochs, 2.8 [1.1, 8.0]."""
    dose = change(one_of("dose", "clamp, 0.4")[0])
    assert dose is not None
    assert dose.net is not None
    assert (dose.net.value, *ends(dose.net)) == pytest.approx((3.83, 1.04, 24.7), rel=0.02)
    longer = net_change(one_of("margin"), one_of("longer"))
    assert (longer.value, *ends(longer)) == pytest.approx((7.65, 1.31, 73.9), rel=0.03)
    again = further(one_of("dose-again", "0.8 / 0.4")[0])
    assert again is not None
    assert again[1]["net"] == "2.8 (1.1 to 8.0)"


def test_a_net_change_turned_around_is_its_inverse() -> None:
    """Turned around, it is its inverse, and so are the ends of its interval."""
    small, large = one_of("margin"), one_of("dose", "clamp, 0.8")
    there, back = net_change(small, large), net_change(large, small)
    assert there.value == pytest.approx(1 / back.value)
    assert ends(there) == pytest.approx([1 / end for end in ends(back)][::-1], rel=0.02)


def test_it_is_scipys_of_seed_means_with_fishers_interval() -> None:
    rng = np.random.default_rng(1)
    seeds = [str(i) for i in range(8) for _ in range(2)]
    x, y = rng.normal(size=16), rng.normal(size=16)
    correlation = seed_correlation(seeds, list(x), list(y))
    assert correlation is not None
    means = x.reshape(8, 2).mean(axis=1), y.reshape(8, 2).mean(axis=1)
    r = stats.pearsonr(*means).statistic
    assert correlation.r == pytest.approx(r)
    assert correlation.seeds == 8
    half = stats.norm.ppf(0.975) / np.sqrt(8 - 3)
    assert correlation.interval is not None
    assert (correlation.interval.low, correlation.interval.high) == pytest.approx(
        (np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half))
    )


def test_too_few_seeds_and_values_that_do_not_vary_have_none() -> None:
    assert seed_correlation(["1", "2"], [1, 2], [1, 2]) is None
    assert seed_correlation(["1", "2", "3"], [1, 1, 1], [1, 2, 3]) is None
    three = seed_correlation(["1", "2", "3"], [1, 2, 3], [1, 2, 4])
    assert three is not None
    assert three.interval is None
