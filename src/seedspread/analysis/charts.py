"""Charts of runs and of variance ratios with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seedspread.analysis.words import average_groups, between, ends, levels_of, number, p_value, times
from seedspread.render.chart import (
    BEYOND,
    COLORS,
    GREY,
    NEUTRAL,
    SYMBOLS,
    Axis,
    Chart,
    Mark,
    Panel,
    PlotError,
    floats,
    log_ticks,
)
from seedspread.runs.levels import block_name, group_name, in_order, stratum_name

if TYPE_CHECKING:
    from seedspread.analysis.audit_result import AuditResult, Comparison
    from seedspread.runs.levels import Levels
    from seedspread.runs.metrics import Metric
    from seedspread.stats.result import Headline, Interval

HEADLINE = "headline"
_SEED_UNIT = (HEADLINE, "seed_jackknife", "pitman_morgan")
_SHOWN = (*_SEED_UNIT, "f")
NO_RATIO = Panel("no ratio with an interval", Axis(), Axis(), ())
_WIDEST = 1e4  # ratios beyond this are drawn at the edge
# Most strata and groups of which every run is drawn, and largest readable number of averages.
_MOST_DRAWN, _MOST_GROUPS, MOST_LINES = 6, 8, 80
# Most ratios that fit beside the runs, and letters of titles whose one baseline is named below the axis.
_MOST_BESIDE, _LONG_TITLE = 5, 40
# Strata share an axis if it is at most this many times as long as the longest of them needs.
_FAR = 2.5


@dataclass(frozen=True)
class Dots:
    """The runs of a group in one block."""

    block: str
    values: Sequence[float]
    labels: tuple[str, ...] = ()


def audit_chart(audit: AuditResult, methods: bool = False) -> Chart:
    """Return every run, by stratum if they are few, and the headlines' ratios; with `methods`, all others."""
    if len(audit.comparisons) > MOST_LINES:
        raise PlotError(
            f"a picture of {len(audit.comparisons)} comparisons is not legible; take at most {MOST_LINES}"
        )
    strata = list(dict.fromkeys(c.stratum for c in audit.comparisons))
    groups = max(len({name for c in audit.comparisons for name in (c.baseline, c.group)}), 2)
    is_drawn = len(strata) <= _MOST_DRAWN and groups <= _MOST_GROUPS
    runs = _on_one_scale([_runs_panel(audit, stratum) for stratum in strata]) if is_drawn else []
    is_wide = not is_drawn or len(strata) > 1 or len(audit.comparisons) > _MOST_BESIDE
    ratios = [_ratios_panel(audit, is_wide, "" if is_drawn else f" of {audit.value}")]
    if methods and len(audit.comparisons) <= _MOST_DRAWN:
        found = (methods_panel(c, c.title, wide=len(audit.comparisons) > 1) for c in audit.comparisons)
        ratios = [panel for panel in found if panel is not None] or ratios
    panels = [*ratios, *runs] if is_wide else [*runs, *ratios]
    source = f"{audit.rows:,} runs from {Path(audit.source).name}"
    return Chart("audit", "", "", audit.oneline(), tuple(panels), source, height=0.85)


def _on_one_scale(panels: Sequence[Panel]) -> list[Panel]:
    """Give all panels one axis, or axes of one length if their values are far apart, to compare spreads."""
    ends = []
    for panel in panels:
        values = [v for mark in panel.marks for own in (mark.y, mark.low, mark.high) for v in own]
        ends.append((min(values), max(values)))
    longest = max(high - low for low, high in ends) or 1.0
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    if high - low <= _FAR * longest:
        ends = [(low, high)] * len(panels)
    room = 0.54 * max(longest, *(high - low for low, high in ends))
    centers = [(low + high) / 2 for low, high in ends]
    return [
        replace(panel, y=replace(panel.y, range=(center - room, center + room)))
        for panel, center in zip(panels, centers, strict=True)
    ]


