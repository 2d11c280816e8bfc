"""The table model, and tables as Markdown and CSV; LaTeX, HTML and the terminal have a module each."""

import csv
import io
import math
import re
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from seedspread.errors import printable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the group of columns that it stands in."""

    text: str
    group: str = ""

    @property
    def whole(self) -> str:
        return f"{self.group}: {self.text}" if self.group else self.text


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        id: short and stable: an anchor, a label, a file's name; empty if nothing refers to it.
        follows: the published table that it follows, if there is one: `the paper's Table 5`.
        muted: rows, by number, to be shown in grey.
        scale: where its numbers come from.
    """

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    follows: str = ""
    note: str = ""
    muted: frozenset[int] = frozenset()
    scale: str = ""

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.follows})" if self.follows else self.title

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Name and number of the columns that stand together in one group."""
        return tuple((name, len(list(run))) for name, run in groupby(column.group for column in self.columns))

    @property
    def caption(self) -> str:
        return " ".join(f"{part.rstrip('.')}." for part in (self.heading, self.note, self.scale) if part)


def head_of(frame: "pd.DataFrame", title: str = "", most: int = 10) -> Table:
    rows = (tuple(_text(value) for value in row) for row in frame.head(most).itertuples(index=False))
    left = len(frame) - most
    more = f"{left:,} more row{'s' * (left > 1)}" if left > 0 else ""
    return Table("", title, tuple(Column(str(name)) for name in frame.columns), tuple(rows), note=more)


def _text(value: object) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return "-" if value is None else str(value)


_NOTHING = ("", "-", "−")
_DIGITS = r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?"
_NUMBER = re.compile(rf"~?{_DIGITS}[%×]?( pp)?( ± {_DIGITS})?( [✗†])?")


def is_number(cell: str) -> bool:
    """Return whether a cell is one number, with the units and marks that tables have."""
    return _NUMBER.fullmatch(cell) is not None


def numeric_columns(table: Table) -> list[bool]:
    """Return which columns hold numbers, to be set to the right; the first names the row."""
    columns = [[row[i] for row in table.rows if row[i] not in _NOTHING] for i in range(len(table.columns))]
    return [
        i > 0 and bool(cells) and all(is_number(cell) or cell[0] in "[<~∞" for cell in cells)
        for i, cells in enumerate(columns)
    ]


def without_empty(table: Table, only_groups: bool = False) -> Table:
    """Return the table without empty columns, or only without those that are in a group."""
    kept = [
        i
        for i, column in enumerate(table.columns)
        if (only_groups and not column.group) or any(row[i] not in _NOTHING for row in table.rows)
    ]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in kept), rows=rows)


_ESCAPED = {char: f"\\{char}" for char in "\\|*_`["} | {"<": "&lt;", ">": "&gt;", "\n": " "}


def markdown_text(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(_ESCAPED.get(char, char) for char in printable(text))


def to_markdown(table: Table) -> str:
    cells = [[markdown_text(c.whole) for c in table.columns], ["---"] * len(table.columns)]
    cells += [[markdown_text(cell) for cell in row] for row in table.rows]
    lines = [f"**{markdown_text(table.heading)}**", "", *("| " + " | ".join(row) + " |" for row in cells)]
    notes = [markdown_text(part) for part in (table.note, table.scale) if part]
    return "\n".join([*lines, *(line for note in notes for line in ("", note))]) + "\n"


def to_csv(table: Table) -> str:
    """Return the cells as they are shown; text that a spreadsheet would take for a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([spreadsheet_cell(c.whole) for c in table.columns])
    writer.writerows([spreadsheet_cell(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def spreadsheet_cell(cell: str) -> str:
    """Return a cell on one line that starts no formula: names come from files. Signed numbers stay."""
    return without_formula(printable(cell).replace("\n", " "))


def without_formula(cell: str) -> str:
    """Return a cell with an apostrophe before it if a spreadsheet would compute it, and no end of a row."""
    line = cell.replace("\r", " ")  # which is not quoted by every writer of CSV
    if cell[:1] not in ("=", "+", "-", "@", "\t", "\r", "\n"):
        return line
    return cell if cell in ("-", "−") or is_number(cell) else f"'{line}"
