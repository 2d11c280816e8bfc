"""Tables in LaTeX, with `booktabs` and no other package; what does not fit a column goes over both."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from textwrap import wrap

from seedspread.errors import printable
from seedspread.render.table import Table, numeric_columns

# Characters that fit a column of a usual two-column paper, and both of them, in each size.
_FITS = (
    ("table", "small", 50), ("table", "footnotesize", 56), ("table*", "small", 96),
    ("table*", "footnotesize", 108), ("table*", "scriptsize", 120),
)  # fmt: skip
_LINES = 45  # that a page holds
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
    """Return a `table`, or a `table*` over both columns; it is continued in others if a page cannot hold it.

    Sentences are broken where nothing else fits. A table with too many columns of numbers for a page stays
    too wide.
    """
    numeric = numeric_columns(table)
    headings = [_heading(table, i) for i in range(len(table.columns))]
    cells = [[max(map(len, lines)), *(len(row[i]) for row in table.rows)] for i, lines in enumerate(headings)]
    widths = [max(lengths) for lengths in cells]
    room = _FITS[-1][2] - 2 * len(widths)
    name, size, _ = next((f for f in _FITS if sum(widths) + 2 * len(widths) <= f[2]), _FITS[-1])
    shares: list[float | None] = [None] * len(widths)
    if sum(widths) > room:  # every column of text gets what it wants, or an equal share of what others leave
        left = room - sum(width for width, number in zip(widths, numeric, strict=True) if number)
        texts = sorted((i for i, number in enumerate(numeric) if not number), key=widths.__getitem__)
        for place, i in enumerate(texts):
            widths[i] = min(widths[i], max(left // (len(texts) - place), 12))
            shares[i] = widths[i] / _FITS[-1][2]
            left -= widths[i]
    lines = max((-(-max(own) // width) for own, width in zip(cells, widths, strict=True) if width), default=1)
    most = max(_LINES // lines, 1)
    pieces = [table.rows[k : k + most] for k in range(0, len(table.rows), most)] or [()]
    origin = " ".join(part for part in (f"{table.heading}.", table.scale) if part)
    out = [tex_comment(origin)]
    for number, rows in enumerate(pieces):
        words = " ".join(f"{part.rstrip('.')}." for part in (table.title, table.note) if part)
        label = f"\\label{{tab:{table.id}}}" if table.id and not number else ""
        caption = f"{tex_text(table.title)} (continued)." if number else f"{tex_text(words)}{label}"
        out += [
            f"\\begin{{{name}}}[t]", "\\centering", f"\\caption{{{caption}}}",
            f"\\{size}\\setlength{{\\tabcolsep}}{{4pt}}",
            *_tabular(replace(table, rows=rows), headings, shares), f"\\end{{{name}}}", "",
        ]  # fmt: skip
    return "\n".join(out)


def _heading(table: Table, column: int) -> list[str]:
    """Return a heading in lines that are no wider than the cells below it, if its words are not."""
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
    # A first cell that begins with [ or * would be taken for an argument of the row before it, and a row
    # whose last text is ragged must not end with a double backslash.
    guard = "{}" if cells[0][:1] in ("[", "*") else ""
    end = "\\tabularnewline" if "\\raggedright" in cells[-1] else "\\\\"
    return f"{guard}{' & '.join(cells)} {end}"
