"""Every sentence about a result: of a comparison, an audit, sets of runs, variance components, looks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from seedspread.runs.levels import Levels, arm_name, joined_levels, stratum_name
from seedspread.runs.studies import LookComparison, SequentialRecord
from seedspread.stats.components import NOISE, TOGETHER, Design
from seedspread.stats.groups import Group
from seedspread.stats.pooling import UnequalCells, are_dependent
from seedspread.stats.result import (
    Better,
    Collapse,
    Contrast,
    Estimate,
    FailedRuns,
    FailureModel,
    Headline,
    InterimLook,
    Interval,
    Performance,
    SameSeedRuns,
    TestResult,
    TestSetNoise,
    TwoClusters,
    Word,
)

if TYPE_CHECKING:
    from seedspread.analysis.audit_result import AuditResult, Comparison, Forest
    from seedspread.analysis.components import ArmComponents, Component, ComponentContrast, ComponentsResult
    from seedspread.analysis.seeds import Design as SeedDesign
    from seedspread.analysis.sets import Agreement, CompareResult


def number(value: float | None) -> str:
    """Three digits, no needless ones; infinity has its sign."""
    if value is None:
        return "-"
    if not np.isfinite(value):
        return "∞"
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2e}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def p_value(p: float | None) -> str:
    """`0.003`, `< 0.001`."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_phrase(p: float) -> str:
    """`p = 0.003`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def between(interval: Interval | None) -> str:
    """`[1.2, 57]`."""
    return "-" if interval is None else f"[{number(interval.low)}, {number(interval.high)}]"


def probability(value: float) -> str:
    """`0.97`, `> 0.99`."""
    return "> 0.99" if value > 0.99 else "< 0.01" if value < 0.01 else f"{value:.2f}"


def ladder_p(p: float) -> str:
    """Four decimals: steps between small p values are what a ladder shows."""
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def interval_of_look(c: LookComparison) -> Interval | None:
    """Of the ratio; None where there was none."""
    if c.ratio is None or c.p is None:
        return None
    return Interval(c.low or 0.0, float("inf") if c.high is None else c.high, 0.95)


_ALPHA = 0.05
# Of so many runs or fewer the worst tenth is the worst run.
_TEN = 10
# Cells that a warning names.
_MOST_CELLS = 6
# Of a variance: what most of it is, and what is worth naming; of a difference that is shown: what is little.
_MOSTLY, _WORTH_NAMING, _LITTLE = 2 / 3, 0.1, 0.2
# Why components cannot be had, or not all.
NO_VARIANCE = "no two runs of one block differ, so there is no variance to split"
NOT_REPEATED = (
    "no seed is run twice, so that seeds and same-seed noise cannot be told apart; run each seed in two "
    "blocks (--block), or repeat runs"
)
QUIET = "runs that differ only in what comes after training have no same-seed noise among them"
# The column of mean squares in a table of components.
UNBIASED = "unbiased"
# How the headline of two sets comes about.
RATIO_OF_RATIOS = (
    "the headlines of two sets of runs, taken as independent: the difference of their log ratios has the "
    "distribution that both together give it"
)
# Why there is no test of the spread, or no F test.
SINGLE_SEED = "an arm has a single seed: it counts for the means, and has no variance over seeds"
BRIEF = "left out of a brief audit"
POOLED_WHY = "the classical figure: every run counted as independent"
# Of a set that is a sequential study.
LOOKS_NOT_COUNTED = "Its ratios here do not count the looks; its own audit does."
# Settings that a line names.
_MOST_NAMED = 4
# Answers that a sentence names.
_MOST_ANSWERS = 3
# What is wrong with arms whose spread cannot be judged, and how that is said after a number.
_UNSOUND = {"runs fail": "where runs fail", "two clusters": "with two clusters"}
# Means over strata that a sentence has.
_MOST_MEANS = 3


def warnings(
    twins: Sequence[SameSeedRuns],
    tests: Sequence[TestResult],
    arm: Group,
    baseline: Group,
    unlike: UnequalCells | None,
) -> tuple[str, ...]:
    """What a reader should know before using the numbers."""
    out = []
    alike = [t for t in twins if are_dependent(t)]
    for t in alike:
        name = arm_name(arm.factor, t.group)
        if t.identical == t.seeds:
            out.append(
                f"All {t.seeds} seeds of {name} have equal values in all blocks: copies, not further runs."
            )
            continue
        if 2 * t.identical >= t.seeds:
            share = f"{t.identical} of {t.seeds} seeds of {name}"
            out.append(f"{share} have exactly equal values in all blocks: copies.")
        if t.correlation is not None and t.p is not None:
            out.append(
                f"Runs of one seed in different blocks of {name} correlate by {t.correlation:.2f} "
                f"({p_phrase(t.p)}): its {t.naive_df + 1} runs are worth {t.effective_df:.0f} degrees of "
                f"freedom, not {t.naive_df}."
            )
    if set(arm.cells) != set(baseline.cells):
        out.append(
            "The arms were not run in the same blocks: what a block does is mixed with what the group does."
        )
    for side in (arm, baseline):
        sizes = [len(v) for v in side.cells.values()]
        if min(sizes) == 1 and len(sizes) > 1:
            name = arm_name(side.factor, side.name)
            out.append(f"{name} has a block with a single run: it counts for the means only.")
    for name, p in ((t.name, t.p) for t in tests if t.about == "shape"):
        if p is not None and p < _ALPHA:
            out.append(f"{name} rejects normality ({p_phrase(p)}): do not rely on F.")
    if unlike is not None:
        out.append(unlike_sentence(unlike, arm.factor))
    return tuple(out)


def unlike_sentence(unlike: UnequalCells, factor: str) -> str:
    """A warning of cells whose variances are far apart; `factor` is what the arms are levels of."""
    spans = "; ".join(
        f"the variance of {arm_name(factor, s.group)} goes from {_variance(s.low)} "
        f"({joined_levels(s.low_block)}) to {_variance(s.high)} ({joined_levels(s.high_block)})"
        for s in unlike.spans
    )
    ratios = unlike.ratios
    listed = ", ".join(f"{joined_levels(r.block)}: {_variance(r.ratio)}" for r in ratios[:_MOST_CELLS])
    more = f" and {len(ratios) - _MOST_CELLS} more" if len(ratios) > _MOST_CELLS else ""
    by_cell = f" Ratios of variances by cell: {listed}{more}." if ratios else ""
    return (
        f"Cells are unlike: {spans}. A ratio within cells is then that of the cells with the "
        f"largest variance.{by_cell} Compare them apart (--by), or on a scale that they share."
    )


def _variance(value: float) -> str:
    return "none" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.3g}"


def collapse_sentence(collapse: Collapse, factor: str) -> str:
    """Which runs failed or fall apart, and what that does to a variance."""
    if not collapse.found:
        return "No run is flagged, near chance, or in a cluster of its own."
    found = "; ".join(_sign(sign, arm_name(factor, sign.group)) for sign in collapse.signs)
    if collapse.failed:
        return (
            f"{found}. A variance over failed and sound runs together measures how often runs fail: compare "
            "the rates, and the spread of the sound runs apart."
        )
    return (
        f"{found}. A variance over both clusters measures how far they lie apart: compare how often runs "
        "fall into the worse one, and the spread within the better one."
    )


def _sign(sign: TwoClusters | FailedRuns, name: str) -> str:
    if isinstance(sign, TwoClusters):
        return (
            f"{name} falls into two clusters, {sign.below} seeds below {sign.cut:.4g} and {sign.above} above "
            f"(gap test p = {sign.p:.3g})"
        )
    if sign.sign == "no value":
        have = "seed has" if sign.count == 1 else "seeds have"
        return f"{sign.count} {name} {have} a run without a value"
    runs = f"{sign.count} of {sign.of} {name} runs"
    if sign.sign == "flagged":
        return f"{runs} are flagged as collapsed"
    return f"{runs} score no better than {sign.chance:.4g}, which takes no learning, or hardly better"


def floor_sentence(floor: TestSetNoise, name: str | None = None) -> str:
    """How much of an arm's variance the test set makes by itself; `name` is the arm's in the sentence."""
    name = floor.group if name is None else name
    examples = f"{floor.test_size:,} test examples"
    if floor.remaining is None or floor.interval is None:
        if floor.observed > floor.floor:
            return f"{name}: {examples} make at most {floor.floor:.3g} of the variance {floor.observed:.3g}"
        return (
            f"{name}: the variance {floor.observed:.3g} is no larger than what {examples} can make by chance "
            f"({floor.floor:.3g}); it may be nothing else"
        )
    below = " (below zero: these runs differ by no more than the test set's chance)"
    return (
        f"{name}: of the variance {floor.observed:.3g}, the {examples} make {floor.floor:.3g} by themselves; "
        f"{floor.remaining:.3g} [{floor.interval.low:.3g}, {floor.interval.high:.3g}] would remain on an "
        f"infinite test set{below if floor.remaining < 0 else ''}"
    )


def sentences(c: Comparison) -> list[str]:
    """The answer, how sure it is, what the design could have shown, and what the means do."""
    names = c.arm_name, c.baseline_name
    parts = [_spread(c), *_chances(c), *_pairs(c)]
    if c.failures is not None:
        parts.insert(0, failure_sentence(replace(c.failures, groups=names)))
    parts += _pooled(c)
    if c.detectable is not None:
        parts.append(
            f"With {seed_counts(c)} ratios above {number(c.detectable)} can be detected (power 0.8)."
        )
    if c.performance is not None:
        parts.append(performance_sentence(replace(c.performance, groups=names)))
    return parts


_OPENING = {
    "shown": "Shown: ",
    "suggested": "Suggested, not shown: in this sample ",
    "open": "Open: in this sample ",
}


def _spread(c: Comparison) -> str:
    h = c.headline
    if h.ratio is None:
        return _no_ratio(c)
    interval, p = h.shown_interval, c.p_holm
    unknown = Interval(0.0, math.inf, 0.95)
    ratio, ends, (a, b) = _larger_first(h.ratio, interval or unknown, (c.arm_name, c.baseline_name))
    sentence = f"the variance under {a} is {number(ratio)} times that under {b}"
    sd = f"{number(ratio**0.5)} times the sd"
    if interval is None or p is None or c.word is None:
        return f"In this sample {sentence} ({sd}); whether that is more than chance cannot be told: {h.why}."
    adjusted = f", adjusted over {c.family} comparisons (Holm)" if c.family > 1 else ""
    looks = f", {look_title(h.looks)} counted" if h.looks else ""
    sentence += f" ({sd}; {interval.level:.0%} interval {between(ends)}, {p_phrase(p)}{looks}{adjusted})"
    if c.word == "shown to be small":
        return (
            f"Shown to be small: neither variance is more than {h.equivalence:g} times the other; {sentence}."
        )
    return f"{_OPENING[c.word]}{sentence}."


def _larger_first(
    ratio: float, interval: Interval, names: tuple[str, str]
) -> tuple[float, Interval, tuple[str, str]]:
    """Turn a ratio round, if it is below 1, so that the name with the larger variance comes first."""
    if ratio >= 1:
        return ratio, interval, names
    ends = Interval(_inverse(interval.high), _inverse(interval.low), interval.level)
    return _inverse(ratio), ends, names[::-1]


def _is_larger(c: Comparison) -> bool:
    """Sentences put the larger variance first."""
    return (c.headline.ratio or 1.0) >= 1


def _upwards(c: Comparison, ratio: float) -> float:
    return ratio if _is_larger(c) else _inverse(ratio)


def _chances(c: Comparison) -> list[str]:
    """Probabilities, bounds, and the plain ratio, which no model stands between."""
    h = c.headline
    if h.above_1 is None or h.above_2 is None or h.below_half is None or h.interval is None:
        return []
    larger = _is_larger(c)
    chance, doubled = (h.above_1, h.above_2) if larger else (1 - h.above_1, h.below_half)
    bound = h.at_most if larger else _inverse(h.at_least or 0.0)
    return [
        f"It is larger with probability {probability(chance)}, more than twice as large with "
        f"{probability(doubled)}, and at most {number(bound)} times as large ({h.interval.level:.0%}); "
        f"plain variances: {number(_upwards(c, h.plain_ratio or math.nan))} times."
    ]


def _pairs(c: Comparison) -> list[str]:
    """What the pairs have bought, or cost."""
    h = c.headline
    if not h.pairs or h.interval is None or h.unpaired is None:
        return []
    with_pairs, without = (i.high / i.low if i.low > 0 else math.inf for i in (h.interval, h.unpaired))
    before = "" if h.shown_interval == h.interval else ", before it is adjusted,"
    return [
        f"The {h.pairs} seeds that both arms have were used as pairs: the interval{before} is "
        f"{number(with_pairs)}-fold, without them {number(without)}-fold."
    ]


def _inverse(value: float) -> float:
    return float("inf") if value == 0 else 1 / value


def _no_ratio(c: Comparison) -> str:
    flat = [arm_name(c.factor, s.group) for s in c.pooled if s.variance == 0]
    single = [name for name, n in zip((c.arm_name, c.baseline_name), c.seeds, strict=True) if n < 2]
    if single:
        return f"No variance over seeds can be had from the single seed of {' and '.join(single)}."
    if len(flat) == 2:
        return "Neither arm has any spread: all values are equal."
    if flat:
        return (
            f"All values of {flat[0]} are equal, so a ratio of variances is zero or infinite, and not tested."
        )
    return "An arm has no spread within its cells, so there is no ratio of variances to give."


def _pooled(c: Comparison) -> list[str]:
    if c.pooled_test.ratio is None or c.pooled_test.p is None or not c.twins:
        return []
    # The same way round as the sentence before it.
    turned = c.headline.ratio is not None and c.headline.ratio < 1
    ratio = _inverse(c.pooled_test.ratio) if turned else c.pooled_test.ratio
    sentence = f"All runs pooled as independent give {number(ratio)} times ({p_phrase(c.pooled_test.p)})"
    return [f"{sentence}, which takes values as normal and runs of one seed as independent."]


def seed_counts(c: Comparison) -> str:
    """`7 seeds`, `7 and 5 seeds`."""
    first, second = c.seeds
    return f"{first} seeds" if first == second else f"{first} and {second} seeds"


def failure_sentence(model: FailureModel) -> str:
    """`2 of 10 clamp seeds failed against 0 of 10 of subtract (...); among the sound ones ...`."""
    what = {
        "failed": "failed",
        "clusters": "lie in the worse of two clusters",
        "both": "failed or lie in the worse of two clusters",
    }[model.kind]
    (x, y), (n, m), (arm, baseline) = model.failed, model.seeds, model.groups
    rates = " against ".join(map(_rate, model.rates))
    sentence = (
        f"{x} of {n} {arm} seeds {what} against {y} of {m} of {baseline} (rate {rates}, {p_phrase(model.p)})"
    )
    return f"{sentence}; {_sound(model)}."


def _rate(rate: Estimate) -> str:
    """`20 % [3, 56]`."""
    ends = (
        "" if rate.interval is None else f" [{100 * rate.interval.low:.0f}, {100 * rate.interval.high:.0f}]"
    )
    return f"{100 * rate.value:.0f} %{ends}"


def _sound(model: FailureModel) -> str:
    among = "within the better one" if model.kind == "clusters" else "among the sound seeds"
    ratio = model.sound_ratio
    if ratio is None or ratio.interval is None or model.sound_p is None:
        first, second = model.sound_seeds
        return f"{among} ({first} and {second}) no ratio of variances can be had"
    times, interval, (arm, baseline) = _larger_first(ratio.value, ratio.interval, model.groups)
    return (
        f"{among} the variance under {arm} is {number(times)} times {between(interval)} that under "
        f"{baseline} ({p_phrase(model.sound_p)})"
    )


def performance_sentence(p: Performance) -> str:
    """`clamp is better on average by 0.3 [0.1, 0.5] (a run of clamp beats ...)`: only what is shown."""
    arm, baseline = p.groups
    mean, middle, worst = (_claim(contrast, p.better) for contrast in (p.mean, p.iqm, p.worst))
    chance = f"a run of {arm} beats one of {baseline} with probability {_share(p.improvement)}"
    if mean:
        parts = [f"{arm} is {mean[0]} on average by {mean[1]} ({chance})"]
    else:
        size = f"{arm} − {baseline}: {number(p.mean.difference.value)}{_wide(p.mean.difference)}"
        told = f"{size}; {chance}" if p.improvement.interval else size  # of single runs it would be 0 or 1
        parts = [f"Neither is shown to be better on average ({told})"]
    if middle and (mean is None or middle[0] != mean[0]):
        parts.append(f"the middle half of the runs of {arm} is {middle[0]} by {middle[1]}")
    if worst:
        which = f"worst of {p.worst_of} runs" if p.worst_of <= _TEN else "worst tenth of the runs"
        but = "but " if mean and worst[0] != mean[0] else ""
        parts.append(f"{but}the {which} of {arm} is {worst[0]} by {worst[1]}")
    if any(p.crashed):
        parts.append("runs without a value are not counted in this")
    return "; ".join(parts) + "."


def _claim(contrast: Contrast, better: Better) -> tuple[str, str] | None:
    """`better` or `worse`, and by how much: `0.3 [0.1, 0.5]`; nothing where the interval has both."""
    interval, value = contrast.difference.interval, contrast.difference.value
    if interval is None or 0 in interval:
        return None
    word = "better" if (value > 0) == (better == "higher") else "worse"
    low, high = sorted((abs(interval.low), abs(interval.high)))
    return word, f"{number(abs(value))} {between(Interval(low, high, interval.level))}"


def _wide(estimate: Estimate) -> str:
    return "" if estimate.interval is None else f" {between(estimate.interval)}"


def _share(estimate: Estimate) -> str:
    ends = estimate.interval
    return f"{estimate.value:.2f}" + ("" if ends is None else f" [{ends.low:.2f}, {ends.high:.2f}]")


def explanations(c: Comparison) -> list[str]:
    """Per test a paragraph: which it is, why it is used, what it assumes, whether that is met."""
    return [f"{test_name(t)}: {_explained(t)}" for t in c.tests]


def _explained(t: TestResult) -> str:
    df = f" ({', '.join(f'{d:.3g}' for d in t.df)} df)" if t.df else ""
    statistic = "" if t.statistic is None else f"statistic {t.statistic:.3g}{df}; "
    p = "" if t.p is None else f"p {p_value(t.p)}; "
    met = {True: "met", False: "not met", None: "not testable here"}[t.assumptions_met]
    evidence = f" ({t.evidence})" if t.evidence else ""
    note = f" {t.note[0].upper()}{t.note[1:]}." if t.note else ""
    return f"{statistic}{p}{t.why}. Assumes {t.assumes}; {met}{evidence}.{note}"


def test_name(t: TestResult) -> str:
    """The headline has a star."""
    return f"* {t.name}" if t.key == "scale_ratio" else t.name


def remarks(c: Comparison) -> list[str]:
    """What is to be known of a comparison."""
    lines = [f"! {warning}" for warning in c.warnings]
    if c.collapse.found:
        lines.append(f"! {collapse_sentence(c.collapse, c.factor)}")
    if c.paired_correlation is not None:
        lines.append(f"The arms' seed means correlate by {c.paired_correlation:.2f} over the shared seeds.")
    if c.components is not None:
        lines += [found.sentence for found in c.components.comparisons]
    for floor in c.floors:
        lines.append(f"Sampling floor: {floor_sentence(floor, arm_name(c.factor, floor.group))}.")
    return lines


def foot(audit: AuditResult) -> str:
    """How many runs from where, and what was drawn."""
    return (
        f"{audit.rows:,} runs from {audit.source}; {audit.level:.0%} intervals; {audit.resamples:,} "
        f"resamples, random seed {audit.random_seed}."
    )


def summary(audit: AuditResult) -> str:
    """How many comparisons have which word, and the ratios over strata together."""
    counts: Counter[str] = Counter(map(answer_word, audit.comparisons))
    words = ("shown", "shown to be small", "suggested", "open", *_UNSOUND, "not tested")
    listed = ", ".join(f"{counts[word]} {_UNSOUND.get(word, word)}" for word in words if counts[word])
    first = f"{len(audit.comparisons):,} comparisons, adjusted together (Holm): {listed}."
    means = audit.forests if len(audit.forests) <= _MOST_MEANS else ()  # they are in the table as well
    return " ".join([first, *(together(forest, audit.group) for forest in means)])


def together(forest: Forest, factor: str) -> str:
    """The mean ratio over strata in a sentence."""
    ratio, ends, (a, b) = _larger_first(forest.pooled, forest.interval, forest_arms(forest, factor))
    return (
        f"Over {len(forest.titles)} strata the variance under {a} is on average {number(ratio)} times that "
        f"under {b} ({ends.level:.0%} interval {between(ends)}, {p_phrase(forest.pooled_p)}; REML, "
        f"Hartung-Knapp); heterogeneity Q({forest.df}) = {forest.q:.3g}, {p_phrase(forest.p)}."
    )


def answer_word(c: Comparison) -> str:
    """The answer in a word, or why there is none."""
    unsound = "runs fail" if c.collapse.failed else "two clusters"
    return unsound if c.collapse.found else c.word or "not tested"


def forest_arms(forest: Forest, factor: str) -> tuple[str, str]:
    """What its arms are called in a sentence."""
    return arm_name(factor, forest.group), arm_name(factor, forest.baseline)


def design_note(made: Design) -> str:
    """What a design does not tell of the components of an arm; empty if it tells all."""
    parts = (_noise_note(made), QUIET if made.has_shared_noise else "")
    return "; ".join(part for part in parts if part)


def _noise_note(made: Design) -> str:
    if made.copies:
        return "runs of equal seeds are equal in all blocks: copies, without noise"
    if NOISE not in made.names:
        each = "each other stream's" if made.has_shared_noise else "each stream's"
        return f"no run is repeated, so that {each} variance has the same-seed noise in it"
    if not made.repeated and len(made.names) > 3:
        return (
            "no run is repeated: the noise is told from the streams by taking their effects as additive, and "
            "holds what they do only together"
        )
    if len(made.names) > 2 and TOGETHER not in made.names:
        return "what streams do only together counts as noise"
    return ""


def idle_note(names: Sequence[str]) -> str:
    """Of streams that make no variance."""
    return f"runs that vary {' or '.join(names)} alone hardly differ"


def _figure(arm: ArmComponents, key: str) -> float:
    """The variance that words have of a component.

    Where another component comes out as zero, its mean square counts as noise in the likelihood's maximum;
    words have the noise's own mean square then.
    """
    component = arm.component(key)
    if component is None:
        return 0.0
    at_zero = any(c.variance == 0 for c in arm.components)
    if key == "noise" and at_zero and component.unbiased is not None:
        return component.unbiased
    return component.variance


def _amount(variance: float) -> str:
    """A variance, or `about 0`."""
    return number(variance) if variance > 0 else "about 0"


def _place(component: Component | ComponentContrast) -> str:
    """`between seeds`, `in same-seed noise`, `in init`."""
    return component.name if component.key == "seed" else f"in {component.name}"


def arm_sentence(arm: ArmComponents) -> str:
    """What an arm's variance is made of."""
    if not arm.components:
        only = f"; the total is {number(arm.total)} {between(arm.interval)}" if arm.interval else ""
        return f"{arm.title}: {arm.note}{only}.{_floor_share(arm)}"
    ordered = sorted(arm.components, key=lambda c: -c.variance)
    first = ordered[0]
    if first.share >= _MOSTLY:
        head = f"{'mostly' if first.share < 1 else 'all'} {_place(first)}"
    else:
        head = " and ".join(_place(c) for c in ordered if c.share >= _WORTH_NAMING)
    parts = "; ".join(f"{c.name} {_part(c)}" for c in ordered)
    note = f" {arm.note[0].upper()}{arm.note[1:]}." if arm.note else ""
    return f"{arm.title}: the variance {number(arm.total)} sits {head}: {parts}.{note}{_floor_share(arm)}"


