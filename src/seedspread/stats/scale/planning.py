"""Planning by the test that judges: power and detectable ratios of the headline, from a table of simulations.

`seedspread bench planning --write` makes the table (`planning.json`): per design and size, and per alpha,
the log ratio that is detected in each share (`LEVELS`) of experiments. Between its entries log ratios times
sqrt(n - 1) are interpolated in 1 / (n - 1), sqrt(1 - r^2) for pairs, r^2 for twins.
"""

import json
from functools import cache
from math import exp, inf, log, sqrt
from pathlib import Path

import numpy as np
from scipy import stats

from seedspread.errors import one_of
from seedspread.stats.arms import Floats
from seedspread.stats.power import BudgetError, check_design

TABLE = Path(__file__).with_name("planning.json")
SIZES = (3, 4, 5, 7, 10, 14, 20, 30, 50)
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
ALPHAS = (0.1, 0.05, 0.01)
SHAPES = ("normal", "t5", "skewed", "bimodal")
CORRELATIONS = (0.0, 0.3, 0.6, 0.8, 0.9)
TWINS = (0.0, 0.5, 0.9)
_MOST_SEEDS = 100_000


def key(shape: str = "normal", pairs: float | None = None, twins: float | None = None) -> str:
    """What a design is called in the table."""
    return " ".join(
        [
            shape,
            *([] if pairs is None else [f"pairs {pairs:g}"]),
            *([] if twins is None else [f"twins {twins:g}"]),
        ]
    )


def power(
    ratio: float,
    seeds: tuple[int, int],
    blocks: int = 1,
    pairs: float | None = None,
    twins: float = 0.0,
    alpha: float = 0.05,
    shape: str = "normal",
) -> float:
    """How likely it is that the headline shows a variance ratio.

    Args:
        ratio: true ratio of the variances.
        seeds: per arm; where they differ, what counts is the harmonic mean of the degrees of freedom.
        blocks: runs of each seed in each arm; more than two count as two.
        pairs: the correlation of the arms over shared seeds; None where the arms have seeds of their own.
        twins: the correlation of a seed's runs over blocks.
        alpha: level of the test.
        shape: of the values.
    """
    if not 0 < ratio < inf:
        raise BudgetError(f"the ratio must be positive; got {ratio:g}")
    needed = _needed(seeds, blocks, pairs, twins, alpha, shape)
    at = abs(log(ratio))
    if at >= needed[-1]:  # beyond the table, as a normal tail
        slope = (stats.norm.ppf(LEVELS[-1]) - stats.norm.ppf(0.5)) / (
            needed[-1] - np.interp(0.5, LEVELS, needed)
        )
        return float(stats.norm.cdf(stats.norm.ppf(LEVELS[-1]) + slope * (at - needed[-1])))
    return float(np.interp(at, [0.0, *needed], [alpha / 2, *LEVELS]))


def detectable(
    seeds: tuple[int, int],
    power: float = 0.8,
    blocks: int = 1,
    pairs: float | None = None,
    twins: float = 0.0,
    alpha: float = 0.05,
    shape: str = "normal",
) -> float:
    """The smallest variance ratio above 1 that the headline shows with `power`; see `power` for the rest."""
    check_design(seeds, power, alpha)
    if not LEVELS[0] <= power <= LEVELS[-1]:
        raise BudgetError(f"power must lie between {LEVELS[0]:g} and {LEVELS[-1]:g}; got {power:g}")
    return exp(float(np.interp(power, LEVELS, _needed(seeds, blocks, pairs, twins, alpha, shape))))


def seeds_for(
    ratio: float,
    wanted: float = 0.8,
    reference_seeds: int | None = None,
    blocks: int = 1,
    pairs: float | None = None,
    twins: float = 0.0,
    alpha: float = 0.05,
    shape: str = "normal",
) -> tuple[int, int]:
    """The fewest seeds per arm with which the headline shows a ratio; the reference's number may be fixed."""
    if not 0 < ratio < inf or ratio == 1:
        raise BudgetError(f"the ratio must be positive and not 1; got {ratio:g}")

    def enough(n: int) -> bool:
        return power(ratio, (n, reference_seeds or n), blocks, pairs, twins, alpha, shape) >= wanted

    low, high = SIZES[0] - 1, SIZES[0]
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_SEEDS:
            limit = f" with {reference_seeds} reference seeds" if reference_seeds else ""
            raise BudgetError(f"no number of seeds up to {_MOST_SEEDS:,} detects a ratio of {ratio:g}{limit}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high, reference_seeds or high


@cache
def _table() -> dict[str, Floats]:
    """(sizes, alphas, levels) of each design."""
    content = json.loads(TABLE.read_text())
    return {name: np.array(rows) for name, rows in content.items() if name != "draws"}


def _needed(
    seeds: tuple[int, int], blocks: int, pairs: float | None, twins: float, alpha: float, shape: str
) -> Floats:
    """(levels,) the log ratios that so many experiments detect."""
    one_of("shape", shape, SHAPES)
    if min(seeds) < SIZES[0]:
        raise BudgetError(f"the headline is planned for {SIZES[0]} seeds per arm or more; got {min(seeds)}")
    if not ALPHAS[-1] <= alpha <= ALPHAS[0]:
        raise BudgetError(f"alpha must lie between {ALPHAS[-1]:g} and {ALPHAS[0]:g}; got {alpha:g}")
    df = 2 / (1 / (seeds[0] - 1) + 1 / (seeds[1] - 1))
    own = _at(key(), df, alpha)
    factor = _at(key(shape=shape), df, alpha) / own
    if pairs is not None:
        rows = np.array([_at(key(pairs=r), df, alpha) for r in CORRELATIONS])
        factor = (
            factor
            * _between(sqrt(1 - min(abs(pairs), 1) ** 2), [sqrt(1 - r**2) for r in CORRELATIONS], rows)
            / own
        )
    if blocks > 1:
        rows = np.array([_at(key(twins=r), df, alpha) for r in TWINS])
        factor = factor * _between(twins**2, [r**2 for r in TWINS], rows) / own
    return np.maximum.accumulate(own * factor)


def _at(name: str, df: float, alpha: float) -> Floats:
    """(levels,) of a design with so many degrees of freedom in each arm."""
    rows = _table()[name] * np.sqrt(np.array(SIZES) - 1)[:, None, None]
    by_df = _between(1 / df, [1 / (n - 1) for n in SIZES], rows) / sqrt(df)
    # In the normal quantile, which is what an interval's width goes with.
    return _between(float(stats.norm.isf(alpha / 2)), [float(stats.norm.isf(a / 2)) for a in ALPHAS], by_df)


def _between(at: float, places: list[float], rows: Floats) -> Floats:
    """Linear between rows; beyond the last places, those of the last."""
    order = np.argsort(places)
    flat = rows[order].reshape(len(places), -1)
    out = np.array([np.interp(at, np.array(places)[order], column) for column in flat.T])
    return out.reshape(rows.shape[1:])
