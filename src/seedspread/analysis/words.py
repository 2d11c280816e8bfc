"""Sentences about comparisons, audits, sets of runs and variance components, and the numbers in them."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from seedspread.runs.levels import Levels, group_name, joined_levels, stratum_name
from seedspread.stats.groups import Group, Span, are_dependent, are_opposed
from seedspread.stats.headline import FEWEST_SEEDS
from seedspread.stats.result import (
    Better,
    Doubt,
    Estimate,
    FailedRuns,
    Headline,
    InterimLook,
    Interval,
    ManyGroups,
    SameSeedRuns,
    TestResult,
    TestSetNoise,
    TwoClusters,
    UnlikeShapes,
    Word,
)

if TYPE_CHECKING:
    from seedspread.analysis.audit_result import AuditResult, Average, Comparison
    from seedspread.analysis.components import Component, ComponentContrast, GroupComponents
    from seedspread.analysis.sets import CompareResult


def number(value: float | None) -> str:
    """Format three digits without trailing zeros; infinity has its sign."""
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


def span(interval: Interval | None, shown: Callable[[float], str] = number) -> str:
    """`−1.07 to 1.01`."""
    return "-" if interval is None else minus(f"{shown(interval.low)} to {shown(interval.high)}")


def minus(text: str) -> str:
    """Return a text with real minus signs before its numbers; `CIFAR-10` and `1e-05` stay."""
    return re.sub(r"(?<!\w)-(?=\d)", "−", text)


def aligned(cells: Sequence[str]) -> list[str]:
    """Return numbers padded with spaces, so that their decimal points are aligned."""
    before = [len(re.split(r"[.*±]", cell)[0].rstrip()) for cell in cells]
    # One space more, or a table would take them for numbers and align them to the right.
    return [" " * (max(before) - own + 1) + cell for own, cell in zip(before, cells, strict=True)]


def probability(value: float) -> str:
    """`0.97`, `> 0.99`."""
    return "> 0.99" if value > 0.99 else "< 0.01" if value < 0.01 else f"{value:.2f}"


_ALPHA = 0.05
# Correlation of shared seeds that makes a comparison much more precise.
_CORRELATED = 0.5
# Shares of a variance that are most of it, and worth naming; and of a difference, that are little.
_MOSTLY, _WORTH_NAMING, _LITTLE = 2 / 3, 0.1, 0.2
# Notes on components that cannot be estimated.
NO_VARIANCE = "no two runs of one block differ, so there is no variance to split"
NOT_REPEATED = (
    "no seed was run twice, so the variance between seeds cannot be separated from same-seed noise; run each "
    "seed in two blocks (--block), or repeat runs"
)
# Note on a set that is a sequential study.
LOOKS_NOT_COUNTED = "Its ratios here do not count the looks; its own audit does."
# Settings that a line names.
_MOST_NAMED = 4
# Answers that a sentence names.
MOST_ANSWERS = 3


def warnings(
    same_seed: Sequence[SameSeedRuns],
    pooled: Headline,
    group: Group,
    baseline: Group,
    unlike: Sequence[Span],
) -> tuple[str, ...]:
    """Return warnings to read before using the numbers; `pooled` is the F test of all runs."""
    out = []
    for t in (t for t in same_seed if are_dependent(t) and not are_opposed(t)):
        name = group_name(group.factor, t.group)
        if 2 * t.identical >= t.seeds:
            out.append(f"{t.identical} of {t.seeds} seeds of {name} have equal values in all blocks: copies")
        elif t.correlation is not None:
            out.append(f"same-seed runs of {name} agree (r = {t.correlation:.2f})")
    if out:
        out = [f"{'; '.join(out)}: seeds are counted, not runs"]
        if pooled.p is not None:
            out[0] += f"; pooling all runs would claim {times(pooled.ratio)}, {p_phrase(pooled.p)}"
    out += [opposed_runs(t, group_name(group.factor, t.group)) for t in same_seed if are_opposed(t)]
    if set(group.cells) != set(baseline.cells):
        out.append("the groups were not run in the same blocks, so block and group effects are mixed")
    for side in (group, baseline):
        sizes = [len(v) for v in side.cells.values()]
        if min(sizes) == 1 and len(sizes) > 1:
            name = group_name(side.factor, side.name)
            out.append(f"a block of {name} with a single run counts for the means only")
    if unlike:
        out.append(unlike_sentence(unlike, group.factor))
    return tuple(out)


def unlike_sentence(unlike: Sequence[Span], factor: str) -> str:
    """Return a warning of cells with very different variances; `factor` defines the groups."""
    spans = "; ".join(
        f"the variance of {group_name(factor, s.group)} goes from {s.low:.3g} "
        f"({joined_levels(s.low_block)}) to {s.high:.3g} ({joined_levels(s.high_block)})"
        for s in unlike
    )
    return (
        f"blocks differ widely: {spans}. The pooled ratio is mostly that of the widest block. "
        "Compare the blocks separately (--by), or on a scale that they share (--scale)."
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


def noise_sentence(noise: TestSetNoise, name: str | None = None) -> str:
    """Return the share of a group's variance that the test set accounts for; `name` is the group's name."""
    examples = f"{noise.test_size:,} test examples"
    whole = f"{noise.group if name is None else name}'s variance of {noise.observed:.3g}"
    if noise.remaining is None or noise.interval is None:
        if noise.observed > noise.explained:
            return f"{examples} account for at most {noise.explained:.3g} of {whole}"
        return f"{whole} is no larger than what {examples} account for by chance ({noise.explained:.3g})"
    below = " (below zero: these runs differ by no more than test-set noise)" if noise.remaining < 0 else ""
    left = minus(f"{noise.remaining:.3g}")
    return (
        f"{examples} account for {noise.explained:.3g} of {whole}; an infinite test set would leave {left} "
        f"({noise.interval.level:.0%} CI {span(noise.interval)}){below}"
    )


def two(value: float | None) -> str:
    """Format two significant digits: `0.094`, `1.0`, `6.8`, `50`, `140`."""
    if value is None or not np.isfinite(value):
        return "-" if value is None or math.isnan(value) else "∞"
    if value == 0 or abs(value) < 1e-4 or abs(value) >= 1e6:
        return f"{value:.1e}" if value else "0"
    rounded = float(f"{value:.2g}")
    places = max(1 - math.floor(math.log10(abs(rounded))), 0)
    return f"{rounded:,.{places}f}"


def three(value: float) -> str:
    """Format three significant digits, without an exponent: `0.00120`, as for the sd of a loss."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}" if abs(value) >= 1e-4 else number(value)


