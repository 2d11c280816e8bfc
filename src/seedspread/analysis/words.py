"""The answer in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seedspread.analysis.numbers import between, ladder_p, number, p_phrase, probability
from seedspread.runs.levels import arm_name
from seedspread.stats.arms import Arm
from seedspread.stats.cells import UnlikeCells
from seedspread.stats.dependence import are_dependent
from seedspread.stats.outcomes import Better, Contrast, Estimate, FailureModel, Performance
from seedspread.stats.result import (
    Collapse,
    FailedRuns,
    Floor,
    Interval,
    Rung,
    TestResult,
    Twins,
    TwoClusters,
)

if TYPE_CHECKING:
    from seedspread.analysis.comparison import Comparison

_ALPHA = 0.05
# Of so many runs or fewer the worst tenth is the worst run.
_TEN = 10
# Cells that a warning names.
_MOST_CELLS = 6


def warnings(twins: Sequence[Twins], tests: Sequence[TestResult], arm: Arm, baseline: Arm) -> tuple[str, ...]:
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
    return tuple(out)


def unlike_sentence(unlike: UnlikeCells, factor: str) -> str:
    """A warning of cells whose variances are far apart; `factor` is what the arms are levels of."""
    spans = "; ".join(
        f"the variance of {arm_name(factor, s.group)} goes from {_variance(s.low)} ({s.low_block}) to "
        f"{_variance(s.high)} ({s.high_block})"
        for s in unlike.spans
    )
    ratios = unlike.ratios
    listed = ", ".join(f"{r.block}: {_variance(r.ratio)}" for r in ratios[:_MOST_CELLS])
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


def floor_sentence(floor: Floor, name: str | None = None) -> str:
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


def verdict(c: Comparison) -> str:
    """All that is to be said of a comparison, the answer first."""
    return " ".join(sentences(c))


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
    arms = c.arm_name, c.baseline_name
    a, b = arms if _is_larger(c) else arms[::-1]
    sentence = f"the variance under {a} is {number(_upwards(c, h.ratio))} times that under {b}"
    sd = f"{number(_upwards(c, h.ratio) ** 0.5)} times the sd"
    interval, p = h.shown_interval, c.p_holm
    if interval is None or p is None or c.word is None:
        return f"In this sample {sentence} ({sd}); whether that is more than chance cannot be told: {h.why}."
    ends = interval if _is_larger(c) else Interval(1 / interval.high, _inverse(interval.low), interval.level)
    adjusted = f", adjusted over {c.family} comparisons (Holm)" if c.family > 1 else ""
    looks = f", {h.looks.title} counted" if h.looks else ""
    sentence += f" ({sd}; {interval.level:.0%} interval {between(ends)}, {p_phrase(p)}{looks}{adjusted})"
    if c.word == "shown to be small":
        return (
            f"Shown to be small: neither variance is more than {h.equivalence:g} times the other; {sentence}."
        )
    return f"{_OPENING[c.word]}{sentence}."


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
    ratio, (arm, baseline) = model.sound_ratio, model.groups
    if ratio is None or ratio.interval is None or model.sound_p is None:
        first, second = model.sound_seeds
        return f"{among} ({first} and {second}) no ratio of variances can be had"
    interval = ratio.interval
    if ratio.value < 1:  # the larger variance first
        arm, baseline = baseline, arm
        interval = Interval(1 / interval.high, 1 / interval.low, interval.level)
    times = max(ratio.value, 1 / ratio.value)
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


def ladder_sentence(rungs: tuple[Rung, ...]) -> str:
    """What separates the pooled F test from the headline, assumption by assumption; empty if nothing does."""
    p = {rung.key: ladder_p(rung.p) for rung in rungs}
    last = rungs[-1].key if rungs else ""
    if last not in ("unpaired", "pairs"):
        return ""
    steps = [
        f"{words} {p[key]}"
        for key, words in (
            ("within_f", "block means taken out"),
            ("effective_f", "runs of a seed counted by their correlation"),
            ("copies_f", "as copies"),
            ("run_jackknife", "normal values given up instead"),
            ("seed_jackknife", "with whole seeds" if "run_jackknife" in p else "normal values given up"),
        )
        if key in p
    ]
    pairs = ", seeds as pairs" if last == "pairs" else ""
    return (
        f"p by assumption: normal values and independent runs {p['pooled_f']}; {'; '.join(steps)}; tails "
        f"modelled{pairs} (the headline) {p[last]}."
    )