def _ratios_panel(audit: AuditResult, wide: bool, of_what: str) -> Panel:
    """Return every ratio with the interval that decides its verdict, and the averages over strata."""
    one = audit.comparisons[0] if len(audit.comparisons) == 1 else None
    over, longest = {c.baseline_name for c in audit.comparisons}, max(len(c.title) for c in audit.comparisons)
    once = f" vs {min(over)}" if not one and len(over) == 1 and longest > _LONG_TITLE else ""
    lines = [Line.of(c.headline, "" if one else c.title.removesuffix(once)) for c in audit.in_order]
    of_what += once.replace(" vs ", " over ", 1)
    for f in audit.averages:
        name = f"average: {' vs '.join(average_groups(f, audit.group))}"
        lines.append(Line(name.removesuffix(once), f.pooled, f.interval, is_average=True))
    intervals = [c.headline.shown_interval for c in audit.comparisons if c.headline.shown_interval]
    if not intervals:
        return NO_RATIO
    counted = ("" if one else ", adjusted") + (", looks counted" if audit.looks else "")
    title = f"{one.title}\n{times(one.headline.ratio)} ({ends(intervals[0])})" if one else ""
    return lines_panel(lines, f"Variance ratio{of_what} ({levels_of(intervals)} CI{counted})", title, wide)


@dataclass(frozen=True)
class Line:
    """A ratio with its interval, as a line of a panel; an average is a diamond, and may extend off the axis.

    `legend` is the kind of line, if the legend distinguishes several.
    """

    name: str
    ratio: float | None
    interval: Interval | None
    color: str = NEUTRAL
    label: str = ""
    legend: str = ""
    is_average: bool = False

    @classmethod
    def of(
        cls, headline: Headline, name: str, color: str = NEUTRAL, label: str = "", legend: str = ""
    ) -> Line:
        return cls(name, headline.ratio, headline.shown_interval, color, label, legend)


def lines_panel(lines: Sequence[Line], axis_title: str, title: str, wide: bool = False) -> Panel:
    """Return ratios below each other, on a log axis that includes 1/2, 2 and all finite ends, within reason.

    An arrow marks values beyond it.
    """
    intervals = (line.interval for line in lines if line.interval and not line.is_average)
    ends = [end for i in intervals for end in (i.low, i.high) if 0 < end < math.inf]
    low = max(min([*ends, 0.5]) / 1.5, 1 / _WIDEST)
    high = min(max([*ends, 2.0]) * 1.5, _WIDEST)
    axis = Axis(axis_title, log=True, ticks=log_ticks(low, high), range=(low, high))
    sides = (-0.6, len(lines) - 0.4)
    marks = [Mark("rule", "", (1, 1), sides)]
    positions = range(len(lines) - 1, -1, -1)
    for position, line in zip(positions, lines, strict=True):
        if not line.ratio or line.interval is None:
            continue
        label = line.label or f"{line.name}\n{number(line.ratio)} {between(line.interval)}"
        name, at = line.legend or line.name, (float(position),)
        marks.append(
            Mark("interval", name, (min(max(line.ratio, low), high),), at, (line.interval.low,),
                 (line.interval.high,), (label,), line.color, 2 * line.is_average, bool(line.legend))
        )  # fmt: skip
        for end, symbol, is_beyond in (
            (low, BEYOND[0], line.interval.low < low), (high, BEYOND[1], line.interval.high > high),
        ):  # fmt: skip
            if is_beyond:
                marks.append(Mark("dots", name, (end,), at, labels=(label,), color=line.color, symbol=symbol))
    ticks = tuple((float(p), line.name) for p, line in zip(positions, lines, strict=True))
    return Panel(title, axis, Axis(ticks=ticks, range=sides), tuple(marks), wide)


