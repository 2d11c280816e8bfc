"""Dose response: what a numeric factor with at least three levels does, as a figure and a table."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from seedspread.analysis.audit_result import Comparison
from seedspread.analysis.charts import ratio_axis, rule
from seedspread.analysis.words import between, number
from seedspread.render.chart import COLOURS, Axis, Chart, Kind, Mark, Panel, floats, log_ticks
from seedspread.render.table import Column, Table
from seedspread.report.extension import ReportData, Setting, origins, slug
from seedspread.report.sections import Exhibit, exhibit
from seedspread.runs.levels import as_number, setting_name
from seedspread.stats.groups import Group
from seedspread.stats.result import Interval
from seedspread.stats.seed_summaries import GroupSummary, summarize

_FEWEST_LEVELS = 3
_MOST_TICKS = 10
_DECADE = 10.0


@dataclass(frozen=True)
class Dose:
    """One arm at one level of the factor, and the ratio of its variance to the baseline's, if it has one."""

    level: float
    arm: str
    summary: GroupSummary
    ratio: float | None
    interval: Interval | None


@dataclass(frozen=True)
class DoseCurve:
    """A numeric factor and what was measured at each of its levels.

    Attributes:
        name: name of the settings it goes through, without the factor.
        baseline: denominator of the ratios, an arm or a level of the factor.
        lines: arms, in the order of their colors; one without a name if the factor is what is compared.
    """

    id: str
    factor: str
    name: str
    baseline: str
    lines: tuple[str, ...]
    doses: tuple[Dose, ...]
    settings: tuple[Setting, ...]

    @property
    def levels(self) -> tuple[float, ...]:
        """Return every level once, from low to high."""
        return tuple(sorted({dose.level for dose in self.doses}))

    @property
    def about(self) -> str:
        """Return the title of the figure and of the table."""
        return f"Dose response, {self.factor}{f': {self.name}' if self.name else ''}"

    def title_of(self, arm: str) -> str:
        return self.settings[0].arm_title(arm) if arm else ""

    @property
    def baseline_title(self) -> str:
        several = self.lines != ("",)
        return self.title_of(self.baseline) if several else f"{self.factor} = {self.baseline}"

    def line(self, arm: str) -> list[Dose]:
        """Return the doses of an arm, from low to high."""
        return sorted((d for d in self.doses if d.arm == arm), key=lambda d: d.level)


def dose_curves(data: ReportData) -> list[DoseCurve]:
    """Return a curve for each numeric factor that is audited by, or compared."""
    return [*_audited_by(data), *(curve for s in data.settings for curve in _compared(s))]


def _audited_by(data: ReportData) -> Iterator[DoseCurve]:
    """Join the settings of one study that differ in one numeric factor only."""
    families: dict[tuple[str, str, str, tuple[tuple[str, str], ...]], list[Setting]] = {}
    for s in data.settings:
        for factor, _ in s.levels:
            rest = tuple((f, level) for f, level in s.levels if f != factor)
            families.setdefault((s.study, s.metric.name, factor, rest), []).append(s)
    several = len({s.metric.name for s in data.settings}) > 1
    for (study, metric, factor, rest), settings in families.items():
        levels = [as_number(dict(s.levels)[factor]) for s in settings]
        if None in levels or len(set(levels)) < _FEWEST_LEVELS:
            continue
        name = ", ".join(part for part in (study, setting_name(rest)) if part)
        doses = [
            _dose(s, arm, level or 0.0, arm)
            for s, level in zip(settings, levels, strict=True)
            for arm in _measured(s)
        ]
        yield DoseCurve(
            slug(" ".join([name, "by", factor, *([metric] if several else [])])),
            factor, name, settings[0].arms[-1], settings[0].arms, tuple(doses), tuple(settings),
        )  # fmt: skip


def _compared(s: Setting) -> Iterator[DoseCurve]:
    """Return the curve of the factor that is compared, if it is numeric: a level is an arm."""
    levels = {arm: as_number(arm) for arm in _measured(s)}
    if s.group and None not in levels.values() and len(levels) >= _FEWEST_LEVELS:
        doses = tuple(_dose(s, arm, level or 0.0, "") for arm, level in levels.items())
        yield DoseCurve(slug(f"{s.id} by {s.group}"), s.group, s.name, s.arms[-1], ("",), doses, (s,))


def _measured(s: Setting) -> list[str]:
    return [arm for arm in s.arms if s.of(arm) or s.crashed_seeds(arm)]


def _dose(s: Setting, arm: str, level: float, line: str) -> Dose:
    c = next((c for c in s.comparisons if arm in (c.group, c.baseline)), None)
    summary = _summary(s, arm, c)
    if c is not None and c.group == arm:
        return Dose(level, line, summary, c.headline.ratio, c.headline.shown_interval)
    own = not line and arm == s.arms[-1]
    return Dose(level, line, summary, 1.0 if own else None, None)  # 1 by definition


def _summary(s: Setting, arm: str, c: Comparison | None) -> GroupSummary:
    runs = s.of(arm)
    blocks, seeds = list(dict.fromkeys(r.block for r in runs)), list(dict.fromkeys(r.seed for r in runs))
    values = Group(
        name=arm,
        values=np.array([r.value for r in runs]),
        blocks=np.array([blocks.index(r.block) for r in runs], dtype=np.intp),
        seeds=np.array([seeds.index(r.seed) for r in runs], dtype=np.intp),
        block_names=tuple(blocks),
    )
    if c is not None and c.failures is not None:
        place = c.failures.groups.index(arm)
        return summarize(values, c.failures.failed[place], c.failures.seeds[place])
    crashed = s.crashed_seeds(arm)
    return summarize(values, len({r.seed for r in runs if r.collapsed} | crashed), len({*seeds, *crashed}))


