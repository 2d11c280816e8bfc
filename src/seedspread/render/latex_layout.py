"""How a table fits a paper in LaTeX: in a column or over both, in which size, broken where."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from seedspread.render.table import Table, numeric_columns

# Points that every usual two-column paper has: in a column, and over both.
_COLUMN, _PAGE = 235.0, 455.0
# Sizes in a paper of 10 points: their name, the space on either side of a column, and how wide an em is
# (small letters are not as narrow as they are low).
_SIZES = (("small", 6.0, 9.3), ("footnotesize", 4.0, 8.6), ("scriptsize", 3.0, 8.0))
_READABLE = _SIZES[1]
_LINES = 45  # that a page holds
_NARROW, _WIDE = set("fijltrI.,:;'|!()[]/ -"), set("mwMW%@&+=#")
# A column of sentences is not made narrower than this, in em.
_SENTENCE = 8.0


@dataclass(frozen=True)
class Layout:
    """How a table is set.

    Attributes:
        wide: over both columns of the paper.
        size: LaTeX's name of it.
        space: points on either side of a column.
        sides: `r` or `l`, where a column's cells stand.
        headings: of each column in lines.
        widths: of columns in which text is broken, in points; None where a column is as wide as its cells.
    """

    wide: bool
    size: str
    space: float
    sides: tuple[str, ...]
    headings: tuple[tuple[str, ...], ...]
    widths: tuple[float | None, ...]


def pieces(table: Table) -> list[tuple[Table, Layout]]:
    """The table, or pieces of it that each fit a page: some of its columns, some of its rows."""
    out = []
    for columns in _columns_that_fit(table):
        part = _of_columns(table, columns)
        how = layout(part)
        out += [(replace(part, rows=rows), how) for rows in _rows_that_fit(part, how)]
    return out


def _rows_that_fit(table: Table, how: Layout) -> list[tuple[tuple[str, ...], ...]]:
    """Rows by piece, by the lines that they take."""
    out: list[list[tuple[str, ...]]] = [[]]
    left = _LINES
    for row in table.rows:
        lines = max(_lines(cell, width) for cell, width in zip(row, how.widths, strict=True))
        if lines > left and out[-1]:
            out.append([])
            left = _LINES
        out[-1].append(row)
        left -= lines
    return [tuple(rows) for rows in out]


def _lines(cell: str, width: float | None) -> int:
    """Lines end before a word that does not fit: a tenth of them stays empty, and more."""
    return 1 if width is None else math.ceil(1.15 * width_of(cell) * _READABLE[2] / width) or 1


def layout(table: Table) -> Layout:
    """The first that fits: a column before a page, large before small; then sentences are broken."""
    ems, texts = _ems(table), [not numeric for numeric in numeric_columns(table)]
    sides, headings = tuple("l" if text else "r" for text in texts), tuple(map(tuple, _headings(table)))
    for wide, room in ((False, _COLUMN), (True, _PAGE)):
        for size, space, em in _SIZES:
            if _width(ems, space, em) <= room:
                return Layout(wide, size, space, sides, headings, (None,) * len(ems))
    size, space, em = _READABLE
    fixed = sum(w for w, text in zip(ems, texts, strict=True) if not text)
    room = (_PAGE - 2 * space * (len(ems) - 1)) / em - fixed
    shares = iter(_shared(room, [w for w, text in zip(ems, texts, strict=True) if text]))
    widths = tuple(next(shares) * em if text else None for text in texts)
    return Layout(True, size, space, sides, headings, widths)


def _width(ems: Sequence[float], space: float, em: float) -> float:
    return sum(ems) * em + 2 * space * (len(ems) - 1)


def _shared(room: float, wanted: Sequence[float]) -> list[float]:
    """What each gets: all that it wants, or an equal share of what the others leave."""
    out = [0.0] * len(wanted)
    for place, i in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        out[i] = min(wanted[i], (room - sum(out)) / (len(wanted) - place))
    return out


def _columns_that_fit(table: Table) -> list[list[int]]:
    """Columns by piece; the first, which names the rows, stands in each."""
    _, space, em = _READABLE
    texts = [not numeric for numeric in numeric_columns(table)]
    ems = [min(w, _SENTENCE) if text else w for w, text in zip(_ems(table), texts, strict=True)]
    out: list[list[int]] = [[0]]
    for i in range(1, len(ems)):
        if len(out[-1]) > 1 and _width([ems[k] for k in [*out[-1], i]], space, em) > _PAGE:
            out.append([0])
        out[-1].append(i)
    return out


def _of_columns(table: Table, columns: list[int]) -> Table:
    rows = tuple(tuple(row[i] for i in columns) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in columns), rows=rows)


def _ems(table: Table) -> list[float]:
    """The width of each column, with its heading in lines and its share of a group's heading."""
    headings = _headings(table)
    cells = [max(map(width_of, column), default=0.0) for column in _by_column(table)]
    out = [max(cell, *map(width_of, lines)) for cell, lines in zip(cells, headings, strict=True)]
    edges = [0, *(sum(n for _, n in table.groups[: k + 1]) for k in range(len(table.groups)))]
    for (first, end), (name, count) in zip(pairwise(edges), table.groups, strict=True):
        lacking = width_of(name) - sum(out[first:end])
        out[first:end] = [w + max(lacking, 0.0) / count for w in out[first:end]]
    return out


def _by_column(table: Table) -> list[list[str]]:
    return [[row[i] for row in table.rows] for i in range(len(table.columns))]


def _headings(table: Table) -> list[list[str]]:
    cells = [max(map(width_of, column), default=0.0) for column in _by_column(table)]
    return [lines_of(c.text, cell) for c, cell in zip(table.columns, cells, strict=True)]


def lines_of(text: str, room: float) -> list[str]:
    """Words in lines of at most `room` em, if each word is."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines or [""]


def width_of(text: str) -> float:
    """About how wide it is in Computer Modern, in em."""
    return sum(map(_char, text))


def _char(char: str) -> float:
    if char in _NARROW:
        return 0.38
    if char in _WIDE or not char.isascii():
        return 0.85
    return 0.74 if char.isupper() else 0.53
