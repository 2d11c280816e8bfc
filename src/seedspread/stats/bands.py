"""The mean and the spread over seeds of anything that every run has: a number, a profile, a curve."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seedspread.stats.arms import Floats


@dataclass(frozen=True)
class Band:
    """Mean and sd over seeds, of the values' shape; `sd` is None of a single seed."""

    mean: Floats
    sd: Floats | None
    seeds: int


def over_seeds(seeds: Sequence[str], values: Sequence[Floats]) -> Band:
    """Runs of one seed are averaged first: the seed is the unit, and its twins are no further ones.

    Args:
        seeds: of each run.
        values: of each run, all of one shape.
    """
    first = dict.fromkeys(seeds)
    means = np.stack(
        [np.mean([v for s, v in zip(seeds, values, strict=True) if s == seed], axis=0) for seed in first]
    )
    with np.errstate(invalid="ignore"):  # a run whose norm overflowed has no spread to give
        sd = means.std(axis=0, ddof=1) if len(means) > 1 else None
        return Band(means.mean(axis=0), sd, len(means))