@exhibit("datasets")
def dose_response(data: ReportData) -> Iterator[Exhibit]:
    """Return a figure and a table of each curve."""
    for curve in dose_curves(data):
        yield dose_chart(curve)
        yield dose_table(curve)


def dose_table(curve: DoseCurve) -> Table:
    """Return a row for each level and arm, with 95% intervals."""
    several, unit = curve.lines != ("",), curve.settings[0].metric.unit_suffix
    headings = (
        curve.factor, *(("arm",) if several else ()), "seeds", f"mean{unit}", "interval", f"sd{unit}",
        "interval", "failed", "interval", f"ratio over {curve.baseline_title}", "interval",
    )  # fmt: skip
    rows = [
        (f"{curve.factor} = {d.level:g}", *((curve.title_of(d.arm),) if several else ()), *_numbers(d))
        for level in curve.levels
        for arm in curve.lines
        for d in curve.line(arm)
        if d.level == level
    ]
    return Table(
        f"{curve.id}-table", curve.about, tuple(map(Column, headings)), tuple(rows),
        scale=origins(curve.settings),
    )  # fmt: skip


def _numbers(d: Dose) -> tuple[str, ...]:
    s = d.summary
    intervals = (s.mean_interval, s.sd_interval, s.rate_interval, d.interval)
    mean, sd, rate, ratio = ("-" if interval is None else between(interval) for interval in intervals)
    failed = f"{s.failed}/{s.seeds}"
    return (str(s.seeds), number(s.mean), mean, number(s.sd), sd, failed, rate, number(d.ratio), ratio)


_Value = Callable[[Dose], tuple[float | None, Interval | None]]


def dose_chart(curve: DoseCurve) -> Chart:
    """Draw ratio, sd, failure rate and mean against the level, with intervals."""
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
        f"{curve.title_of(d.arm) or 'at'} {d.level:g}: {number(d.ratio)} {between(d.interval)}"
        for d in curve.doses
        if d.ratio is not None and d.interval is not None
    )
    return Chart(
        curve.id,
        curve.about,
        f"What the level of {curve.factor} does. Bands are 95% intervals: of the ratio as in its comparison, "
        "of the sd chi-square, widened for heavy tails, of the failure rate exact, of the mean Student's. "
        "Failed runs are part of the sd and of the mean.",
        f"Against {curve.factor}: the variance ratio {over}, the sd, the failure rate and the mean of "
        f"{', '.join(map(curve.title_of, curve.lines)) or metric.label}. {ratios or 'No ratio'}.",
        panels,
        origins(curve.settings),
    )


def _panel(curve: DoseCurve, title: str, y: Axis, value: _Value, at: float | None = None) -> Panel:
    """Return one quantity of all arms; bands of its intervals are cut at the edges."""
    marks = [] if at is None else [rule((curve.levels[0], curve.levels[-1]), (at, at))]
    low_edge, high_edge = y.range or (-math.inf, math.inf)
    for arm in curve.lines:
        points = [(d, v, i) for d in curve.line(arm) for v, i in [value(d)] if v is not None]
        name, colour = curve.title_of(arm), curve.settings[0].colour(arm) if arm else COLOURS[0]
        xs, ys = floats([d.level for d, *_ in points]), floats([v for _, v, _ in points])
        if len(points) > 1:
            # As narrow as the value where there is no interval.
            ends = [(v, v) if i is None else (i.low, i.high) for _, v, i in points]
            low = floats([max(end, low_edge) for end, _ in ends])
            high = floats([min(end, high_edge) for _, end in ends])
            marks.append(Mark("band", name, xs, ys, low, high, colour=colour))
        if points:
            kind: Kind = "line" if len(points) > 2 else "dots"  # of two points a line shows no markers
            labels = tuple(_label(curve, *point) for point in points)
            marks.append(Mark(kind, name, xs, ys, labels=labels, colour=colour, legend=bool(arm)))
    return Panel(title, _level_axis(curve), y, tuple(marks))


def _label(curve: DoseCurve, d: Dose, v: float, i: Interval | None) -> str:
    level = f"{curve.factor} = {d.level:g}"
    head = f"{curve.title_of(d.arm)}, {level}" if d.arm else level
    return f"{head}\n{number(v)} {between(i) if i else ''}\n{d.summary.seeds} seeds"


def _sd_axis(curve: DoseCurve, title: str) -> Axis:
    """Return a logarithmic axis, unless an arm has no spread at all."""
    sds = [d.summary.sd for d in curve.doses if d.summary.sd is not None]
    ends = [i for d in curve.doses if (i := d.summary.sd_interval) is not None]
    values = [*sds, *(i.low for i in ends), *(i.high for i in ends)]
    if not values or min(values) <= 0 or not math.isfinite(max(values)):
        return Axis(title)
    low, high = min(values) / 1.2, max(values) * 1.2
    return Axis(title, log=True, ticks=log_ticks(low, high), range=(low, high))


def _level_axis(curve: DoseCurve) -> Axis:
    """Return an axis with ticks at the levels, logarithmic if they span a decade or more."""
    levels = curve.levels
    log = levels[0] > 0 and levels[-1] / levels[0] >= _DECADE
    few = len(levels) <= _MOST_TICKS
    ticks = tuple((x, f"{x:g}") for x in levels) if few else log_ticks(levels[0], levels[-1]) if log else ()
    room = (levels[-1] / levels[0]) ** 0.06 if log else 0.06 * (levels[-1] - levels[0])
    sides = (levels[0] / room, levels[-1] * room) if log else (levels[0] - room, levels[-1] + room)
    return Axis(curve.factor, log=log, ticks=ticks, range=sides)
