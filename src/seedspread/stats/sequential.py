"""Interim looks at a growing study: exact boundaries, levels per look, and the number of seeds to expect.

The boundary at look k is c (n_K / n_k)^(1/2 - delta) standard errors (Wang and Tsiatis 1987): delta = 1/2
is Pocock's, 0 O'Brien and Fleming's. 1/4, between them, stops early for large effects and gives little away
at the end. The intervals of all looks together contain the true ratio as often as one interval at the end
would (repeated confidence intervals, Jennison and Turnbull 1989), whatever the rule is by which one stops.

The robust variance ratio is not exactly normal, and heavy tails make it err more often, at one look as at
many. So studies without a difference are simulated, and the boundaries widened by a factor until all looks
together err no more often than one look at the limit does: for normal, t5 and contaminated values alike.
Factors of common designs are in `sequential.json`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import cosh, log
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri, stdtr, stdtrit

from seedspread.stats.groups import Floats
from seedspread.stats.result import InterimLook
from seedspread.stats.variance_ratio import (
    FEWEST_PAIRS,
    LogRatioEstimate,
    Posterior,
    posterior_of,
    two_sided_p,
)

DELTA = 0.25
# Boundaries at which crossing probabilities are tabulated.
_GRID = np.linspace(0.0, 8.0, 41)
# Grid nodes per standard deviation of a step; their number is a multiple of the second.
_DENSE, _LOT = 2.5, 24
# The largest number of standard errors whose p value a float can represent.
_MOST = 37.0


def shape(sizes: tuple[int, ...], delta: float = DELTA) -> Floats:
    """Return the (looks,) boundaries for c = 1, in standard errors."""
    n = np.array(sizes, float)
    return np.asarray((n[-1] / n) ** (0.5 - delta))


def crossing(c: float, sizes: tuple[int, ...], delta: float = DELTA) -> float:
    """Return the probability that any look crosses its boundary, on either side, without a difference.

    `c` and `delta` are the boundary's constant and exponent. It is computed look by look from the density of
    the sum within the boundaries.
    P. Armitage, C. K. McPherson and B. C. Rowe, Repeated significance tests on accumulating data, Journal of
    the Royal Statistical Society A 132 (1969) 235-244.
    """
    steps = np.diff(np.array(sizes, float), prepend=0.0)
    ends = c * shape(sizes, delta) * np.sqrt(np.cumsum(steps))  # of the sum, at each look
    crossed, nodes, density, weights = 0.0, np.zeros(1), np.ones(1), np.ones(1)
    for end, sd in zip(ends, steps**0.5, strict=True):
        # Sums within the boundary so far that cross it now.
        beyond = ndtr((nodes - end) / sd) + ndtr((-nodes - end) / sd)
        crossed += float(weights @ (density * beyond))
        at, size = _rule(int(_DENSE * end / sd) // _LOT + 2)
        fresh = at * end
        kernel = np.exp(-0.5 * ((fresh[:, None] - nodes) / sd) ** 2) / ((2 * np.pi) ** 0.5 * sd)
        density = kernel @ (weights * density)
        nodes, weights = fresh, size * end
    return min(crossed, 1.0)


@cache
def _rule(lots: int) -> tuple[Floats, Floats]:
    return leggauss(lots * _LOT)


@lru_cache(maxsize=64)
def _log_crossing(sizes: tuple[int, ...]) -> PchipInterpolator:
    """Interpolate the log of `crossing` in c, which never increases."""
    return PchipInterpolator(_GRID, np.log([crossing(c, sizes) if c else 1.0 for c in _GRID]))


def _tabled_crossing(c: float, sizes: tuple[int, ...]) -> float:
    last = float(_GRID[-1])
    beyond = float(log_ndtr(-c) - log_ndtr(-last)) if c > last else 0.0
    return float(np.exp(_log_crossing(sizes)(min(c, last)) + beyond))


@lru_cache(maxsize=1024)
def critical(alpha: float, sizes: tuple[int, ...]) -> float:
    """Return the constant c of boundaries that any look crosses with probability `alpha`."""
    return float(brentq(lambda c: _tabled_crossing(c, sizes) - alpha, 0.0, _MOST)) if alpha < 1 else 0.0


def nominal_level(looks: InterimLook, alpha: float) -> float:
    """Return the two-sided level of this look alone with which all looks together have level `alpha`."""
    return float(2 * ndtr(-_boundary(looks) * critical(alpha, looks.sizes)))


def adjusted_p(looks: InterimLook, p: float) -> float:
    """Return the probability of a two-sided p value as extreme as this look's at any of the looks."""
    z = min(float(-ndtri(0.5 * p)), _MOST)
    return _tabled_crossing(z / _boundary(looks), looks.sizes)


