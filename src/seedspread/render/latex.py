"""Tables in LaTeX that fit a paper's column or page, with `booktabs` and no other package.

pandas' Styler writes a table as wide and as long as it is; here the size, the column or the page, broken
sentences and continued tables are chosen so that nothing sticks out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from seedspread.errors import printable
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
_TEX = {
    "\\": "\\textbackslash{}",
    "{": "\\{",
    "}": "\\}",
    "&": "\\&",
    "%": "\\%",
    "$": "\\$",
    "#": "\\#",
    "_": "\\_",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "∞": "$\\infty$",
    "²": "$^2$",
    "±": "$\\pm$",
    "−": "$-$",
    "×": "$\\times$",
    "✗": "$\\times$",
    "†": "$\\dagger$",
    "→": "$\\to$",
    "≥": "$\\ge$",
    "≤": "$\\le$",
    "\n": " ",
}


def tex_text(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(_TEX.get(char, char) for char in printable(text))


def tex_comment(line: str) -> str:
    """Return a line that LaTeX does not print."""
    return "% " + printable(line).replace("\n", " ")


def to_latex(table: Table) -> str:
    """Return a `table`, or a `table*` over both columns; several if it is larger than a page."""
    origin = " ".join(part for part in (f"{table.heading}.", table.scale) if part)
    floats = [_float(part, how, number) for number, (part, how) in enumerate(_pieces(table))]
    return "\n".join([tex_comment(origin), *floats])


@dataclass(frozen=True)
class _Layout:
    """How a table is set.

    Attributes:
        wide: over both columns of the paper.
        size: LaTeX's name of the size.
        space: points on either side of a column.
        sides: `r` or `l`, where a column's cells stand.
        headings: lines of each column's heading.
        widths: points of each column in which text is broken; None if a column is as wide as its cells.
    """

    wide: bool
    size: str
    space: float
    sides: tuple[str, ...]
    headings: tuple[list[str], ...]
    widths: tuple[float | None, ...]


def _pieces(table: Table) -> list[tuple[Table, _Layout]]:
    """Return the table, or parts of its columns and rows that each fit a page."""
    out = []
    for columns in _columns_that_fit(table):
        rows = tuple(tuple(row[i] for i in columns) for row in table.rows)
        part = replace(table, columns=tuple(table.columns[i] for i in columns), rows=rows)
        how = _layout(part)
        out += [(replace(part, rows=some), how) for some in _rows_that_fit(part, how)]
    return out


def _columns_that_fit(table: Table) -> list[list[int]]:
    """Return the columns of each piece; the first, which names the rows, stands in each."""
    _, space, em = _READABLE
    numeric = numeric_columns(table)
    ems = [w if is_number else min(w, _SENTENCE) for w, is_number in zip(_ems(table), numeric, strict=True)]
    out: list[list[int]] = [[0]]
    for i in range(1, len(ems)):
        if len(out[-1]) > 1 and _points([ems[k] for k in [*out[-1], i]], space, em) > _PAGE:
            out.append([0])
        out[-1].append(i)
    return out


def _rows_that_fit(table: Table, how: _Layout) -> list[tuple[tuple[str, ...], ...]]:
    """Return the rows of each piece, by the lines that they take."""
    out: list[list[tuple[str, ...]]] = [[]]
    left = _LINES
    for row in table.rows:
        lines = max(
            # Lines end before a word that does not fit: a tenth of them stays empty, and more.
            1 if width is None else math.ceil(1.15 * _width(cell) * _READABLE[2] / width) or 1
            for cell, width in zip(row, how.widths, strict=True)
        )
        if lines > left and out[-1]:
            out.append([])
            left = _LINES
        out[-1].append(row)
        left -= lines
    return [tuple(rows) for rows in out]


def _layout(table: Table) -> _Layout:
    """Return the first that fits: a column before a page, large before small; then sentences are broken."""
    ems, texts = _ems(table), [not numeric for numeric in numeric_columns(table)]
    sides, headings = tuple("l" if text else "r" for text in texts), tuple(_headings(table))
    for wide, room in ((False, _COLUMN), (True, _PAGE)):
        for size, space, em in _SIZES:
            if _points(ems, space, em) <= room:
                return _Layout(wide, size, space, sides, headings, (None,) * len(ems))
    size, space, em = _READABLE
    room = _PAGE - _points([w for w, text in zip(ems, texts, strict=True) if not text], space, em)
    room = (room - 2 * space * sum(texts)) / em
    # Every column of text gets what it wants, or an equal share of what the others leave.
    widths: list[float | None] = [None] * len(ems)
    wanting = sorted((i for i, text in enumerate(texts) if text), key=ems.__getitem__)
    for place, i in enumerate(wanting):
        share = min(ems[i], room / (len(wanting) - place))
        widths[i], room = share * em, room - share
    return _Layout(True, size, space, sides, headings, tuple(widths))


def _points(ems: Sequence[float], space: float, em: float) -> float:
    return sum(ems) * em + 2 * space * (len(ems) - 1)


def _ems(table: Table) -> list[float]:
    """Return the width of each column, with its heading in lines and its share of a group's heading."""
    headings = _headings(table)
    out = [max(cells, *map(_width, lines)) for cells, lines in zip(_cells(table), headings, strict=True)]
    ends = accumulate(count for _, count in table.groups)
    for end, (name, count) in zip(ends, table.groups, strict=True):
        lacking = max(_width(name) - sum(out[end - count : end]), 0.0)
        out[end - count : end] = [w + lacking / count for w in out[end - count : end]]
    return out


