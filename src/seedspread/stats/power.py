"""Seeds for a standard error, and the power of the F test; the headline's is in `scale.planning`."""

import math

from scipy import optimize, stats

from seedspread.errors import SeedspreadError

# Where searches give up.
_MOST_SEEDS = 100_000
_LARGEST_RATIO = 1e6


class BudgetError(SeedspreadError):
    """There is no such seed budget."""


def seeds_for_standard_error(sd: float, se: float) -> int:
    """The fewest seeds whose mean has a standard error of at most `se`, the spread being `sd`."""
    if not (0 < sd < math.inf and 0 < se < math.inf):
        raise BudgetError(f"sd and se must be positive; got sd={sd:g}, se={se:g}")
    if sd / se > 1e6:
        raise BudgetError(f"se {se:g} is less than a millionth of sd {sd:g}: no number of runs reaches it")
    # A standard error that misses the goal by rounding alone meets it.
    return max(1, math.ceil((sd / se) ** 2 * (1 - 1e-12)))


def f_power(ratio: float, seeds: tuple[int, int], alpha: float = 0.05) -> float:
    """Exact power of the two-sided F test for normal values when the variance ratio is `ratio`."""
    df = seeds[0] - 1, seeds[1] - 1
    low, high = stats.f.ppf([alpha / 2, 1 - alpha / 2], *df)
    return float(stats.f.cdf(low / ratio, *df) + stats.f.sf(high / ratio, *df))


def detectable_ratio(seeds: tuple[int, int], power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest variance ratio above 1 that the F test detects with `power` on normal values."""
    check_design(seeds, power, alpha)
    largest = math.log(_LARGEST_RATIO)

    def lacking(log_ratio: float) -> float:
        return f_power(math.exp(log_ratio), seeds, alpha) - power

    if lacking(largest) < 0:
        raise BudgetError(
            f"with {seeds[0]} and {seeds[1]} seeds no ratio below a million is detected with power {power:g}"
            "; take more seeds"
        )
    return math.exp(optimize.brentq(lacking, 0.0, largest))


def seeds_for_ratio(
    ratio: float, power: float = 0.8, alpha: float = 0.05, baseline_seeds: int | None = None
) -> tuple[tuple[int, int], float]:
    """The fewest seeds per arm with which the F test detects `ratio` on normal values, and its power."""
    if not 0 < ratio < math.inf or ratio == 1:
        raise BudgetError(f"the ratio must be positive and not 1; got {ratio:g}")
    low, high = 1, 2
    check_design((high, baseline_seeds or high), power, alpha)

    def reached(n: int) -> float:
        return f_power(ratio, (n, baseline_seeds or n), alpha)

    while reached(high) < power:
        low, high = high, 2 * high
        if high > _MOST_SEEDS:
            limit = f" with {baseline_seeds} baseline seeds" if baseline_seeds else ""
            raise BudgetError(f"no number of seeds up to {_MOST_SEEDS:,} detects a ratio of {ratio:g}{limit}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) >= power else (middle, high)
    return (high, baseline_seeds or high), reached(high)


def check_design(seeds: tuple[int, int], power: float, alpha: float) -> None:
    """Raises `BudgetError` for numbers that no design has."""
    if min(seeds) < 2:
        raise BudgetError(f"a variance needs at least two seeds per arm; got {seeds[0]} and {seeds[1]}")
    if not 0 < alpha < 1:
        raise BudgetError(f"alpha must lie between 0 and 1; got {alpha:g}")
    if not alpha < power < 1:
        raise BudgetError(f"power must lie between alpha ({alpha:g}) and 1; got {power:g}")