def _boundary(looks: InterimLook) -> float:
    return looks.factor * float(shape(looks.sizes)[looks.number - 1])


@dataclass(frozen=True)
class AtLook:
    """An estimate whose tails are adjusted for interim looks: confidence in place of probability."""

    estimate: LogRatioEstimate
    looks: InterimLook

    def above(self, log_ratio: float) -> float:
        return self._tail(self.estimate.above(log_ratio), self.estimate.below(log_ratio))

    def below(self, log_ratio: float) -> float:
        return self._tail(self.estimate.below(log_ratio), self.estimate.above(log_ratio))

    def _tail(self, tail: float, other: float) -> float:
        if tail <= other:
            return 0.5 * adjusted_p(self.looks, min(2 * tail, 1.0))
        return 1 - 0.5 * adjusted_p(self.looks, min(2 * other, 1.0))

    def quantile(self, probability: float) -> float:
        tail = 0.5 * nominal_level(self.looks, 2 * min(probability, 1 - probability))
        return self.estimate.quantile(tail if probability < 0.5 else 1 - tail)

    def distribution(self) -> Posterior:
        """Return the whole distribution, without adjustment."""
        return self.estimate.distribution()


SHAPES = ("normal", "t5", "contaminated")


def simulated_values(shape: str, draws: int, seeds: int, rng: np.random.Generator) -> Floats:
    """Draw (draws, seeds, 2, 1) values of two uncorrelated groups with the same seeds and variance."""
    size = draws, seeds, 2, 1
    if shape == "t5":
        return rng.standard_t(5, size)
    wide = rng.random(size) < (0.1 if shape == "contaminated" else 0.0)
    return rng.standard_normal(size) * np.where(wide, 3.0, 1.0)


def posteriors(values: Floats, sizes: Sequence[int], shared: bool = True) -> Iterator[list[Posterior]]:
    """Yield the posteriors at each look, from the first seeds of (draws, seeds, 2, blocks) values."""
    for n in sizes:
        seen = values[:, :n]
        yield posterior_of(seen, np.ones(seen.shape[1:], bool), shared and n >= FEWEST_PAIRS)


def simulated_p_values(values: Floats, sizes: Sequence[int], shared: bool = True) -> Floats:
    """Return (draws, looks) p values of a ratio of 1."""
    return np.array([[*map(two_sided_p, found)] for found in posteriors(values, sizes, shared)]).T


TABLE = Path(__file__).with_name("sequential.json")
# Levels whose factors are averaged, since each rests on few experiments; the middle one also counts alone.
_ALPHAS = (0.02, 0.03, 0.05, 0.07, 0.1)
_BATCH = 100
# Simulated studies per shape.
DRAWS = 1000

# Called with the share of a simulation that is done.
Progress = Callable[[float], None]


def key(sizes: tuple[int, ...]) -> str:
    """Return the name of a design in `sequential.json`: `8 12 16 20`."""
    return " ".join(map(str, sizes))


def tabled_factor(sizes: tuple[int, ...]) -> float | None:
    """Return the factor for looks at these numbers of seeds; None if it must be simulated."""
    return 1.0 if len(sizes) == 1 else _table().get(key(sizes))


def simulated_factor(sizes: tuple[int, ...], progress: Progress = lambda _: None) -> float:
    """Simulate the factor for looks at these numbers of seeds per group, which takes minutes."""
    return factor_from(sizes, [_paths(name, sizes, progress) for name in SHAPES])


def factor_from(sizes: tuple[int, ...], paths: list[Floats]) -> float:
    """Return the factor from (draws, looks) p values of studies without a difference, one array per shape."""
    return max(1.0, *(_factor(sizes, p) for p in paths))


