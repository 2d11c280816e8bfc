"""The answers in one screen: a row for each comparison that each study is about."""

import math
from collections.abc import Sequence

import pandas as pd

from seedspread.evidence.findings import Finding, findings, rates_and_outcomes
from seedspread.evidence.strata import change
from seedspread.render.table import Column, Table
from seedspread.stats.comparison import Comparison
from seedspread.stats.numbers import between, number

SCALE = "a ViT of 4 layers and width 64, 4 epochs: not the paper's scale"


# What a narrow terminal does without.
_WIDE = 100
_LEFT_OUT = ("seeds", "sd, points")


def verdict_table(width: int | None = None, among: Sequence[Finding] | None = None) -> Table:
    """A row for each comparison: how many seeds, both spreads, the ratio of variances, and the word.

    Args:
        width: of a terminal; columns that it has no room for are left out.
        among: the findings that are wanted; all by default.
    """
    wanted = findings() if among is None else among
    rows = [_row(found, c) for found in wanted if found.audit for c in found.audit.comparisons]
    headings = ("study", "compared", "seeds", "sd, points", "ratio", "95% interval", "difference")
    kept = [k for k, name in enumerate(headings) if width is None or width >= _WIDE or name not in _LEFT_OUT]
    return Table(
        "verdicts",
        "Variance of test accuracy over seeds, against subtract unless another is named",
        tuple(Column(headings[k]) for k in kept),
        tuple(tuple(row[k] for k in kept) for row in rows),
        scale=f"{SCALE[0].upper()}{SCALE[1:]}.",
    )


def _row(found: Finding, c: Comparison) -> tuple[str, ...]:
    seeds = str(c.seeds[0]) if c.seeds[0] == c.seeds[1] else f"{c.seeds[0]}, {c.seeds[1]}"
    return (
        short_name(found),
        compared(c),
        seeds if found.is_whole else f"{seeds} so far",
        " / ".join("-" if s.sd is None else f"{s.sd:.2f}" for s in c.pooled),
        number(c.headline.ratio),
        between(c.headline.shown_interval),
        # The seeds were set before the first run: a study is judged when all are there.
        (c.word or "not tested") if found.is_whole else "not judged yet",
    )


def compared(c: Comparison) -> str:
    """`clamp`, `clamp, end_to_end`, `soft_clamp / clamp`."""
    arms = c.group if c.reference == "subtract" else f"{c.group} / {c.reference}"
    return f"{arms}, {c.stratum}" if c.stratum else arms


def short_name(found: Finding) -> str:
    """`margin`, of `evidence/margin`."""
    return found.study.name.rpartition("/")[2]


def remarks() -> list[str]:
    """What is not in the table: rate and outcome, how ratios change, and what has not been run."""
    lines = [
        f"{one.dataset}, {one.arm}: the clamp cuts {one.rate:.0%} of the pairs at layer 0; a seed's rate "
        f"over training and its accuracy correlate by {one.correlation.r:+.2f} "
        f"({_ends(one.correlation.interval)}; {one.correlation.seeds} seeds)."
        for one in rates_and_outcomes()
    ]
    changes = ((short_name(found), change(found)) for found in findings())
    lines += [f"{name}: {changed}" for name, changed in changes if changed]
    missing = {short_name(found): found.planned - len(found.runs) for found in findings()}
    left = [f"{name} ({count})" for name, count in missing.items() if count]
    return lines + ([f"Not run yet, with the runs they lack: {', '.join(left)}."] if left else [])


def _ends(interval: object) -> str:
    low, high = getattr(interval, "low", math.nan), getattr(interval, "high", math.nan)
    return f"95% interval {low:+.2f} to {high:+.2f}"


def as_values() -> list[dict[str, object]]:
    """The same for programs."""
    out: list[dict[str, object]] = []
    for found in findings():
        frame = found.audit.to_frame() if found.audit else pd.DataFrame()
        rows = [
            {name: None if pd.isna(value) else value for name, value in row.items()}
            for row in frame.to_dict("records")
        ]
        out.append(
            {
                "study": found.study.name,
                "title": found.study.title,
                "question": found.study.question,
                "prediction": found.study.prediction,
                "runs": len(found.runs),
                "planned": found.planned,
                "comparisons": rows,
            }
        )
    return out
