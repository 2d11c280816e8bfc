"""Tables, and values on a line, for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from seedspread.render.table import Table, numeric_columns, without_empty

_STRIP = 100
_BETWEEN = 3  # characters between two columns
# A column of words is not made narrower than this: one word below the other is not read.
_NARROWEST = 14


@dataclass(frozen=True)
class FittedTable:
    """A table that fits whatever it is printed on, with every number whole."""

    table: Table
    styles: Mapping[str, str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """A table; where there is no room for one, a paragraph for each row."""
        widths = _widths(self.table, options.max_width - 2)
        yield (
            _in_columns(self.table, widths, self.styles)
            if widths
            else _stacked(self.table, options.max_width)
        )


def to_rich(table: Table, styles: Mapping[str, str] = MappingProxyType({})) -> FittedTable:
    """A table for rich, with styles for some cells' texts; empty columns are left out, to save width."""
    return FittedTable(without_empty(table), styles)


def _widths(table: Table, room: int) -> list[int] | None:
    """Of each column: numbers are never broken; headings are, then sentences and names. None: no room."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    cells = [max(map(len, column), default=0) for column in columns]
    headings = [column.whole for column in table.columns]
    words = [max(map(len, heading.split()), default=0) for heading in headings]
    room -= _BETWEEN * (len(cells) - 1)
    for least in (map(len, headings), words):
        widths = [max(cell, heading) for cell, heading in zip(cells, least, strict=True)]
        if sum(widths) <= room:
            return widths
    texts = [i for i, numeric in enumerate(numeric_columns(table)) if not numeric]
    room -= sum(width for i, width in enumerate(widths) if i not in texts)
    for place, i in enumerate(sorted(texts, key=widths.__getitem__)):
        share = room // (len(texts) - place)
        if share < min(widths[i], max(_NARROWEST, words[i])):
            return None
        widths[i] = min(widths[i], share)
        room -= widths[i]
    return widths


def _in_columns(table: Table, widths: Sequence[int], styles: Mapping[str, str]) -> RichTable:
    out = RichTable(title=Text(table.title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column, numeric, width in zip(table.columns, numeric_columns(table), widths, strict=True):
        out.add_column(Text(column.whole), justify="right" if numeric else "left", width=width)
    for row in table.rows:
        out.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    return out


def _stacked(table: Table, width: int) -> Text:
    """Each row as its name and what stands in its columns; a line ends between two of these."""
    lines = [(f"{table.title}\n", "italic")]
    for name, *cells in table.rows:
        pairs = zip(table.columns[1:], cells, strict=True)
        line = "  "
        lines.append((name, "bold"))
        for item in [f"{column.whole} {cell}, " for column, cell in pairs if cell not in ("", "-")]:
            if line.strip() and len(line) + len(item) - 1 > width:
                lines.append((line, ""))
                line = "  "
            line += item
        lines.append((line.rstrip(", "), ""))
    return Text("\n").join(Text(line.rstrip(), style=style) for line, style in lines) + Text("\n")


def strip_lines(strips: Sequence[tuple[str, Sequence[float]]], room: int = 80) -> list[str]:
    """Strip plots on one axis, in lines of `room` characters; a digit counts values in one character cell."""
    everything = np.concatenate([values for _, values in strips])
    low, high = float(everything.min()), float(everything.max())
    width = max(len(name) for name, _ in strips)
    strip = min(max(room - width - 3, 20), _STRIP)
    lines = []
    for name, values in strips:
        columns = (
            np.zeros(len(values), int)
            if high == low
            else np.round((np.array(values) - low) / (high - low) * (strip - 1)).astype(int)
        )
        counts = np.bincount(columns, minlength=strip)
        dots = "".join(" " if k == 0 else "•" if k == 1 else str(k) if k < 10 else "#" for k in counts)
        lines.append(f"{name:<{width}} |{dots}|")
    left, right = f"{low:.4g}", f"{high:.4g}"
    lines.append(f"{'':<{width}}  {left}{right:>{strip - len(left)}}")
    return lines
