"""One arm at one level of a numeric factor: its mean, its spread and how often it fails, with intervals."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from seedspread.stats.arms import Arm
from seedspread.stats.collapse import exact_interval
from seedspread.stats.result import Interval
from seedspread.stats.robust import log_variance_error


@dataclass(frozen=True)
class ArmSummary:
    """The seed is the unit throughout; an interval is None where there are too few seeds for it.

    Attributes:
        seeds: how many, those without a value too.
        mean: over seeds, blocks weighing alike; None if every seed failed without a value.
        mean_interval: Student's.
        sd: over seeds, within blocks; None of a single seed.
        sd_interval: by the seed jackknife.
        failed: seeds with a failed run.
        rate: their share.
        rate_interval: exact (Clopper and Pearson).
    """

    seeds: int
    mean: float | None
    mean_interval: Interval | None
    sd: float | None
    sd_interval: Interval | None
    failed: int
    rate: float
    rate_interval: Interval


def summarise(arm: Arm, failed: int, seeds: int, level: float = 0.95) -> ArmSummary:
    """An arm by itself.

    Args:
        arm: its runs that have a value, or none.
        failed: how many of its seeds failed.
        seeds: how many it has, those without a value too.
        level: of the intervals.
    """
    mean, of_mean = _mean(arm, level)
    return ArmSummary(
        seeds=seeds,
        mean=mean,
        mean_interval=of_mean,
        sd=float(np.sqrt(arm.within_variance)) if arm.df else None,
        sd_interval=_of_sd(arm, level),
        failed=failed,
        rate=failed / seeds,
        rate_interval=exact_interval(failed, seeds, level),
    )


def _mean(arm: Arm, level: float) -> tuple[float | None, Interval | None]:
    if not len(arm.values):
        return None, None
    means = arm.seed_means
    mean, k = float(means.mean()), len(means)
    return mean, _around(mean, float(means.std(ddof=1)) / k**0.5, k - 1, level) if k > 1 else None


def _around(centre: float, error: float, df: int, level: float) -> Interval:
    half = float(stats.t.ppf((1 + level) / 2, df)) * error
    return Interval(centre - half, centre + half, level)


def _of_sd(arm: Arm, level: float) -> Interval | None:
    """Half the log variance, jackknifed over seeds."""
    error = log_variance_error(arm) if arm.has_spread else None
    if error is None:
        return None
    log = _around(0.5 * float(np.log(arm.within_variance)), 0.5 * error[0], error[1] - 1, level)
    return Interval(float(np.exp(log.low)), float(np.exp(log.high)), level)
