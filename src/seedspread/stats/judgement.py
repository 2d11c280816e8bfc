"""What may be said: one rule for the word, the adjusted interval and the p value of every comparison.

With several comparisons, p values are Holm's and intervals are as wide as that makes them, so that words,
tables and pictures cannot disagree.

- *shown*: the adjusted p is below 1 - level; the interval leaves out 1.
- *shown to be small*: not that, but neither variance is more than k times the other, with p adjusted alike.
- *suggested*: neither, but the adjusted p is below four times that: ten to one for one direction, at least.
- *open*: the rest.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log

from seedspread.stats.comparison import Comparison
from seedspread.stats.forest import holm, holm_factors
from seedspread.stats.headline import Estimate, interval_of
from seedspread.stats.result import Headline, Word

# How many times the level a p value may be to suggest something.
_SUGGESTED = 4


def judge(
    comparisons: Sequence[Comparison], estimates: Sequence[Estimate | None], level: float
) -> list[Comparison]:
    """The comparisons with their adjusted p values and intervals, and a word each."""
    p_values = [c.headline.p for c in comparisons]
    small = [_too_large(e, c.headline.equivalence) for c, e in zip(comparisons, estimates, strict=True)]
    rows = zip(comparisons, estimates, holm(p_values), holm(small), holm_factors(p_values), strict=True)
    return [
        replace(
            c,
            p_holm=p,
            headline=_widened(c.headline, estimate, factor, level),
            word=word(p, p_small, 1 - level),
        )
        for c, estimate, p, p_small, factor in rows
    ]


def word(p: float | None, p_small: float | None, alpha: float) -> Word | None:
    """What p values, each adjusted over all comparisons, allow to say."""
    if p is None:
        return None
    if p < alpha:
        return "shown"
    if p_small is not None and p_small < alpha:
        return "shown to be small"
    return "suggested" if p < _SUGGESTED * alpha else "open"


def _too_large(estimate: Estimate | None, factor: float | None) -> float | None:
    """The p value of a difference by more than `factor`: the larger of two one-sided ones."""
    if estimate is None or factor is None:
        return None
    return max(estimate.below(-log(factor)), estimate.above(log(factor)))


def _widened(headline: Headline, estimate: Estimate | None, factor: float, level: float) -> Headline:
    """The interval at the level at which it meets 1 exactly where Holm's p meets 1 - level."""
    if estimate is None:
        return headline
    interval = interval_of(estimate, 1 - (1 - level) / factor)
    return replace(headline, adjusted_interval=replace(interval, level=level))
