"""Test-set noise: the variance over seeds that a finite test set accounts for by itself."""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from seedspread.stats.result import Interval, TestSetNoise


def noise_from_accuracies(
    group: str, values: NDArray[np.float64], test_size: int, scale: float
) -> TestSetNoise:
    """Return the bound a(1 - a) / N from accuracies alone.

    It is reached only if every run guesses each example anew; runs that agree on most examples stay below it.

    Args:
        group: its name.
        values: (n,) accuracies.
        test_size: N, the number of test examples.
        scale: 100 for percentages, 1 for shares.
    """
    a = float(values.mean()) / scale
    bound = a * (1 - a) / test_size * scale**2
    observed = float(values.var(ddof=1))
    return TestSetNoise(group, test_size, observed, bound, True, None, None)


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
    low, high = observed * (runs - 1) / stats.chi2.ppf([1 - tail, tail], runs - 1) - floor
    square = scale**2
    interval = Interval(float(low) * square, float(high) * square, level)
    return TestSetNoise(group, n, observed * square, floor * square, False, remaining * square, interval)
