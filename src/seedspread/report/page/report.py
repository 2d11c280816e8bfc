"""The page: one file that opens offline, with everything in it."""

import base64
import gzip
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from seedspread.render.chart import DARK, Chart
from seedspread.render.latex import to_latex
from seedspread.render.sheet import to_csv
from seedspread.render.table import Table
from seedspread.render.web import environment, for_notebook
from seedspread.render.with_plotly import chart_values
from seedspread.report.answer import answer
from seedspread.report.figures.ratios import answer_charts
from seedspread.report.material.settings import ReportData
from seedspread.report.page.glossary import GLOSSARY
from seedspread.report.page.sections import Section, sections
from seedspread.report.tables.means import means_tables, ratios_table

_PACKAGE = "seedspread.report.page"
_FEW = 8  # settings
_VERDICTS = 6
# Nothing may be fetched, from anywhere; the live page asks its own server only. No script runs but the page's
# two, by their hashes. Styles cannot be named so: plotly makes rules and matplotlib's SVG has attributes.
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
)


class Report:
    """A report with all its parts: the page, and its tables and figures for a paper."""

    def __init__(self, material: ReportData) -> None:
        self.material = material
        self.sections: list[Section] = sections(material)
        self.answer = answer(material)
        self.pictures = answer_charts(material)
        self.means = means_tables(material)
        self.ratios = ratios_table(material)

    @property
    def charts(self) -> list[Chart]:
        """Every figure, the answer's first."""
        charts = [b for s in self.sections for b in s.all if isinstance(b, Chart)]
        return [*self.pictures, *charts]

    @property
    def tables(self) -> list[Table]:
        """Every table, means and ratios first."""
        tables = [b for s in self.sections for b in s.all if isinstance(b, Table)]
        return [*self._first_tables, *tables]

    @property
    def for_a_paper(self) -> "tuple[list[Chart], list[Table]]":
        """The figures and tables that a paper would take; of a setting, where there are few, the runs."""
        across = [b for s in self.sections if s.id == "datasets" for b in s.exhibits]
        few = len(self.material.settings) <= _FEW
        names = ("spread", "looks")
        ids = {f"{s.id}-{name}" for s in self.material.settings for name in names} if few else set()
        charts = [*self.pictures, *(c for c in self.charts if c.id in ids)]
        charts += [b for b in across if isinstance(b, Chart)]
        return charts, [*self._first_tables, *(b for b in across if isinstance(b, Table))]

    @property
    def _first_tables(self) -> list[Table]:
        return [*self.means, *([self.ratios] if self.ratios else [])]

    def page(self, version: str = "") -> str:
        """The whole page; with a version it is a live one, that asks its server for a newer."""
        values = self._values(version) | {
            "live": bool(version),
            "policy": Markup(content_policy(live=bool(version))),  # noqa: S704 - ours
            "style": _own("report.css"),
            "script": _own("report.js"),
            "plotly": _plotly(),
        }
        return environment(_PACKAGE).get_template("page.html").render(**values)

    def __repr__(self) -> str:
        return f"<Report: {len(self.tables)} tables, {len(self.charts)} figures>"

    def _repr_html_(self) -> str:
        """The answer and its picture; the page has the rest."""
        verdicts = [f"{title}: {verdict}" for title, verdict in self.answer.details[:_VERDICTS]]
        more = len(self.answer.details) - _VERDICTS
        rest = f"The page has {len(self.tables)} tables and {len(self.charts)} figures."
        notes = [*([f"{more} more verdicts are on the page."] if more > 0 else []), rest]
        from seedspread.render.with_matplotlib import static_svg  # noqa: PLC0415 - slow, for notebooks only

        svg = static_svg(self.pictures[0]) if self.pictures else ""
        return for_notebook([self.answer.question, self.answer.short, *verdicts], [], notes, svg)

    def main(self, version: str = "") -> str:
        """The part of the page that changes when runs end."""
        return environment(_PACKAGE).get_template("main.html").render(**self._values(version))

    def _values(self, version: str) -> dict[str, Any]:
        material = self.material
        return {
            "version": version,
            "badge": " · ".join(filter(None, (e.badge(material) for e in material.extensions))),
            "glossary": (*GLOSSARY, *(line for e in material.extensions for line in e.glossary(material))),
            "material": self.material,
            "answer": self.answer,
            "pictures": self.pictures,
            "means": self.means,
            "ratios": self.ratios,
            "sections": self.sections,
            "missing": [line for e in material.extensions for line in e.missing(material, self.sections)],
            "data": self._data(),
        }

    def _data(self) -> Markup:
        """Figures and copies of tables as JSON in which no tag can begin or end."""
        values = {
            "charts": {chart.id: chart_values(chart) for chart in self.charts},
            "tables": {table.id: {"csv": to_csv(table), "latex": to_latex(table)} for table in self.tables},
            "dark": DARK,
        }
        text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        for char in "<>&\u2028\u2029":
            text = text.replace(char, f"\\u{ord(char):04x}")
        return Markup(text)  # noqa: S704 - every character that HTML could read is escaped


@cache
def content_policy(live: bool) -> str:
    """What a browser may do with the page: its Content-Security-Policy."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and only a page needs it

    digests = [hashlib.sha256(text.encode()).digest() for text in (_own("report.js"), get_plotlyjs())]
    scripts = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return _POLICY.format(scripts=scripts, connect="'self'" if live else "'none'")


@cache
def _own(name: str) -> Markup:
    return Markup((files(_PACKAGE) / "templates" / name).read_text())  # noqa: S704 - ours


@cache
def _plotly() -> Markup:
    """plotly.js, packed: it is most of the page, and three quarters of it are saved."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and only a page needs it

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return Markup(base64.b64encode(packed).decode())  # noqa: S704 - letters and digits only
