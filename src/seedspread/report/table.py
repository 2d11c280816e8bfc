"""A table before it has a form, and its forms: LaTeX, Markdown, CSV."""

import csv
import io
import re
from dataclasses import dataclass, replace

from seedspread.stats.show import markdown_text, tex_text


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the group that it stands in (such as the paper's values)."""

    text: str
    group: str = ""

    @property
    def whole(self) -> str:
        """Both, where only one line can be had."""
        return f"{self.group}: {self.text}" if self.group else self.text


@dataclass(frozen=True)
class Table:
    """A table of a report.

    Attributes:
        id: short and stable: an anchor of the page, and a file's name.
        title: what it shows.
        columns: its headings.
        rows: text, one cell per column.
        number: of the paper's table that it follows, if there is one.
        note: what to know about it.
        muted: the rows, by number, that hold the paper's values.
        scale: where its numbers come from: the data, and the size of what was trained.
    """

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    number: int | None = None
    note: str = ""
    muted: frozenset[int] = frozenset()
    scale: str = ""

    @property
    def heading(self) -> str:
        """With the paper's number."""
        return f"{self.title} (the paper's Table {self.number})" if self.number else self.title

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Runs of columns with one group: its name and how many."""
        out: list[tuple[str, int]] = []
        for column in self.columns:
            if out and out[-1][0] == column.group:
                out[-1] = (column.group, out[-1][1] + 1)
            else:
                out.append((column.group, 1))
        return tuple(out)

    @property
    def caption(self) -> str:
        """Title, note and origin in one line."""
        return " ".join(f"{part.rstrip('.')}." for part in (self.heading, self.note, self.scale) if part)


def to_csv(table: Table) -> str:
    """The cells as they are shown; text that a spreadsheet would take for a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_harmless(c.whole) for c in table.columns])
    writer.writerows([_harmless(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def _harmless(cell: str) -> str:
    """One line, and no formula: names come from files. Signed numbers are left alone."""
    cell = cell.replace("\r", " ").replace("\n", " ")
    if cell[:1] not in ("=", "+", "-", "@", "\t", "\r"):
        return cell
    return cell if cell in ("-", "−") or _is_number(cell) else f"'{cell}"


_DIGITS = r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?"
_NUMBER = re.compile(rf"~?{_DIGITS}[%×]?( pp)?( ± {_DIGITS})?( [✗†])?")


def _is_number(cell: str) -> bool:
    """The whole of it, with the units and marks of these tables."""
    return _NUMBER.fullmatch(cell) is not None


def to_markdown(table: Table) -> str:
    """With its caption."""
    cells = [[markdown_text(c.whole) for c in table.columns], ["---"] * len(table.columns)]
    cells += [[markdown_text(cell) for cell in row] for row in table.rows]
    lines = [f"**{markdown_text(table.heading)}**", "", *("| " + " | ".join(row) + " |" for row in cells)]
    notes = [markdown_text(part) for part in (table.note, table.scale) if part]
    return "\n".join([*lines, *(line for note in notes for line in ("", note))]) + "\n"


_ROWS_PER_PAGE = 45


def to_latex(table: Table) -> str:
    """A `table`, or over more than a page a `longtable`; needs the package `booktabs`."""
    alignment = "".join("r" if numeric else "l" for numeric in numeric_columns(table))
    long = len(table.rows) > _ROWS_PER_PAGE
    head = []
    if any(name for name, _ in table.groups):
        head.append(_row([f"\\multicolumn{{{n}}}{{c}}{{{tex_text(name)}}}" for name, n in table.groups]))
        head.append(_rules(table))
    head.append(_row([tex_text(c.text) for c in table.columns]))
    caption = f"\\caption{{{tex_text(table.caption)}}}\\label{{tab:{table.id}}}"
    if long:
        begin = ["% needs the package longtable", f"\\begin{{longtable}}{{{alignment}}}", f"{caption}\\\\"]
        end = ["\\end{longtable}"]
    else:
        begin = ["\\begin{table}[t]", "\\centering", caption, f"\\begin{{tabular}}{{{alignment}}}"]
        end = ["\\end{tabular}", "\\end{table}"]
    rows = [_row([tex_text(cell) for cell in row]) for row in table.rows]
    return "\n".join([*begin, "\\toprule", *head, "\\midrule", *rows, "\\bottomrule", *end, ""])


def _row(cells: list[str]) -> str:
    """A first cell that begins with [ or * would be taken for an argument of the row before it."""
    guard = "{}" if cells[0][:1] in ("[", "*") else ""
    return guard + " & ".join(cells) + " \\\\"


def _rules(table: Table) -> str:
    out, first = [], 1
    for name, count in table.groups:
        if name:
            out.append(f"\\cmidrule(lr){{{first}-{first + count - 1}}}")
        first += count
    return "".join(out)


def _is_numeric(table: Table, column: int) -> bool:
    cells = [row[column] for row in table.rows if row[column] not in ("", "-", "−")]
    return bool(cells) and all(_is_number(cell) or cell[0] in "[<~" for cell in cells)


def numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers, and stand to the right; the first names the row."""
    return [i > 0 and _is_numeric(table, i) for i in range(len(table.columns))]


def without_empty(table: Table) -> Table:
    """Without the columns of a group in which nothing stands, such as what the paper does not print."""
    kept = [
        i
        for i, column in enumerate(table.columns)
        if not column.group or any(row[i] not in ("", "-") for row in table.rows)
    ]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in kept), rows=rows)
