"""Dose response as a figure: ratio, sd, failure rate and mean against the level, with intervals."""

import math
from collections.abc import Callable, Sequence

from seedspread.analysis.charts import ratio_axis, rule
from seedspread.analysis.numbers import between, number
from seedspread.render.chart import COLOURS, Axis, Chart, Kind, Mark, Panel, floats, log_ticks
from seedspread.report.figures.spread import arm_colour
from seedspread.report.material.doses import Dose, DoseCurve
from seedspread.report.material.settings import origins
from seedspread.stats.result import Interval

_MOST_TICKS = 10
_DECADE = 10.0
_Value = Callable[[Dose], tuple[float | None, Interval | None]]


def chart(curve: DoseCurve) -> Chart:
    """Four panels on one axis of levels."""
    metric = curve.settings[0].metric
    intervals = [d.interval for d in curve.doses if d.interval is not None]
    over = f"over {curve.baseline_title}"
    ratio = ratio_axis(intervals, "variance ratio")
    panels = (
        _panel(curve, f"variance ratio {over}", ratio, lambda d: (d.ratio, d.interval), at=1.0),
        _panel(curve, "sd over seeds", _sd_axis(curve, f"sd{metric.unit_suffix}"),
               lambda d: (d.summary.sd, d.summary.sd_interval)),
        _panel(curve, "failed seeds", Axis("share", range=(-0.03, 1.03)),
               lambda d: (d.summary.rate, d.summary.rate_interval)),
        _panel(curve, "mean", Axis(metric.label), lambda d: (d.summary.mean, d.summary.mean_interval)),
    )  # fmt: skip
    ratios = "; ".join(
        _ratio_words(curve, d) for d in curve.doses if d.ratio is not None and d.interval is not None
    )
    about = f": {curve.name}" if curve.name else ""
    return Chart(
        curve.id,
        f"Dose response, {curve.factor}{about}",
        f"What the level of {curve.factor} does. Bands are 95% intervals: of the ratio as in its comparison, "
        "of the sd by the seed jackknife, of the failure rate exact, of the mean Student's. Failed runs are "
        "part of the sd and of the mean.",
        f"Against {curve.factor}: the variance ratio {over}, the sd, the failure rate and the mean of "
        f"{', '.join(map(curve.title_of, curve.lines)) or metric.label}. {ratios or 'No ratio'}.",
        panels,
        origins(list(curve.settings)),
    )


def _ratio_words(curve: DoseCurve, d: Dose) -> str:
    return f"{curve.title_of(d.arm) or 'at'} {d.level:g}: {number(d.ratio)} {between(d.interval)}"


def _panel(curve: DoseCurve, title: str, y: Axis, value: _Value, at: float | None = None) -> Panel:
    x = _level_axis(curve)
    marks: list[Mark] = []
    if at is not None:
        marks.append(rule((curve.levels[0], curve.levels[-1]), (at, at)))
    for arm in curve.lines:
        marks += _line(curve, arm, value, y)
    return Panel(title, x, y, tuple(marks))


def _line(curve: DoseCurve, arm: str, value: _Value, y: Axis) -> list[Mark]:
    points = [(d, v, i) for d in curve.line(arm) for v, i in [value(d)] if v is not None]
    if not points:
        return []
    colour = arm_colour(curve.settings[0], arm) if arm else COLOURS[0]
    labels = tuple(_label(curve, d, v, i) for d, v, i in points)
    out = [_band(points, curve.title_of(arm), colour, y)] if len(points) > 1 else []
    xs, ys = floats([d.level for d, *_ in points]), floats([v for _, v, _ in points])
    kind: Kind = "line" if len(points) > 2 else "dots"  # of two points a line shows no markers
    return [*out, Mark(kind, curve.title_of(arm), xs, ys, labels=labels, colour=colour, legend=bool(arm))]


def _band(points: Sequence[tuple[Dose, float, Interval | None]], arm: str, colour: str, y: Axis) -> Mark:
    """An interval that has no end goes to the edge; a level without one narrows the band to its value."""
    low_edge, high_edge = y.range or (-float("inf"), float("inf"))
    ends = [(i.low, i.high) if i is not None else (v, v) for _, v, i in points]
    low, high = (floats([e[k] for e in ends]) for k in (0, 1))
    low, high = tuple(max(e, low_edge) for e in low), tuple(min(e, high_edge) for e in high)
    xs = floats([d.level for d, *_ in points])
    return Mark("band", arm, xs, floats([v for _, v, _ in points]), low, high, colour=colour)


def _label(curve: DoseCurve, d: Dose, v: float, i: Interval | None) -> str:
    head = (
        f"{curve.title_of(d.arm)}, {curve.factor} = {d.level:g}" if d.arm else f"{curve.factor} = {d.level:g}"
    )
    return f"{head}\n{number(v)} {between(i) if i else ''}\n{d.summary.seeds} seeds"


def _sd_axis(curve: DoseCurve, title: str) -> Axis:
    """Logarithmic, unless an arm has no spread at all."""
    sds = [d.summary.sd for d in curve.doses if d.summary.sd is not None]
    ends = [i for d in curve.doses if (i := d.summary.sd_interval) is not None]
    values = [*sds, *(i.low for i in ends), *(i.high for i in ends)]
    if not values or min(values) <= 0 or not math.isfinite(max(values)):
        return Axis(title)
    low, high = min(values) / 1.2, max(values) * 1.2
    return Axis(title, log=True, ticks=log_ticks(low, high), range=(low, high))


def _level_axis(curve: DoseCurve) -> Axis:
    """Ticks at the levels; logarithmic where they go over a decade or more."""
    levels = curve.levels
    log = levels[0] > 0 and levels[-1] / levels[0] >= _DECADE
    few = len(levels) <= _MOST_TICKS
    ticks = tuple((x, f"{x:g}") for x in levels) if few else log_ticks(levels[0], levels[-1]) if log else ()
    room = (levels[-1] / levels[0]) ** 0.06 if log else 0.06 * (levels[-1] - levels[0])
    sides = (levels[0] / room, levels[-1] * room) if log else (levels[0] - room, levels[-1] + room)
    return Axis(curve.factor, log=log, ticks=ticks, range=sides)
