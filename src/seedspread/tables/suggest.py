"""Which audit a table is good for: a comparison that works as it stands."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from seedspread.tables.check import check_table
from seedspread.tables.errors import TableError
from seedspread.tables.question import Question

_MOST_LEVELS = 12


def suggest_audit(table: pd.DataFrame, value: str, columns: Sequence[str]) -> list[str] | None:
    """The options of an audit that compares one of `columns`, words before numbers; None if none can be had.

    Others of them become blocks, as many as it takes to tell the runs of a seed apart.
    """
    own = [name for name in columns if not table[name].isna().any() and not _is_seed_too(table, name)]
    fit = [name for name in own if _is_fit(table[name])]
    fit.sort(key=lambda name: (pd.api.types.is_numeric_dtype(table[name]), table[name].nunique()))
    for group in fit:
        baseline = str(table[group].mode().iloc[0])
        blocks = _blocks(table, group, own)
        try:
            check_table(table, Question(value, group, baseline, tuple(blocks)))
        except TableError:
            continue
        options = ["--value", value, "--group", group, "--baseline", baseline]
        return options + [word for name in blocks for word in ("--block", name)]
    return None


def _is_fit(column: "pd.Series[Any]") -> bool:
    """A few levels, each with runs to compare."""
    counts = column.value_counts()
    return 2 <= len(counts) <= _MOST_LEVELS and bool(counts.min() >= 2)


def _is_seed_too(table: pd.DataFrame, name: str) -> bool:
    """Whether a column only says the seed again, as a second seed that goes along with it does."""
    if "seed" not in table.columns:
        return False
    pairs = table[["seed", name]].drop_duplicates()
    return len(pairs) == table["seed"].nunique() == table[name].nunique()


def _blocks(table: pd.DataFrame, group: str, columns: Sequence[str]) -> list[str]:
    """Columns that tell runs of one seed and group apart; none where there are no such runs, or no seeds."""
    if "seed" not in table.columns:
        return []
    keys, blocks = [group, "seed"], []
    apart = len(table[keys].drop_duplicates())
    for name in columns:
        more = len(table[[*keys, name]].drop_duplicates())
        if name != group and more > apart:
            blocks.append(name)
            keys, apart = [*keys, name], more
    return blocks