def _headings(table: Table) -> list[list[str]]:
    """Return each heading in lines that are no wider than the cells below it, if its words are not."""
    out = []
    for column, room in zip(table.columns, _cells(table), strict=True):
        lines: list[str] = []
        for word in column.text.split():
            if lines and _width(f"{lines[-1]} {word}") <= room:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        out.append(lines or [""])
    return out


def _cells(table: Table) -> list[float]:
    """Return the width of the widest cell of each column."""
    return [max((_width(row[i]) for row in table.rows), default=0.0) for i in range(len(table.columns))]


def _width(text: str) -> float:
    """Return about how wide a text is in Computer Modern, in em."""
    return sum(
        0.38 if char in _NARROW
        else 0.85 if char in _WIDE or not char.isascii()
        else 0.74 if char.isupper()
        else 0.53
        for char in text
    )  # fmt: skip


def _float(table: Table, how: _Layout, number: int) -> str:
    """Return one floating table; after the first it is continued."""
    words = " ".join(f"{part.rstrip('.')}." for part in (table.title, table.note) if part)
    label = f"\\label{{tab:{table.id}}}" if table.id and not number else ""
    caption = f"{tex_text(words)}{label}" if not number else f"{tex_text(table.title)} (continued)."
    name = "table*" if how.wide else "table"
    return "\n".join([
        f"\\begin{{{name}}}[t]", "\\centering", f"\\caption{{{caption}}}",
        f"\\{how.size}\\setlength{{\\tabcolsep}}{{{how.space:g}pt}}", *_tabular(table, how),
        f"\\end{{{name}}}", "",
    ])  # fmt: skip


def _tabular(table: Table, how: _Layout) -> list[str]:
    columns = (f"p{{{w:.1f}pt}}" if w else side for side, w in zip(how.sides, how.widths, strict=True))
    head = []
    if any(name for name, _ in table.groups):
        head.append(_row([f"\\multicolumn{{{n}}}{{c}}{{{tex_text(name)}}}" for name, n in table.groups]))
        ends = accumulate(count for _, count in table.groups)
        named = [(end - n + 1, end) for end, (name, n) in zip(ends, table.groups, strict=True) if name]
        head.append("".join(f"\\cmidrule(lr){{{first}-{last}}}" for first, last in named))
    head.append(_row([_heading(lines, side) for lines, side in zip(how.headings, how.sides, strict=True)]))
    ragged = ["\\raggedright " if w else "" for w in how.widths]
    rows = [_row([f"{r}{tex_text(c)}" for r, c in zip(ragged, row, strict=True)]) for row in table.rows]
    return [
        f"\\begin{{tabular}}{{@{{}}{''.join(columns)}@{{}}}}", "\\toprule", *head, "\\midrule", *rows,
        "\\bottomrule", "\\end{tabular}",
    ]  # fmt: skip


def _heading(lines: list[str], side: str) -> str:
    if len(lines) == 1:
        return tex_text(lines[0])
    stacked = "\\\\".join(map(tex_text, lines))
    return f"\\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{stacked}\\end{{tabular}}"


def _row(cells: list[str]) -> str:
    # A first cell that begins with [ or * would be taken for an argument of the row before it, and a row
    # whose last text is ragged must not end with a double backslash.
    guard = "{}" if cells[0][:1] in ("[", "*") else ""
    end = "\\tabularnewline" if "\\raggedright" in cells[-1] else "\\\\"
    return f"{guard}{' & '.join(cells)} {end}"
