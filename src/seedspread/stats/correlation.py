"""A correlation over seeds, with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from seedspread.stats.result import Interval


@dataclass(frozen=True)
class Correlation:
    """Pearson's r over seeds; `interval` (Fisher's z) is None where fewer than four seeds are there."""

    r: float
    interval: Interval | None
    seeds: int


def seed_correlation(
    seeds: Sequence[str], x: Sequence[float], y: Sequence[float], level: float = 0.95
) -> Correlation | None:
    """Of two values of each run; runs of one seed are averaged first, for the seed is the unit.

    Returns:
        None where fewer than three seeds are there, or a value does not vary.
    """
    means = pd.DataFrame({"seed": seeds, "x": x, "y": y}).dropna().groupby("seed").mean()
    if len(means) < 3 or np.ptp(means["x"]) == 0 or np.ptp(means["y"]) == 0:
        return None
    pearson = stats.pearsonr(means["x"], means["y"])
    interval = None
    if len(means) > 3:
        ends = pearson.confidence_interval(level)
        interval = Interval(float(ends.low), float(ends.high), level)
    return Correlation(float(pearson.statistic), interval, len(means))