def _part(c: Component) -> str:
    facts = [f"{c.share:.0%}"] * (c.variance > 0) + [p_phrase(p) for p in (c.p,) if p is not None]
    interval = f" {between(c.interval)}" if c.interval else ""
    return f"{_amount(c.variance)}{interval}" + (f" ({', '.join(facts)})" if facts else "")


def _floor_share(arm: ArmComponents) -> str:
    floor = arm.floor
    if floor is None:
        return ""
    examples = f"{floor.test_size:,} test examples"
    if floor.floor >= arm.total:
        return f" It is no more than {examples} can make by chance ({number(floor.floor)})."
    most = "at most " if floor.is_bound else ""
    share = floor.floor / arm.total
    return f" Of it, {examples} make {most}{number(floor.floor)} by chance ({share:.0%})."


def comparison_sentence(
    stratum: str, arms: tuple[ArmComponents, ArmComponents], contrasts: Sequence[ComponentContrast]
) -> str:
    """Where the difference between two arms sits."""
    figures = {c.key: (_figure(arms[0], c.key), _figure(arms[1], c.key)) for c in contrasts}

    def told(c: ComponentContrast) -> str:
        a, b = figures[c.key]
        return f"{_place(c)} ({_amount(a)} against {_amount(b)}, {p_phrase(c.p)})"

    title = f"{arms[0].title} against {arms[1].title}"
    where = f"{stratum}: {title}" if stratum else title
    shown = [c for c in contrasts if c.p < _ALPHA]
    rest = [c for c in contrasts if c.p >= _ALPHA]
    if not shown:
        return f"{where}: no component is shown to differ: {'; '.join(told(c) for c in contrasts)}."
    sizes = {key: abs(max(a, 0.0) - max(b, 0.0)) for key, (a, b) in figures.items()}
    little = _LITTLE * max(sizes[c.key] for c in shown)
    absent = [told(c) for c in rest if sizes[c.key] <= little]
    still_open = [told(c) for c in rest if sizes[c.key] > little]
    sentence = f"{where}: the effect sits {' and '.join(told(c) for c in shown)}"
    sentence += f", not {' nor '.join(absent)}" if absent else ""
    sentence += f"; open {' and '.join(still_open)}" if still_open else ""
    return f"{sentence}."


