"""Tables for a spreadsheet: CSV."""

import csv
import io

from seedspread.errors import printable
from seedspread.render.table import Table, is_number


def to_csv(table: Table) -> str:
    """The cells as they are shown; text that a spreadsheet would take for a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_harmless(c.whole) for c in table.columns])
    writer.writerows([_harmless(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def _harmless(cell: str) -> str:
    """One line, and no formula: names come from files. Signed numbers are left alone."""
    cell = printable(cell).replace("\n", " ")
    if cell[:1] not in ("=", "+", "-", "@", "\t"):
        return cell
    return cell if cell in ("-", "−") or is_number(cell) else f"'{cell}"
