"""Runs without a value: those that crashed, and those that were repeated."""

import pandas as pd

_RUN = ["stratum", "group", "block", "seed"]


def part_crashed(tidy: pd.DataFrame, is_stored: bool) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The rows that have a value, those of runs that crashed, and others without one.

    A run has crashed if no row has its value; a store's finished run lacks one only if its study did not ask
    for it.

    Args:
        tidy: columns value, stratum, group, block, seed.
        is_stored: whether the runs are those of a store.
    """
    empty = tidy["value"].isna()
    valued, without = tidy.loc[~empty], tidy.loc[empty]
    again = pd.MultiIndex.from_frame(without[_RUN]).isin(pd.MultiIndex.from_frame(valued[_RUN]))
    return valued, without.loc[~again & (not is_stored)], without.loc[again | is_stored]
