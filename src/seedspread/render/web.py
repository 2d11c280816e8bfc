"""Tables and charts on a page: HTML and SVG with every name escaped, and the values that plotly.js draws."""

import html
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from seedspread.errors import printable
from seedspread.render.chart import (
    GREY,
    PANEL_HEIGHT,
    Axis,
    Chart,
    Mark,
    Panel,
    PlotError,
    chart_csv,
    even_ticks,
    log_ticks,
)
from seedspread.render.table import Table, numeric_columns

# Letters of text that need not be broken.
_SHORT_CELL, _SHORT_HEAD = 26, 14


def to_html(exhibit: Table | Chart) -> Markup:
    """Return a `figure`; a chart's panels are SVG, which plotly takes the place of where scripts run."""
    values: dict[str, Any]
    if isinstance(exhibit, Table):
        values, name = {"t": exhibit, "classes": _classes(exhibit)}, "table.html"
    else:
        values, name = _chart_values(exhibit), "chart.html"
    template = environment("seedspread.render").get_template(name)
    return Markup(template.render(**values) + "\n")  # noqa: S704 - escaped by the template


def _classes(table: Table) -> list[tuple[str, str]]:
    """Return the classes of each column's head and cells: `n` for numbers, and how text may be broken.

    Short text stays in one line, and long text has room: tables can be pushed sideways.
    """
    out = []
    for i, (column, is_number) in enumerate(zip(table.columns, numeric_columns(table), strict=True)):
        before = table.columns[i - 1].group if i else ""
        edge = " edge" if column.group and column.group != before else ""
        longest = max((len(row[i]) for row in table.rows), default=0)
        cells = "n" if is_number else "whole" if longest <= _SHORT_CELL else "wide"
        head = "whole" if len(column.text) <= _SHORT_HEAD else "broken"
        out.append((f"{'n ' * is_number}{head}{edge}", f"{cells}{edge}"))
    return out


def _chart_values(chart: Chart) -> dict[str, Any]:
    width = 500 if len(chart.panels) == 1 else 440
    return {
        "c": chart,
        "stills": [panel_svg(panel, chart.height, width) for panel in chart.panels],
        "legend": [(mark, swatch(mark)) for mark in chart.legend],
        "height": round(PANEL_HEIGHT * chart.height),
    }


def for_notebook(
    lines: Sequence[str], tables: Sequence[Table], notes: Sequence[str] = (), picture: str = ""
) -> str:
    """Return sentences, tables and a picture in the colors of the page around them, light or dark."""
    template = environment("seedspread.render").get_template("notebook.html")
    return template.render(lines=lines, tables=tables, notes=notes, picture=picture)


def notebook_svg(make: Callable[[], Chart]) -> Markup:
    """Return a chart for a notebook, drawn without matplotlib; empty if there is too much to draw."""
    try:
        values = _chart_values(make())
    except PlotError:
        return Markup()
    template = environment("seedspread.render").get_template("notebook_chart.html")
    return Markup(template.render(**values))  # noqa: S704 - escaped by the template


@cache
def environment(package: str) -> Environment:
    """Return the templates of a package: every value is escaped, tables and charts go through `html`."""
    templates = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    templates.filters["html"] = to_html
    return templates


def _shown(value: Any) -> Any:
    """Return text without control characters and turned directions; HTML is left alone."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")


def chart_values(chart: Chart) -> dict[str, Any]:
    """Return what the page's script needs of a chart: a plotly figure for each panel, and a CSV."""
    return {"panels": [panel_values(panel, chart.height) for panel in chart.panels], "csv": chart_csv(chart)}


def panel_values(panel: Panel, height: float = 1.0) -> dict[str, Any]:
    """Return a panel as a plotly figure; colors of text and lines follow the page's theme there."""
    return {
        "data": [_trace(mark, panel) for mark in panel.marks],
        "layout": {
            "title": {"text": html.escape(panel.title), "x": 0, "xref": "paper", "font": {"size": 13}},
            "xaxis": _axis(panel.x),
            "yaxis": _axis(panel.y),
            "height": round(PANEL_HEIGHT * height),
            "margin": {"l": 10, "r": 12, "t": 34 if panel.title else 12, "b": 10},
            "showlegend": False,
            "hovermode": "closest",
        },
    }


