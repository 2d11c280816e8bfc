"""A picture of sets of runs compared: how each setting's spread changed, and the arms' ratios in each set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from seedspread.analysis.charts import MOST_LINES, QUOTED, Line, audit_chart, lines_panel, on_axes
from seedspread.analysis.sets.agreement import Agreement
from seedspread.render.chart import COLOURS, Chart, Panel
from seedspread.render.pictures import PlotError, write_picture
from seedspread.runs.levels import stratum_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from seedspread.analysis.sets.compared import CompareResult

# Characters of a name in a line of the picture; longer ones are broken.
_NAME_LINE = 28


def draw_sets(result: CompareResult, path: Path | str) -> None:
    """Writes the picture; its format follows from the file's name."""
    write_picture(sets_chart(result), Path(path))


def plot_sets(result: CompareResult, ax: Axes | None = None) -> Figure:
    """The picture as a figure; on `ax` the ratios of the spread alone."""
    return on_axes(sets_chart(result), ax)


def sets_chart(result: CompareResult) -> Chart:
    """The spread from set to set, and beside it each set's own ratios; of one setting its runs."""
    if not result.agreements:
        return audit_chart(result.spread)
    lines = max(len(result.spread.comparisons), 3 * len(result.agreements))
    if lines > MOST_LINES:
        raise PlotError(f"a picture of {lines} ratios is not legible; take at most {MOST_LINES}")
    scale = f"{result.spread.rows:,} runs from {result.spread.source}"
    panels = (_spread_panel(result), _agreement_panel(result))
    rows = max(sum(-(-len(name) // _NAME_LINE) for _, name in panel.y.ticks) for panel in panels)
    return Chart("compare", "", "", "", panels, scale, height=max(1.0, 0.5 + 0.06 * rows))


def _spread_panel(result: CompareResult) -> Panel:
    several, first = len(result.names) > 2, result.names[0]
    lines = [
        Line(
            c.title if several else stratum_name(c.by, c.stratum), c.headline.ratio, c.headline.shown_interval
        )
        for c in result.spread.comparisons
    ]
    title = f"variance, all over {first}" if several else f"variance, {result.names[1]} over {first}"
    return lines_panel(lines, _axis(result), title)


def _agreement_panel(result: CompareResult) -> Panel:
    lines = [line for a in result.agreements for line in _lines(a)]
    return lines_panel(lines, _axis(result), "the arms' ratios in each set")


def _axis(result: CompareResult) -> str:
    return f"ratio, {result.spread.level:.0%} interval (Holm)"


def _lines(a: Agreement) -> list[Line]:
    """The ratio in either set, and under them what one is over the other."""
    first, second = (answer.headline for answer in a.answers)
    return [
        Line(f"{a.title}: {a.first}", first.ratio, first.shown_interval, COLOURS[0]),
        Line(a.source, second.ratio, second.shown_interval, COLOURS[1]),
        Line(f"{a.source} over {a.first}", a.headline.ratio, a.headline.shown_interval, QUOTED),
    ]