def _factor(sizes: tuple[int, ...], p: Floats) -> float:
    """Return the larger of the factor at 5% and the average over levels, which is more precise."""
    furthest = np.max(-ndtri(0.5 * p) / shape(sizes), axis=1)
    factors = []
    for alpha in _ALPHAS:
        errors = np.mean(p[:, -1] < alpha)  # of a single look at the limit
        if errors > 0:
            factors.append(np.quantile(furthest, 1 - errors) / critical(alpha, sizes))
    if not factors:
        return 1.0
    return float(np.ceil(1000 * max(np.mean(factors), factors[len(factors) // 2])) / 1000)


def _paths(name: str, sizes: tuple[int, ...], progress: Progress) -> Floats:
    place, batches = SHAPES.index(name), DRAWS // _BATCH
    out = []
    for batch in range(batches):
        rng = np.random.default_rng([place, batch, sizes[-1]])
        out.append(simulated_p_values(simulated_values(name, _BATCH, sizes[-1], rng), sizes))
        progress((place * batches + batch + 1) / (len(SHAPES) * batches))
    return np.concatenate(out)


@cache
def _table() -> dict[str, float]:
    return dict(json.loads(TABLE.read_text())["factors"])


_DRAWS = 2000
# The headline's z for normal values over that of Pitman and Morgan's test: 0.90 to 0.95 with 5 to 40 seeds,
# with correlated pairs and without.
_TAILS = 0.92
ALPHA = 0.05


class Expected(NamedTuple):
    """The expected end of a growing study."""

    seeds: float  # per group, on average
    met: float  # share of studies that end by their rule, not by their limit


def expected(
    sizes: tuple[int, ...],
    factor: float,
    ratio: float,
    *,
    precision: float | None = None,
    correlation: float = 0.0,
    comparisons: int = 1,
    equivalence: float = 2.0,
) -> Expected:
    """Simulate how many seeds a growing study will need, on normal values.

    Pitman and Morgan's test stands in for the headline, which takes minutes instead of milliseconds. On
    normal values they differ only in the power that the headline spends on heavy tails (`_TAILS`).

    Args:
        sizes: seeds per group at each look, rising; the last is the limit.
        factor: see `InterimLook`.
        ratio: true variance ratio, in every comparison.
        precision: the study ends once every ratio is known to this factor either way; without it, once every
            comparison is YES or NO.
        correlation: of the groups over their seeds.
        comparisons: number that must all be decided; the levels are shared among them.
        equivalence: variances that differ by no more than this factor count as alike.
    """
    rng = np.random.default_rng(21)
    alpha = ALPHA / comparisons
    ends, met = np.zeros(_DRAWS, int), np.ones(_DRAWS, bool)
    for _ in range(comparisons):
        found = enumerate(_simulated_studies(sizes, ratio, correlation, rng), 1)
        looks = ((InterimLook(sizes, number, factor / _TAILS), one) for number, one in found)
        decided = np.stack([_is_met(look, precision, *one, alpha, equivalence) for look, one in looks])
        ever = decided.any(axis=0)
        ends = np.maximum(ends, np.where(ever, decided.argmax(axis=0), len(sizes) - 1))
        met &= ever
    return Expected(float(np.mean(np.array(sizes)[ends])), float(np.mean(met)))


def _simulated_studies(
    sizes: tuple[int, ...], ratio: float, correlation: float, rng: np.random.Generator
) -> Iterator[tuple[Floats, Floats]]:
    """Yield at each look the (draws,) variance ratios of two groups, and their squared correlations."""
    x, own = rng.standard_normal((2, _DRAWS, sizes[-1]))
    y = correlation * x + (1 - correlation**2) ** 0.5 * own
    x = x * ratio**0.5
    sums = [np.cumsum(part, axis=1) for part in (x, y, x**2, y**2, x * y)]
    for n in sizes:
        x, y, xx, yy, xy = (part[:, n - 1] for part in sums)
        xx, yy, xy = xx - x**2 / n, yy - y**2 / n, xy - x * y / n
        yield xx / yy, xy**2 / (xx * yy)


def _is_met(
    looks: InterimLook, precision: float | None, f: Floats, r2: Floats, alpha: float, equivalence: float
) -> NDArray[np.bool_]:
    """Return (draws,) whether the rule is met at a look, by variance ratios and squared correlations."""
    n = looks.sizes[looks.number - 1]
    if precision is not None:  # the interval's ends, by inverting Pitman and Morgan's test
        t = stdtrit(n - 2, 0.5 * nominal_level(looks, alpha))
        return np.asarray(1 + 2 * (1 - r2) * t**2 / (n - 2) <= cosh(log(precision)))
    tail = np.minimum(_below(f, r2, n), _below(1 / f, r2, n))
    beyond = np.maximum(_below(f * equivalence, r2, n), _below(equivalence / f, r2, n))
    differs, alike = 2 * tail < nominal_level(looks, alpha), 2 * beyond < nominal_level(looks, 2 * alpha)
    return np.asarray(differs | alike)


def _below(f: Floats, r2: Floats, n: int) -> Floats:
    """Return the confidence that the true ratio is below 1, given a ratio `f` (Pitman and Morgan)."""
    r = (f - 1) / np.sqrt((f + 1) ** 2 - 4 * r2 * f)
    return np.asarray(stdtr(n - 2, -r * np.sqrt((n - 2) / np.maximum(1 - r**2, 1e-12))))
