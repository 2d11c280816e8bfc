"""Seed budgets: how many seeds, and what they can show."""

import math
from typing import Literal

import numpy as np
from scipy import optimize, stats

from seedspread.errors import SeedspreadError, one_of
from seedspread.stats.arms import Floats

Shape = Literal["normal", "t5", "skewed", "bimodal"]
SHAPES: tuple[Shape, ...] = ("normal", "t5", "skewed", "bimodal")
# Beyond this nobody trains, and a search has gone astray.
_MOST_SEEDS = 100_000
_LARGEST_RATIO = 1e6
# What a simulation draws, and how far its search goes.
_DRAWS = 4000
_MOST_SIMULATED = 1000


class BudgetError(SeedspreadError):
    """A seed budget was asked for that does not exist."""


def seeds_for_standard_error(sd: float, se: float) -> int:
    """The fewest seeds whose mean has a standard error of at most `se`, the spread being `sd`."""
    if not (0 < sd < math.inf and 0 < se < math.inf):
        raise BudgetError(f"sd and se must be positive; got sd={sd:g}, se={se:g}")
    # A standard error that misses the goal by rounding alone meets it.
    return max(1, math.ceil((sd / se) ** 2 * (1 - 1e-12)))


def f_power(ratio: float, seeds: tuple[int, int], alpha: float = 0.05) -> float:
    """Exact power of the two-sided F test for normal values when the variance ratio is `ratio`."""
    df = seeds[0] - 1, seeds[1] - 1
    low, high = stats.f.ppf([alpha / 2, 1 - alpha / 2], *df)
    return float(stats.f.cdf(low / ratio, *df) + stats.f.sf(high / ratio, *df))


def detectable_ratio(seeds: tuple[int, int], power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest variance ratio above 1 that the F test detects with `power`."""
    check_design(seeds, power, alpha)

    def lacking(log_ratio: float) -> float:
        return f_power(math.exp(log_ratio), seeds, alpha) - power

    if lacking(math.log(_LARGEST_RATIO)) < 0:
        raise BudgetError(
            f"with {seeds[0]} and {seeds[1]} seeds no ratio below a million is detected with power {power:g}"
            "; take more seeds"
        )
    return float(math.exp(optimize.brentq(lacking, 0.0, math.log(_LARGEST_RATIO))))


def seeds_for_ratio(
    ratio: float, power: float = 0.8, alpha: float = 0.05, reference_seeds: int | None = None
) -> tuple[int, int]:
    """The fewest seeds per arm with which the F test detects `ratio`; the reference's number may be fixed."""
    _check_ratio(ratio)
    check_design((2, reference_seeds or 2), power, alpha)

    def reaches(n: int) -> bool:
        return f_power(ratio, (n, reference_seeds or n), alpha) >= power

    high = 2
    while not reaches(high):
        high *= 2
        if high > _MOST_SEEDS:
            limit = f" with {reference_seeds} reference seeds" if reference_seeds else ""
            raise BudgetError(f"no number of seeds up to {_MOST_SEEDS:,} detects a ratio of {ratio:g}{limit}")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high, reference_seeds or high


def _check_ratio(ratio: float) -> None:
    if not 0 < ratio < math.inf or ratio == 1:
        raise BudgetError(f"the ratio must be positive and not 1; got {ratio:g}")


def check_design(seeds: tuple[int, int], power: float, alpha: float) -> None:
    """Raises `BudgetError` for numbers that no design has."""
    if min(seeds) < 2:
        raise BudgetError(f"a variance needs at least two seeds per arm; got {seeds[0]} and {seeds[1]}")
    if not 0 < alpha < 1:
        raise BudgetError(f"alpha must lie between 0 and 1; got {alpha:g}")
    if not alpha < power < 1:
        raise BudgetError(f"power must lie between alpha ({alpha:g}) and 1; got {power:g}")


def draw(shape: str, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Values of mean 0 and variance 1: normal, t with 5 degrees of freedom, gamma(2), or two clusters."""
    one_of("shape", shape, SHAPES)
    if shape == "t5":
        return rng.standard_t(5, size) * math.sqrt(3 / 5)
    if shape == "skewed":
        return (rng.gamma(2.0, 1.0, size) - 2) / math.sqrt(2)
    if shape == "bimodal":
        return np.where(rng.random(size) < 0.5, -0.9, 0.9) + rng.normal(0, math.sqrt(0.19), size)
    return rng.standard_normal(size)


def simulated_power(ratio: float, seeds: tuple[int, int], shape: str, alpha: float = 0.05) -> float:
    """Power of the seed jackknife (the audit's headline) when the values have `shape`; 4,000 draws, fixed."""
    if min(seeds) < 3:
        raise BudgetError(f"the seed jackknife needs three seeds per arm; got {seeds[0]} and {seeds[1]}")
    rng = np.random.default_rng([*seeds, 17])
    x, y = (draw(shape, (_DRAWS, n), rng) for n in seeds)
    (log_x, error_x), (log_y, error_y) = map(_jackknife, (x, y))
    t = (log_x - log_y + math.log(ratio)) / np.sqrt(error_x + error_y)
    df = (error_x + error_y) ** 2 / (error_x**2 / (seeds[0] - 1) + error_y**2 / (seeds[1] - 1))
    return float(np.mean(2 * stats.t.sf(np.abs(t), df) < alpha))


def _jackknife(values: Floats) -> tuple[Floats, Floats]:
    """(draws,) log variances of (draws, n) values and their squared jackknife errors, as in `robust`."""
    n = values.shape[1]
    squares = (values - values.mean(axis=1, keepdims=True)) ** 2
    total = squares.sum(axis=1)
    logs = np.log((total[:, None] - n / (n - 1) * squares) / (n - 2))
    return np.log(total / (n - 1)), (n - 1) / n * ((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)


def simulated_seeds(
    ratio: float, power: float, alpha: float, reference_seeds: int | None, shape: str
) -> tuple[tuple[int, int], float]:
    """The fewest seeds per arm, and the power reached, for values of `shape`."""
    _check_ratio(ratio)
    check_design((3, reference_seeds or 3), power, alpha)

    def reached(n: int) -> float:
        return simulated_power(ratio, (n, reference_seeds or n), shape, alpha)

    low, high = 2, 3
    while reached(high) < power:
        low, high = high, 2 * high
        if high > _MOST_SIMULATED:
            raise BudgetError(f"no number of seeds up to {_MOST_SIMULATED} detects a ratio of {ratio:g}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) >= power else (middle, high)
    return (high, reference_seeds or high), reached(high)


def simulated_detectable(seeds: tuple[int, int], power: float, alpha: float, shape: str) -> float:
    """The smallest ratio above 1 that is detected with `power`, for values of `shape`."""
    check_design(seeds, power, alpha)

    def lacking(log_ratio: float) -> float:
        return simulated_power(math.exp(log_ratio), seeds, shape, alpha) - power

    if lacking(math.log(_LARGEST_RATIO)) < 0:
        raise BudgetError(f"with {seeds[0]} and {seeds[1]} seeds no ratio below a million is detected")
    return float(math.exp(optimize.brentq(lacking, 0.0, math.log(_LARGEST_RATIO), xtol=1e-3)))