def sd_phrase(sd: Estimate) -> str:
    """`0.00111 (95% CI 0.00103 to 0.00120)`."""
    interval = sd.interval
    return three(sd.value) + (f" ({interval.level:.0%} CI {span(interval, three)})" if interval else "")


def many_groups_sentence(many: ManyGroups) -> str:
    if many.word == "YES" and many.stands_out:
        apart = f"{many.stands_out} stands out (sd {three(many.stands_out_sd or 0.0)}, {p_phrase(many.p)})"
        others = f"one sd fits the other {many.groups - 1} groups ({p_phrase(many.p_others or 0.0)})"
        return f"{apart}; {others}: {sd_phrase(many.sd)}"
    if many.word == "YES":
        return f"the {many.groups} groups do not share one sd, {p_phrase(many.p)}"
    said = f"one sd fits all {many.groups} groups ({p_phrase(many.p)}): {sd_phrase(many.sd)}"
    if many.word == "NO":
        return f"{said}; their variances differ by less than {many.equivalence:g}x"
    return f"{'barely, ' * (many.word == 'MAYBE')}{said}; some may still differ by {many.equivalence:g}x"


def times(ratio: float | None) -> str:
    """`×6.8`."""
    return f"×{two(ratio)}"


def ends(interval: Interval | None) -> str:
    """`1.5 to 50`."""
    return span(interval, _end)


def _end(ratio: float) -> str:
    """Format two digits, or as many as show on which side of 1 it lies: `1.02`."""
    if two(ratio) != "1.0" or ratio == 1:
        return two(ratio)
    return f"{round(ratio, min(-math.floor(math.log10(abs(ratio - 1))), 6)):.7g}"


def ci(interval: Interval) -> str:
    """`95% CI 1.5 to 50`."""
    return f"{interval.level:.0%} CI {ends(interval)}"


