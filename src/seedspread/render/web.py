"""Tables and charts for web pages: HTML with every name escaped, and figures for plotly.js."""

import base64
import html
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from seedspread.errors import MissingExtraError, printable
from seedspread.render.chart import GREY, PANEL_HEIGHT, Axis, Chart, Mark, Panel, PlotError
from seedspread.render.table import Table, numeric_columns

if TYPE_CHECKING:
    from jinja2 import Environment

# Lengths up to which text in a cell or a heading is not broken.
_SHORT_CELL, _SHORT_HEAD = 26, 14


def to_html(exhibit: Table | Chart) -> Markup:
    """Return a `figure` element: a table, or the frame of a chart whose panels plotly draws."""
    values: dict[str, Any]
    if isinstance(exhibit, Table):
        values, name = {"t": exhibit, "classes": _classes(exhibit)}, "table.html"
    else:
        legend = [(mark, _GLYPHS[mark.marker] if mark.has_markers else "━") for mark in exhibit.legend]
        height = round(PANEL_HEIGHT * exhibit.height)
        values, name = {"c": exhibit, "legend": legend, "height": height}, "chart.html"
    template = environment("seedspread.render").get_template(name)
    return Markup(template.render(**values) + "\n")  # noqa: S704 - escaped by the template


def _classes(table: Table) -> list[tuple[str, str]]:
    """Return the classes of each column's head and cells: `n` for numbers, and how text may be broken.

    Short text stays on one line, and long text has a minimum width: tables scroll sideways.
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


def for_notebook(
    lines: Sequence[str], tables: Sequence[Table], notes: Sequence[str] = (), picture: str = ""
) -> str:
    """Return sentences, tables and a picture in the colors of the surrounding page, light or dark."""
    template = environment("seedspread.render").get_template("notebook.html")
    return template.render(lines=lines, tables=tables, notes=notes, picture=picture)


def notebook_picture(make: Callable[[], Chart]) -> Markup:
    """Return a chart for a notebook, or a line on what to install; empty if the chart cannot be drawn."""
    try:
        from seedspread.render.with_matplotlib import draw  # noqa: PLC0415 - slow, and not in the base

        chart = make()
        png = base64.b64encode(draw(chart)._repr_png_()).decode()
    except PlotError:
        return Markup()
    except MissingExtraError as error:
        return Markup('<p style="margin:.2em 0;opacity:.7">{}</p>').format(str(error))
    return Markup('<img style="max-width:100%" alt="{}" src="data:image/png;base64,{}">').format(
        chart.alt, png
    )


@cache
def environment(package: str) -> "Environment":
    """Return a package's templates; they escape every value, and `html` renders tables and charts."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - slow, and only pages need it

    templates = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    templates.filters["html"] = to_html
    return templates


def _printable(value: Any) -> Any:
    """Remove control characters and changes of direction from text; HTML is left alone."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# By `Mark.marker`: plotly's names of the markers, and their signs in the legend.
_SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-left", "triangle-right",
)  # fmt: skip
_GLYPHS = "●■◆▲▼✚◀▶"


def panel_values(panel: Panel, height: float = 1.0) -> dict[str, Any]:
    """Return a panel as a plotly figure; the page sets the colors of text and axes by its theme."""
    return {
        "data": [_trace(mark, panel) for mark in panel.marks],
        "layout": {
            "title": {"text": _lines(panel.title), "x": 0, "xref": "paper", "font": {"size": 13}},
            "xaxis": _axis(panel.x),
            "yaxis": _axis(panel.y),
            "height": round(PANEL_HEIGHT * height),
            "margin": {
                "l": 10,
                "r": 12,
                "t": 34 + 17 * panel.title.count("\n") if panel.title else 12,
                "b": 10,
            },
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
    # `meta` links a trace to its entry in the legend by the name without escapes.
    common: dict[str, Any] = {"type": "scatter", "name": html.escape(mark.name), "meta": mark.name}
    if mark.kind == "band":
        red, green, blue = (int((mark.color or GREY)[i : i + 2], 16) for i in (1, 3, 5))
        return common | {
            "x": _numbers((*mark.x, *reversed(mark.x))),
            "y": _numbers((*mark.high, *reversed(mark.low))),
            "fill": "toself",
            "fillcolor": f"rgba({red},{green},{blue},0.18)",
            "line": {"width": 0, "color": mark.color},
            "mode": "lines",
            "hoverinfo": "skip",
        }
    common |= {"x": _numbers(mark.x), "y": _numbers(mark.y)}
    if mark.kind == "rule":
        line = {"color": mark.color, "width": 1.2, "dash": "dash"}
        return common | {"mode": "lines", "line": line, "hoverinfo": "skip"}
    marker = {"color": mark.color, "size": 8, "symbol": _SYMBOLS[mark.marker]}
    hover = {"text": [_lines(text) for text in mark.labels], "hovertemplate": "%{text}<extra></extra>"}
    if mark.kind == "line":
        shape = {"color": mark.color, "width": 2}
        mode = "lines+markers" if mark.has_markers else "lines"
        return common | hover | {"mode": mode, "line": shape, "marker": marker | {"size": 6}}
    if mark.kind == "interval":
        return common | hover | {"mode": "markers", "marker": marker | {"size": 9}} | _bars(mark, panel.x)
    # A rim, which the page draws in its own color, separates a dot from its band and its neighbors.
    return common | hover | {"mode": "markers", "marker": marker | {"size": 9, "line": {"width": 1}}}


def _lines(text: str) -> str:
    return "<br>".join(html.escape(line) for line in text.split("\n"))


def _bars(mark: Mark, axis: Axis) -> dict[str, Any]:
    """Return error bars, cut off at the range of the axis."""
    low, high = axis.range or (-math.inf, math.inf)
    over = [min(h, high) - x for x, h in zip(mark.x, mark.high, strict=True)]
    under = [x - max(lo, low) for x, lo in zip(mark.x, mark.low, strict=True)]
    bars = {"type": "data", "symmetric": False, "array": _numbers(over), "arrayminus": _numbers(under)}
    return {"error_x": bars | {"color": mark.color, "thickness": 2, "width": 5}}


def _numbers(values: tuple[float, ...] | list[float]) -> list[float | None]:
    """Round to six digits; values that are not finite become None."""
    return [float(f"{v:.6g}") if math.isfinite(v) else None for v in values]