_AGREE = {
    "shown": "Shown to differ: ",
    "suggested": "Suggested, not shown, to differ: ",
    "open": "Open whether they agree: ",
}


def agreement_sentence(
    h: Headline, p: float | None, word: Word | None, names: tuple[str, str], comparisons: int
) -> str:
    """Whether two sets agree; the larger ratio first."""
    interval = h.shown_interval
    if h.ratio is None or interval is None or p is None or word is None:
        return f"Not tested: {h.why}."
    ratio, ends, (large, small) = _larger_first(h.ratio, interval, names[::-1])
    adjusted = f", adjusted over {comparisons} comparisons (Holm)" if comparisons > 1 else ""
    sentence = (
        f"the variance ratio in {large} is {number(ratio)} times that in {small} ({ends.level:.0%} interval "
        f"{between(ends)}, {p_phrase(p)}{adjusted})"
    )
    if word == "shown to be small":
        return f"Shown to agree: neither ratio is more than {h.equivalence:g} times the other; {sentence}."
    return f"{_AGREE[word]}{sentence}."


def agreements_counted(found: Sequence[Agreement]) -> str:
    """How many questions have which answer: `2 shown to agree, 1 open`."""
    names = {"shown": "shown to differ", "suggested": "suggested to differ", "open": "open",
             "shown to be small": "shown to agree", None: "not tested"}  # fmt: skip
    counts = {said: sum(a.word == word for a in found) for word, said in names.items()}
    return ", ".join(f"{count} {said}" for said, count in counts.items() if count)


