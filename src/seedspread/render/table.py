"""The table model, and tables as Markdown, CSV and LaTeX; HTML and the terminal have a module each."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from textwrap import wrap
from typing import TYPE_CHECKING

from seedspread.errors import printable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the heading of its group of columns, if it is in one."""

    text: str
    group: str = ""

    @property
    def whole(self) -> str:
        return f"{self.group}: {self.text}" if self.group else self.text


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        id: short and stable: an anchor, a label, a file name; empty if nothing refers to it.
        follows: the published table that it corresponds to, if there is one: `the paper's Table 5`.
        muted: numbers of the rows to show in gray.
        scale: the data and size of the runs behind its numbers.
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
        """Name and size of each group of adjacent columns."""
        return tuple((name, len(list(run))) for name, run in groupby(column.group for column in self.columns))


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
_DIGITS = r"[+\-−]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?"
_NUMBER = re.compile(rf"~?{_DIGITS}[%×]?( pp)?( ± {_DIGITS})?( [✗†])?")


def is_number(cell: str) -> bool:
    """Return whether a cell is a single number, with the units and marks that tables use."""
    return _NUMBER.fullmatch(cell) is not None


def numeric_columns(table: Table) -> list[bool]:
    """Return which columns contain numbers, to be right-aligned; the first column names the row."""
    columns = [[row[i] for row in table.rows if row[i] not in _NOTHING] for i in range(len(table.columns))]
    return [
        i > 0 and bool(cells) and all(is_number(cell) or cell[0] in "[<~∞" for cell in cells)
        for i, cells in enumerate(columns)
    ]


def without_empty(table: Table, only_groups: bool = False) -> Table:
    """Return the table without empty columns; with `only_groups`, ungrouped ones are kept."""
    kept = [
        i
        for i, column in enumerate(table.columns)
        if (only_groups and not column.group) or any(row[i] not in _NOTHING for row in table.rows)
    ]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in kept), rows=rows)


_ESCAPED = {char: f"\\{char}" for char in "\\|*_`["} | {"<": "&lt;", ">": "&gt;", "\n": " "}


def markdown_text(text: str) -> str:
    """Escape text for Markdown."""
    return "".join(_ESCAPED.get(char, char) for char in printable(text))


def to_markdown(table: Table) -> str:
    cells = [[markdown_text(c.whole) for c in table.columns], ["---"] * len(table.columns)]
    cells += [[markdown_text(cell) for cell in row] for row in table.rows]
    title = [f"**{markdown_text(table.heading)}**", ""] if table.heading else []
    lines = [*title, *("| " + " | ".join(row) + " |" for row in cells)]
    notes = [markdown_text(part) for part in (table.note, table.scale) if part]
    return "\n".join([*lines, *(line for note in notes for line in ("", note))]) + "\n"


