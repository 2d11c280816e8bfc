"""One arm at one level of a numeric factor: its mean, its spread and how often it fails, with intervals."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from seedspread.stats.arms import Arm
from seedspread.stats.result import Interval
from seedspread.stats.robust import log_variance_error


@dataclass(frozen=True)
class ArmSummary:
    """The seed is the unit throughout; an interval is None where there are too few seeds for it.

    Attributes:
        seeds: how many.
        mean: over seeds, blocks weighing alike.
        mean_interval: Student's.
        sd: over seeds, within blocks; None of a single seed.
        sd_interval: by the seed jackknife.
        failed: seeds with a failed run.
        rate: their share.
        rate_interval: exact (Clopper and Pearson).
    """

    seeds: int
    mean: float
    mean_interval: Interval | None
    sd: float | None
    sd_interval: Interval | None
    failed: int
    rate: float
    rate_interval: Interval


def summarise(arm: Arm, failed: int, level: float = 0.95) -> ArmSummary:
    """An arm by itself.

    Args:
        arm: its runs.
        failed: how many of its seeds failed.
        level: of the intervals.
    """
    k, means = len(arm.seed_codes), arm.seed_means
    mean, sd = float(means.mean()), float(np.sqrt(arm.within_variance)) if arm.df else None
    exact = stats.binomtest(failed, k).proportion_ci(level, method="exact")
    return ArmSummary(
        seeds=k,
        mean=mean,
        mean_interval=_around(mean, float(means.std(ddof=1)) / k**0.5, k - 1, level) if k > 1 else None,
        sd=sd,
        sd_interval=_of_sd(arm, level),
        failed=failed,
        rate=failed / k,
        rate_interval=Interval(float(exact.low), float(exact.high), level),
    )


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