def levels_of(intervals: Iterable[Interval | None]) -> str:
    """Return `95%`, or `95% or 90%` if some of the intervals decide that the spread is alike."""
    return " or ".join(sorted({f"{i.level:.0%}" for i in intervals if i}, reverse=True))


def signed(value: float) -> str:
    """Format a difference with its sign, a real minus, and three digits."""
    return f"{'−' if value < 0 else '+'}{number(abs(value))}" if value else "0"


def title_line(audit: AuditResult, c: Comparison) -> str:
    """`clamp vs subtract | accuracy | 7 shared seeds, 28 runs`."""
    seeds = f"{c.headline.pairs} shared seeds" if c.headline.pairs else f"{seed_counts(c.seeds)} per group"
    seeds = seeds if c.seeds[0] == c.seeds[1] or c.headline.pairs else seed_counts(c.seeds)
    return f"{c.title} | {audit.value} | {seeds}, {sum(s.n for s in c.pooled)} runs"


def claim_of(word: Word, name: str, ratio: float | None, seeds: str, equivalence: float | None) -> str:
    """Return a verdict as a claim about a group's spread."""
    more = "more" if (ratio or 1.0) > 1 else "less"
    match word:
        case "YES":
            return f"{name} spreads {more} across seeds"
        case "NO":
            return f"the spread differs by less than {equivalence:g}x, either way"
        case "MAYBE":
            return f"{name} may spread {more} across seeds"
        case "CAN'T TELL":
            return f"{seeds} do not settle whether {name} spreads more or less"


def claim(c: Comparison) -> str:
    """The verdict in words: `clamp spreads more across seeds`."""
    h, lowering = c.headline, [doubt for doubt in c.doubts if doubt.lowers]
    if c.p_adjusted is None and c.word != "NO":
        return _no_answer(c)
    doubtful = c.word == "MAYBE" and bool(lowering)
    said = claim_of("YES" if doubtful else c.word, c.group_name, h.ratio, seed_counts(c.seeds), h.equivalence)
    said += f", but {_doubt(c, lowering[0])}" if doubtful else ""
    return f"{said}; {_unlike(c, h.unlike)}" if h.unlike and c.word != "NO" else said


def _no_answer(c: Comparison) -> str:
    flat = [group_name(c.factor, s.group) for s in c.pooled if s.variance == 0]
    if len(flat) == 2:
        return "neither group has any spread: all values of each are equal (do the runs use their seed?)"
    if flat:
        return f"all values of {flat[0]} are equal, so there is no variance ratio to judge"
    if min(c.seeds) < FEWEST_SEEDS:
        count = f"{seed_counts(c.seeds)}{' per group' * (c.seeds[0] == c.seeds[1])}"
        return f"{count} cannot show a difference in spread; it takes {FEWEST_SEEDS} per group"
    return c.headline.why


def _doubt(c: Comparison, doubt: Doubt) -> str:
    if doubt.kind == "seed":
        return f"seed {doubt.what} of {group_name(c.factor, doubt.group)} alone accounts for it"
    if doubt.kind == "clusters":
        return "only because seeds fall into two clusters, whose rates do not clearly differ"
    return f"not on the {doubt.what} scale (variance {times(doubt.ratio)})"


def _unlike(c: Comparison, unlike: UnlikeShapes) -> str:
    """Return how the groups differ if one shape does not describe both."""
    tighter = "tighter" if unlike.typical_ratio < 1 else "wider"
    said = f"in most seeds it is {tighter} (typical sd {times(unlike.typical_ratio**0.5)})"
    far = [
        f"{f.below + f.above} of {f.seeds} seeds of {group_name(c.factor, f.group)} "
        f"{'is' if f.below + f.above == 1 else 'are'} far "
        + ("below" if not f.above else "above" if not f.below else "off")
        for f in unlike.far
        if f.below + f.above
    ]
    return f"{said}, but {' and '.join(far)}" if far else said


