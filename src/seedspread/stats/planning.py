"""Power, detectable ratios and seeds needed: of the robust variance ratio and of t tests.

`python benchmarks/planning.py --write` simulates `planning.json`: per design, size and alpha, the log ratio
that is detected in each share (`LEVELS`) of experiments. Its excess over the F test's, times sqrt(n - 1), is
interpolated in 1 / (n - 1), for normal values down to infinitely many seeds, whose excess is known; designs
are interpolated in sqrt(1 - r^2) for pairs, r^2 for same-seed runs, 1 / b for blocks. If a design departs in
several ways, the factors are multiplied.
"""

import json
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, inf, log, sqrt
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from seedspread.errors import AdviceError, one_of
from seedspread.stats.distributions import chi2_ppf, f_isf, t_isf
from seedspread.stats.groups import Floats
from seedspread.stats.variance_ratio import FEWEST_PAIRS

# Limits of searches.
MOST_SEEDS = 100_000

# Points of the distribution of the sample's standard deviation.
_POINTS = (np.arange(2_000) + 0.5) / 2_000

# The designs of `planning.json`.
TABLE = Path(__file__).with_name("planning.json")
SIZES = (3, 4, 5, 7, 10, 14, 20, 30, 50)
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
ALPHAS = (0.1, 0.05, 0.01, 0.001)
SHAPES = ("normal", "t5", "skewed", "bimodal")
CORRELATIONS = (0.0, 0.3, 0.6, 0.8, 0.9)
SAME_SEED = (0.0, 0.5, 0.9)
BLOCKS = (2, 4)


class BudgetError(AdviceError):
    """A seed budget that is impossible."""


@dataclass(frozen=True)
class Design:
    """The design of an experiment, apart from its number of seeds.

    Attributes:
        blocks: runs of each seed in each group; more than four count as four.
        pairs: correlation of the groups over shared seeds; None if they share no seeds.
        same_seed_runs: correlation of a seed's runs over blocks.
        alpha: level of the test.
        shape: shape of the values' distribution: `normal`, `t5`, `skewed` or `bimodal`.
    """

    blocks: int = 1
    pairs: float | None = None
    same_seed_runs: float = 0.0
    alpha: float = 0.05
    shape: str = "normal"


_PLAIN = Design()


def seeds_for_standard_error(sd: float, se: float) -> int:
    """Return the fewest seeds whose mean has a standard error of at most `se`, if their spread is `sd`."""
    if not (0 < sd < inf and 0 < se < inf):
        raise BudgetError(f"sd and se must be positive; got sd={sd:g}, se={se:g}")
    if sd / se > 1e6:
        raise BudgetError(f"se {se:g} is less than a millionth of sd {sd:g}: no number of runs reaches it")
    # A standard error that misses the goal by rounding alone meets it.
    return max(1, ceil((sd / se) ** 2 * (1 - 1e-12)))


def standard_error(sd: float, seeds: tuple[int, int], pairs: float | None) -> tuple[float, int]:
    """Return the standard error of a difference of two means, and its degrees of freedom.

    Groups that share their seeds and correlate by `pairs` have as many pairs as the smaller one has seeds.
    """
    if pairs is None:
        return sd * sqrt(1 / seeds[0] + 1 / seeds[1]), sum(seeds) - 2
    return sd * sqrt(2 * (1 - pairs) / min(seeds)), min(seeds) - 1


def t_power(shift: float, df: float, alpha: float, two_sided: bool = True) -> float:
    """Return the power of a t test whose true difference is `shift` standard errors."""
    from scipy import stats  # noqa: PLC0415 - slow, and only the power of a mean needs it

    critical = float(t_isf(alpha / (1 + two_sided), df))
    if shift > critical + 40:
        return 1.0
    above = float(stats.nct.sf(critical, df, shift))
    return above + (float(stats.nct.cdf(-critical, df, shift)) if two_sided else 0.0)


def equivalence_power(margin: float, df: float, alpha: float) -> float:
    """Return the power of two one-sided t tests if means are equal; the margin is in standard errors."""
    sd = np.sqrt(chi2_ppf(_POINTS, df) / df)
    room = np.maximum(margin - float(t_isf(alpha, df)) * sd, 0.0)
    return float(np.mean(ndtr(room) - ndtr(-room)))


