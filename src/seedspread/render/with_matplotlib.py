"""Charts as pictures for a paper: PDF, SVG and PNG by matplotlib, in a column's width."""

import io
import math
import textwrap
from pathlib import Path

import numpy as np

from seedspread.atomic import replacing
from seedspread.errors import reason, require_extra
from seedspread.render.chart import Axis, Chart, Mark, Panel, PlotError, caption_of, check_picture, plain

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
except ImportError:
    require_extra("report", "a picture", "matplotlib")
    raise

_MARKERS = "osD^vP"
# Each format, and what it calls the words that go with a picture.
_WORDS = {"pdf": "Subject", "svg": "Description", "png": "Description"}
_NO_DATE: dict[str, dict[str, str | None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
# Widths of one and of both columns of a usual two-column paper, in inches.
_COLUMN, _PAGE = 3.4, 7.0
_HEIGHT = 2.5
# Letters of a row's name beyond which a column is too narrow, and how wide a letter is.
_LONG_NAME, _LETTER = 30, 0.056
_STYLE = mpl.rc_params_from_file(Path(__file__).parent / "paper.mplstyle", use_default_template=False)


class Picture(Figure):
    """A figure that a notebook shows, with or without pyplot."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=120)
        return out.getvalue()


def save_chart(chart: Chart, *paths: Path) -> None:
    """Write a picture in the formats of the files' names; the same chart gives the same bytes."""
    with mpl.rc_context(_STYLE):
        figure = draw(chart)
        for path in paths:
            form = path.suffix[1:].lower()
            with replacing(path) as part:
                words = {_WORDS[form]: caption_of(chart) or None}
                figure.savefig(part, format=form, dpi=200, metadata=_NO_DATE[form] | words)


def write_picture(chart: Chart, path: Path) -> None:
    """Write one picture where a user asked for it; its format follows from the file's name."""
    check_picture(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_chart(chart, path)
    except OSError as error:
        raise PlotError(f"{path} cannot be written: {reason(error)}") from None


@mpl.rc_context(_STYLE)
def draw(chart: Chart) -> Picture:
    """Return the figure: its panels and one legend for all."""
    across = min(len(chart.panels), 2)
    down = math.ceil(len(chart.panels) / across)
    labels = [_entry(mark) for mark in chart.legend]
    rows = [line for panel in chart.panels for _, name in panel.y.ticks for line in name.split("\n")]
    names = max(map(len, rows), default=0)
    width = _COLUMN if across == 1 and names <= _LONG_NAME else _PAGE
    longest = max((len(mark.name) for mark in chart.legend), default=0)
    columns = max(1, min(len(labels), int(width / (0.4 + 0.055 * longest))))
    foot = 0.25 + 0.18 * math.ceil(len(labels) / columns)
    size = (width, _HEIGHT * chart.height * down + foot)
    figure = Picture(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for ax, panel in zip(axes, chart.panels, strict=False):
        draw_panel(ax, panel, width / across)
    for ax in axes[len(chart.panels) :]:
        ax.set_axis_off()
    if labels:
        figure.legend(handles=labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _broken(text: str, letters: int) -> str:
    """Break a text into lines of about so many letters; words are left whole."""
    return "\n".join(
        part
        for line in plain(text).split("\n")
        for part in textwrap.wrap(line, max(letters, 8), break_long_words=False)
    )


def _entry(mark: Mark) -> Line2D:
    marker = _MARKERS[mark.symbol % len(_MARKERS)] if mark.has_markers else ""
    return Line2D(
        [], [], color=mark.colour, markersize=4, marker=marker, linestyle="-" if mark.kind == "line" else "",
        label=plain(mark.name),
    )  # fmt: skip


def draw_panel(axes: Axes, panel: Panel, width: float = _COLUMN) -> None:
    """Draw a panel on axes, which may be a user's own, `width` inches wide; long names are broken."""
    line = int(0.8 * width / _LETTER)
    below, beside = int(0.75 * line / max(len(panel.x.ticks), 1)), int(0.6 * line)
    for axis, room, scale, limits, ticks, label in (
        (panel.x, below, axes.set_xscale, axes.set_xlim, axes.set_xticks, axes.set_xlabel),
        (panel.y, beside, axes.set_yscale, axes.set_ylim, axes.set_yticks, axes.set_ylabel),
    ):
        if axis.log:
            scale("log")
        if axis.range:
            limits(axis.range)
        if axis.ticks:
            ticks([place for place, _ in axis.ticks], [_broken(name, room) for _, name in axis.ticks])
        label(_broken(axis.title, int(0.75 * line)))
    for mark in panel.marks:
        _draw_mark(axes, mark, panel.x)
    if any(axis.log and axis.ticks for axis in (panel.x, panel.y)):
        axes.minorticks_off()
    if any(len(word) > below for _, name in panel.x.ticks for word in name.split()):
        axes.tick_params(axis="x", labelrotation=30)
    axes.set_title(_broken(panel.title, int(0.75 * line)), loc="left")
    if not panel.marks:
        axes.set_axis_off()


def _draw_mark(axes: Axes, mark: Mark, axis: Axis) -> None:
    marker = _MARKERS[mark.symbol % len(_MARKERS)]
    x, y = np.array(mark.x, dtype=float), np.array(mark.y, dtype=float)
    if mark.kind == "band":
        axes.fill_between(x, mark.low, mark.high, color=mark.colour, alpha=0.18, linewidth=0)
    elif mark.kind == "rule":
        axes.plot(x, y, color=mark.colour, linewidth=0.8, linestyle="--")
    elif mark.kind == "line":
        axes.plot(
            x, y, color=mark.colour, linewidth=1.3, marker=marker if mark.has_markers else "", markersize=3
        )
    elif mark.kind == "interval":
        low, high = axis.range or (-np.inf, np.inf)
        axes.hlines(
            y, np.maximum(mark.low, low), np.minimum(mark.high, high), color=mark.colour, linewidth=1.5
        )
        axes.plot(x, y, marker, color=mark.colour, markersize=4.5)
    else:
        axes.plot(x, y, marker, color=mark.colour, markersize=3.5, alpha=0.85)
