"""What may be said: one rule for the word, the adjusted interval and the p value of every comparison.

With several comparisons, p values are Holm's and intervals are as wide as that makes them, so that words,
tables and pictures cannot disagree.

- *shown*: the adjusted p is below 1 - level; the interval leaves out 1.
- *shown to be small*: not that, but neither variance is more than k times the other, with p adjusted alike.
- *suggested*: neither, but the adjusted p is below four times that: ten to one for one direction, at least.
- *open*: the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

from seedspread.analysis.forest import holm, holm_factors
from seedspread.stats.estimate import Estimate, interval_of
from seedspread.stats.result import Headline, Word

# How many times the level a p value may be to suggest something.
_SUGGESTED = 4


@dataclass(frozen=True)
class Judged:
    """A headline with its adjusted interval, its adjusted p value, and the word."""

    headline: Headline
    p_holm: float | None
    word: Word | None


def judged(headlines: Sequence[Headline], estimates: Sequence[Estimate | None], level: float) -> list[Judged]:
    """What may be said of headlines that are asked for together, and what they rest on."""
    p_values = [h.p for h in headlines]
    small = [_too_large(e, h.equivalence) for h, e in zip(headlines, estimates, strict=True)]
    rows = zip(headlines, estimates, holm(p_values), holm(small), holm_factors(p_values), strict=True)
    return [
        Judged(_widened(h, estimate, factor, level), p, word(p, p_small, 1 - level))
        for h, estimate, p, p_small, factor in rows
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
