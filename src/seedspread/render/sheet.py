"""Tables, and the values of figures, for a spreadsheet: CSV."""

import csv
import io
from itertools import zip_longest

from seedspread.errors import printable
from seedspread.render.chart import Chart
from seedspread.render.table import Table, is_number


def to_csv(table: Table) -> str:
    """The cells as they are shown; text that a spreadsheet would take for a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_harmless(c.whole) for c in table.columns])
    writer.writerows([_harmless(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def chart_csv(chart: Chart) -> str:
    """What a figure shows, a row for each of its points."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("panel", "series", "kind", "x", "y", "low", "high", "label"))
    for panel in chart.panels:
        for mark in (m for m in panel.marks if m.kind != "rule"):
            columns = (mark.x, mark.y, mark.low, mark.high, mark.labels)
            for x, y, low, high, label in zip_longest(*columns, fillvalue=""):
                numbers = ("" if v == "" else f"{v:.10g}" for v in (x, y, low, high))
                row = (panel.title, mark.name, mark.kind)
                writer.writerow([*map(_harmless, row), *numbers, _harmless(str(label).replace("\n", "; "))])
    return out.getvalue()


def _harmless(cell: str) -> str:
    """One line, and no formula: names come from files. Signed numbers are left alone."""
    cell = printable(cell).replace("\n", " ")
    if cell[:1] not in ("=", "+", "-", "@", "\t"):
        return cell
    return cell if cell in ("-", "−") or is_number(cell) else f"'{cell}"
