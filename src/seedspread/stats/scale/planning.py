"""Planning by the test that judges: power and detectable ratios of the headline, from a table of simulations.

`seedspread bench planning --write` makes the table (`planning.json`): per design and size, and per alpha,
the log ratio that is detected in each share (`LEVELS`) of experiments. What it exceeds the F test's by,
times sqrt(n - 1), is interpolated in 1 / (n - 1); designs are interpolated in sqrt(1 - r^2) for pairs, r^2
for twins, 1 / b for blocks. Where a design departs in several ways, the factors are multiplied.
"""

import json
from dataclasses import dataclass
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
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
ALPHAS = (0.1, 0.05, 0.01, 0.001)
SHAPES = ("normal", "t5", "skewed", "bimodal")
CORRELATIONS = (0.0, 0.3, 0.6, 0.8, 0.9)
TWINS = (0.0, 0.5, 0.9)
BLOCKS = (2, 4)
_MOST_SEEDS = 100_000


def key(shape: str = "normal", pairs: float | None = None, blocks: int = 1, twins: float = 0.0) -> str:
    """What a design is called in the table."""
    words = [shape, *([] if pairs is None else [f"pairs {pairs:g}"])]
    return " ".join([*words, *([f"blocks {blocks} twins {twins:g}"] if blocks > 1 else [])])


@dataclass(frozen=True)
class Plan:
    """A design, apart from its number of seeds.

    Attributes:
        blocks: runs of each seed in each arm; more than four count as four.
        pairs: the correlation of the arms over shared seeds; None where the arms have seeds of their own.
        twins: the correlation of a seed's runs over blocks.
        alpha: level of the test.
        shape: of the values.
    """

    blocks: int = 1
    pairs: float | None = None
    twins: float = 0.0
    alpha: float = 0.05
    shape: str = "normal"

    def __post_init__(self) -> None:
        try:
            one_of("shape", self.shape, SHAPES)
        except ValueError as error:
            raise BudgetError(str(error)) from None
        if self.blocks < 1:
            raise BudgetError(f"there must be at least one block; got {self.blocks}")
        if not ALPHAS[-1] <= self.alpha <= ALPHAS[0]:
            raise BudgetError(f"alpha must lie between {ALPHAS[-1]:g} and {ALPHAS[0]:g}; got {self.alpha:g}")
        for name, correlation in (("pairs", self.pairs or 0.0), ("twins", self.twins)):
            if not -1 <= correlation <= 1:
                raise BudgetError(f"{name}: a correlation lies between -1 and 1; got {correlation:g}")

    @property
    def is_plain(self) -> bool:
        """Whether the F test would do: normal values, own seeds, one block."""
        return self.shape == "normal" and self.pairs is None and self.blocks == 1


PLAIN = Plan()


def power(ratio: float, seeds: tuple[int, int], plan: Plan = PLAIN) -> float:
    """How likely it is that the headline shows a true ratio of variances with so many seeds per arm."""
    if not 0 < ratio < inf:
        raise BudgetError(f"the ratio must be positive; got {ratio:g}")
    at = abs(log(ratio))
    needed = _needed(seeds if ratio > 1 else seeds[::-1], plan)
    if at < needed[-1]:
        return float(np.interp(at, [0.0, *needed], [plan.alpha, *LEVELS]))
    last, middle = stats.norm.ppf(LEVELS[-1]), np.interp(0.5, LEVELS, needed)  # beyond: as a normal tail
    return float(stats.norm.cdf(last * (at - middle) / (needed[-1] - middle)))


def detectable(seeds: tuple[int, int], wanted: float = 0.8, plan: Plan = PLAIN) -> float:
    """The smallest variance ratio above 1 that the headline shows with the `wanted` power."""
    _check(seeds, wanted, plan)
    return exp(float(np.interp(wanted, LEVELS, _needed(seeds, plan))))


