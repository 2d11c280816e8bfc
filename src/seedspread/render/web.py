"""Tables and charts as elements of a page, every name in them escaped."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from seedspread.render.chart import Chart
from seedspread.render.table import Table, numeric_columns


def to_html(block: Table | Chart, still: str = "") -> Markup:
    """A `figure`: of a table all of it; of a chart the frame in which the page draws, until then `still`."""
    if isinstance(block, Table):
        values, name = {"t": block, "numeric": numeric_columns(block)}, "table.html"
    else:
        values, name = {"c": block, "still": still}, "chart.html"
    template = environment("seedspread.render").get_template(name)
    return Markup(template.render(**values) + "\n")  # noqa: S704 - escaped by the template


@cache
def environment(package: str) -> Environment:
    """The templates of a package: every value is escaped, tables and charts go through `html`."""
    env = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["html"] = to_html
    return env
