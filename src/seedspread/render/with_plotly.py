"""Charts as plotly figures: plain values, drawn by plotly.js in the page."""

import html
import math
from typing import Any

from seedspread.render.chart import GREY, PANEL_HEIGHT, Axis, Chart, Mark, Panel
from seedspread.render.sheet import chart_csv

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")


def chart_values(chart: Chart) -> dict[str, Any]:
    """What the page needs of a chart: a plotly figure for each panel, and its values as CSV."""
    return {"panels": [panel_values(panel, chart.height) for panel in chart.panels], "csv": chart_csv(chart)}


def panel_values(panel: Panel, height: float = 1.0) -> dict[str, Any]:
    """A panel as a plotly figure; colours of text and lines follow the page's theme there."""
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
        return common | {
            "x": _numbers((*mark.x, *reversed(mark.x))),
            "y": _numbers((*mark.high, *reversed(mark.low))),
            "fill": "toself",
            "fillcolor": _see_through(mark.colour),
            "line": {"width": 0, "color": mark.colour},
            "mode": "lines",
            "hoverinfo": "skip",
        }
    common |= {"x": _numbers(mark.x), "y": _numbers(mark.y)}
    if mark.kind == "rule":
        line = {"color": mark.colour, "width": 1.2, "dash": "dash"}
        return common | {"mode": "lines", "line": line, "hoverinfo": "skip"}
    marker = {"color": mark.colour, "size": 8, "symbol": _SYMBOLS[mark.symbol % len(_SYMBOLS)]}
    hover = _hover(mark)
    if mark.kind == "line":
        shape = {"color": mark.colour, "width": 2}
        mode = "lines+markers" if mark.has_markers else "lines"
        return common | hover | {"mode": mode, "line": shape, "marker": marker | {"size": 6}}
    if mark.kind == "interval":
        return common | hover | {"mode": "markers", "marker": marker | {"size": 9}} | _bars(mark, panel.x)
    return common | hover | {"mode": "markers", "marker": marker | {"opacity": 0.85}}


def _hover(mark: Mark) -> dict[str, Any]:
    return {"text": [_lines(text) for text in mark.labels], "hovertemplate": "%{text}<extra></extra>"}


def _lines(text: str) -> str:
    return "<br>".join(html.escape(line) for line in text.split("\n"))


def _bars(mark: Mark, axis: Axis) -> dict[str, Any]:
    """Error bars; an end that is infinite goes to the edge of the picture."""
    low, high = axis.range or (-math.inf, math.inf)
    over = [min(h, high) - x for x, h in zip(mark.x, mark.high, strict=True)]
    under = [x - max(lo, low) for x, lo in zip(mark.x, mark.low, strict=True)]
    bars = {"type": "data", "symmetric": False, "array": _numbers(over), "arrayminus": _numbers(under)}
    return {"error_x": bars | {"color": mark.colour, "thickness": 2, "width": 5}}


def _numbers(values: tuple[float, ...] | list[float]) -> list[float | None]:
    """Six digits; what is not finite is left out."""
    return [float(f"{v:.6g}") if math.isfinite(v) else None for v in values]


def _see_through(colour: str) -> str:
    red, green, blue = (int((colour or GREY)[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"
