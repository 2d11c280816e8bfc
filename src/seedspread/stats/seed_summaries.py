"""Means, spreads and correlations over seeds. Same-seed runs are averaged first."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from seedspread.stats.classic import log_variance_error
from seedspread.stats.failures import exact_interval
from seedspread.stats.groups import Floats, Group
from seedspread.stats.result import Interval


@dataclass(frozen=True)
class MeanAndSd:
    """Mean and sd over seeds, of the values' shape; `sd` is None for a single seed."""

    mean: Floats
    sd: Floats | None
    seeds: int


def mean_and_sd(seeds: Sequence[str], values: Sequence[Floats]) -> MeanAndSd:
    """Return the mean and sd over seeds of (n,) runs' values, all of one shape: a number, a curve."""
    first = dict.fromkeys(seeds)
    means = np.stack(
        [np.mean([v for s, v in zip(seeds, values, strict=True) if s == seed], axis=0) for seed in first]
    )
    with np.errstate(invalid="ignore"):  # a run whose norm overflowed has no spread to give
        sd = means.std(axis=0, ddof=1) if len(means) > 1 else None
        return MeanAndSd(means.mean(axis=0), sd, len(means))


@dataclass(frozen=True)
class Correlation:
    """Pearson's r over seeds; `interval` (Fisher's z) is None with fewer than four seeds."""

    r: float
    interval: Interval | None
    seeds: int


def seed_correlation(
    seeds: Sequence[str], x: Sequence[float], y: Sequence[float], level: float = 0.95
) -> Correlation | None:
    """Return the correlation over seeds of two values per run; None with fewer than three seeds.

    Args:
        seeds: (n,) seed of each run.
        x: (n,) one value per run; runs with a NaN are left out.
        y: (n,) the other.
        level: of the interval.
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


@dataclass(frozen=True)
class GroupSummary:
    """Mean, spread and failure rate over seeds; an interval is None if there are too few seeds for it."""

    seeds: int  # including those without a value
    mean: float | None  # blocks weighted equally; None if no seed has a value
    mean_interval: Interval | None  # Student's
    sd: float | None  # within blocks; None for a single seed
    sd_interval: Interval | None  # by the seed jackknife
    failed: int  # seeds with a failed run
    rate: float
    rate_interval: Interval  # exact (Clopper and Pearson)


def summarize(group: Group, failed: int, seeds: int, level: float = 0.95) -> GroupSummary:
    """Summarize one group: its runs with a value, and how many of all its seeds failed."""
    mean, of_mean = _mean(group, level)
    return GroupSummary(
        seeds=seeds,
        mean=mean,
        mean_interval=of_mean,
        sd=float(np.sqrt(group.within_variance)) if group.df else None,
        sd_interval=_of_sd(group, level),
        failed=failed,
        rate=failed / seeds,
        rate_interval=exact_interval(failed, seeds, level),
    )


def _mean(group: Group, level: float) -> tuple[float | None, Interval | None]:
    if not len(group.values):
        return None, None
    means = group.seed_means
    mean, k = float(means.mean()), len(means)
    return mean, _around(mean, float(means.std(ddof=1)) / k**0.5, k - 1, level) if k > 1 else None


def _around(centre: float, error: float, df: int, level: float) -> Interval:
    half = float(stats.t.ppf((1 + level) / 2, df)) * error
    return Interval(centre - half, centre + half, level)


def _of_sd(group: Group, level: float) -> Interval | None:
    error = log_variance_error(group) if group.has_spread else None
    if error is None:
        return None
    log = _around(0.5 * float(np.log(group.within_variance)), 0.5 * error[0], error[1] - 1, level)
    return Interval(float(np.exp(log.low)), float(np.exp(log.high)), level)
