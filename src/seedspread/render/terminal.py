"""The terminal: a console that text from files cannot control, and tables that fit its width.

Titles, levels and file names are other people's text: control characters and markup in it have no effect.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from seedspread.errors import printable
from seedspread.render.table import Table, numeric_columns, without_empty


class Terminal(Console):
    """rich's console, in which control characters and markup in text have no effect."""

    def __init__(self, **options: Any) -> None:
        own = {"markup": False, "emoji": False, "highlight": False}
        if "file" in options:  # otherwise rich would write to a notebook instead
            own["force_jupyter"] = False
        super().__init__(**(own | options))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


_STRIP = 100
_BETWEEN = 3  # characters between two columns
# A column of words is not made narrower than this: a single word per line is hard to read.
_NARROWEST = 14
# A longer heading is broken even if there is room.
_LONG_HEADING = 24


@dataclass(frozen=True)
class FittedTable:
    """A table that adapts to the width of the console, and never breaks a number."""

    table: Table
    styles: Mapping[str, str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield columns if there is room for them; otherwise names above their numbers, or a list."""
        room = options.max_width - 2
        if widths := _widths(self.table, room):
            if self.table.title:  # not as rich's own title, which is broken at the table's width
                yield Text(self.table.title, style="italic")
            yield _in_columns(self.table, widths, self.styles)
        elif widths := _widths_below_names(self.table, room):
            yield _with_names_above(self.table, widths)
        else:
            yield _listed(self.table, options.max_width)


def to_rich(table: Table, styles: Mapping[str, str] = MappingProxyType({})) -> FittedTable:
    """Return a table for rich, with styles for some cells' texts and without empty columns."""
    return FittedTable(without_empty(table), styles)


def _widths(table: Table, room: int) -> list[int] | None:
    """Return the columns' widths, or None without enough room; headings are broken first, numbers never."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    cells = [max(map(cell_len, column), default=0) for column in columns]
    headings = [column.whole for column in table.columns]
    words = [max(map(cell_len, text.split()), default=0) for text in headings]
    room -= _BETWEEN * (len(cells) - 1)
    usual = [max(word, min(cell_len(t), _LONG_HEADING)) for word, t in zip(words, headings, strict=True)]
    for least in (usual, words):
        widths = [max(cell, heading) for cell, heading in zip(cells, least, strict=True)]
        if sum(widths) <= room:
            return widths
    texts = [i for i, numeric in enumerate(numeric_columns(table)) if not numeric]
    for i in texts:  # a name is broken between words, never cut
        words[i] = max([words[i], *(cell_len(word) for cell in columns[i] for word in cell.split())])
    room -= sum(width for i, width in enumerate(widths) if i not in texts)
    for place, i in enumerate(sorted(texts, key=widths.__getitem__)):
        share = room // (len(texts) - place)
        if share < min(widths[i], max(_NARROWEST, words[i])):
            return None
        widths[i] = min(widths[i], share)
        room -= widths[i]
    return widths


def _in_columns(table: Table, widths: Sequence[int], styles: Mapping[str, str]) -> RichTable:
    out = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, numeric, width in zip(table.columns, numeric_columns(table), widths, strict=True):
        out.add_column(Text(column.whole), justify="right" if numeric else "left", width=width)
    for row in table.rows:
        out.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    return out


def _widths_below_names(table: Table, room: int) -> list[int] | None:
    """Return the widths of all columns but the first without breaking a cell; None without enough room."""
    columns = list(zip(*table.rows, strict=True))[1:]
    if not columns:
        return None
    words = [max(map(len, column.whole.split()), default=0) for column in table.columns[1:]]
    widths = [max(word, *map(len, column)) for word, column in zip(words, columns, strict=True)]
    return widths if sum(widths) + _BETWEEN * (len(widths) - 1) <= room else None


def _with_names_above(table: Table, widths: Sequence[int]) -> Text:
    numeric = numeric_columns(table)[1:]

    def line(cells: Iterable[str]) -> str:
        placed = zip(cells, widths, numeric, strict=True)
        return "  " + (" " * _BETWEEN).join(f"{c:>{w}}" if n else f"{c:<{w}}" for c, w, n in placed)

    heads = [wrap(column.whole, width) for column, width in zip(table.columns[1:], widths, strict=True)]
    tallest = max(map(len, heads))
    padded = [[""] * (tallest - len(head)) + head for head in heads]
    lines = [(f"{table.title}\n", "italic"), *((line(row), "bold") for row in zip(*padded, strict=True))]
    lines.append((f"  {'─' * (sum(widths) + _BETWEEN * (len(widths) - 1))}", ""))
    names = [row[0] for row in table.rows]
    for before, (name, *cells) in zip(["", *names], table.rows, strict=False):
        lines += [(name, "bold")] if name != before else []
        lines.append((line(cells), ""))
    return _joined(lines)


def _listed(table: Table, width: int) -> Text:
    """Return the name of each row and, below it, a line per cell."""
    lines = [(f"{table.title}\n", "italic")]
    for name, *cells in table.rows:
        pairs = zip(table.columns[1:], cells, strict=True)
        lines.append((name, "bold"))
        for item in [f"{column.whole}: {cell}" for column, cell in pairs if cell not in ("", "-")]:
            wrapped = wrap(item, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
            lines += [(line, "") for line in wrapped]
    return _joined(lines)


def _joined(lines: Iterable[tuple[str, str]]) -> Text:
    return Text("\n").join(Text(line.rstrip(" "), style=style) for line, style in lines) + Text("\n")


def strip_lines(strips: Sequence[tuple[str, Sequence[float]]], room: int = 80) -> list[str]:
    """Return strip plots on one axis, `room` characters wide; a digit counts values at the same place.

    Names that would take more than half of the room stand above their strips.
    """
    everything = np.concatenate([values for _, values in strips])
    low, high = float(everything.min()), float(everything.max())
    width = max(cell_len(name) for name, _ in strips)
    is_above = width > room // 2  # long names leave no room beside them
    width = 0 if is_above else width
    strip = min(max(room - width - 3, 20), _STRIP)
    lines = []
    for name, values in strips:
        columns = np.round((np.array(values) - low) / ((high - low) or 1.0) * (strip - 1)).astype(int)
        counts = np.bincount(columns, minlength=strip)
        dots = "".join(" " if k == 0 else "•" if k == 1 else str(k) if k < 10 else "#" for k in counts)
        lines += [name] * is_above + [f"{'' if is_above else name + ' ' * (width - cell_len(name))} |{dots}|"]
    left, right = f"{low:.4g}", f"{high:.4g}"
    lines.append(f"{'':<{width}}  {left}{right:>{strip - len(left)}}")
    return lines