def answer_lines(result: CompareResult) -> list[str]:
    """Copies, if there are any; did the spread change; and do the sets agree, where both can be asked."""
    to = f"from {result.names[0]} to {listed(result.names[1:])}"
    lines = [*result.copies, f"Did the spread change {to}? {_changed(result)}"]
    found = result.agreements
    if len(found) == 1:
        lines.append(f"Do they agree on {found[0].title}? {found[0].verdict}")
    elif found:
        differ = [(_in_set(a.title, a.source, result), a.headline.ratio) for a in found if a.word == "shown"]
        lines.append(
            f"Do they agree on the arms' ratios? {len(found):,} comparisons, adjusted together (Holm): "
            f"{agreements_counted(found)}.{_named(differ, 'the ratio of')}"
        )
    return lines


def _changed(result: CompareResult) -> str:
    comparisons = result.spread.comparisons
    if len(comparisons) == 1:
        return sentences(comparisons[0])[0]
    shown = [
        (_in_set(stratum_name(c.by, c.stratum), c.group, result), c.headline.ratio)
        for c in comparisons
        if c.word == "shown"
    ]
    return f"{summary(result.spread)}{_named(shown, 'the variance of')}"


def _in_set(name: str, source: str, result: CompareResult) -> str:
    """With the set's name where there are several."""
    return name if len(result.names) == 2 else f"{name} in {source}"