def figures(c: Comparison) -> str:
    """`variance ×6.8 (95% CI 1.5 to 50), sd ×2.6, p = 0.018`."""
    h, interval = c.headline, c.headline.shown_interval
    if h.ratio is None:
        return ""
    sd = f"sd {times(h.ratio**0.5)}"
    if interval is None or c.p_adjusted is None:
        return f"in this sample: variance {times(h.ratio)}, {sd}"
    said = f"variance {times(h.ratio)} ({ci(interval)}), {sd}, {p_phrase(c.p_adjusted)}"
    looks = [look_title(h.looks)] if h.looks else []
    adjusted = [f"adjusted for {c.family} comparisons"] if c.family > 1 else []
    return ", ".join([said, *looks, *adjusted])


def verdict(c: Comparison) -> str:
    numbers = figures(c)
    return f"{c.word}: {claim(c)}{f'; {numbers}' if numbers else ''}."


def title_of(c: Comparison) -> str:
    """The verdict as a title: `Maybe: clamp spreads more, variance ×2.7 (0.84 to 8.3)`."""
    h = c.headline
    if c.p_adjusted is None and c.word != "NO":
        return f"{c.word.capitalize()}: {_no_answer(c)}"
    said = {
        "NO": f"the spread differs by less than {h.equivalence:g}x",
        "CAN'T TELL": f"{seed_counts(c.seeds)} do not settle it",
    }.get(c.word, f"{c.group_name} spreads {'more' if (h.ratio or 1.0) > 1 else 'less'}")
    return f"{c.word.capitalize()}: {said}, variance {times(h.ratio)} ({ends(h.shown_interval)})"


def title_of_many(every: Sequence[Comparison]) -> str:
    """`Yes in 1 of 16 comparisons, can't tell in 15`."""
    counts = [(word, sum(c.word == word for c in every)) for word in get_args(Word)]
    (word, first), *others = [(word.lower(), count) for word, count in counts if count]
    rest = "".join(f", {word} in {count:,}" for word, count in others)
    return f"{word.capitalize()} in {first:,} of {len(every):,} comparisons{rest}"


def next_steps(every: Sequence[Comparison]) -> list[str]:
    out = []
    if any(c.failures for c in every):
        out.append(
            "Compare how often runs fail, not only their variance: each comparison has its failure rates, "
            "with an exact test."
        )
    shown = [c for c in every if c.word == "YES" and c.headline.ratio]
    for c in shown if len(shown) <= MOST_ANSWERS else ():
        ratio = c.headline.ratio or 1.0
        wide, narrow = (c.group_name, c.baseline_name)[:: 1 if ratio > 1 else -1]
        out.append(
            f"For a mean that is equally sure, {wide} takes about {two(max(ratio, 1 / ratio))} times as many "
            f"seeds as {narrow}."
        )
    unsettled = [c for c in every if c.word in ("MAYBE", "CAN'T TELL") and c.detectable]
    if unsettled:
        ratio = max(max(c.headline.ratio or 1.0, 1 / (c.headline.ratio or 1.0)) for c in unsettled)
        asked = two(ratio) if len(unsettled) == 1 and 2 <= ratio < 100 else "2"
        from seedspread.stats.planning import BudgetError, seeds_for  # noqa: PLC0415 - only a page needs it

        with suppress(BudgetError):
            seeds = seeds_for(float(asked))[0]
            out.append(
                f"Add seeds: a variance ratio of {asked} takes about {seeds} per group to detect (power "
                f"0.8). More: {shlex.join(['seedspread', 'seeds', '--ratio', asked])}"
            )
    return out


def asides(c: Comparison) -> list[tuple[str, str]]:
    """Return the lines below a verdict, each with its label: means, power, failures, cautions."""
    out = [("Failures", rates)] if (rates := failure_rates(c)) else []
    if c.means is not None:
        out.append(("Means", means_sentence(c.group_name, c.means, c.better)))
    if c.detectable is not None:
        enough = seed_counts((max(c.seeds[0], FEWEST_SEEDS), max(c.seeds[1], FEWEST_SEEDS)))
        out.append(("Power", f"{enough} {power(c, 'ratios')}"))
    h = c.headline
    if h.looks and h.shrunken and h.looks.number < len(h.looks.sizes) and c.word == "YES":
        shrunken = f"{times(h.shrunken.ratio)} ({ends(h.shrunken.interval)})"
        out.append(("Caution", f"estimates at an early stop are too far from 1; shrunken: {shrunken}"))
    for doubt in c.doubts:
        if doubt.kind == "scale" and not doubt.lowers:  # the verdict stays
            answer = f"on the {doubt.what} scale the answer is {doubt.word} (variance {times(doubt.ratio)})"
            out.append(("Caution", f"{answer}: the means differ, and the spread may follow them"))
    return [*out, *(("Caution", line) for line in c.warnings)]


