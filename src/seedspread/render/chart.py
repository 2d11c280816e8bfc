"""The chart model: panels and marks, their values as CSV, and a check of the picture's file name."""

import csv
import io
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from seedspread.errors import SeedspreadError, printable, require_extra
from seedspread.render.table import spreadsheet_cell

Kind = Literal["dots", "line", "band", "interval", "rule"]

# Okabe and Ito's colors, which color-blind readers can tell apart, on white and on black.
# The two palest are made darker, to be visible on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#A66F00", "#2C8FC9")
GREY = "#888888"
# Color of ratios and their intervals, which belong to no group.
NEUTRAL = "#4d4d4d"
PANEL_HEIGHT = 330  # in pixels, of a panel with height 1
SYMBOLS = 6  # markers that can be told apart
# Markers of points beyond either end of an axis.
BEYOND = (-2, -1)
# Colors of ordered things, such as layers: plasma's dark half on white, its light half on black.
_ORDERED = ("#0d0887", "#4903a0", "#7201a8", "#9511a1", "#b12a90", "#c53f7f", "#d8576b", "#e0685e")
_IN_THE_DARK = ("#b93a8f", "#cc4778", "#dd5e66", "#ed7953", "#f89540", "#fdb42f", "#fbd524", "#f0f921")
DARK = dict(zip(_ORDERED, _IN_THE_DARK, strict=True)) | {NEUTRAL: "#b8b8b8"}


@dataclass(frozen=True)
class Mark:
    """One series of a panel.

    Attributes:
        kind: `dots`; a `line`; a `band` between low and high; horizontal `interval`s from low to high with
            a dot at x; a `rule`, a thin dashed line that is not data.
        low, high: ends of bands (in y) and intervals (in x).
        labels: hover text of each point.
        symbol: number of the marker, modulo `SYMBOLS`; one of `BEYOND` for an arrow.
        legend: whether the legend names it.
    """

    kind: Kind
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    color: str = GREY
    symbol: int = 0
    legend: bool = False

    @property
    def marker(self) -> int:
        """Index of its marker in the list of a back end, whose last two are arrows."""
        return self.symbol % SYMBOLS if self.symbol >= 0 else self.symbol

    @property
    def has_markers(self) -> bool:
        """Whether its points are shown: a line of two points is a level, one of many a curve."""
        return self.kind not in ("band", "rule") and (self.kind != "line" or 2 < len(self.x) <= 12)

    def __post_init__(self) -> None:
        lengths = {len(v) for v in (self.x, self.y, self.low, self.high, self.labels) if v} | {len(self.x)}
        if len(lengths) != 1 or len(self.x) != len(self.y):
            raise ValueError(f"{self.kind} {self.name!r}: coordinates and labels must be equally many")


@dataclass(frozen=True)
class Axis:
    """An axis; `ticks` are (position, label) pairs."""

    title: str = ""
    log: bool = False
    ticks: tuple[tuple[float, str], ...] = ()
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """Axes and their marks; a `wide` panel is as wide as the picture, and as high as its row names need."""

    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    wide: bool = False


@dataclass(frozen=True)
class Chart:
    """A figure.

    Attributes:
        id: short and stable: an anchor on the page, and a file name.
        caption: how to read it.
        alt: description for readers who cannot see it.
        scale: the data and size of the runs behind its numbers.
        follows: the published figure that it corresponds to, if there is one.
        height: in units of a panel's usual height.
    """

    id: str
    title: str
    caption: str
    alt: str
    panels: tuple[Panel, ...]
    scale: str = ""
    follows: str = ""
    height: float = 1.0

    @property
    def legend(self) -> list[Mark]:
        """The first mark of each name in the legend."""
        first: dict[str, Mark] = {}
        for mark in (m for panel in self.panels for m in panel.marks if m.legend):
            first.setdefault(mark.name, mark)
        return list(first.values())


def floats(values: ArrayLike) -> tuple[float, ...]:
    """Return Python floats, for marks."""
    return tuple(np.asarray(values, dtype=float).ravel().tolist())


def ordered_color(i: int, n: int) -> str:
    """Return the color of the i-th of n ordered things, from dark to light."""
    return _ORDERED[round(i * (len(_ORDERED) - 1) / max(n - 1, 1))]


def log_ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """Return round numbers from `low` to `high` for a logarithmic axis, about seven at most."""
    for steps, every in (((1, 2, 5), 1), ((1,), 1), ((1,), 2), ((1,), 4)):
        ticks = [s * 10.0**k for k in range(-12, 13, every) for s in steps if low <= s * 10.0**k <= high]
        if len(ticks) <= 7:
            break
    return tuple((t, f"{t:g}") for t in ticks)


def caption_of(chart: Chart) -> str:
    """Return the words below a picture: title, how to read it, and the data behind it."""
    parts = (chart.title, chart.caption, f"Data: {chart.scale}" if chart.scale else "")
    return plain(" ".join(f"{part.rstrip('.')}." for part in parts if part))


def plain(text: str) -> str:
    """Return text without control characters, which no font has and SVG forbids."""
    return printable(text).replace("\t", " ")


FORMATS = ("pdf", "svg", "png")


class PlotError(SeedspreadError):
    """A picture cannot be drawn or written as requested."""


def check_picture(path: Path, others: str = "") -> None:
    """Refuse a picture that cannot be drawn or has a wrong file name, before anything is computed.

    `others` are further endings that the caller handles itself, for the message: `.csv, `.
    """
    require_extra("report", f"the picture {path}", "matplotlib")
    if path.suffix[1:].lower() not in FORMATS:
        raise PlotError(f"{path} must end in {others}{', '.join(f'.{form}' for form in FORMATS)}")


def chart_csv(chart: Chart) -> str:
    """Return the values of a figure, a row per point."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("panel", "series", "kind", "x", "y", "low", "high", "label"))
    for panel in chart.panels:
        for mark in (m for m in panel.marks if m.kind != "rule"):
            columns = (mark.x, mark.y, mark.low, mark.high, mark.labels)
            for x, y, low, high, label in zip_longest(*columns, fillvalue=""):
                numbers = ("" if v == "" else f"{v:.10g}" for v in (x, y, low, high))
                row = (panel.title, mark.name, mark.kind)
                writer.writerow(
                    [*map(spreadsheet_cell, row), *numbers, spreadsheet_cell(str(label).replace("\n", "; "))]
                )
    return out.getvalue()