def _named(shown: list[tuple[str, float | None]], what: str) -> str:
    """What is shown, by name, if it is not much."""
    if not 0 < len(shown) <= _MOST_ANSWERS:
        return ""
    return f" Shown: {'; '.join(f'{number(ratio)} times {what} {name}' for name, ratio in shown)}."


def look_title(looks: InterimLook) -> str:
    """`look 3 of at most 9`."""
    return f"look {looks.number} of at most {len(looks.sizes)}"


def look_sentence(record: SequentialRecord, more: float | None) -> str:
    """`Look 2 of at most 9, 12 seeds: clamp against subtract 3.1 [0.9, 11], open; about 8 more seeds`.

    `more` is how many are expected.
    """
    if not record.looks:
        return f"No look yet: the first is at {record.seeds} seeds."
    look, most = record.looks[-1], len(record.spec.sizes)
    found = "; ".join(
        f"{c.title} {number(c.ratio)} {between(interval_of_look(c))}, {c.word or 'not tested'}"
        for c in look.comparisons
    )
    where = f"Look {len(record.looks)} of at most {most}, {look.seeds} seeds"
    return f"{where}: {found}; {_what_next(record, more)}."


def _what_next(record: SequentialRecord, more: float | None) -> str:
    """`stopped: decided`, or how many seeds are expected."""
    if record.stopped:
        return f"stopped: {record.stopped}"
    if more is None:
        return "it goes on"
    return f"about {max(round(more), 1)} more seeds per arm expected, at most {_still(record)}"


