"""A correlation over seeds, with its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
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

    Args:
        seeds: (n,) of the runs.
        x: (n,) one value of each run; a run that has one that is no number is left out.
        y: (n,) the other.
        level: of the interval.

    Returns:
        None where fewer than three seeds are there, or a value does not vary.
    """
    runs: dict[str, list[tuple[float, float]]] = {}
    for seed, *both in zip(seeds, x, y, strict=True):
        if not any(map(math.isnan, both)):
            runs.setdefault(seed, []).append((both[0], both[1]))
    means = np.array(
        [[math.fsum(v) / len(v) for v in zip(*runs[seed], strict=True)] for seed in sorted(runs)]
    )
    if len(means) < 3 or (np.ptp(means, axis=0) == 0).any():
        return None
    pearson = stats.pearsonr(*means.T)
    interval = None
    if len(means) > 3:
        ends = pearson.confidence_interval(level)
        interval = Interval(float(ends.low), float(ends.high), level)
    return Correlation(float(pearson.statistic), interval, len(means))
