"""Which audit a table is good for: a comparison that works as it stands."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from seedspread.stats.table import TableError, check_table

_MOST_LEVELS = 12


def suggest_audit(table: pd.DataFrame, value: str, columns: Sequence[str]) -> list[str] | None:
    """The options of an audit that compares one of `columns`, words before numbers; None if none can be had.

    Other columns of them become blocks where runs of a seed could not be told apart without.
    """
    fit = [name for name in columns if _is_fit(table[name])]
    fit.sort(key=lambda name: (pd.api.types.is_numeric_dtype(table[name]), table[name].nunique()))
    for group in fit:
        reference = str(table[group].mode().iloc[0])
        others = [name for name in columns if name != group and not table[name].isna().any()]
        for blocks in ([], others):
            try:
                check_table(table, value, group, reference, blocks)
            except TableError:
                continue
            options = ["--value", value, "--group", group, "--reference", reference]
            return options + [word for name in blocks for word in ("--block", name)]
    return None


def _is_fit(column: "pd.Series[Any]") -> bool:
    """A few levels, each with runs to compare, and none left blank."""
    counts = column.value_counts()
    return not column.isna().any() and 2 <= len(counts) <= _MOST_LEVELS and bool(counts.min() >= 2)