def fewest(enough: Callable[[int], bool], start: int, what: str) -> int:
    """Return the smallest number, from `start` on, that is enough; `what` names it if there is none."""
    low, high = start, start
    while not enough(high):
        low, high = high + 1, 2 * high
        if high > MOST_SEEDS:
            raise BudgetError(f"no number of {what}")
    return low + bisect_left(range(low, high), True, key=enough)


def check_design(seeds: tuple[int, int], power: float, alpha: float) -> None:
    """Raise `BudgetError` if a number is out of range."""
    if min(seeds) < 2:
        raise BudgetError(f"a variance needs at least two seeds per group; got {seeds[0]} and {seeds[1]}")
    if not 0 < alpha < 1:
        raise BudgetError(f"alpha must lie between 0 and 1; got {alpha:g}")
    if not alpha < power < 1:
        raise BudgetError(f"power must lie between alpha ({alpha:g}) and 1; got {power:g}")


def key(shape: str = "normal", pairs: float | None = None, blocks: int = 1, same_seed: float = 0.0) -> str:
    """Return the name of a design in `planning.json`."""
    words = [shape, *([] if pairs is None else [f"pairs {pairs:g}"])]
    return " ".join([*words, *([f"blocks {blocks} same-seed {same_seed:g}"] if blocks > 1 else [])])


def power(ratio: float, seeds: tuple[int, int], design: Design = _PLAIN) -> float:
    """Return the power of the robust variance ratio's test if the ratio is `ratio`, from simulations."""
    if not 0 < ratio < inf:
        raise BudgetError(f"the ratio must be positive; got {ratio:g}")
    at = abs(log(ratio))
    needed = _needed(seeds if ratio > 1 else seeds[::-1], design)
    if at < needed[-1]:
        return float(np.interp(at, [0.0, *needed], [design.alpha, *LEVELS]))
    if needed[-1] == 0:  # groups that are copies of each other except for the scale
        return 1.0
    last, middle = ndtri(LEVELS[-1]), np.interp(0.5, LEVELS, needed)  # beyond: as a normal tail
    return float(ndtr(last * (at - middle) / (needed[-1] - middle)))


def detectable(seeds: tuple[int, int], power: float = 0.8, design: Design = _PLAIN) -> float:
    """Return the smallest variance ratio above 1 that is detected with `power`."""
    _check(seeds, power, design.alpha)
    return exp(float(np.interp(power, LEVELS, _needed(seeds, design))))


def seeds_for(
    ratio: float, wanted: float = 0.8, baseline_seeds: int | None = None, design: Design = _PLAIN
) -> tuple[int, int]:
    """Return the fewest seeds per group that detect a ratio with power `wanted`."""
    _check((SIZES[0], baseline_seeds or SIZES[0]), wanted, design.alpha)

    def enough(n: int) -> bool:
        return power(ratio, (n, baseline_seeds or n), design) >= wanted

    if not 0 < ratio < inf or ratio == 1:
        raise BudgetError(f"the ratio must be positive and not 1; got {ratio:g}")
    limit = f" with {baseline_seeds} baseline seeds" if baseline_seeds else ""
    found = fewest(enough, SIZES[0], f"seeds up to {MOST_SEEDS:,} detects a ratio of {ratio:g}{limit}")
    return found, baseline_seeds or found


def _check(seeds: tuple[int, int], wanted: float, alpha: float) -> None:
    check_design(seeds, wanted, alpha)
    if not LEVELS[0] <= wanted <= LEVELS[-1]:
        raise BudgetError(f"power must lie between {LEVELS[0]:g} and {LEVELS[-1]:g}; got {wanted:g}")


def _check_table(seeds: tuple[int, int], design: Design) -> None:
    """Raise `BudgetError` for designs outside the table."""
    try:
        one_of("shape", design.shape, SHAPES)
    except ValueError as error:
        raise BudgetError(str(error)) from None
    if min(seeds) < SIZES[0]:
        raise BudgetError(f"the headline is planned for {SIZES[0]} seeds per group or more; got {min(seeds)}")
    if design.blocks < 1:
        raise BudgetError(f"there must be at least one block; got {design.blocks}")
    if not ALPHAS[-1] <= design.alpha <= ALPHAS[0]:
        raise BudgetError(f"alpha must lie between {ALPHAS[-1]:g} and {ALPHAS[0]:g}; got {design.alpha:g}")
    for correlation in (design.pairs or 0.0, design.same_seed_runs):
        if not -1 <= correlation <= 1:
            raise BudgetError(f"a correlation lies between -1 and 1; got {correlation:g}")


