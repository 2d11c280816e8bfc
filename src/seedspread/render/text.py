"""Tables, and values on a line, for a terminal."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from seedspread.render.table import Table, numeric_columns, without_empty

_STRIP = 60
_WORD = 20


def to_rich(table: Table) -> RichTable:
    """A table for rich; empty columns are left out, to save width."""
    table = without_empty(table)
    out = RichTable(title=Text(table.title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    numbers = numeric_columns(table)
    whole = [numeric or _is_short(table, i) for i, numeric in enumerate(numbers)]
    for i, (column, numeric) in enumerate(zip(table.columns, numbers, strict=True)):
        # Numbers are never broken; sentences are, where they must, and names where nothing else can be.
        keep = whole[i] or (i == 0 and not all(whole[1:]))
        out.add_column(Text(column.whole), justify="right" if numeric else "left", no_wrap=keep)
    for row in table.rows:
        out.add_row(*(Text(cell) for cell in row))
    return out


def _is_short(table: Table, column: int) -> bool:
    """Whether a column holds words, not sentences."""
    return all(len(text) <= _WORD for text in (table.columns[column].whole, *(r[column] for r in table.rows)))


def strip_lines(strips: Sequence[tuple[str, Sequence[float]]]) -> list[str]:
    """Strip plots on one axis; a digit counts values in one character cell."""
    everything = np.concatenate([values for _, values in strips])
    low, high = float(everything.min()), float(everything.max())
    width = max(len(name) for name, _ in strips)
    lines = []
    for name, values in strips:
        columns = (
            np.zeros(len(values), int)
            if high == low
            else np.round((np.array(values) - low) / (high - low) * (_STRIP - 1)).astype(int)
        )
        counts = np.bincount(columns, minlength=_STRIP)
        dots = "".join(" " if k == 0 else "•" if k == 1 else str(k) if k < 10 else "#" for k in counts)
        lines.append(f"{name:<{width}} |{dots}|")
    left, right = f"{low:.4g}", f"{high:.4g}"
    lines.append(f"{'':<{width}}  {left}{right:>{_STRIP - len(left)}}")
    return lines