def standing_sentence(record: SequentialRecord, more: float | None) -> str:
    """How a study stands, in a sentence; `more` is how many seeds are expected."""
    if record.stopped:
        return f"The study stopped at {record.seeds} seeds per arm: {record.stopped}."
    if record.looks:
        seen = f"this is its last look; the next is at {record.seeds} seeds"
    else:
        seen = f"its first look is at {record.seeds} seeds, and what is seen before decides nothing"
    return f"The study goes on ({_what_next(record, more)}): {seen}."


def _still(record: SequentialRecord) -> int:
    return record.spec.limit - (record.looks[-1].seeds if record.looks else 0)


def expectation(facts: dict[str, Any]) -> str:
    """How many runs a growing study will take, from its facts."""
    runs, sizes = facts["expected_runs"], facts["sizes"]
    cells = runs["most"] // sizes[-1]
    one, four = (
        f"{runs[name]:.0f} runs ({runs[name] / cells:.0f} seeds; the rule is met by {share:.0%})"
        for name, share in facts["rule_met"].items()
    )
    return (
        f"Looks at {', '.join(map(str, sizes))} seeds. Expected in all, on average over such studies: {one} "
        f"if variances are alike, {four} at a ratio of 4; at most {runs['most']} ({sizes[-1]} seeds)."
    )