def power(c: Comparison, ratios: str) -> str:
    """Return `reliably detect only ratios above 6.9`, and what shared seeds make of it."""
    said = f"reliably detect only {ratios} above {two(c.detectable)}"
    if c.word == "YES" and c.headline.pairs and abs(r := c.paired_correlation or 0.0) > _CORRELATED:
        said += f", or smaller ones if shared seeds correlate, as here (r = {minus(f'{r:.2f}')})"
    return said


def failures_lead(c: Comparison) -> bool:
    """Return whether failed runs come first: their rates differ, or most runs fail."""
    f = c.failures
    return f is not None and f.kind != "clusters" and (f.p < _ALPHA or max(r.value for r in f.rates) > 0.5)


def failure_counts(c: Comparison) -> str:
    """Return `3 of 14 seeds of new failed vs 0 of 14 of old`; empty if none did."""
    f = c.failures
    if f is None:
        return ""
    what = {
        "failed": "failed",
        "clusters": "lie in the worse of two clusters",
        "both": "failed or lie in the worse of two clusters",
        "censored": "never reached it",
    }[f.kind]
    (x, y), (n, m) = f.failed, f.seeds
    return f"{x} of {n} seeds of {c.group_name} {what} vs {y} of {m} of {c.baseline_name}"


def failure_rates(c: Comparison) -> str:
    f, points = c.failures, ""
    if f is None:
        return ""
    if f.difference.interval is not None:
        points = f", rate {difference(f.difference, 'points', 100)}"
    said = f"{failure_counts(c)} ({p_phrase(f.p)}{points})"
    if f.kind != "clusters" and max(f.failed):
        return f"{said}; the verdict is about the {'others' if f.kind == 'censored' else 'successful runs'}"
    if f.successful_ratio is None or f.successful_p is None:
        return said
    ratio = times(f.successful_ratio.value)
    return f"{said}; within the better one: variance {ratio}, {p_phrase(f.successful_p)}"


def failure_signs(c: Comparison) -> list[str]:
    signs = c.failures.signs if c.failures else ()
    return ["; ".join(_sign(sign, group_name(c.factor, sign.group)) for sign in signs) + "."] if signs else []


def means_sentence(name: str, means: Estimate, better: Better) -> str:
    """`clamp is worse: −14 (95% CI −16 to −12)`."""
    claim = "no clear difference"
    if means.interval is not None and 0 not in means.interval:
        claim = f"{name} is {'better' if (means.value > 0) == (better == 'higher') else 'worse'}"
    return f"{claim}: {difference(means)}"


def difference(estimate: Estimate, unit: str = "", scale: float = 1.0) -> str:
    """Format as `−14.0 (95% CI −16.2 to −11.8)`, with three digits for the end farther from zero."""
    interval, value, unit = estimate.interval, scale * estimate.value, f" {unit}" if unit else ""
    if interval is None:
        return f"{signed(value)}{unit}"
    ends = [scale * interval.low, scale * interval.high]
    far = max(map(abs, ends))
    places = max(2 - math.floor(math.log10(far)), 0) if 1e-4 < far < 1e6 else None
    low, high = (minus(number(end) if places is None else f"{end:,.{places}f}") for end in ends)
    shown = signed(value) if places is None else minus(f"{value:+,.{places}f}")
    return f"{shown}{unit} ({interval.level:.0%} CI {low} to {high})"


def seed_counts(seeds: tuple[int, int]) -> str:
    """`7 seeds`, `7 and 5 seeds`."""
    first, second = seeds
    return f"{first} seed{'s' * (first != 1)}" if first == second else f"{first} and {second} seeds"


