"""Tables in Markdown."""

from seedspread.errors import printable
from seedspread.render.table import Table

_ESCAPED = {char: f"\\{char}" for char in "\\|*_`["} | {"<": "&lt;", ">": "&gt;", "\n": " "}


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(_ESCAPED.get(char, char) for char in printable(text))


def to_markdown(table: Table) -> str:
    """With its caption."""
    cells = [[markdown_text(c.whole) for c in table.columns], ["---"] * len(table.columns)]
    cells += [[markdown_text(cell) for cell in row] for row in table.rows]
    lines = [f"**{markdown_text(table.heading)}**", "", *("| " + " | ".join(row) + " |" for row in cells)]
    notes = [markdown_text(part) for part in (table.note, table.scale) if part]
    return "\n".join([*lines, *(line for note in notes for line in ("", note))]) + "\n"
