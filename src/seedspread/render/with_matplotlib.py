"""Charts as pictures for a paper, one column wide if possible: PDF, SVG and PNG by matplotlib."""

import io
import math
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import numpy as np

from seedspread.atomic import replacing
from seedspread.errors import reason, require_extra
from seedspread.render.chart import BEYOND, Chart, Mark, Panel, PlotError, caption_of, check_picture, plain

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
except ImportError:
    require_extra("report", "a picture", "matplotlib")
    raise

_MARKERS = "osD^vP<>"
# Lines in the legend, by kind of mark.
_LINES: dict[str, Literal["-", "--"]] = {"line": "-", "band": "-", "rule": "--"}
# Name of the metadata field for the caption, by format.
_WORDS = {"pdf": "Subject", "svg": "Description", "png": "Description"}
_NO_DATE: dict[str, dict[str, str | None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
# In inches: a column of a two-column paper, and the text width of a single-column one, such as NeurIPS's.
_COLUMN, _PAGE = 3.25, 5.5
_HEIGHT = 2.5
# Letters of a row name for which a column is too narrow, and the width of a letter in inches.
_LONG_NAME, _LETTER = 30, 0.062
# Letters beyond which a word is very long, and the height of a line.
_LONG, _LINE = 26, 0.15
# Letters of an axis title that fit a panel's height.
_Y_TITLE = 24
# Height of a wide panel in inches: of its axis, of each row, and of a page at most.
_ROWS, _ROW, _TALLEST = 0.75, 0.19, 8.9
_STYLE = mpl.rc_params_from_file(Path(__file__).parent / "paper.mplstyle", use_default_template=False)


class Picture(Figure):
    """A figure that notebooks display, with or without pyplot."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=120)
        return out.getvalue()


def save_chart(chart: Chart, *paths: Path) -> None:
    """Write a picture in the formats of the file names; the same chart gives the same bytes."""
    with mpl.rc_context(_STYLE):
        figure = draw(chart)
        for path in paths:
            form = path.suffix[1:].lower()
            with replacing(path) as part:
                words = {_WORDS[form]: caption_of(chart) or None}
                figure.savefig(part, format=form, dpi=200, metadata=_NO_DATE[form] | words)


def write_picture(chart: Chart, path: Path) -> None:
    """Write a picture to a file that a user named; its ending decides on the format."""
    check_picture(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_chart(chart, path)
    except OSError as error:
        raise PlotError(f"{path} cannot be written: {reason(error)}") from None


@mpl.rc_context(_STYLE)
def draw(chart: Chart) -> Picture:
    """Return the figure: its panels, two per row, and one legend."""
    rows: list[list[Panel]] = []
    for panel in chart.panels:
        if panel.wide or not rows or rows[-1][0].wide or len(rows[-1]) == 2:
            rows.append([])
        rows[-1].append(panel)
    across = max(map(len, rows))
    names = [line for panel in chart.panels for _, name in panel.y.ticks for line in name.split("\n")]
    is_narrow = across == 1 and max(map(len, names), default=0) <= _LONG_NAME
    width = _COLUMN if is_narrow and not any(panel.wide for panel in chart.panels) else _PAGE
    tall = [min(_ROWS + _ROW * len(row[0].y.ticks), _TALLEST) for row in rows]
    usual = [h if row[0].wide else _HEIGHT * chart.height for h, row in zip(tall, rows, strict=True)]
    heights = [h + _for_long_names(row) for h, row in zip(usual, rows, strict=True)]
    labels = [_entry(mark) for mark in chart.legend]
    longest = max((len(mark.name) for mark in chart.legend), default=0)
    columns = max(1, min(len(labels), int(width / (0.5 + 0.065 * longest))))
    foot = 0.2 * math.ceil(len(labels) / columns) if labels else 0.01
    figure = Picture(figsize=(width, sum(heights) + foot), layout="constrained")
    *parts, bottom = figure.subfigures(len(rows) + 1, 1, height_ratios=[*heights, foot], squeeze=False).flat
    for part, row in zip(parts, rows, strict=True):
        many = 1 if row[0].wide else across
        for axes, panel in zip_longest(part.subplots(1, many, squeeze=False).flat, row):
            if panel is None:
                axes.set_axis_off()
            else:
                draw_panel(axes, panel, width / many)
    if labels:
        bottom.legend(handles=labels, loc="center", ncols=columns, frameon=False)
    return figure


def _for_long_names(row: Sequence[Panel]) -> float:
    """Return the height, in inches, of the lines that long titles and names below panels take beyond two."""
    titles = [len(panel.title) for panel in row]
    ticks = [(len(name), len(panel.x.ticks)) for panel in row for _, name in panel.x.ticks]
    names = [length * many for length, many in ticks if length > _LONG]
    return _LINE * sum(max(max(lengths, default=0) // _LONG - 1, 0) for lengths in (titles, names))


def _broken(text: str, letters: int) -> str:
    """Break a text between words into lines of at most this many letters; only very long words are broken."""
    is_long = max(map(len, text.split()), default=0) > _LONG
    return "\n".join(
        part
        for line in plain(text).split("\n")
        for part in textwrap.wrap(line, max(letters, 8), break_long_words=is_long)
    )


def _entry(mark: Mark) -> Line2D:
    marker = _MARKERS[mark.marker] if mark.has_markers else ""
    is_band = mark.kind == "band"
    return Line2D(
        [], [], color=mark.color, markersize=4, marker=marker, label=plain(mark.name),
        linestyle=_LINES.get(mark.kind, ""), linewidth=7 if is_band else 1.3,
        alpha=0.35 if is_band else 1.0,
    )  # fmt: skip


def draw_panel(axes: Axes, panel: Panel, width: float = _COLUMN) -> None:
    """Draw a panel on axes `width` inches wide, which may be a user's own; long names are broken."""
    line = int(0.8 * width / _LETTER)
    below, beside = int(0.75 * line / max(len(panel.x.ticks), 1)), int((0.75 if panel.wide else 0.6) * line)
    names = min(max((len(name) for _, name in panel.y.ticks), default=0), beside) if panel.wide else 0
    under = int(min(0.9 * line, 1.25 * (line - names)))
    for axis, room, letters, scale, limits, ticks, label in (
        (panel.x, below, under, axes.set_xscale, axes.set_xlim, axes.set_xticks, axes.set_xlabel),
        (panel.y, beside, _Y_TITLE, axes.set_yscale, axes.set_ylim, axes.set_yticks, axes.set_ylabel),
    ):
        if axis.log:
            scale("log")
        if axis.range:
            limits(axis.range)
        if axis.ticks:
            ticks([place for place, _ in axis.ticks], [_broken(name, room) for _, name in axis.ticks])
        label(_broken(axis.title, letters))
    for mark in panel.marks:
        _draw_mark(axes, mark, panel)
    if any(axis.log and axis.ticks for axis in (panel.x, panel.y)):
        axes.minorticks_off()
    if any(below < len(word) <= _LONG for _, name in panel.x.ticks for word in name.split()):
        for text in axes.get_xticklabels():
            text.set(rotation=30, ha="right", rotation_mode="anchor")
    if panel.y.ticks and not any(name for _, name in panel.y.ticks):
        axes.tick_params(axis="y", length=0)
    axes.set_title(_broken(panel.title, int(0.75 * line)), loc="left")
    if not panel.marks:
        axes.set_axis_off()


def _draw_mark(axes: Axes, mark: Mark, panel: Panel) -> None:
    marker = _MARKERS[mark.marker]
    x, y = np.array(mark.x, dtype=float), np.array(mark.y, dtype=float)
    if mark.kind == "band":
        axes.fill_between(x, mark.low, mark.high, color=mark.color, alpha=0.18, linewidth=0)
    elif mark.kind == "rule":
        axes.plot(x, y, color=mark.color, linewidth=0.8, linestyle="--")
    elif mark.kind == "line":
        axes.plot(
            x, y, color=mark.color, linewidth=1.3, marker=marker if mark.has_markers else "", markersize=3
        )
    elif mark.kind == "interval":
        low, high = panel.x.range or (-np.inf, np.inf)
        axes.hlines(
            y, np.maximum(mark.low, low), np.minimum(mark.high, high), color=mark.color, linewidth=1.5
        )
        axes.plot(x, y, marker, color=mark.color, markersize=4.5)
    else:
        is_inside = mark.symbol not in BEYOND  # an arrow is on the edge
        axes.plot(x, y, marker, color=mark.color, markersize=3.5, alpha=0.85, clip_on=is_inside)
