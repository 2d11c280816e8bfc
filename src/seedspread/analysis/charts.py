"""Charts of runs and of variance ratios with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seedspread.analysis.words import between, forest_arms, number, p_value
from seedspread.render.chart import (
    COLOURS,
    GREY,
    SYMBOLS,
    Axis,
    Chart,
    Mark,
    Panel,
    PlotError,
    floats,
    log_ticks,
)
from seedspread.runs.levels import arm_name, block_name

if TYPE_CHECKING:
    from seedspread.analysis.audit_result import AuditResult, Comparison
    from seedspread.stats.result import Headline, Interval

# The headline has a colour that no arm has.
QUOTED = COLOURS[2]
HEADLINE = "headline"
_SEED_UNIT = (HEADLINE, "seed_jackknife", "pitman_morgan")
_SHOWN = (*_SEED_UNIT, "f")
_WIDEST = 1e4  # ratios beyond this are drawn at the edge
# Comparisons of which every run is drawn, and lines of a forest, that can be read in one picture.
_MOST_DRAWN, MOST_LINES = 6, 80
# Letters of a name that stand in one line beside a forest.
_NAME_LINE = 55


@dataclass(frozen=True)
class Dots:
    """The runs of an arm in one block."""

    block: str
    values: Sequence[float]
    labels: tuple[str, ...] = ()


def comparison_chart(c: Comparison) -> Chart:
    """The ratio of one comparison by every method."""
    return Chart("comparison", "", "", "", (_ratios_panel(c, c.title),), c.title, height=0.7)


def audit_chart(audit: AuditResult) -> Chart:
    """One comparison: its runs and its ratio by every method. Several: a forest, and the runs of a few."""
    if len(audit.comparisons) > MOST_LINES:
        raise PlotError(
            f"a picture of {len(audit.comparisons)} comparisons is not legible; take at most {MOST_LINES}"
        )
    drawn = audit.comparisons if len(audit.comparisons) <= _MOST_DRAWN else ()
    if len(audit.comparisons) == 1:
        panels = [
            _runs_panel(audit, drawn[0]),
            _ratios_panel(drawn[0], f"variance ratio by method, {audit.level:.0%} intervals"),
        ]
    else:
        panels = [_forest_panel(audit), *(_runs_panel(audit, c) for c in drawn)]
    source = f"{audit.rows:,} runs from {Path(audit.source).name}"
    lines = sum(-(-len(name) // _NAME_LINE) for _, name in panels[0].y.ticks)  # long names are broken
    height = 1.15 if len(panels) > 1 else 0.5 + 0.05 * lines
    return Chart("audit", "", "", "", tuple(panels), source, height=height)


def _forest_panel(audit: AuditResult) -> Panel:
    """Every ratio with its adjusted interval, and the means over strata."""
    lines = [Line.of(c.headline, c.title) for c in audit.comparisons]
    for f in audit.forests:
        name = f"average: {' vs '.join(forest_arms(f, audit.group))}"
        lines.append(Line(name, f.pooled, f.interval, COLOURS[3], sets_axis=False))
    counted = "adjusted; interim looks counted" if audit.looks else "adjusted"
    title = f"variance ratio of {audit.value}, {audit.level:.0%} intervals ({counted})"
    return lines_panel(lines, title, "")


@dataclass(frozen=True)
class Line:
    """A ratio with its interval, as a line of a panel; one that does not set the axis may run off it.

    `legend` is its kind, if a legend says what kinds of lines there are.
    """

    name: str
    ratio: float | None
    interval: Interval | None
    colour: str = QUOTED
    label: str = ""
    legend: str = ""
    sets_axis: bool = True

    @classmethod
    def of(
        cls, headline: Headline, name: str, colour: str = QUOTED, label: str = "", legend: str = ""
    ) -> Line:
        return cls(name, headline.ratio, headline.shown_interval, colour, label, legend)


def lines_panel(lines: Sequence[Line], axis_title: str, title: str) -> Panel:
    """Ratios below each other, on a logarithmic axis that holds 1/2, 2 and all finite ends, within reason."""
    intervals = (line.interval for line in lines if line.interval and line.sets_axis)
    ends = [end for i in intervals for end in (i.low, i.high) if 0 < end < math.inf]
    low = max(min([*ends, 0.5]) / 1.5, 1 / _WIDEST)
    high = min(max([*ends, 2.0]) * 1.5, _WIDEST)
    axis = Axis(axis_title, log=True, ticks=log_ticks(low, high), range=(low, high))
    sides = (-0.6, len(lines) - 0.4)
    marks = [Mark("rule", "", (1, 1), sides)]
    positions = range(len(lines) - 1, -1, -1)
    for position, line in zip(positions, lines, strict=True):
        if line.ratio and line.interval is not None:
            label = line.label or f"{line.name}\n{number(line.ratio)} {between(line.interval)}"
            marks.append(
                Mark("interval", line.legend or line.name, (line.ratio,), (float(position),),
                     (line.interval.low,), (line.interval.high,), (label,), line.colour,
                     legend=bool(line.legend))
            )  # fmt: skip
    ticks = tuple((float(p), line.name) for p, line in zip(positions, lines, strict=True))
    return Panel(title, axis, Axis(ticks=ticks, range=sides), tuple(marks))


def _runs_panel(audit: AuditResult, c: Comparison) -> Panel:
    strips = audit.strips(c)
    blocks = list(dict.fromkeys(b for s in strips for b in s.blocks))
    arms = dict.fromkeys(arm for other in audit.comparisons for arm in (other.baseline, other.group))
    colours = dict(zip(arms, cycle(COLOURS), strict=False))
    names = [arm_name(audit.group, strip.group) for strip in strips]
    marks: list[Mark] = []
    for i, (name, strip) in enumerate(zip(names, strips, strict=True)):
        values, at = np.array(strip.values), list(zip(strip.values, strip.blocks, strict=True))
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
        dots = [Dots(block_name(audit.blocks, b), [value for value, own in at if own == b]) for b in blocks]
        marks += arm_marks(name, i, colours[strip.group], float(values.mean()), sd, dots)
    return Panel(c.title, arms_axis(names), Axis(audit.value), tuple(marks))


def _ratios_panel(c: Comparison, title: str) -> Panel:
    """A picture has no caption: its legend says which ratios to trust, and a star which is the headline."""
    counted = ", looks counted" if c.headline.looks else ""
    names = {
        QUOTED: f"ratio, each seed counted once (* the headline{counted})",
        GREY: "ratio, every run as independent",
    }
    return methods_panel(c, title, names) or Panel("no ratio with an interval", Axis(), Axis(), ())


def arms_axis(arms: Sequence[str]) -> Axis:
    """A place for each arm."""
    return Axis(ticks=tuple((float(i), arm) for i, arm in enumerate(arms)), range=(-0.6, len(arms) - 0.4))


def arm_marks(
    arm: str, position: int, colour: str, mean: float, sd: float | None, blocks: Sequence[Dots]
) -> list[Mark]:
    """Every run of an arm, block beside block, over a line at the mean and a band of one sd."""
    sides = (position - 0.38, position + 0.38)
    out = []
    if sd is not None:
        low, high = mean - sd, mean + sd
        out.append(Mark("band", arm, sides, (mean, mean), (low, low), (high, high), colour=colour))
    out.append(Mark("line", arm, sides, (mean, mean), labels=(f"{arm}: mean {mean:.4g}",) * 2, colour=colour))
    many = len(blocks)
    step = min(0.3, 0.9 / max(many - 1, 1))  # many blocks move together: an arm stays in its place
    for k, dots in enumerate(blocks):
        if not dots.values:
            continue
        centre = position + (k - (many - 1) / 2) * step
        width = step / 3 if many > 1 else 0.22
        offsets = np.linspace(-width, width, len(dots.values)) if len(dots.values) > 1 else np.zeros(1)
        name = f"{arm}, {dots.block}" if 1 < many <= SYMBOLS else arm  # beyond, markers come again
        out.append(
            Mark("dots", name, floats(centre + offsets), floats(dots.values), labels=dots.labels,
                 colour=colour, symbol=k, legend=True)
        )  # fmt: skip
    return out


def methods_panel(c: Comparison, title: str, legend: Mapping[str, str] | None = None) -> Panel | None:
    """The ratio of a comparison by every method that has an interval; None if none has.

    With a legend, what each color means, a star marks the headline.
    """
    tests = [t for t in c.tests if t.key in _SHOWN and t.interval is not None and t.estimate]
    if not tests:
        return None
    lines = []
    for t in tests:
        # The headline's is adjusted, as all else that is said of it.
        interval, p = (c.headline.shown_interval, c.p_adjusted) if t.key == HEADLINE else (t.interval, t.p)
        label = f"{t.name}\n{number(t.estimate)} {between(interval)}\np = {p_value(p)}"
        colour = QUOTED if t.key in _SEED_UNIT else GREY
        star = "* " if legend and t.name == c.headline.method else ""
        kind = legend[colour] if legend else ""
        lines.append(Line(f"{star}{t.name}", t.estimate, interval, colour, label, kind))
    return lines_panel(lines, f"variance ratio, {arms_of(c)}", title)


def arms_of(c: Comparison) -> str:
    """Which variance stands over which."""
    return f"{c.arm_name} over {c.baseline_name}"
