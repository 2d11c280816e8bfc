"""The clamp activation rate for any margin, from counts of similarities. Needs no torch."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rates_from_histograms(histograms: ArrayLike, margin: float) -> NDArray[np.float64]:
    """The share of positive pairs with s > 1 - margin; linear inside a bin, NaN where there is no pair.

    Args:
        histograms: `(..., bins)` counts in equal bins over [-1, 1].
        margin: m >= 0.

    Returns:
        `(...)` numbers from 0 to 1.
    """
    counts = np.asarray(histograms, dtype=np.float64)
    bins = counts.shape[-1]
    # Rounded, because 2000 * 0.4 / 2 must be 400 bins and not 399.9999.
    above = min(max(round(margin * bins / 2, 6), 0.0), float(bins))
    whole = math.floor(above)
    cut = counts[..., bins - whole :].sum(axis=-1)
    if whole < bins:
        cut = cut + (above - whole) * counts[..., bins - whole - 1]
    total = counts.sum(axis=-1)
    rates: NDArray[np.float64] = np.divide(
        cut, total, out=np.full(np.shape(total), math.nan), where=total > 0
    )
    return rates


def rate_from_histogram(histogram: ArrayLike, margin: float) -> float:
    """The same of one histogram, `(bins,)`."""
    return float(rates_from_histograms(histogram, margin))
