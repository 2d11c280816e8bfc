"""Means, sds and curves over seeds (same-seed runs are averaged first), test-set noise.

Test-set noise is the variance over seeds that a finite test set accounts for by itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from seedspread.stats.distributions import chi2_ppf, chi2_sf, t_ppf
from seedspread.stats.groups import Floats, Ints
from seedspread.stats.result import Estimate, Interval, TestSetNoise


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
    with np.errstate(invalid="ignore"):  # the sd is NaN if a run's norm overflowed
        sd = means.std(axis=0, ddof=1) if len(means) > 1 else None
        return MeanAndSd(means.mean(axis=0), sd, len(means))


def noise_from_accuracies(
    group: str, values: NDArray[np.float64], test_size: int, scale: float
) -> TestSetNoise:
    """Return the bound a(1 - a) / N from accuracies alone; `scale` is 100 for percentages.

    It is reached only if every run guesses each example anew; runs that agree on most examples stay below it.
    """
    a = float(values.mean()) / scale
    bound = a * (1 - a) / test_size * scale**2
    observed = float(values.var(ddof=1))
    return TestSetNoise(group, test_size, observed, bound, True, None, None, len(values))


def noise_from_predictions(
    group: str, correct: NDArray[np.bool_], level: float = 0.95, scale: float = 1.0
) -> TestSetNoise:
    """Return the test set's part of the variance, and what would remain on an infinite test set.

    Two different examples share nothing but the run, so the covariance over runs of their results is, on
    average over pairs of examples, the variance of the runs' true accuracies. Averaged over all pairs it
    equals N / (N - 1) * (V - sum_j v_j / N^2), with V the variance of the accuracies and v_j the variance
    over runs of example j's result. It is unbiased, and may be negative.

    K. Jordan, On the Variance of Neural Network Training with respect to Test Sets and Distributions (2023).

    Args:
        group: its name.
        correct: (runs, N) whether a run got an example right; the same examples in the same order.
        level: of the interval, which treats accuracies as normal and the test set's part as known: that is a
            mean over N examples, and its error is small beside that of a variance over a few runs.
        scale: 100 to report in percent squared, 1 in shares.
    """
    runs, n = correct.shape
    if runs < 2 or n < 2:
        raise ValueError(f"needs two runs and two examples or more; got {runs} runs and {n} examples")
    accuracies = correct.mean(axis=1)
    observed = float(accuracies.var(ddof=1))
    shares = correct.mean(axis=0)
    single = float((shares * (1 - shares)).sum() * runs / (runs - 1)) / n**2
    remaining = n / (n - 1) * (observed - single)
    floor = observed - remaining
    tail = (1 - level) / 2
    low, high = observed * (runs - 1) / chi2_ppf([1 - tail, tail], runs - 1) - floor
    square = scale**2
    interval = Interval(float(low) * square, float(high) * square, level)
    return TestSetNoise(
        group, n, observed * square, floor * square, False, remaining * square, interval, runs
    )


# Points at which the baseline's pivot is taken, and the ratio beyond which an end is open.
_PIVOTS, _WIDEST = 2_000, 1e6


def net_ratio(group: TestSetNoise, baseline: TestSetNoise, level: float = 0.95) -> Estimate | None:
    """Return the ratio of the variances that an infinite test set would leave; None if neither leaves any.

    A variance over seeds has the generalized pivot observed * df / chi2; less the test set's part, taken as
    known, and at least zero, it is one of what remains. The interval has the quantiles of the ratio of two
    independent pivots, so it is wider than necessary if seeds are shared. 0/0 may be any ratio.

    S. Weerahandi, Generalized confidence intervals, Journal of the American Statistical Association 88 (1993)
    899-905.
    """
    if group.remaining is None or baseline.remaining is None or not (group.observed and baseline.observed):
        return None
    points = (np.arange(_PIVOTS) + 0.5) / _PIVOTS
    (a, n), (b, m) = ((side.observed * (side.runs - 1), side.runs - 1) for side in (group, baseline))
    rest = np.maximum(b / chi2_ppf(points, m) - baseline.explained, 0.0)

    def below(log_ratio: float, two_zeros: bool) -> float:
        """Return the probability of a smaller ratio, counting 0/0 as smaller or not."""
        with np.errstate(divide="ignore"):  # a test set without noise leaves no chance of a zero
            chances = chi2_sf(a / (np.exp(log_ratio) * rest + max(group.explained, 0.0)), n)
        return float(np.mean(chances if two_zeros else np.where(rest > 0, chances, 0.0)))

    def end(tail: float, two_zeros: bool, open_end: float) -> float:
        limits = -math.log(_WIDEST), math.log(_WIDEST)
        if not below(limits[0], two_zeros) < tail < below(limits[1], two_zeros):
            return open_end
        return math.exp(optimize.brentq(lambda x: below(x, two_zeros) - tail, *limits))

    tail = (1 - level) / 2
    interval = Interval(end(tail, True, 0.0), end(1 - tail, False, math.inf), level)
    left, right = max(group.remaining, 0.0), max(baseline.remaining, 0.0)
    if right == 0:
        return Estimate(math.inf, interval) if left else None
    return Estimate(left / right, interval)


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
    """Summarize (r,) runs at the (k,) steps of a grid, interpolated between their own steps, never beyond.

    Runs of one seed are averaged where all of them reach a step.
    """
    values = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in curves])
    means = np.array([values[seeds == seed].mean(axis=0) for seed in np.unique(seeds)])
    n = np.sum(~np.isnan(means), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(means, axis=0) / n
        sd = np.sqrt(np.nansum((means - mean) ** 2, axis=0) / np.where(n > 1, n - 1, np.nan))
        half = t_ppf((1 + level) / 2, n - 1) * sd / np.sqrt(n)
        ends = (sd * np.sqrt((n - 1) / chi2_ppf((1 + s * level) / 2, n - 1)) for s in (1, -1))
        return CurveSummary(n, mean, sd, mean - half, mean + half, *ends)
