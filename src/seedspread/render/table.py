"""The table model; each output format has a module of its own."""

import math
import re
from dataclasses import dataclass, replace
from itertools import groupby

import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the group that it stands in (such as those of one source)."""

    text: str
    group: str = ""

    @property
    def whole(self) -> str:
        """Group and heading on one line."""
        return f"{self.group}: {self.text}" if self.group else self.text


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        id: short and stable: an anchor, a label, a file's name; empty where nothing refers to it.
        title: what it shows.
        columns: its headings.
        rows: text, one cell per column.
        follows: the published table that it follows, if there is one: `the paper's Table 5`.
        note: what to know about it.
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
        """With the published table that it follows."""
        return f"{self.title} ({self.follows})" if self.follows else self.title

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Runs of columns with one group: its name and how many."""
        return tuple((name, len(list(run))) for name, run in groupby(column.group for column in self.columns))

    @property
    def caption(self) -> str:
        """Title, note and origin in one line."""
        return " ".join(f"{part.rstrip('.')}." for part in (self.heading, self.note, self.scale) if part)


def head_of(frame: pd.DataFrame, title: str = "", most: int = 10) -> Table:
    """The first rows of a DataFrame."""
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
    """Whether a cell is one number, with the units and marks that tables have."""
    return _NUMBER.fullmatch(cell) is not None


def _is_numeric(table: Table, column: int) -> bool:
    cells = [row[column] for row in table.rows if row[column] not in _NOTHING]
    return bool(cells) and all(is_number(cell) or cell[0] in "[<~∞" for cell in cells)


def numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers, and stand to the right; the first names the row."""
    return [i > 0 and _is_numeric(table, i) for i in range(len(table.columns))]


def without_empty(table: Table, only_groups: bool = False) -> Table:
    """Without empty columns; or only without empty columns that are in a group."""
    kept = [
        i
        for i, column in enumerate(table.columns)
        if (only_groups and not column.group) or any(row[i] not in _NOTHING for row in table.rows)
    ]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in kept), rows=rows)
