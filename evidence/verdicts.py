"""The answers in one screen: a row for each comparison that the studies are about."""

from collections.abc import Iterator, Sequence

import pandas as pd

from evidence.findings import CLAMPED, Finding, compared, findings, rates_and_outcomes
from evidence.saturated import saturated
from evidence.strata import change
from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.judgement import adjusted
from seedspread.analysis.words import between, number
from seedspread.render.table import Column, Table

SCALE = "a ViT of 4 layers and width 64, 4 epochs: not the paper's scale"

# What a narrow terminal does without.
_WIDE = 100
_LEFT_OUT = ("seeds", "sd, points")
_ALPHA = 0.05


def verdict_table(width: int | None = None, among: Sequence[Finding] | None = None) -> Table:
    """A row for each comparison: how many seeds, both spreads, the ratio of variances, and the word.

    Args:
        width: of a terminal; columns that it has no room for are left out.
        among: the findings that are wanted; all by default.
    """
    shown = list(_comparisons(findings() if among is None else among))
    rows = [_row(found, c) for found, c in shown]
    headings = ("study", "compared", "rate", "seeds", "sd, points", "ratio", "95% interval", "difference")
    kept = [k for k, name in enumerate(headings) if width is None or width >= _WIDE or name not in _LEFT_OUT]
    return Table(
        "verdicts",
        "Variance of test accuracy across seeds, vs subtract unless another is named",
        tuple(Column(headings[k]) for k in kept),
        tuple(tuple(row[k] for k in kept) for row in rows),
        note=" ".join([*_no_second_witness(shown), *([_over_all(shown)] if among is None else [])]),
        scale=f"{SCALE[0].upper()}{SCALE[1:]}.",
    )


def _comparisons(among: Sequence[Finding]) -> Iterator[tuple[Finding, Comparison]]:
    """Each once, also where several studies name its runs."""
    seen = set()
    for found in among:
        for c in found.audit.comparisons if found.audit else ():
            if found.keys(c) not in seen:
                seen.add(found.keys(c))
                yield found, c


def _no_second_witness(shown: Sequence[tuple[Finding, Comparison]]) -> list[str]:
    """Which comparisons have runs of an earlier one in both of their arms."""
    return [
        f"{found.name} reuses runs of {earlier.name} in both groups, so it is not independent evidence."
        for i, (found, c) in enumerate(shown)
        for earlier, before in shown[:i]
        if all(
            set(found.runs_of(c, arm)["key"]) & set(earlier.runs_of(before, other)["key"])
            for arm, other in ((c.group, before.group), (c.baseline, before.baseline))
        )
    ]


def _over_all(shown: Sequence[tuple[Finding, Comparison]]) -> str:
    """The adjustment over the whole table, beside that within each study."""
    together = adjusted([c.headline.p for _, c in shown])
    count = sum(p is not None and p < _ALPHA for p in together)
    return f"Adjusted over all rows, {count or 'none'} would be a YES."


def _row(found: Finding, c: Comparison) -> tuple[str, ...]:
    seeds = str(c.seeds[0]) if c.seeds[0] == c.seeds[1] else f"{c.seeds[0]}, {c.seeds[1]}"
    return (
        found.name,
        compared(c),
        rate_of(found.runs_of(c, c.group)),
        seeds if found.is_whole else f"{seeds} so far",
        " / ".join("-" if s.sd is None else f"{s.sd:.2f}" for s in c.pooled),
        number(c.headline.ratio),
        between(c.headline.shown_interval),
        # The seeds were set before the first run: a study is judged when all are there.
        c.word if found.is_whole else "not judged yet",
    )


def rate_of(runs: pd.DataFrame) -> str:
    """Share of pairs that an arm's clamp cuts at layer 0; `-` of a margin that cuts none."""
    if runs["objective.margin_type"].iloc[0] not in CLAMPED:
        return "-"
    return f"{runs['clamp_activation_rate.0'].mean():.0%}"


def remarks() -> list[str]:
    """What is not in the table: high rates together, how ratios change, rate and outcome, what is not run."""
    changes = [(found.name, change(found)) for found in findings()]
    told = [f"{name}: {changed}" for name, changed in changes if changed]
    if (high := saturated()) is not None:
        told.insert(0, str(high))
    outcomes = [f"{one.correlation.r:+.2f} ({one.dataset}, {one.arm})" for one in rates_and_outcomes()]
    told.append(f"Correlation of a seed's rate over training with its accuracy: r = {', '.join(outcomes)}.")
    missing = {found.name: found.planned - len(found.runs) for found in findings()}
    left = [f"{name} ({count})" for name, count in missing.items() if count]
    return told + ([f"Not run yet, with the runs they lack: {', '.join(left)}."] if left else [])
