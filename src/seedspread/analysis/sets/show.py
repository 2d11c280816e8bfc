"""Sets of runs compared, as text, Markdown, LaTeX and HTML: the answers, then the ratios behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from seedspread.analysis.numbers import between, number, p_value
from seedspread.analysis.overview import overview_table
from seedspread.analysis.sets.agreement import Agreement
from seedspread.analysis.show import TextPage, print_comparisons, print_overview
from seedspread.analysis.words import answer_lines, foot, remarks
from seedspread.render.latex import tex_text, to_latex
from seedspread.render.markdown import markdown_text, to_markdown
from seedspread.render.table import Column, Table
from seedspread.render.text import to_rich
from seedspread.render.web import for_notebook

if TYPE_CHECKING:
    from seedspread.analysis.sets.compared import CompareResult

_WORDS = {
    "shown": "differ: shown",
    "suggested": "differ: suggested",
    "open": "open",
    "shown to be small": "agree: shown",
    None: "not tested",
}
# Agreements that a terminal or a notebook shows; of more, those with the smallest p values.
_MOST_ROWS = 30


def agreement_table(found: tuple[Agreement, ...], most: int | None = None, width: int | None = None) -> Table:
    """A row for each question: the ratio in either set, the ratio of these, and whether they agree.

    Args:
        found: the questions.
        most: rows to show at most; those with the smallest p values.
        width: of a terminal: the intervals of each set are left out where there is no room for them.
    """
    shown = list(found)
    if most is not None and len(shown) > most:
        shown = sorted(shown, key=lambda a: 2.0 if a.p_holm is None else a.p_holm)[:most]
    headings = _headings(found)
    for intervals in (True, False):
        rows = tuple(_row(a, len(headings) == 8, intervals) for a in shown)
        widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
        if width is None or sum(widths) + 3 * len(widths) <= width:
            break
    return Table("agreement", "Variance ratios in each set", tuple(map(Column, headings)), rows)


def _headings(found: tuple[Agreement, ...]) -> tuple[str, ...]:
    first = found[0]
    several = len({(a.source, a.first) for a in found}) > 1
    sets = ("set", first.first, "ratio", f"over {first.first}") if several else (first.first, first.source,
            f"{first.source} over {first.first}")  # fmt: skip
    interval = first.headline.shown_interval
    level = f"{interval.level:.0%} " if interval else ""
    return ("comparison", *sets, f"{level}interval", "p (Holm)" if len(found) > 1 else "p", "the sets")


def _row(a: Agreement, several: bool, intervals: bool) -> tuple[str, ...]:
    first, second = (
        number(h.ratio) + (f" {between(h.shown_interval)}" if intervals and h.shown_interval else "")
        for h in (answer.headline for answer in a.answers)
    )
    own = (a.source, first, second) if several else (first, second)
    h = a.headline
    return (a.title, *own, number(h.ratio), between(h.shown_interval), p_value(a.p_holm), _WORDS[a.word])


def as_text(result: CompareResult, width: int, details: bool) -> str:
    """For a terminal of `width` columns."""
    page, spread = TextPage(width), result.spread
    several = len(spread.comparisons) > 1
    for line in answer_lines(result) if several else result.copies:
        page.console.print(Text(line, style="bold"))
    if several:
        print_overview(page.console, spread, width)
    if result.agreements:
        page.console.print(to_rich(agreement_table(result.agreements, _MOST_ROWS, width)))
        if len(result.agreements) > _MOST_ROWS:
            left = len(result.agreements) - _MOST_ROWS
            page.console.print(Text(f"{left:,} more, with larger p values, are not in this table."))
    print_comparisons(page.console, spread, details, explain=False)
    return page.text((*result.notes, foot(spread)))


def as_html(result: CompareResult, picture: str) -> str:
    """For a notebook: the answers, the tables, a picture."""
    tables = [overview_table(result.spread)]
    tables += [agreement_table(result.agreements, _MOST_ROWS)] if result.agreements else []
    first = result.spread.comparisons[0]
    said = remarks(first) if len(result.spread.comparisons) == 1 else []
    return for_notebook(answer_lines(result), tables, [*said, *result.notes, foot(result.spread)], picture)


def as_markdown(result: CompareResult) -> str:
    """The answers and tables in Markdown."""
    out = [line for text in answer_lines(result) for line in (markdown_text(text), "")]
    for table in _tables(result):
        out += [*to_markdown(table).splitlines(), ""]
    out += [f"- {markdown_text(note)}" for note in (*result.notes, foot(result.spread))]
    return "\n".join(out) + "\n"


def as_latex(result: CompareResult) -> str:
    """Tables for a paper: `booktabs` only."""
    out = ["% needs \\usepackage{booktabs}"]
    out += [f"{tex_text(line)}\n" for line in answer_lines(result)]
    return "\n".join([*out, *map(to_latex, _tables(result))]) + "\n"


def _tables(result: CompareResult) -> list[Table]:
    tables = [overview_table(result.spread, most=None)]
    return [*tables, agreement_table(result.agreements)] if result.agreements else tables