def _axis(axis: Axis) -> dict[str, Any]:
    out: dict[str, Any] = {
        "title": {"text": html.escape(axis.title), "standoff": 8, "font": {"size": 12}},
        "automargin": True,
        "zeroline": False,
        "tickangle": 0,
    }
    if axis.log:
        out["type"] = "log"
    if axis.ticks:
        out["tickvals"] = [position for position, _ in axis.ticks]
        out["ticktext"] = [_lines(text) for _, text in axis.ticks]
    if axis.range:
        out["range"] = [math.log10(end) for end in axis.range] if axis.log else list(axis.range)
    return out


def _trace(mark: Mark, panel: Panel) -> dict[str, Any]:
    # `meta` ties a trace to its entry in the legend, whatever the name holds.
    common: dict[str, Any] = {"type": "scatter", "name": html.escape(mark.name), "meta": mark.name}
    if mark.kind == "band":
        red, green, blue = (int((mark.colour or GREY)[i : i + 2], 16) for i in (1, 3, 5))
        return common | {
            "x": _numbers((*mark.x, *reversed(mark.x))),
            "y": _numbers((*mark.high, *reversed(mark.low))),
            "fill": "toself",
            "fillcolor": f"rgba({red},{green},{blue},0.18)",
            "line": {"width": 0, "color": mark.colour},
            "mode": "lines",
            "hoverinfo": "skip",
        }
    common |= {"x": _numbers(mark.x), "y": _numbers(mark.y)}
    if mark.kind == "rule":
        line = {"color": mark.colour, "width": 1.2, "dash": "dash"}
        return common | {"mode": "lines", "line": line, "hoverinfo": "skip"}
    marker = {"color": mark.colour, "size": 8, "symbol": _SYMBOLS[mark.symbol % len(_SYMBOLS)]}
    hover = {"text": [_lines(text) for text in mark.labels], "hovertemplate": "%{text}<extra></extra>"}
    if mark.kind == "line":
        shape = {"color": mark.colour, "width": 2}
        mode = "lines+markers" if mark.has_markers else "lines"
        return common | hover | {"mode": mode, "line": shape, "marker": marker | {"size": 6}}
    if mark.kind == "interval":
        return common | hover | {"mode": "markers", "marker": marker | {"size": 9}} | _bars(mark, panel.x)
    return common | hover | {"mode": "markers", "marker": marker | {"opacity": 0.85}}


def _lines(text: str) -> str:
    return "<br>".join(html.escape(line) for line in text.split("\n"))


def _bars(mark: Mark, axis: Axis) -> dict[str, Any]:
    """Return error bars; an end that is infinite goes to the edge of the picture."""
    low, high = axis.range or (-math.inf, math.inf)
    over = [min(h, high) - x for x, h in zip(mark.x, mark.high, strict=True)]
    under = [x - max(lo, low) for x, lo in zip(mark.x, mark.low, strict=True)]
    bars = {"type": "data", "symmetric": False, "array": _numbers(over), "arrayminus": _numbers(under)}
    return {"error_x": bars | {"color": mark.colour, "thickness": 2, "width": 5}}


def _numbers(values: tuple[float, ...] | list[float]) -> list[float | None]:
    """Round to six digits and leave out what is not finite."""
    return [float(f"{v:.6g}") if math.isfinite(v) else None for v in values]


_LETTER, _LINE = 6.4, 14.0  # a letter's width and a line's height, at 12 pixels
_SLACK = 6.0  # marks at the edge are drawn whole


