"""The page, one file that opens offline with everything in it; and its figures and tables for a paper."""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from seedspread.atomic import replacing
from seedspread.errors import reason
from seedspread.render.chart import DARK, FORMATS, Chart, caption_of
from seedspread.render.latex import to_latex
from seedspread.render.table import Table, markdown_text, to_csv, to_markdown
from seedspread.render.web import chart_values, environment, for_notebook, notebook_svg
from seedspread.report import dose, figures, layers, tables
from seedspread.report.data import ReportData, ReportError
from seedspread.report.sections import sections
from seedspread.report.summary import summarize

# Modules whose functions register themselves for a section.
EXHIBITS = (dose, figures, layers, tables)

GLOSSARY = (
    (
        "variance ratio",
        "the variance over seeds under the one arm, divided by that under the other; 1 is no change",
    ),
    (
        "each seed counted once",
        "runs of one seed that differ in little else resemble each other; they count as one, not as several: "
        "the seed is the unit",
    ),
    ("arm, block", "what is compared, and a further setting in which every seed is run again"),
    ("adjusted", "made larger, because there was more than one chance to find something"),
)


_PACKAGE = "seedspread.report"
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

    def __init__(self, data: ReportData) -> None:
        self.data = data
        self.sections = sections(data)
        self.summary = summarize(data)
        self.pictures = figures.answer_charts(data)
        self.means = tables.means_tables(data)
        self.ratios = tables.ratios_table(data)

    @property
    def charts(self) -> list[Chart]:
        """Return every figure, the answer's first."""
        charts = [b for s in self.sections for b in s.all if isinstance(b, Chart)]
        return [*self.pictures, *charts]

    @property
    def tables(self) -> list[Table]:
        """Return every table, means and ratios first."""
        tables = [b for s in self.sections for b in s.all if isinstance(b, Table)]
        return [*self._first_tables, *tables]

    @property
    def for_a_paper(self) -> "tuple[list[Chart], list[Table]]":
        """Return the figures and tables that a paper would take; of few settings, the runs of each too."""
        across = [b for s in self.sections if s.id == "datasets" for b in s.exhibits]
        few = len(self.data.settings) <= _FEW
        names = ("spread", "looks")
        ids = {f"{s.id}-{name}" for s in self.data.settings for name in names} if few else set()
        charts = [*self.pictures, *(c for c in self.charts if c.id in ids)]
        charts += [b for b in across if isinstance(b, Chart)]
        return charts, [*self._first_tables, *(b for b in across if isinstance(b, Table))]

    @property
    def _first_tables(self) -> list[Table]:
        return [*self.means, *([self.ratios] if self.ratios else [])]

    def page(self, version: str = "") -> str:
        """Return the whole page; with a version it is a live one that asks its server for a newer one."""
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
        """Return the answer and its picture; the page has the rest."""
        verdicts = [f"{title}: {verdict}" for title, verdict in self.summary.details[:_VERDICTS]]
        more = len(self.summary.details) - _VERDICTS
        rest = f"The page has {len(self.tables)} tables and {len(self.charts)} figures."
        notes = [*([f"{more} more verdicts are on the page."] if more > 0 else []), rest]
        svg = notebook_svg(lambda: self.pictures[0]) if self.pictures else ""
        return for_notebook([self.summary.question, self.summary.short, *verdicts], [], notes, svg)

    def main(self, version: str = "") -> str:
        """Return the part of the page that changes when runs end."""
        return environment(_PACKAGE).get_template("main.html").render(**self._values(version))

    def _values(self, version: str) -> dict[str, Any]:
        data = self.data
        return {
            "version": version,
            "badge": " · ".join(filter(None, (e.badge(data) for e in data.extensions))),
            "glossary": (*GLOSSARY, *(line for e in data.extensions for line in e.glossary(data))),
            "report": data,
            "summary": self.summary,
            "pictures": self.pictures,
            "means": self.means,
            "ratios": self.ratios,
            "sections": self.sections,
            "missing": [line for e in data.extensions for line in e.missing(data, self.sections)],
            "json": self._json(),
        }

    def _json(self) -> Markup:
        """Return figures and copies of tables as JSON in which no tag can begin or end."""
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
    """Return the page's Content-Security-Policy: what a browser may do with it."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and only a page needs it

    digests = [hashlib.sha256(text.encode()).digest() for text in (_own("report.js"), get_plotlyjs())]
    scripts = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return _POLICY.format(scripts=scripts, connect="'self'" if live else "'none'")


@cache
def _own(name: str) -> Markup:
    return Markup((files(_PACKAGE) / "templates" / name).read_text())  # noqa: S704 - ours


@cache
def _plotly() -> Markup:
    """Return plotly.js, compressed: it is most of the page, and three quarters of it are saved."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and only a page needs it

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return Markup(base64.b64encode(packed).decode())  # noqa: S704 - letters and digits only


_FORMS: dict[str, Callable[[Table], str]] = {"tex": to_latex, "csv": to_csv, "md": to_markdown}
# What a paper takes; all else on request.
_PICTURES, _TABLES = ("pdf", "png"), ("tex", "csv")


def check_page(path: Path | None) -> None:
    """Check the file name before anything is computed."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"the page {path} must end in .html")


@contextmanager
def _may_fail(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ReportError(f"{path} cannot be {done}: {reason(error)}") from None


def write_page(report: Report, path: "Path | str") -> None:
    """Write the page, whole or not at all."""
    path = Path(path)
    with _may_fail(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(report.page(), encoding="utf-8")


def write_figures(
    report: Report, folder: Path, tell: Callable[[str], None], everything: bool = False
) -> list[Path]:
    """Write a paper's figures as PDF and PNG, or every one and SVG too; and their captions."""
    from seedspread.render.with_matplotlib import write_chart  # noqa: PLC0415 - slow, and not in the base

    _make(folder)
    charts = report.charts if everything else report.for_a_paper[0]
    out: list[Path] = []
    for number, chart in enumerate(charts, 1):
        tell(f"drawing {chart.id}, {number} of {len(charts)}")
        with _may_fail(folder, "written"):
            out += write_chart(chart, folder, FORMATS if everything else _PICTURES)
    captions = [f"**{chart.id}**: {markdown_text(caption_of(chart))}\n" for chart in charts]
    return [*out, _write(folder / "captions.md", "\n".join(captions))]


def write_tables(report: Report, folder: Path, everything: bool = False) -> list[Path]:
    """Write a paper's tables as LaTeX and CSV, or every one and Markdown too."""
    _make(folder)
    return [
        _write(folder / f"{table.id}.{ending}", _FORMS[ending](table))
        for table in (report.tables if everything else report.for_a_paper[1])
        for ending in (_FORMS if everything else _TABLES)
    ]


def _write(path: Path, text: str) -> Path:
    with _may_fail(path, "written"), replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _make(folder: Path) -> None:
    with _may_fail(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
