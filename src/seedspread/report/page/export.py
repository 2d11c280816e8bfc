"""A report's files: the page, figures for a paper, tables for a paper."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from seedspread.atomic import replacing
from seedspread.errors import reason
from seedspread.render.latex import to_latex
from seedspread.render.markdown import to_markdown
from seedspread.render.sheet import to_csv
from seedspread.render.table import Table
from seedspread.render.with_matplotlib import write_chart
from seedspread.report.material.studies import ReportError
from seedspread.report.page.report import Report

_FORMS: dict[str, Callable[[Table], str]] = {"tex": to_latex, "md": to_markdown, "csv": to_csv}


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


def write_figures(report: Report, folder: Path, tell: Callable[[str], None]) -> list[Path]:
    """Every figure as PDF, SVG and PNG."""
    _make(folder)
    out: list[Path] = []
    for number, chart in enumerate(report.charts, 1):
        tell(f"drawing {chart.id}, {number} of {len(report.charts)}")
        with _may_fail(folder, "written"):
            out += write_chart(chart, folder)
    return out


def write_tables(report: Report, folder: Path) -> list[Path]:
    """Every table as LaTeX, Markdown and CSV."""
    _make(folder)
    out = []
    for table in report.tables:
        for ending, form in _FORMS.items():
            path = folder / f"{table.id}.{ending}"
            with _may_fail(path, "written"), replacing(path) as part:
                part.write_text(form(table), encoding="utf-8")
            out.append(path)
    return out


def _make(folder: Path) -> None:
    with _may_fail(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
