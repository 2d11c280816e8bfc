"""Charts of an audit: every run, and the variance ratio by every method with its interval."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import numpy as np

from seedspread.errors import SeedspreadError
from seedspread.render.chart import COLOURS, GREY, SYMBOLS, Axis, Chart, Mark, Panel, floats, log_ticks
from seedspread.render.with_matplotlib import FORMATS, save_chart
from seedspread.stats.audited import AuditResult
from seedspread.stats.result import Comparison, Interval, Strip
from seedspread.stats.verdict import between, number, p_value

# The headline has a colour that no arm has.
QUOTED = COLOURS[2]
_SEED_UNIT = ("seed_jackknife", "seed_bootstrap", "pitman_morgan")
_SHOWN = (*_SEED_UNIT, "f", "bonett", "bootstrap", "bootstrap_bca")
_WIDEST = 1e4  # ratios beyond this are drawn at the edge
_MOST = 12


class PlotError(SeedspreadError):
    """A picture cannot be drawn or written as requested."""


@dataclass(frozen=True)
class Dots:
    """The runs of an arm in one block."""

    block: str
    values: Sequence[float]
    labels: tuple[str, ...] = ()


def draw_audit(audit: AuditResult, path: Path) -> None:
    """Writes the picture; its format follows from the file's name."""
    if path.suffix[1:].lower() not in FORMATS:
        raise PlotError(f"{path} must end in {', '.join(f'.{form}' for form in FORMATS)}")
    if len(audit.comparisons) > _MOST:
        raise PlotError(
            f"a picture of {len(audit.comparisons)} comparisons is not legible; take at most {_MOST}"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_chart(audit_chart(audit), path)
    except OSError as error:
        raise PlotError(f"{path} cannot be written: {error.strerror or error}") from None


def audit_chart(audit: AuditResult) -> Chart:
    """For each comparison its runs, and beside them its ratio by every method."""
    panels = [panel for c in audit.comparisons for panel in (_runs_panel(audit, c), _ratios_panel(c, audit))]
    source = f"{audit.rows:,} runs from {Path(audit.source).name}"
    return Chart("audit", "", "", "", tuple(panels), source, height=1.15)


def _runs_panel(audit: AuditResult, c: Comparison) -> Panel:
    strips = audit.strips(c)
    blocks = list(dict.fromkeys(b for s in strips for b in s.blocks))
    arms = dict.fromkeys((audit.reference, *(other.group for other in audit.comparisons)))
    colours = dict(zip(arms, cycle(COLOURS), strict=False))
    marks = [
        mark
        for i, strip in enumerate(strips)
        for mark in arm_marks(strip.group, i, colours[strip.group], *_spread(strip), _dots(strip, blocks))
    ]
    return Panel(c.title, arms_axis([s.group for s in strips]), Axis(audit.value), tuple(marks))


def _spread(strip: Strip) -> tuple[float, float | None]:
    values = np.array(strip.values)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None


def _dots(strip: Strip, blocks: list[str]) -> list[Dots]:
    pairs = list(zip(strip.values, strip.blocks, strict=True))
    return [Dots(block, [value for value, label in pairs if label == block]) for block in blocks]


def _ratios_panel(c: Comparison, audit: AuditResult) -> Panel:
    """A picture has no caption: its legend says which ratios to trust, and a star which is the headline."""
    panel = methods_panel(c, f"variance ratio by method, {audit.level:.0%} intervals")
    if panel is None:
        return Panel("no ratio with an interval", Axis(), Axis(), ())
    names = {
        QUOTED: "ratio, each seed counted once (* the headline)",
        GREY: "ratio, every run as independent",
    }
    marks = (m if m.kind == "rule" else replace(m, name=names[m.colour], legend=True) for m in panel.marks)
    jackknife = next((t.name for t in c.tests if t.key == "seed_jackknife"), None)
    ticks = tuple((position, f"* {name}" if name == jackknife else name) for position, name in panel.y.ticks)
    return replace(panel, y=replace(panel.y, ticks=ticks), marks=tuple(marks))


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


def methods_panel(c: Comparison, title: str) -> Panel | None:
    """The ratio of a comparison by every method that has an interval; None if none has."""
    tests = [t for t in c.tests if t.key in _SHOWN and t.interval is not None and t.estimate]
    if not tests:
        return None
    axis = ratio_axis([t.interval for t in tests if t.interval], f"variance ratio, {arms_of(c)}")
    marks: list[Mark] = [rule((1, 1), (-0.6, len(tests) - 0.4))]
    for position, t in zip(range(len(tests) - 1, -1, -1), tests, strict=True):
        if t.interval is None:
            continue
        label = f"{t.name}\n{number(t.estimate)} {between(t.interval)}\np = {p_value(t.p)}"
        colour = QUOTED if t.key in _SEED_UNIT else GREY
        marks.append(
            Mark("interval", t.name, floats([t.estimate or math.nan]), (float(position),),
                 (t.interval.low,), (t.interval.high,), (label,), colour)
        )  # fmt: skip
    ticks = tuple((float(len(tests) - 1 - i), t.name) for i, t in enumerate(tests))
    return Panel(title, axis, Axis(ticks=ticks, range=(-0.6, len(tests) - 0.4)), tuple(marks))


def ratio_axis(intervals: Iterable[Interval], title: str) -> Axis:
    """A logarithmic axis that holds 1/2, 2 and all finite ends, within reason."""
    ends = [e for i in intervals for e in (i.low, i.high) if 0 < e < math.inf]
    low = max(min([*ends, 0.5]) / 1.5, 1 / _WIDEST)
    high = min(max([*ends, 2.0]) * 1.5, _WIDEST)
    return Axis(title, log=True, ticks=log_ticks(low, high), range=(low, high))


def rule(x: tuple[float, ...], y: tuple[float, ...]) -> Mark:
    """A thin line that helps the eye."""
    return Mark("rule", "", x, y)


def arms_of(c: Comparison) -> str:
    """Which variance stands over which."""
    return f"{c.group} over {c.reference}"
