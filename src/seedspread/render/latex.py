"""Tables in LaTeX that fit a paper's column or page, with `booktabs` and no other package."""

from seedspread.errors import printable
from seedspread.render.latex_layout import Layout, pieces
from seedspread.render.table import Table

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
    """Text that LaTeX prints as it is."""
    return "".join(_TEX.get(char, char) for char in printable(text))


def to_latex(table: Table) -> str:
    """A `table`, or a `table*` over both columns; what is larger than a page is several."""
    origin = " ".join(part for part in (f"{table.heading}.", table.scale) if part)
    floats = [_float(part, how, number) for number, (part, how) in enumerate(pieces(table))]
    return "\n".join([tex_comment(origin), *floats])


def tex_comment(line: str) -> str:
    """A line that LaTeX does not print."""
    return "% " + printable(line).replace("\n", " ")


def _float(table: Table, how: Layout, number: int) -> str:
    """One floating table; after the first it is continued."""
    words = " ".join(f"{part.rstrip('.')}." for part in (table.title, table.note) if part)
    label = f"\\label{{tab:{table.id}}}" if table.id and not number else ""
    caption = f"{tex_text(words)}{label}" if not number else f"{tex_text(table.title)} (continued)."
    name = "table*" if how.wide else "table"
    return "\n".join([
        f"\\begin{{{name}}}[t]", "\\centering", f"\\caption{{{caption}}}",
        f"\\{how.size}\\setlength{{\\tabcolsep}}{{{how.space:g}pt}}", *_tabular(table, how),
        f"\\end{{{name}}}", "",
    ])  # fmt: skip


def _tabular(table: Table, how: Layout) -> list[str]:
    columns = (f"p{{{w:.1f}pt}}" if w else side for side, w in zip(how.sides, how.widths, strict=True))
    head = []
    if any(name for name, _ in table.groups):
        head.append(_row([f"\\multicolumn{{{n}}}{{c}}{{{tex_text(name)}}}" for name, n in table.groups]))
        head.append(_rules(table))
    head.append(_row([_heading(lines, side) for lines, side in zip(how.headings, how.sides, strict=True)]))
    ragged = ["\\raggedright " if w else "" for w in how.widths]
    rows = [_row([f"{r}{tex_text(c)}" for r, c in zip(ragged, row, strict=True)]) for row in table.rows]
    return [
        f"\\begin{{tabular}}{{@{{}}{''.join(columns)}@{{}}}}", "\\toprule", *head, "\\midrule", *rows,
        "\\bottomrule", "\\end{tabular}",
    ]  # fmt: skip


def _heading(lines: tuple[str, ...], side: str) -> str:
    """In several lines, so that it is no wider than what stands below it."""
    if len(lines) == 1:
        return tex_text(lines[0])
    stacked = "\\\\".join(map(tex_text, lines))
    return f"\\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{stacked}\\end{{tabular}}"


def _row(cells: list[str]) -> str:
    """A first cell that begins with [ or * would be taken for an argument of the row before it.

    Where text is ragged, a row does not end with a double backslash.
    """
    guard = "{}" if cells[0][:1] in ("[", "*") else ""
    end = "\\tabularnewline" if "\\raggedright" in cells[-1] else "\\\\"
    return f"{guard}{' & '.join(cells)} {end}"


def _rules(table: Table) -> str:
    out, first = [], 1
    for name, count in table.groups:
        if name:
            out.append(f"\\cmidrule(lr){{{first}-{first + count - 1}}}")
        first += count
    return "".join(out)