def explanations(c: Comparison) -> list[str]:
    """Return a paragraph per test: its name, why it is used, what it assumes, whether that is met."""
    lines = []
    for t in c.tests:
        df = f" ({', '.join(f'{d:.3g}' for d in t.df)} df)" if t.df else ""
        statistic = "" if t.statistic is None else f"statistic {minus(f'{t.statistic:.3g}')}{df}; "
        p = "" if t.p is None else f"p {p_value(t.p)}; "
        met = {True: "met", False: "not met", None: "not testable here"}[t.assumptions_met]
        note = f" {t.note[0].upper()}{t.note[1:]}." if t.note else ""
        lines.append(f"{test_name(t)}: {statistic}{p}{t.why}. Assumes {t.assumes}; {met}.{note}")
    return lines


def test_name(t: TestResult) -> str:
    return f"* {t.name}" if t.key == "headline" else t.name


def detail_lines(c: Comparison) -> list[str]:
    """Return the sentences that `--details` adds: probabilities, pairs, correlations, test-set noise."""
    h, lines = c.headline, []
    if h.above_1 is not None and h.above_2 is not None and h.shrunken is not None:
        prior, larger = h.shrunken, f"Probability that {c.group_name} has the larger variance"
        lines += [
            f"{larger}: {probability(h.above_1)}; more than twice as large: {probability(h.above_2)}.",
            f"The same under a skeptical prior, N(0, 1) on the log ratio: {probability(prior.above_1)} and "
            f"{probability(prior.above_2)}; variance {times(prior.ratio)} ({ci(prior.interval)}).",
        ]
    if h.raw_ratio is not None:
        lines.append(f"Raw variance ratio: {two(h.raw_ratio)}.")
    for far in h.unlike.far if h.unlike else ():
        count, rate = far.below + far.above, far.interval
        share = f"{count / far.seeds:.0%} ({rate.level:.0%} CI {rate.low:.0%} to {rate.high:.0%})"
        if count:
            lines.append(f"Far seeds of {group_name(c.factor, far.group)}: {count} of {far.seeds}, {share}.")
    lines += failure_signs(c)
    if c.paired_correlation is not None:
        lines.append(
            f"Seed means of the groups over shared seeds: r = {minus(f'{c.paired_correlation:.2f}')}."
        )
    if c.same_seed_runs:
        lines.append("`seedspread components` splits each variance: between seeds, and same-seed noise.")
    return lines + noise_lines(c)


def noise_lines(c: Comparison) -> list[str]:
    lines = [f"Test-set noise: {noise_sentence(f, group_name(c.factor, f.group))}." for f in c.test_set_noise]
    if c.net is not None and c.net.interval is not None:
        first, second = c.test_set_noise
        lines.append(
            f"Net of the test set: an infinite one would leave variance {times(c.net.value)} "
            f"({ci(c.net.interval)}{', not adjusted' if c.family > 1 else ''}), compared with "
            f"{times(first.observed / second.observed)} as measured."
        )
    return lines


def counted(audit: AuditResult) -> list[tuple[Word, str]]:
    """Return a line for each verdict: the number of comparisons that have it, and a few of their names."""
    every = audit.in_order
    alone = len({(c.group, c.baseline) for c in every}) == 1
    names = [stratum_name(c.by, c.stratum) if alone and c.stratum else c.title for c in every]
    found = counted_verdicts(list(zip(names, every, strict=True)))
    unsettled = sum(c.word == "CAN'T TELL" for c in every)
    if audit.omnibus is None or 2 * unsettled <= len(every):  # most pairs can be distinguished
        return found
    lead = (audit.omnibus.word, many_groups_sentence(audit.omnibus))
    return [lead, *(found if any(word != "CAN'T TELL" for word, _ in found) else [])]


def counted_verdicts(every: Sequence[tuple[str, Comparison]]) -> list[tuple[Word, str]]:
    """Return `counted` for named comparisons of any audits."""
    out: list[tuple[Word, str]] = []
    for word in get_args(Word):
        rows = [(name, c) for name, c in every if c.word == word]
        many = f"{len(rows):,} of {len(every):,}"
        if rows and word == "CAN'T TELL":
            out.append((word, f"{many} comparisons{_why_not([c for _, c in rows])}"))
        elif 0 < len(rows) <= MOST_ANSWERS:
            ratios = (
                f"{name} {times(c.headline.ratio)} ({ends(c.headline.shown_interval)})" for name, c in rows
            )
            out.append((word, f"{many}: {'; '.join(ratios)}"))
        elif rows:
            out.append((word, f"{many} comparisons"))
    return out


