"""The ladder as a table."""

from seedspread.analysis.numbers import between, ladder_p, number
from seedspread.render.table import Column, Table
from seedspread.stats.result import Rung

LADDER_TITLE = "Which assumption buys which p"


def ladder_table(rungs: tuple[Rung, ...], full: bool = True) -> Table:
    """A row per rung; what fits a terminal has the change, the ratio, its degrees of freedom and p only."""
    columns = {
        "test": [r.name for r in rungs],
        "what is changed": [r.changes for r in rungs],
        "assumes": [r.assumes for r in rungs],
        "ratio of": [r.of for r in rungs],
        "ratio": [number(r.ratio) for r in rungs],
        "interval": [between(r.interval) for r in rungs],
        "df": [_df(r.df) for r in rungs],
        "p": [ladder_p(r.p) for r in rungs],
    }
    short = ("test", "what is changed", "ratio", "df", "p")
    shown = {name: cells for name, cells in columns.items() if full or name in short}
    rows = tuple(zip(*shown.values(), strict=True))
    return Table("ladder", LADDER_TITLE, tuple(map(Column, shown)), rows)


def _df(df: tuple[float, ...]) -> str:
    return ", ".join(f"{d:.0f}" if d == round(d) else f"{d:.1f}" for d in df) or "-"
