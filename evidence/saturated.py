"""Combine all comparisons in which the clamp cuts at least half of the pairs."""

from dataclasses import dataclass

from evidence.findings import compared, findings
from seedspread.analysis.audit_result import Average
from seedspread.analysis.judgement import averages
from seedspread.analysis.words import ends, p_phrase, two
from seedspread.cff.advice import RULE_OF_THUMB

_LEVEL = 0.95


@dataclass(frozen=True)
class Saturated:
    """Comparisons of the clamp with subtraction at rates at which the paper expects harm.

    Attributes:
        names: study and comparison of each.
        rates: clamp activation rate at layer 0 of each.
        average: their mean log ratio and their heterogeneity.
    """

    names: tuple[str, ...]
    rates: tuple[float, ...]
    average: Average

    def __str__(self) -> str:
        f = self.average
        return (
            f"{len(self.names)} comparisons in which the clamp cuts {RULE_OF_THUMB:.0%} of the pairs or more "
            f"({'; '.join(self.names)}): on average its variance is {two(f.pooled)} times that of "
            f"subtract ({f.interval.level:.0%} interval {ends(f.interval)}, {p_phrase(f.pooled_p)}; "
            f"differences among them: {p_phrase(f.p)})."
        )


def saturated() -> Saturated | None:
    """Combine comparisons of complete studies that share no run; None with fewer than two."""
    chosen, seen = [], set[str]()
    for found in findings():
        for c in found.audit.comparisons if found.audit and found.is_whole else ():
            is_asked = (c.group, c.baseline) == ("clamp", "subtract") and found.rate(c) >= RULE_OF_THUMB
            if is_asked and not seen & found.keys(c):
                seen |= found.keys(c)
                chosen.append((f"{found.name}: {compared(c)}", found.rate(c), c))
    together = averages([c for _, _, c in chosen], _LEVEL)
    if not together:
        return None
    return Saturated(tuple(name for name, _, _ in chosen), tuple(rate for _, rate, _ in chosen), together[0])
