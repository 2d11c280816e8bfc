"""Tables in LaTeX, with `booktabs`."""

from seedspread.errors import printable
from seedspread.render.table import Table, numeric_columns

_ROWS_PER_PAGE = 45
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
    """A `table`, or over more than a page a `longtable`."""
    alignment = "".join("r" if numeric else "l" for numeric in numeric_columns(table))
    head = []
    if any(name for name, _ in table.groups):
        head.append(_row([f"\\multicolumn{{{n}}}{{c}}{{{tex_text(name)}}}" for name, n in table.groups]))
        head.append(_rules(table))
    head.append(_row([tex_text(c.text) for c in table.columns]))
    label = f"\\label{{tab:{table.id}}}" if table.id else ""
    caption = f"\\caption{{{tex_text(table.caption)}}}{label}"
    if len(table.rows) > _ROWS_PER_PAGE:
        begin = ["% needs the package longtable", f"\\begin{{longtable}}{{{alignment}}}", f"{caption}\\\\"]
        end = ["\\end{longtable}"]
    else:
        begin = ["\\begin{table}[t]", "\\centering", caption, f"\\begin{{tabular}}{{{alignment}}}"]
        end = ["\\end{tabular}", "\\end{table}"]
    rows = [_row([tex_text(cell) for cell in row]) for row in table.rows]
    return "\n".join([*begin, "\\toprule", *head, "\\midrule", *rows, "\\bottomrule", *end, ""])


def _row(cells: list[str]) -> str:
    """A first cell that begins with [ or * would be taken for an argument of the row before it."""
    guard = "{}" if cells[0][:1] in ("[", "*") else ""
    return guard + " & ".join(cells) + " \\\\"


def _rules(table: Table) -> str:
    out, first = [], 1
    for name, count in table.groups:
        if name:
            out.append(f"\\cmidrule(lr){{{first}-{first + count - 1}}}")
        first += count
    return "".join(out)