def looks_note(looks: InterimLook) -> str:
    """Which looks the headlines of an audit count."""
    seen = ", ".join(map(str, looks.sizes[: looks.number]))
    return (
        f"{look_title(looks).capitalize()}, at {seen} of at most {looks.sizes[-1]} seeds per arm: the "
        "headline's p, interval and bounds count the looks; its probabilities and the other tests do not."
    )


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def few(settings: Iterable[str]) -> str:
    """Return settings one after the other; of many the first few."""
    every = list(settings)
    more = [f"and {len(every) - _MOST_NAMED} more"] if len(every) > _MOST_NAMED else []
    return "; ".join([*every[:_MOST_NAMED], *more])


def sets_notes(
    only: dict[str, tuple[str, ...]], one_sample: bool, spread: AuditResult, agreements: bool
) -> list[str]:
    """Return what is in one set only, and what a comparison of sets assumes."""
    lines = [f"Only in {name}: {few(settings)}." for name, settings in only.items()]
    if one_sample:
        lines.append("Each set is one sample; --group names the column that tells its arms apart.")
    if any(c.headline.pairs for c in spread.comparisons):
        lines.append("Seeds that a setting has in two sets were used as pairs, as between arms of an audit.")
    if agreements:
        lines.append(
            "Whether sets agree is judged as if they were independent; where a seed gives like results in "
            "both, the intervals are wider than need be."
        )
    return lines


def copies_note(copies: int, runs: int, name: str, first: str) -> str:
    """Warn of runs of one set that are those of the first."""
    which = f"All {copies:,}" if copies == runs else f"{copies:,} of {runs:,}"
    return (
        f"{which} runs of {name} have the setting, seed and value of a run of {first}: they are copies, or "
        "repeat it to the last digit, and are no further evidence."
    )


