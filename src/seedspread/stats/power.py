"""Seed budgets: how many seeds, and what they can show."""

import math
from typing import Literal

import numpy as np
from scipy import optimize, stats

from seedspread.errors import SeedspreadError, one_of
from seedspread.stats.arms import Floats

Shape = Literal["normal", "t5", "skewed", "bimodal"]
SHAPES: tuple[Shape, ...] = ("normal", "t5", "skewed", "bimodal")
# Where searches give up.
_MOST_SEEDS = 100_000
_LARGEST_RATIO = 1e6
# What a simulation draws, and how far its search goes.
_DRAWS = 4000
_MOST_SIMULATED = 1000
# Beyond this many seeds the F test's power stands for the jackknife's: on normal values they agree.
MOST_SIMULATED_SEEDS = 60


class BudgetError(SeedspreadError):
    """There is no such seed budget."""


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


def power_of(ratio: float, seeds: tuple[int, int], alpha: float, shape: str | None) -> float:
    """Of the F test on normal values, exactly; with a `shape` of the seed jackknife, simulated."""
    return f_power(ratio, seeds, alpha) if shape is None else simulated_power(ratio, seeds, shape, alpha)


def detectable_ratio(
    seeds: tuple[int, int], power: float = 0.8, alpha: float = 0.05, shape: str | None = None
) -> float:
    """The smallest variance ratio above 1 that is detected with `power`.

    By the test that `power_of` chooses.
    """
    check_design(seeds, power, alpha)
    largest = math.log(_LARGEST_RATIO)

    def lacking(log_ratio: float) -> float:
        return power_of(math.exp(log_ratio), seeds, alpha, shape) - power

    if lacking(largest) < 0:
        raise BudgetError(
            f"with {seeds[0]} and {seeds[1]} seeds no ratio below a million is detected with power {power:g}"
            "; take more seeds"
        )
    return math.exp(optimize.brentq(lacking, 0.0, largest, xtol=2e-12 if shape is None else 1e-3))


def seeds_for_ratio(
    ratio: float,
    power: float = 0.8,
    alpha: float = 0.05,
    reference_seeds: int | None = None,
    shape: str | None = None,
) -> tuple[tuple[int, int], float]:
    """The fewest seeds per arm that detect `ratio`, and their power; the reference's number may be fixed.

    By the test that `power_of` chooses.
    """
    if not 0 < ratio < math.inf or ratio == 1:
        raise BudgetError(f"the ratio must be positive and not 1; got {ratio:g}")
    # The F test needs two seeds per arm, the jackknife three.
    low, high, most = (1, 2, _MOST_SEEDS) if shape is None else (2, 3, _MOST_SIMULATED)
    check_design((high, reference_seeds or high), power, alpha)

    def reached(n: int) -> float:
        return power_of(ratio, (n, reference_seeds or n), alpha, shape)

    while reached(high) < power:
        low, high = high, 2 * high
        if high > most:
            limit = f" with {reference_seeds} reference seeds" if reference_seeds else ""
            raise BudgetError(f"no number of seeds up to {most:,} detects a ratio of {ratio:g}{limit}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) >= power else (middle, high)
    return (high, reference_seeds or high), reached(high)


def check_design(seeds: tuple[int, int], power: float, alpha: float) -> None:
    """Raises `BudgetError` for numbers that no design has."""
    if min(seeds) < 2:
        raise BudgetError(f"a variance needs at least two seeds per arm; got {seeds[0]} and {seeds[1]}")
    if not 0 < alpha < 1:
        raise BudgetError(f"alpha must lie between 0 and 1; got {alpha:g}")
    if not alpha < power < 1:
        raise BudgetError(f"power must lie between alpha ({alpha:g}) and 1; got {power:g}")


def sample(shape: str, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
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
    x, y = (sample(shape, (_DRAWS, n), rng) for n in seeds)
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