def _runs_panel(audit: AuditResult, stratum: Levels) -> Panel:
    """Return every run of a stratum: a strip for each group, with markers by block."""
    own = [c for c in audit.comparisons if c.stratum == stratum]
    groups = in_order([*(c.group for c in own), *(c.baseline for c in own)])
    every = dict.fromkeys(name for c in audit.comparisons for name in (c.baseline, c.group))
    colors = dict(zip(every, cycle(COLORS), strict=False))
    strips = [s for group in groups for s in audit.values if (s.stratum, s.group) == (stratum, group)]
    blocks = list(dict.fromkeys(b for s in strips for b in s.blocks))
    names = [group_name(audit.group, strip.group) for strip in strips]
    marks: list[Mark] = []
    for i, (name, strip) in enumerate(zip(names, strips, strict=True)):
        values, at = np.array(strip.values), list(zip(strip.values, strip.blocks, strict=True))
        sd = float(values.std(ddof=1)) if len(values) > 1 else None
        dots = [Dots(block_name(audit.blocks, b), [value for value, own in at if own == b]) for b in blocks]
        drawn = group_marks(name, i, colors[strip.group], float(values.mean()), sd, dots)
        marks += [replace(mark, legend=False) for mark in drawn]  # the group's name is below it
    marks.append(Mark("band", "mean ± 1 sd", (), (), color=GREY, legend=True))
    if 1 < len(blocks) <= SYMBOLS:
        marks += [
            Mark("dots", block_name(audit.blocks, b), (), (), symbol=k, legend=True)
            for k, b in enumerate(blocks)
        ]
    title, levels = stratum_name(audit.by, stratum), [strip.group for strip in strips]
    axis = replace(groups_axis(levels), title="" if levels == names else audit.group)  # numbers need a title
    return Panel(title, axis, Axis(axis_title(audit.metric)), tuple(marks))


def axis_title(metric: Metric) -> str:
    """Return `Test accuracy (%)`; a column without another title keeps the name that the user gave it."""
    label = metric.label
    return label[:1].upper() + label[1:] if metric.title else label


def groups_axis(groups: Sequence[str]) -> Axis:
    return Axis(
        ticks=tuple((float(i), group) for i, group in enumerate(groups)), range=(-0.6, len(groups) - 0.4)
    )


def group_marks(
    group: str, position: int, color: str, mean: float, sd: float | None, blocks: Sequence[Dots]
) -> list[Mark]:
    """Return every run of a group, block beside block, over a line at the mean and a band of one sd."""
    sides = (position - 0.38, position + 0.38)
    out = []
    if sd is not None:
        low, high = mean - sd, mean + sd
        out.append(Mark("band", group, sides, (mean, mean), (low, low), (high, high), color=color))
    out.append(
        Mark("line", group, sides, (mean, mean), labels=(f"{group}: mean {mean:.4g}",) * 2, color=color)
    )
    many = len(blocks)
    step = min(0.3, 0.9 / max(many - 1, 1))  # many blocks are drawn closer together: a group stays in place
    for k, dots in enumerate(blocks):
        if not dots.values:
            continue
        centre = position + (k - (many - 1) / 2) * step
        width = step / 3 if many > 1 else 0.22
        offsets = np.linspace(-width, width, len(dots.values)) if len(dots.values) > 1 else np.zeros(1)
        name = f"{group}, {dots.block}" if 1 < many <= SYMBOLS else group  # with more blocks, markers repeat
        out.append(
            Mark("dots", name, floats(centre + offsets), floats(dots.values), labels=dots.labels,
                 color=color, symbol=k, legend=True)
        )  # fmt: skip
    return out


def methods_panel(c: Comparison, title: str, wide: bool = False) -> Panel | None:
    """Return a comparison's ratio by every method with an interval, the headline's first; None without any.

    Those that count every run as independent are paler.
    """
    tests = [t for t in c.tests if t.key in _SHOWN and t.interval is not None and t.estimate]
    if not tests:
        return None
    lines = []
    for t in tests:
        # The headline's is adjusted, like everything else that is reported of it.
        interval, p = (c.headline.shown_interval, c.p_adjusted) if t.key == HEADLINE else (t.interval, t.p)
        label = f"{t.name}\n{number(t.estimate)} {between(interval)}\np = {p_value(p)}"
        by_seed = t.key in _SEED_UNIT
        star = "* " if t.name == c.headline.method else ""
        kind = "each seed counted once (* headline)" if by_seed else "every run as independent"
        lines.append(Line(f"{star}{t.name}", t.estimate, interval, NEUTRAL if by_seed else GREY, label, kind))
    return lines_panel(lines, f"Variance ratio, {groups_of(c)}", title, wide)


def groups_of(c: Comparison) -> str:
    return f"{c.group_name} over {c.baseline_name}"
