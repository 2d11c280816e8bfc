"""The answer in words."""

from seedspread.stats.arms import Arm
from seedspread.stats.dependence import are_dependent
from seedspread.stats.numbers import between, number, p_phrase, p_value
from seedspread.stats.result import Comparison, Interval

__all__ = ["between", "headline_why", "number", "p_phrase", "p_value", "seed_counts", "verdict", "warnings"]

_ALPHA = 0.05


def headline_why(blocks: bool) -> str:
    """Why the seed jackknife is the headline."""
    why = (
        "the seed is the unit, no shape is assumed, and it keeps its level in simulation (docs/statistics.md)"
    )
    return why + "; the ratio is within cells, so that block means do not count as spread" if blocks else why


def warnings(c: Comparison, arm: Arm, reference: Arm) -> tuple[str, ...]:
    """What a reader should know before using the numbers."""
    out = []
    alike = [t for t in c.twins if are_dependent(t)]
    for t in alike:
        if t.identical == t.seeds:
            out.append(
                f"All {t.seeds} seeds of {t.group} have equal values in all blocks: copies, not further runs."
            )
            continue
        if 2 * t.identical >= t.seeds:
            share = f"{t.identical} of {t.seeds} seeds of {t.group}"
            out.append(f"{share} have exactly equal values in all blocks: copies.")
        if t.correlation is not None and t.p is not None:
            out.append(
                f"Runs of one seed in different blocks of {t.group} correlate by {t.correlation:.2f} "
                f"({p_phrase(t.p)}): its {t.naive_df + 1} runs are worth {t.effective_df:.0f} degrees of "
                f"freedom, not {t.naive_df}."
            )
    if (
        alike
        and c.paper.p is not None
        and c.headline.p is not None
        and c.paper.p < min(_ALPHA, c.headline.p / 2)
    ):
        out.append(
            f"The naive {p_phrase(c.paper.p)} overstates: with the seed as the unit {p_phrase(c.headline.p)}."
        )
    if set(arm.cells) != set(reference.cells):
        out.append(
            "The arms were not run in the same blocks: what a block does is mixed with what the group does."
        )
    for side in (arm, reference):
        sizes = [len(v) for v in side.cells.values()]
        if min(sizes) == 1 and len(sizes) > 1:
            out.append(f"{side.name} has a block with a single run: it counts for the means only.")
    for name, p in ((t.name, t.p) for t in c.tests if t.about == "shape"):
        if p is not None and p < _ALPHA:
            out.append(f"{name} rejects normality ({p_phrase(p)}): do not rely on F.")
    return tuple(out)


def verdict(c: Comparison, comparisons: int) -> str:
    """A sentence or two, then what the design could have shown and what the means do."""
    parts = [_spread(c)]
    if c.collapse.found and c.collapse.test is not None and c.collapse.test.p is not None:
        rates = " and ".join(f"{a.failed} of {a.seeds} {a.group} seeds" for a in c.collapse.arms)
        parts.insert(
            0,
            f"The variance ratio may be the wrong question here: {rates} failed or lie in the worse of two "
            f"clusters (Fisher {p_phrase(c.collapse.test.p)}).",
        )
    if comparisons > 1 and c.p_holm is not None:
        parts.append(f"Adjusted over {comparisons} comparisons (Holm) {p_phrase(c.p_holm)}.")
    parts += _pooled(c)
    if c.detectable is not None:
        parts.append(
            f"With {seed_counts(c)} ratios above {number(c.detectable)} can be detected (power 0.8)."
        )
    parts.append(_means(c))
    return " ".join(parts)


def _spread(c: Comparison) -> str:
    h = c.headline
    if h.ratio is None:
        return _no_ratio(c)
    larger = h.ratio >= 1
    ratio = h.ratio if larger else 1 / h.ratio
    a, b = (c.group, c.reference) if larger else (c.reference, c.group)
    sentence = (
        f"the variance under {a} is {number(ratio)} times that under {b} ({number(ratio**0.5)} times the sd"
    )
    if h.interval is None or h.p is None:
        return f"In this sample {sentence}); whether that is more than chance cannot be told: {h.why}."
    interval = (
        h.interval if larger else Interval(1 / h.interval.high, _inverse(h.interval.low), h.interval.level)
    )
    sentence += (
        f"; {h.interval.level:.0%} interval {between(interval)}, {p_phrase(h.p)}, the seed as the unit)"
    )
    if h.p < _ALPHA:
        return sentence[0].upper() + sentence[1:] + "."
    return f"No difference in spread is shown: in this sample {sentence}."


def _inverse(value: float) -> float:
    return float("inf") if value == 0 else 1 / value


def _no_ratio(c: Comparison) -> str:
    flat = [s.group for s in c.pooled if s.variance == 0]
    single = [name for name, n in zip((c.group, c.reference), c.seeds, strict=True) if n < 2]
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
    if c.paper.ratio is None or c.paper.p is None or not c.twins:
        return []
    # The same way round as the sentence before it.
    turned = c.headline.ratio is not None and c.headline.ratio < 1
    ratio = _inverse(c.paper.ratio) if turned else c.paper.ratio
    sentence = f"All runs pooled as independent give {number(ratio)} times ({p_phrase(c.paper.p)})"
    dependent = [t for t in c.twins if are_dependent(t) and t.correlation is not None]
    if dependent:
        how = " and ".join(f"{t.correlation:.2f} under {t.group}" for t in dependent)
        sentence += f", which counts runs of one seed as independent although they correlate ({how})"
    return [f"{sentence}."]


def seed_counts(c: Comparison) -> str:
    """`7 seeds`, `7 and 5 seeds`."""
    first, second = c.seeds
    return f"{first} seeds" if first == second else f"{first} and {second} seeds"


def _means(c: Comparison) -> str:
    test = c.test("seed_means")
    if test.p is None or test.interval is None:
        return f"The means differ by {number(test.estimate)}; {test.note}."
    size = f"{c.group} − {c.reference}: {number(test.estimate)} {between(test.interval)}, {p_phrase(test.p)}"
    return f"Means differ ({size})." if test.p < _ALPHA else f"Means do not differ detectably ({size})."
