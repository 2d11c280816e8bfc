"""Prediction churn: how often two seeds of a group disagree on a test example."""

import numpy as np
from numpy.typing import NDArray

from seedspread.stats.groups import Floats, Group, Ints


def churn_of(predictions: NDArray[np.integer], seeds: Ints) -> tuple[Group, Floats]:
    """Return the share of examples on which two seeds disagree, as pseudo-values of seeds, and by example.

    The share, averaged over pairs of seeds, is a U-statistic of degree two. The jackknife gives each seed a
    pseudo-value: their mean is the share, and they may be compared by t tests as if they were independent.
    Runs of one seed share its weight, and are not compared with each other.

    J. N. Arvesen, Jackknifing U-statistics, Annals of Mathematical Statistics 40 (1969) 2076-2100.

    Args:
        predictions: (runs, N) code of each run's prediction for the same N examples.
        seeds: (runs,) code of each run's seed; three or more different ones.
    """
    units, of_run = np.unique(seeds, return_inverse=True)
    k, weights = len(units), 1.0 / np.bincount(of_run)[of_run]
    rows, examples = np.zeros(k), np.zeros(predictions.shape[1])
    for run, own in enumerate(predictions):
        differ = own != predictions
        others = np.where(of_run == of_run[run], 0.0, weights)
        rows[of_run[run]] += weights[run] * (others @ differ.mean(axis=1))
        examples += weights[run] * (others @ differ)
    pairs = k * (k - 1)
    without = (rows.sum() - 2 * rows) / (pairs - 2 * (k - 1))
    return Group.of(k * rows.sum() / pairs - (k - 1) * without, units), examples / pairs