def to_csv(table: Table) -> str:
    """Return the displayed cells; text that a spreadsheet would take for a formula gets an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([spreadsheet_cell(c.whole) for c in table.columns])
    writer.writerows([spreadsheet_cell(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def spreadsheet_cell(cell: str) -> str:
    """Return a cell on one line that is not a formula, since names come from files; signed numbers stay."""
    line = printable(cell).replace("\n", " ")
    return without_formula(line.replace("−", "-") if is_number(line) else line)


def without_formula(cell: str) -> str:
    """Return a cell without carriage returns, after an apostrophe if a spreadsheet would compute it."""
    line = cell.replace("\r", " ")  # not every writer of CSV quotes it
    if cell[:1] not in ("=", "+", "-", "@", "\t", "\r", "\n"):
        return line
    return cell if cell in ("-", "−") or is_number(cell) else f"'{line}"


# Characters that fit one column of a typical two-column paper, or both, in each font size.
_FITS = (
    ("table", "small", 50), ("table", "footnotesize", 56), ("table*", "small", 96),
    ("table*", "footnotesize", 108), ("table*", "scriptsize", 120),
)  # fmt: skip
_LINES = 45  # per page
_TEX = {char: f"\\{char}" for char in "{}&%$#_"} | {
    "\\": "\\textbackslash{}",
    "|": "\\textbar{}",
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
    """Escape text for LaTeX."""
    return "".join(_TEX.get(char, char) for char in printable(text))


def tex_comment(line: str) -> str:
    return "% " + printable(line).replace("\n", " ")


def to_latex(table: Table) -> str:
    """Return a `table`, or a `table*` over both columns; it needs `booktabs` and no other package.

    A table longer than a page is continued in another. Sentences are broken if they do not fit; a table
    with too many columns of numbers remains too wide for a page.
    """
    numeric = numeric_columns(table)
    headings = [_heading(table, i) for i in range(len(table.columns))]
    cells = [[max(map(len, lines)), *(len(row[i]) for row in table.rows)] for i, lines in enumerate(headings)]
    widths = [max(lengths) for lengths in cells]
    room = _FITS[-1][2] - 2 * len(widths)
    name, size, _ = next((f for f in _FITS if sum(widths) + 2 * len(widths) <= f[2]), _FITS[-1])
    shares: list[float | None] = [None] * len(widths)
    if sum(widths) > room:  # a column of text gets its width, or an equal share of the remaining room
        left = room - sum(width for width, number in zip(widths, numeric, strict=True) if number)
        texts = sorted((i for i, number in enumerate(numeric) if not number), key=widths.__getitem__)
        for place, i in enumerate(texts):
            widths[i] = min(widths[i], max(left // (len(texts) - place), 12))
            shares[i] = widths[i] / _FITS[-1][2]
            left -= widths[i]
    lines = max((-(-max(own) // width) for own, width in zip(cells, widths, strict=True) if width), default=1)
    most = max(_LINES // lines, 1)
    pieces = [table.rows[k : k + most] for k in range(0, len(table.rows), most)] or [()]
    origin = " ".join(part for part in (table.heading and f"{table.heading}.", table.scale) if part)
    out = [tex_comment(origin)] if origin else []
    for number, rows in enumerate(pieces):
        words = " ".join(f"{part.rstrip('.')}." for part in (table.title, table.note) if part)
        label = f"\\label{{tab:{table.id}}}" if table.id and not number else ""
        caption = f"{tex_text(table.title)} (continued)." if number else f"{tex_text(words)}{label}"
        out += [
            f"\\begin{{{name}}}[t]", "\\centering", *([f"\\caption{{{caption}}}"] if words else []),
            f"\\{size}\\setlength{{\\tabcolsep}}{{4pt}}",
            *_tabular(replace(table, rows=rows), headings, shares), f"\\end{{{name}}}", "",
        ]  # fmt: skip
    return "\n".join(out)


def _heading(table: Table, column: int) -> list[str]:
    """Break a heading between words into lines no wider than the cells below it, if its words allow that."""
    longest = max((len(row[column]) for row in table.rows), default=0)
    return wrap(table.columns[column].text, max(longest, 1), break_long_words=False) or [""]


def _tabular(table: Table, headings: Sequence[Sequence[str]], shares: Sequence[float | None]) -> list[str]:
    sides = ["r" if number else "l" for number in numeric_columns(table)]
    columns = (f"p{{{w:.3f}\\linewidth}}" if w else side for side, w in zip(sides, shares, strict=True))
    head = []
    if any(name for name, _ in table.groups):
        head.append(_row([f"\\multicolumn{{{n}}}{{c}}{{{tex_text(name)}}}" for name, n in table.groups]))
        ends = accumulate(count for _, count in table.groups)
        named = [(end - n + 1, end) for end, (name, n) in zip(ends, table.groups, strict=True) if name]
        head.append("".join(f"\\cmidrule(lr){{{first}-{last}}}" for first, last in named))
    head.append(_row([_stacked(lines, side) for lines, side in zip(headings, sides, strict=True)]))
    ragged = ["\\raggedright " if w else "" for w in shares]
    rows = [_row([f"{r}{tex_text(c)}" for r, c in zip(ragged, row, strict=True)]) for row in table.rows]
    return [
        f"\\begin{{tabular}}{{@{{}}{''.join(columns)}@{{}}}}", "\\toprule", *head, "\\midrule", *rows,
        "\\bottomrule", "\\end{tabular}",
    ]  # fmt: skip


def _stacked(lines: Sequence[str], side: str) -> str:
    text = "\\\\".join(map(tex_text, lines))
    return text if len(lines) == 1 else f"\\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{text}\\end{{tabular}}"


def _row(cells: list[str]) -> str:
    # LaTeX would take a first cell that begins with [ or * for an argument of the previous row's end, and a
    # row whose last cell is ragged must not end with a double backslash.
    guard = "{}" if cells[0][:1] in ("[", "*") else ""
    end = "\\tabularnewline" if "\\raggedright" in cells[-1] else "\\\\"
    return f"{guard}{' & '.join(cells)} {end}"