def scaled_note(value: str, shares: Sequence[str]) -> str:
    return f"{value} is a share in {listed(shares)}, else in per cent: shares were multiplied by 100."


def no_ratio_in(sets: Sequence[str]) -> str:
    return f"no ratio with an interval in {' and '.join(sets)}"


def left_out(more: int, what: str = "") -> list[str]:
    """Return a line on rows that a table does not show, if there are any."""
    kind = f"more {what}" if what else "more, "
    return [f"{more:,} {kind}with larger p values, are not in this table."] if more > 0 else []


def headline_note(c: Comparison) -> str:
    return f"* the headline: {c.headline.why}."


def brief_note(comparisons: int, runs: int) -> str:
    """Say what an audit of very many comparisons, or seeds, leaves out."""
    return (
        f"{comparisons:,} comparisons of {runs:,} runs: the seed jackknife stands in for the headline's "
        "model, and the other tests are left out."
    )


def not_compared_note(stratum: Levels, versus: str) -> str:
    return f"{joined_levels(stratum)} has no {versus} run to compare with, or nothing else; it was left out."


def repeated_notes(
    repeated: Mapping[tuple[Levels, str], Levels], factor: str, by: Sequence[str]
) -> list[str]:
    """Say why a mean over strata has fewer of them, or is not there; nothing if no runs are repeated."""
    if not repeated:
        return []
    (stratum, group), earlier = next(iter(repeated.items()))
    more = f" (and {len(repeated) - 1} more such)" if len(repeated) > 1 else ""
    return [
        f"{stratum_name(by, stratum)} has the runs of {arm_name(factor, group)} that "
        f"{stratum_name(by, earlier)} has{more}: the ratios are not independent, and no mean over strata "
        "counts both."
    ]


def uncounted_note(study: str) -> str:
    """Warn that an audit of all runs of a store does not count the interim looks of a study."""
    return (
        f"{study} is looked at while it grows, and these figures of all runs do not count the looks: those "
        f"of its own audit do (--study {study})."
    )


def components_notes(result: ComponentsResult) -> list[str]:
    """Return the notes of a table, how to read components at zero, and how they were estimated."""
    arms = [arm for stratum in result.strata for arm in stratum.arms]
    at_zero = any(c.variance == 0 and c.unbiased is not None for arm in arms for c in arm.components)
    explained = (
        f"A component that comes out as zero counts as noise there; '{UNBIASED}' has the mean squares, which "
        "sentences quote for the noise."
    )
    foot = (
        f"{result.rows:,} runs from {result.source}; restricted maximum likelihood (REML), "
        f"{result.level:.0%} profile intervals; normal values are assumed."
    )
    return [*result.notes, *([explained] if at_zero else []), foot]


def standard_error_sentence(n: int, sd: float, se: float) -> str:
    text = (
        f"{n} seeds: the mean of {n} runs with sd {sd:g} has a standard error of {sd / n**0.5:.3g} "
        f"(at most {se:g} was asked for; (sd/se)² = {(sd / se) ** 2:.4g})."
    )
    if n < 5:
        text += f" From {n} seeds the sd itself is hardly known; take five or more if it is to be estimated."
    return text


def budget_sentence(
    asked: str, seeds: tuple[int, int], ratio: float, power: float, values: Mapping[str, Any]
) -> str:
    """Return how many seeds, which ratio or what power there is, whichever was asked for."""
    arms = f"{seeds[0]} seeds per arm" if seeds[0] == seeds[1] else f"{seeds[0]} and {seeds[1]} seeds"
    times, level = f"{ratio**0.5:.3g} times the sd", f"at level {values['alpha']:g}"
    text, digits = {
        "seeds": (f"{arms}: power {power:.2f} for a variance ratio of {ratio:g} ({times}) {level}", ""),
        "ratio": (
            f"{arms} detect variance ratios above {ratio:.3g} ({times}) with power {power:g} {level}", ".3g"
        ),
        "power": (
            f"Power {power:.2f}: {arms} see a variance ratio of {ratio:g} ({times}) that often {level}", ".2f"
        ),
    }[asked]  # fmt: skip
    exact = values["f_test"]
    f_test = "" if exact is None else f"; the F test, if values are exactly normal: {exact:{digits}}"
    return f"{text} ({values['method']}{f_test})."


def planning_method(design: SeedDesign) -> str:
    """Say how the power of a design is known."""
    parts = [f"{design.shape} values"]
    if design.pairs is not None:
        parts.append(f"arms that share seeds and correlate by {design.pairs:g}")
    if design.blocks > 1:
        parts.append(f"{design.blocks} blocks with twins that correlate by {design.twins:g}")
    return f"scale ratio, the audit's headline, simulated on {', '.join(parts)}"