def _why_not(rows: Sequence[Comparison]) -> str:
    seeds = min(min(c.seeds) for c in rows)
    if all(min(c.seeds) < FEWEST_SEEDS for c in rows):
        return f": fewer than {FEWEST_SEEDS} seeds per group"
    known = [(c.detectable, max(min(c.seeds), FEWEST_SEEDS)) for c in rows if c.detectable]
    few_ = sum(min(c.seeds) < FEWEST_SEEDS for c in rows)
    ratio, most = max(known, default=(0.0, 0))
    unless = ", unless shared seeds correlate" if any(c.headline.pairs for c in rows) else ""
    said = f" ({most} seeds reliably detect only ratios above {two(ratio)}{unless})" if known else ""
    return f"{said}; {few_:,} of them have only {seeds} seeds" if few_ else said


def plural(by: Sequence[str]) -> str:
    """Return a plural for the levels of `by`: `datasets`, from the column's own name."""
    name = by[0].lower().replace("_", " ") if len(by) == 1 else "setting"
    name = f"{name}set" if name.endswith("data") else name
    return name if name.endswith("s") else f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def average_groups(average: Average, factor: str) -> tuple[str, str]:
    """Return the names of its groups in a sentence."""
    return group_name(factor, average.group), group_name(factor, average.baseline)


def _place(component: Component | ComponentContrast) -> str:
    """`between seeds`, `in same-seed noise`, `in init`."""
    return component.name if component.key == "seed" else f"in {component.name}"


def group_sentence(group: GroupComponents) -> str:
    """`clamp: mostly between seeds (81% of a variance of 1.1, p = 0.007)`."""
    if not group.components:
        total = f"; the variance is {number(group.total)}" if group.interval else ""
        return f"{group.title}: {group.note}{total}.{_noise_share(group)}"
    ordered = sorted(group.components, key=lambda c: -c.variance)
    first, note = ordered[0], f" {group.note[0].upper()}{group.note[1:]}." if group.note else ""
    where = " and ".join(f"{_place(c)} ({c.share:.0%})" for c in ordered if c.share >= _WORTH_NAMING)
    if first.share >= _MOSTLY:
        p = "" if first.p is None else f", {p_phrase(first.p)}"
        share = "all" if first.share == 1 else "mostly"
        where = f"{share} {_place(first)} ({first.share:.0%} of a variance of {number(group.total)}{p})"
    return f"{group.title}: {where}.{note}{_noise_share(group)}"


def _noise_share(group: GroupComponents) -> str:
    noise = group.test_set_noise
    if noise is None:
        return ""
    examples = f"{noise.test_size:,} test examples"
    if noise.explained >= group.total:
        return f" It is no larger than what {examples} account for by chance ({number(noise.explained)})."
    most = "at most " if noise.is_bound else ""
    share = noise.explained / group.total
    return f" {examples} account for {most}{number(noise.explained)} of it ({share:.0%})."


def comparison_sentence(title: str, contrasts: Sequence[ComponentContrast]) -> str:
    """`clamp vs subtract: the difference lies between seeds (p = 0.011), not in same-seed noise`."""

    def listed_places(chosen: Sequence[ComponentContrast]) -> str:
        return " and ".join(f"{_place(c)} ({p_phrase(c.p)})" for c in chosen)

    shown = [c for c in contrasts if c.p < _ALPHA]
    if not shown:
        smallest = p_value(min(c.p for c in contrasts))
        return f"{title}: no component clearly differs; the smallest p is {smallest}."
    sizes = {c.key: abs(c.variances[0] - c.variances[1]) for c in contrasts}
    little = _LITTLE * max(sizes[c.key] for c in shown)
    rest = [c for c in contrasts if c not in shown]
    absent, unsettled = ([c for c in rest if (sizes[c.key] <= little) == is_so] for is_so in (True, False))
    sentence = f"{title}: the difference lies {listed_places(shown)}"
    sentence += f", not {listed_places(absent)}" if absent else ""
    sentence += f"; unsettled {listed_places(unsettled)}" if unsettled else ""
    return f"{sentence}."


