"""Runs without a value: those that crashed, and those that were repeated."""

import pandas as pd

_RUN = ["stratum", "group", "block", "seed"]


def part_crashed(tidy: pd.DataFrame, is_stored: bool) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The rows that have a value, those of runs that crashed, and others without one.

    A run has crashed if no row has its value. A store's run without one has either failed, or is finished,
    and its study did not ask for the value.

    Args:
        tidy: columns value, stratum, group, block, seed, failed.
        is_stored: whether the runs are those of a store.
    """
    empty = tidy["value"].isna()
    valued, without = tidy.loc[~empty], tidy.loc[empty]
    again = pd.MultiIndex.from_frame(without[_RUN]).isin(pd.MultiIndex.from_frame(valued[_RUN]))
    crashed = ~again & (without["failed"].to_numpy(bool) if is_stored else True)
    return valued, without.loc[crashed], without.loc[~crashed]
