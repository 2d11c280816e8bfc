"""A report's files: the page, figures for a paper, tables for a paper."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from seedspread.atomic import replacing
from seedspread.errors import reason
from seedspread.render.chart import caption_of
from seedspread.render.latex import to_latex
from seedspread.render.markdown import markdown_text, to_markdown
from seedspread.render.pictures import FORMATS
from seedspread.render.sheet import to_csv
from seedspread.render.table import Table
from seedspread.report.material.studies import ReportError
from seedspread.report.page.report import Report

_FORMS: dict[str, Callable[[Table], str]] = {"tex": to_latex, "csv": to_csv, "md": to_markdown}
# What a paper takes; all else on request.
_PICTURES, _TABLES = ("pdf", "png"), ("tex", "csv")


def check_page(path: Path | None) -> None:
    """Checks the file name before anything is computed."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise ReportError(f"the page {path} must end in .html")


@contextmanager
def _may_fail(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ReportError(f"{path} cannot be {done}: {reason(error)}") from None


def write_page(report: Report, path: "Path | str") -> None:
    """The page, whole or not at all."""
    path = Path(path)
    with _may_fail(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(report.page(), encoding="utf-8")


def write_figures(
    report: Report, folder: Path, tell: Callable[[str], None], everything: bool = False
) -> list[Path]:
    """The figures that a paper takes as PDF and PNG, or every one and SVG too; and their captions."""
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
    """The tables that a paper takes as LaTeX and CSV, or every one and Markdown too."""
    _make(folder)
    tables = report.tables if everything else report.for_a_paper[1]
    return [
        _write(folder / f"{table.id}.{ending}", _FORMS[ending](table))
        for table in tables
        for ending in (_FORMS if everything else _TABLES)
    ]


def _write(path: Path, text: str) -> Path:
    with _may_fail(path, "written"), replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _make(folder: Path) -> None:
    with _may_fail(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
