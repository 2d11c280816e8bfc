"""Sets of runs compared, as text, Markdown, LaTeX and HTML: the answers, then the ratios behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from seedspread.analysis.numbers import between, number, p_value
from seedspread.analysis.overview import overview_table, summary
from seedspread.analysis.sets.agreement import Agreement, counted
from seedspread.analysis.show import TextPage, foot, print_comparisons, print_overview, remarks
from seedspread.analysis.words import sentences
from seedspread.render.latex import tex_text, to_latex
from seedspread.render.markdown import markdown_text, to_markdown
from seedspread.render.table import Column, Table
from seedspread.render.text import to_rich
from seedspread.render.web import for_notebook
from seedspread.runs.levels import stratum_name

if TYPE_CHECKING:
    from seedspread.analysis.sets.compared import CompareResult

_WORDS = {
    "shown": "differ: shown",
    "suggested": "differ: suggested",
    "open": "open",
    "shown to be small": "agree: shown",
    None: "not tested",
}
# Answers that a sentence names.
_MOST_NAMED = 3
# Agreements that a terminal or a notebook shows; of more, those with the smallest p values.
_MOST_ROWS = 30


def answer_lines(result: CompareResult) -> list[str]:
    """Copies, if there are any; did the spread change; and do the sets agree, where both can be asked."""
    to = f"from {result.names[0]} to {_listed(result.names[1:])}"
    lines = [*result.copies, f"Did the spread change {to}? {_changed(result)}"]
    found = result.agreements
    if len(found) == 1:
        lines.append(f"Do they agree on {found[0].title}? {found[0].verdict}")
    elif found:
        differ = [(_in_set(a.title, a.source, result), a.headline.ratio) for a in found if a.word == "shown"]
        lines.append(
            f"Do they agree on the arms' ratios? {len(found):,} comparisons, adjusted together (Holm): "
            f"{counted(found)}.{_named(differ, 'the ratio of')}"
        )
    return lines


def _changed(result: CompareResult) -> str:
    comparisons = result.spread.comparisons
    if len(comparisons) == 1:
        return sentences(comparisons[0])[0]
    shown = [
        (_in_set(stratum_name(c.by, c.stratum), c.group, result), c.headline.ratio)
        for c in comparisons
        if c.word == "shown"
    ]
    return f"{summary(result.spread)}{_named(shown, 'the variance of')}"


def _in_set(name: str, source: str, result: CompareResult) -> str:
    """With the set's name where there are several."""
    return name if len(result.names) == 2 else f"{name} in {source}"


def _named(shown: list[tuple[str, float | None]], what: str) -> str:
    """What is shown, by name, if it is not much."""
    if not 0 < len(shown) <= _MOST_NAMED:
        return ""
    return f" Shown: {'; '.join(f'{number(ratio)} times {what} {name}' for name, ratio in shown)}."


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
