"""Mean and sd across seeds by step, of runs with steps of their own."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from seedspread.stats.groups import Floats, Ints


@dataclass(frozen=True)
class CurveSummary:
    """Mean and sd across seeds at each of k steps, and the ends of their intervals; NaN if there are none."""

    n: Ints  # (k,) seeds that reach a step
    mean: Floats
    sd: Floats
    mean_low: Floats  # Student t
    mean_high: Floats
    sd_low: Floats  # chi-square, for normal values
    sd_high: Floats


def curve_over_seeds(
    seeds: Ints, curves: Sequence[tuple[Floats, Floats]], grid: Floats, level: float
) -> CurveSummary:
    """Summarize runs at the steps of a grid: each is interpolated between its own steps, never beyond them.

    Runs of one seed are averaged where all of them reach a step.

    Args:
        seeds: (r,) code of each run's seed.
        curves: (r,) steps, increasing, and values of each run.
        grid: (k,) increasing.
        level: of the intervals, each about one step.
    """
    values = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in curves])
    means = np.array([values[seeds == seed].mean(axis=0) for seed in np.unique(seeds)])
    n = np.sum(~np.isnan(means), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(means, axis=0) / n
        sd = np.sqrt(np.nansum((means - mean) ** 2, axis=0) / np.where(n > 1, n - 1, np.nan))
        half = stats.t.ppf((1 + level) / 2, n - 1) * sd / np.sqrt(n)
        ends = (sd * np.sqrt((n - 1) / stats.chi2.ppf((1 + s * level) / 2, n - 1)) for s in (1, -1))
        return CurveSummary(n, mean, sd, mean - half, mean + half, *ends)
