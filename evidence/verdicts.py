"""All verdicts on one screen: a row per comparison of the studies."""

import math
from dataclasses import dataclass, replace
from functools import cache

import pandas as pd

from evidence.estimates import LEVEL, estimated, net
from evidence.findings import CLAMPED, Finding, compared, findings, rates_and_outcomes
from evidence.saturated import saturated
from evidence.sources import is_source
from evidence.strata import change, further
from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.charts import Line, lines_panel
from seedspread.analysis.judgement import Judged, judged
from seedspread.analysis.words import ends, two
from seedspread.render.chart import GREY, Chart
from seedspread.render.table import Column, Table
from seedspread.stats.result import Estimate, Interval

SCALE = "a ViT of 4 layers and width 64, 4 epochs (16 in longer): not the paper's scale"

# Columns left out below this width of a terminal.
_WIDE = 120
_LEFT_OUT = ("seeds", "sd, points", "net ratio", "net 95% interval")


@dataclass(frozen=True)
class Row:
    """A comparison, judged with all rows of its table, so that their intervals hold simultaneously."""

    found: Finding
    comparison: Comparison
    judged: Judged
    net: Estimate | None  # the ratio net of the test set, its interval adjusted likewise

    @property
    def interval(self) -> Interval | None:
        return self.judged.headline.shown_interval

    @property
    def word(self) -> str:
        """The verdict; a study is judged only when all of its planned runs are published."""
        return self.judged.word if self.found.is_whole else "not judged yet"


@cache
def verdict_rows(names: tuple[str, ...] = ()) -> tuple[Row, ...]:
    """Return a row per comparison of the named studies, adjusted for their number; all studies by default.

    The parts of the study of sources have a table of their own, since they answer one question together. A
    comparison that several studies share is listed once.
    """
    unlike: dict[frozenset[str], tuple[Finding, Comparison]] = {}
    for found in findings():
        is_wanted = found.name in names if names else not is_source(found.study)
        for c in found.audit.comparisons if found.audit and is_wanted else ():
            unlike.setdefault(found.keys(c), (found, c))
    shown = [*unlike.values()]
    every = [estimated(found, c) for found, c in shown]
    answers = judged([headline for headline, _ in every], [estimate for _, estimate in every], LEVEL)
    alone = 1 - (1 - LEVEL) / len(shown) if shown else LEVEL
    return tuple(
        Row(found, c, answer, net(found, c, alone)) for (found, c), answer in zip(shown, answers, strict=True)
    )


def verdict_table(width: int | None = None, names: tuple[str, ...] = ()) -> Table:
    """Return a row per comparison: seeds, both sds, variance ratios and the verdict.

    Args:
        width: width of the terminal; a narrow one gets fewer columns.
        names: names of the studies; all by default.
    """
    rows = verdict_rows(names)
    headings = (
        "study", "compared", "rate", "seeds", "sd, points", "ratio", "95% interval", "net ratio",
        "net 95% interval", "difference",
    )  # fmt: skip
    kept = [k for k, name in enumerate(headings) if width is None or width >= _WIDE or name not in _LEFT_OUT]
    cells = [_cells_of(row) for row in rows]
    return Table(
        "verdicts",
        "Variance of test accuracy across seeds, vs subtract unless another is named",
        tuple(Column(headings[k]) for k in kept),
        tuple(tuple(row[k] for k in kept) for row in cells),
        note=f"Intervals and verdicts are adjusted for {len(rows)} comparisons.",
    )


def ratios_chart() -> Chart:
    """Draw every ratio with its interval on one axis, with and without the noise of the test set."""
    lines = []
    for row in verdict_rows():
        name = f"{row.found.name}: {compared(row.comparison)}"
        lines.append(Line(name, row.judged.headline.ratio, row.interval, legend="all of the spread"))
        if row.net is not None and 0 < row.net.value < math.inf:
            net_of = Line(
                "", row.net.value, row.net.interval, GREY, f"{name}, net", "net of the test set", False
            )
            lines.append(net_of)
    panel = lines_panel(lines, "Variance ratio (95% CI, adjusted)", "", wide=True)
    named = tuple(
        tick for tick in panel.y.ticks if tick[1]
    )  # a net ratio stands below its own, without a tick
    panel = replace(panel, y=replace(panel.y, ticks=named))
    return Chart("answer", "", "", "", (panel,), f"{SCALE[0].upper()}{SCALE[1:]}")


def _cells_of(row: Row) -> tuple[str, ...]:
    found, c = row.found, row.comparison
    seeds = str(c.seeds[0]) if c.seeds[0] == c.seeds[1] else f"{c.seeds[0]}, {c.seeds[1]}"
    return (
        found.name,
        compared(c),
        rate_of(found.runs_of(c, c.group)),
        seeds if found.is_whole else f"{seeds} so far",
        " / ".join("-" if s.sd is None else f"{s.sd:.2f}" for s in c.pooled),
        two(row.judged.headline.ratio),
        ends(row.interval),
        "-" if row.net is None else two(row.net.value),
        "-" if row.net is None else ends(row.net.interval),
        row.word,
    )


def rate_of(runs: pd.DataFrame) -> str:
    """Return the share of pairs that a group's clamp cuts at layer 0; `-` for other margins."""
    if runs["objective.margin_type"].iloc[0] not in CLAMPED:
        return "-"
    return f"{runs['clamp_activation_rate.0'].mean():.0%}"


def remarks() -> list[str]:
    """Return remarks on the table: high rates combined, changes of ratios, rate and outcome, missing runs."""
    changes = [(found.name, change(found)) for found in findings()]
    lines = [f"{name}: {changed}" for name, changed in changes if changed]
    lines += [f"{found.name}: {second[0]}" for found in findings() if (second := further(found))]
    if (high := saturated()) is not None:
        lines.insert(0, str(high))
    outcomes = [f"{one.correlation.r:+.2f} ({one.dataset}, {one.group})" for one in rates_and_outcomes()]
    lines.append(f"Correlation of a seed's rate over training with its accuracy: r = {', '.join(outcomes)}.")
    missing = {found.name: found.planned - len(found.runs) for found in findings()}
    left = [f"{name} ({count})" for name, count in missing.items() if count]
    return lines + ([f"Not run yet, with the runs they lack: {', '.join(left)}."] if left else [])
