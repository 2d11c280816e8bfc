"""Tables and charts as elements of a page, every name in them escaped."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from seedspread.errors import printable
from seedspread.render.chart import PANEL_HEIGHT, Chart
from seedspread.render.table import Table, numeric_columns
from seedspread.render.with_svg import panel_svg, swatch

# Letters of text that need not be broken.
_SHORT_CELL, _SHORT_HEAD = 26, 14


def to_html(exhibit: Table | Chart) -> Markup:
    """A `figure`: of a table all of it; of a chart its panels as SVG, which plotly takes the place of."""
    values: dict[str, Any]
    if isinstance(exhibit, Table):
        values, name = {"t": exhibit, "classes": _classes(exhibit)}, "table.html"
    else:
        values, name = _chart_values(exhibit), "chart.html"
    template = environment("seedspread.render").get_template(name)
    return Markup(template.render(**values) + "\n")  # noqa: S704 - escaped by the template


def _classes(table: Table) -> list[tuple[str, str]]:
    """Of every column its head's and its cells' classes: `n` of numbers, and how it may be broken.

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
    lines: Sequence[str], tables: Sequence[Table], notes: Sequence[str] = (), static_svg: str = ""
) -> str:
    """Sentences, tables and a picture in the colours of the page around them, light or dark."""
    template = environment("seedspread.render").get_template("notebook.html")
    picture = Markup(static_svg)  # noqa: S704 - drawn by matplotlib, which escapes
    return template.render(lines=lines, tables=tables, notes=notes, picture=picture)


@cache
def environment(package: str) -> Environment:
    """The templates of a package: every value is escaped, tables and charts go through `html`."""
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
    """Text without control characters and turned directions; what is HTML already is left alone."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