@dataclass(frozen=True)
class _Scale:
    """An axis in pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 1)

    def has(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self.log)


def panel_svg(panel: Panel, height: float = 1.0, width: int = 440) -> Markup:
    """Return an `svg` element in the color of the text around it; every name in it is escaped."""
    bottom, right = round(PANEL_HEIGHT * height), width - 14
    x_ends, y_ends = _ends(panel, "x"), _ends(panel, "y")
    x_ticks, y_ticks = _ticks(panel.x, x_ends, 5), _ticks(panel.y, y_ends, 6)
    y_labels = [_wrapped(name, int(0.45 * width / _LETTER)) for _, name in y_ticks]
    left = 10 + _LETTER * max((len(line) for lines in y_labels for line in lines), default=0)
    left += _LINE + 4 if panel.y.title else 0
    x_labels = [_wrapped(name, int((right - left) / len(x_ticks) / _LETTER)) for _, name in x_ticks]
    foot = bottom - 6 - _LINE * max(map(len, x_labels), default=0) - (_LINE + 6 if panel.x.title else 0)
    top = 26 if panel.title else 8
    x = _Scale(*x_ends, left, right, panel.x.log)
    y = _Scale(*y_ends, foot, top, panel.y.log)
    grid = [f"M{x(t)} {top}V{foot}" for t, _ in x_ticks]
    grid += [f"M{left:.1f} {y(t)}H{right}" for t, _ in y_ticks]
    turned = f' transform="rotate(-90 {_LINE} {(top + foot) / 2})"'
    parts = [
        f'<path d="{"".join(grid)}" stroke="currentColor" stroke-opacity=".14" fill="none"/>',
        *(_text(x(t), foot + _LINE, lines) for (t, _), lines in zip(x_ticks, x_labels, strict=True)),
        *(_text(left - 6, y(t) + 4 - (len(lines) - 1) * _LINE / 2, lines, "end")
          for (t, _), lines in zip(y_ticks, y_labels, strict=True)),
        _text(_inside((left + right) / 2, panel.x.title, width), bottom - 6, [panel.x.title]),
        _text(_LINE, (top + foot) / 2, [panel.y.title], more=turned),
        _text(left, 16, [panel.title], "start", ' font-weight="600"'),
        *(shape for mark in panel.marks for shape in _mark(mark, x, y)),
    ]  # fmt: skip
    size = f'viewBox="0 0 {width} {bottom}" font-size="12" fill="currentColor"'
    return Markup(f"<svg {size}>{''.join(parts)}</svg>")  # noqa: S704 - numbers, and text that is escaped


def _inside(middle: float, text: str, width: int) -> float:
    """Return the place at which a line of text is centered without leaving the picture."""
    half = _LETTER * len(text) / 2
    return max(min(middle, width - half), min(half, width / 2))


def _wrapped(name: str, letters: int) -> list[str]:
    """Return the lines of a name, long ones broken, and at most four."""
    lines = [part for line in printable(name).split("\n") for part in textwrap.wrap(line, max(letters, 4))]
    return lines[:4] or [""]


def _text(x: float, y: float, lines: Sequence[str], anchor: str = "middle", more: str = "") -> str:
    if not any(lines):
        return ""
    spans = "".join(
        f'<tspan x="{x:.1f}" y="{y + i * _LINE:.1f}">{escape(printable(line))}</tspan>'
        for i, line in enumerate(lines)
    )
    return f'<text text-anchor="{anchor}"{more}>{spans}</text>'


def _ends(panel: Panel, name: str) -> tuple[float, float]:
    """Return the ends of an axis: its range, or all values with a little room."""
    axis: Axis = getattr(panel, name)
    if axis.range:
        return axis.range
    values = [
        v for m in panel.marks for v in _extent(m, name) if math.isfinite(v) and (v > 0 or not axis.log)
    ]
    low, high = min(values, default=0.1), max(values, default=1.0)
    if axis.log:
        return low / 1.1, high * 1.1
    room = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
    return low - room, high + room


def _extent(mark: Mark, name: str) -> Iterable[float]:
    if mark.kind == "rule":
        return ()
    beside = {"band": "y", "interval": "x"}.get(mark.kind) == name
    return (*getattr(mark, name), *(mark.low if beside else ()), *(mark.high if beside else ()))


def _ticks(axis: Axis, ends: tuple[float, float], most: int) -> Sequence[tuple[float, str]]:
    low, high = ends
    if axis.ticks:
        return [(t, name) for t, name in axis.ticks if low <= t <= high]
    if axis.log:
        return log_ticks(low, high)
    return even_ticks(low, high, most)


def _mark(mark: Mark, x: _Scale, y: _Scale) -> list[str]:
    points = [(x(a), y(b)) if x.has(a) and y.has(b) else None for a, b in zip(mark.x, mark.y, strict=True)]
    if mark.kind == "band":
        return [_band(mark, x, y)]
    if mark.kind == "rule":
        return [f'<path d="{_path(points)}" stroke="{mark.colour}" stroke-dasharray="5 4" fill="none"/>']
    out = []
    if mark.kind == "line":
        out.append(f'<path d="{_path(points)}" stroke="{mark.colour}" stroke-width="2" fill="none"/>')
    if mark.kind == "interval":
        out.append(f'<path d="{_interval_path(mark, x, y)}" stroke="{mark.colour}" stroke-width="2"/>')
    inside = [p for p in points if p and x.start - _SLACK <= p[0] <= x.end + _SLACK]
    if inside and mark.has_markers:
        radius = 3.0 if mark.kind == "line" else 4.5 if mark.kind == "interval" else 4.0
        shapes = "".join(marker(mark.symbol, *p, radius) for p in inside)
        out.append(f'<path d="{shapes}" fill="{mark.colour}" fill-opacity=".85"/>')
    return out


def _path(points: Iterable[tuple[float, float] | None]) -> str:
    """Return a line that breaks at missing values."""
    out, pen = [], "M"
    for point in points:
        if point is not None:
            out.append(f"{pen}{point[0]} {point[1]}")
        pen = "M" if point is None else "L"
    return "".join(out)


def _band(mark: Mark, x: _Scale, y: _Scale) -> str:
    rows = [
        r
        for r in zip(mark.x, mark.low, mark.high, strict=True)
        if x.has(r[0]) and y.has(r[1]) and y.has(r[2])
    ]
    there = [(x(a), y(high)) for a, _, high in rows]
    back = [(x(a), y(low)) for a, low, _ in reversed(rows)]
    return f'<path d="{_path([*there, *back])}z" fill="{mark.colour}" fill-opacity=".18"/>' if rows else ""


def _interval_path(mark: Mark, x: _Scale, y: _Scale) -> str:
    """Return the lines of intervals; an end that is infinite goes to the edge."""
    rows = zip(mark.y, mark.low, mark.high, strict=True)
    return "".join(
        f"M{x(max(low, x.low))} {y(b)}H{x(min(high, x.high))}" for b, low, high in rows if low <= high
    )


def marker(symbol: int, x: float, y: float, r: float) -> str:
    """Return the outline of a marker: circle, square, diamond, two triangles, cross."""
    left, top, t = round(x - r, 1), round(y - r, 1), round(r / 2.2, 1)
    arm, bar = round(r - t, 1), 2 * t
    return (
        f"M{left} {y}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        f"M{left} {top}h{2 * r}v{2 * r}h{-2 * r}z",
        f"M{x} {top}l{r} {r}l{-r} {r}l{-r} {-r}z",
        f"M{x} {top}l{r} {2 * r}h{-2 * r}z",
        f"M{x} {y + r:.1f}l{r} {-2 * r}h{-2 * r}z",
        f"M{x - t:.1f} {top}h{bar}v{arm}h{arm}v{bar}h{-arm}v{arm}h{-bar}v{-arm}h{-arm}v{-bar}h{arm}z",
    )[symbol % 6]


def swatch(mark: Mark) -> Markup:
    """Return the sign before a name in the legend."""
    line = f'<path d="M1 8h14" stroke="{mark.colour}" stroke-width="3"/>'
    shape = f'<path d="{marker(mark.symbol, 8, 8, 6)}"/>' if mark.has_markers else line
    return Markup(f'<svg viewBox="0 0 16 16" aria-hidden="true" fill="{mark.colour}">{shape}</svg>')  # noqa: S704 - ours