def seeds_for(
    ratio: float, wanted: float = 0.8, reference_seeds: int | None = None, plan: Plan = PLAIN
) -> tuple[int, int]:
    """The fewest seeds per arm with which the headline shows a ratio; the reference's number may be fixed."""
    if not 0 < ratio < inf or ratio == 1:
        raise BudgetError(f"the ratio must be positive and not 1; got {ratio:g}")
    low, high = SIZES[0] - 1, SIZES[0]
    _check((high, reference_seeds or high), wanted, plan)

    def enough(n: int) -> bool:
        return power(ratio, (n, reference_seeds or n), plan) >= wanted

    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_SEEDS:
            limit = f" with {reference_seeds} reference seeds" if reference_seeds else ""
            raise BudgetError(f"no number of seeds up to {_MOST_SEEDS:,} detects a ratio of {ratio:g}{limit}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high, reference_seeds or high


def _check(seeds: tuple[int, int], wanted: float, plan: Plan) -> None:
    check_design(seeds, wanted, plan.alpha)
    if not LEVELS[0] <= wanted <= LEVELS[-1]:
        raise BudgetError(f"power must lie between {LEVELS[0]:g} and {LEVELS[-1]:g}; got {wanted:g}")


@cache
def _table() -> dict[str, Floats]:
    """(sizes, alphas, levels) of each design, less what the F test needs, times sqrt(df)."""
    content = json.loads(TABLE.read_text())
    exact = np.array([[_f_needed((n - 1, n - 1), alpha) for alpha in ALPHAS] for n in SIZES])
    root = np.sqrt(np.array(SIZES) - 1)[:, None, None]
    return {name: (np.array(rows) - exact) * root for name, rows in content.items() if name != "draws"}


def _f_needed(df: tuple[float, float], alpha: float) -> Floats:
    """(levels,) the log ratios that the F test detects in so many experiments with normal values."""
    out: Floats = np.log(stats.f.isf(alpha / 2, *df)) - np.log(stats.f.isf(np.array(LEVELS), *df))
    return out


def _needed(seeds: tuple[int, int], plan: Plan) -> Floats:
    """(levels,) the log ratios that so many experiments detect, where the first arm is the wider one."""
    if min(seeds) < SIZES[0]:
        raise BudgetError(f"the headline is planned for {SIZES[0]} seeds per arm or more; got {min(seeds)}")

    def at(**design: str | float) -> Floats:
        return np.maximum(_at(key(**design), seeds, plan.alpha), 1e-6)

    own = at()
    out = at(shape=plan.shape)
    if plan.pairs is not None:
        rows = np.array([*(at(pairs=r) for r in CORRELATIONS), 0 * own])
        places = [sqrt(1 - r**2) for r in (*CORRELATIONS, 1.0)]
        out = out * _between(sqrt(1 - plan.pairs**2), places, rows) / own
    if plan.blocks > 1:
        by_blocks = [
            own,
            *(
                _between(
                    plan.twins**2, [r**2 for r in TWINS], np.array([at(blocks=b, twins=r) for r in TWINS])
                )
                for b in BLOCKS
            ),
        ]
        out = out * _between(1 / plan.blocks, [1 / b for b in (1, *BLOCKS)], np.array(by_blocks)) / own
    return np.maximum.accumulate(out)


def _at(name: str, seeds: tuple[int, int], alpha: float) -> Floats:
    """(levels,) of a design of the table; unbalanced arms exceed F as their harmonic mean does."""
    df = seeds[0] - 1, seeds[1] - 1
    mean = 2 / (1 / df[0] + 1 / df[1])
    rows = _between(1 / mean, [1 / (n - 1) for n in SIZES], _table()[name]) / sqrt(mean)
    # In the normal quantile, which is what an interval's width goes with.
    excess = _between(float(stats.norm.isf(alpha / 2)), [float(stats.norm.isf(a / 2)) for a in ALPHAS], rows)
    return _f_needed(df, alpha) + excess


def _between(at: float, places: list[float], rows: Floats) -> Floats:
    """Linear between rows; beyond the last places, those of the last."""
    order = np.argsort(places)
    flat = rows[order].reshape(len(places), -1)
    out = np.array([np.interp(at, np.array(places)[order], column) for column in flat.T])
    return out.reshape(rows.shape[1:])