# Meaning for the sets of the verdict on a ratio of ratios.
AGREEMENT: dict[Word, str] = {
    "YES": "DIFFER", "MAYBE": "MAY DIFFER", "NO": "AGREE", "CAN'T TELL": "CAN'T TELL",
}  # fmt: skip


def changed(result: CompareResult) -> Sequence[tuple[str, ...]]:
    """Return each verdict, with its claim, on whether the spread changed from the first set to the others."""
    comparisons = result.spread.comparisons
    if len(comparisons) > 1:
        return counted(result.spread)
    return [(c.word, claim(c), figures(c)) for c in comparisons]


def agreeing(result: CompareResult) -> list[tuple[str, str]]:
    """Return each verdict on whether the sets agree on variance ratios, and its subject."""
    out = []
    for word, label in AGREEMENT.items():
        found = [a for a in result.agreements if a.word == word]
        named = "; ".join(f"{a.title}, {a.verdict}" for a in found)
        if found:
            many = f"{len(found):,} of {len(result.agreements):,} comparisons"
            out.append((label, named if len(found) == 1 else many))
    return out


def look_title(looks: InterimLook) -> str:
    """`interim look 3 of at most 9`."""
    return f"interim look {looks.number} of at most {len(looks.sizes)}"


def expectation(facts: dict[str, Any]) -> str:
    """Return how many runs a growing study will take, given its facts."""
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
    seen = ", ".join(map(str, looks.sizes[: looks.number]))
    return (
        f"{look_title(looks).capitalize()}, at {seen} of at most {looks.sizes[-1]} seeds per group: the "
        "headline's p and interval count the looks; its probabilities and the other tests do not."
    )


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def few(settings: Iterable[str]) -> str:
    """Return settings separated by commas, at most the first few."""
    every = list(settings)
    more = [f"and {len(every) - _MOST_NAMED} more"] if len(every) > _MOST_NAMED else []
    return "; ".join([*every[:_MOST_NAMED], *more])


def copies_note(copies: int, runs: int, name: str, first: str) -> str:
    """Warn of runs of one set that are identical to runs of the first."""
    which = f"All {copies:,}" if copies == runs else f"{copies:,} of {runs:,}"
    return (
        f"{which} runs of {name} have the setting, seed and value of a run of {first}: they are copies, or "
        "repeat it to the last digit, and are no further evidence."
    )


def left_out(more: int) -> list[str]:
    """Return a line on comparisons that a table leaves out, if there are any."""
    what = "comparison is" if more == 1 else "comparisons are"
    return [f"{more:,} more {what} not in this table."] if more > 0 else []


def devices_note(devices: Mapping[str, int]) -> list[str]:
    """Note the devices on which runs were made, if they differ; CPUs and unrecorded devices count as one."""
    if len(devices) < 2 or {*devices} <= {"", "cpu"}:
        return []
    named = ", ".join(f"{n} on {name or 'a device that was not recorded'}" for name, n in devices.items())
    return [f"Runs were made on unlike devices ({named}): part of a difference may be the devices'."]


def repeated_notes(
    repeated: Mapping[tuple[Levels, str], Levels], factor: str, by: Sequence[str]
) -> list[str]:
    """Explain why an average has fewer datasets, or is missing; empty if no runs are repeated."""
    if not repeated:
        return []
    (stratum, group), earlier = next(iter(repeated.items()))
    more = f" (and {len(repeated) - 1} more such)" if len(repeated) > 1 else ""
    return [
        f"{stratum_name(by, stratum)} has the runs of {group_name(factor, group)} that "
        f"{stratum_name(by, earlier)} has{more}: the ratios are not independent, and no average "
        "counts both."
    ]


def opposed_runs(pairs: SameSeedRuns, name: str) -> str:
    """Return a warning of same-seed runs that correlate negatively; `name` is the group's displayed name."""
    r, p = abs(pairs.correlation or 0.0), 2 * (1 - (pairs.p or 0.0))
    return (
        f"Same-seed runs of {name} are opposed (r = \N{MINUS SIGN}{r:.2f}, {p_phrase(p)}): seeds that do "
        "well in one block do badly in another. Check how runs were assigned to seeds and blocks."
    )
