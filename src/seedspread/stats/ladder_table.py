"""The ladder as a table."""

from seedspread.render.table import Column, Table
from seedspread.stats.ladder import Rung, ladder_p
from seedspread.stats.verdict import between, number

LADDER_TITLE = "Which assumption buys which p"


def ladder_table(rungs: tuple[Rung, ...]) -> Table:
    """A row per rung."""
    headings = ("test", "what is changed", "assumes", "ratio of", "ratio", "interval", "df", "p")
    rows = tuple(
        (r.name, r.changes, r.assumes, r.of, number(r.ratio), between(r.interval), _df(r.df), ladder_p(r.p))
        for r in rungs
    )
    return Table("ladder", LADDER_TITLE, tuple(Column(heading) for heading in headings), rows)


def _df(df: tuple[float, ...]) -> str:
    return ", ".join(f"{d:.0f}" if d == round(d) else f"{d:.1f}" for d in df) or "-"