@cache
def _table() -> dict[str, Floats]:
    """Return (sizes + 1, alphas, levels) log ratios of each design, minus the F test's, times sqrt(df).

    The last row is that of infinitely many seeds: with normal values the headline is then as good as maximum
    likelihood, with other shapes it is taken to be as good as with the most seeds of the table.
    """
    content = json.loads(TABLE.read_text())
    exact = np.array([[_f_needed((n - 1, n - 1), alpha) for alpha in ALPHAS] for n in SIZES])
    root = np.sqrt(np.array(SIZES) - 1)[:, None, None]
    quantiles = -ndtri(np.array(ALPHAS) / 2)[:, None] + ndtri(LEVELS)
    # Variance of the log ratio over that of the F test's, for designs with normal values and many seeds.
    shares = {key(): 1.0} | {key(pairs=r): 1 - r**2 for r in CORRELATIONS}
    shares |= {key(blocks=b, same_seed=r): (1 + (b - 1) * r**2) / b for b in BLOCKS for r in SAME_SEED}
    out = {}
    for name, rows in content.items():
        if name != "draws":
            excess = (np.array(rows) - exact) * root
            limit = 2 * (sqrt(shares[name]) - 1) * quantiles if name in shares else excess[-1]
            out[name] = np.concatenate([excess, limit[None]])
    return out


def _f_needed(df: tuple[float, float], alpha: float) -> Floats:
    """Return (levels,) log ratios that the F test detects in each share of experiments with normal values."""
    return np.asarray(np.log(f_isf(alpha / 2, *df)) - np.log(f_isf(np.array(LEVELS), *df)))


def _needed(seeds: tuple[int, int], design: Design) -> Floats:
    """Return (levels,) log ratios detected in each share of experiments if the first group is wider."""
    _check_table(seeds, design)
    pairs, blocks = design.pairs, design.blocks

    def at(name: str) -> Floats:
        return np.maximum(_at(name, seeds, design.alpha), 1e-6)

    own = at(key())
    factor = at(key(shape=design.shape)) / own
    if pairs is not None and min(seeds) >= FEWEST_PAIRS:
        rows = np.array([*(at(key(pairs=r)) for r in CORRELATIONS), 0 * own])
        factor *= _between(sqrt(1 - pairs**2), [sqrt(1 - r**2) for r in (*CORRELATIONS, 1.0)], rows) / own
    if blocks > 1:
        by_blocks = [own]
        for b in BLOCKS:  # same-seed runs that are copies add nothing
            rows = np.array([*(at(key(blocks=b, same_seed=r)) for r in SAME_SEED), own])
            by_blocks.append(_between(design.same_seed_runs**2, [r**2 for r in (*SAME_SEED, 1.0)], rows))
        factor *= _between(1 / blocks, [1 / b for b in (1, *BLOCKS)], np.array(by_blocks)) / own
    return np.maximum.accumulate(own * factor)


def _at(name: str, seeds: tuple[int, int], alpha: float) -> Floats:
    """Return (levels,) log ratios of a tabled design; unbalanced groups count by their harmonic mean."""
    df = seeds[0] - 1, seeds[1] - 1
    mean = 2 / (1 / df[0] + 1 / df[1])
    rows = _between(1 / mean, [*(1 / (n - 1) for n in SIZES), 0.0], _table()[name]) / sqrt(mean)
    # Interpolate in the normal quantile, to which the width of an interval is proportional.
    excess = _between(float(-ndtri(alpha / 2)), [float(-ndtri(a / 2)) for a in ALPHAS], rows)
    return _f_needed(df, alpha) + excess


def _between(at: float, places: list[float], rows: Floats) -> Floats:
    """Interpolate linearly between rows, constant beyond the outermost places."""
    order = np.argsort(places)
    flat = rows[order].reshape(len(places), -1)
    out = np.array([np.interp(at, np.array(places)[order], column) for column in flat.T])
    return out.reshape(rows.shape[1:])
