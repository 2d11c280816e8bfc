"""Levels of columns as text, and as codes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.runs.levels import joined_levels, level_name

Codes = NDArray[np.intp]
Names = NDArray[np.object_]


def coded(column: "pd.Series[Any]") -> tuple[Codes, Names]:
    """(rows,) a code for each cell's level, in the order of the table, and the levels as text.

    1 and 1.0 are one level; what is missing is empty. Each level is converted once, however often it stands.
    """
    codes, levels = pd.factorize(column, use_na_sentinel=False)
    merged, names = pd.factorize(np.array([_label(level) for level in levels], dtype=object))
    return merged[codes].astype(np.intp), names


def labels(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Each cell as text."""
    codes, names = coded(column)
    return pd.Series(names[codes], index=column.index, dtype=object)


def _label(value: object) -> str:
    return "" if value is pd.NA else level_name(value)


def combined(frame: pd.DataFrame, names: Sequence[str]) -> Codes:
    """(rows,) a code for each combination of the columns' levels, in the order of the table."""
    codes = np.zeros(len(frame), np.intp)
    for name in names:
        own, levels = coded(frame[name])
        codes = pd.factorize(codes * len(levels) + own)[0].astype(np.intp)
    return codes


def joined(frame: pd.DataFrame, names: Sequence[str]) -> "pd.Series[Any]":
    """The levels of several columns as one, `a, b`; empty if there are no columns."""
    codes = combined(frame, names)
    first = frame.loc[~pd.Series(codes).duplicated().to_numpy(), list(names)]
    parts = zip(*(labels(first[name]) for name in names), strict=True) if names else [()]
    texts = np.array([joined_levels(part) for part in parts], dtype=object)
    return pd.Series(texts[codes], index=frame.index, dtype=object)
