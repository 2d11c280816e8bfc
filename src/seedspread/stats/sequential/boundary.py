"""How often looks at a growing mean stray beyond a boundary: exact, for normal values.

The boundary at look k is c (n_K / n_k)^(1/2 - delta) standard errors (Wang and Tsiatis 1987): delta = 1/2 is
Pocock's, 0 O'Brien and Fleming's. 1/4, between them, stops early for large effects and gives little away at
the end.
Computed look by look from the density of the sum within the boundaries (Armitage, McPherson and Rowe 1969).
"""

from functools import cache, lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri

from seedspread.stats.arms import Floats

DELTA = 0.25
# Boundaries beyond which chance is told from the last of them.
_GRID = np.linspace(0.0, 8.0, 41)
# Nodes of a density: so many for each standard deviation of a step, in such lots.
_DENSE, _LOT = 2.5, 24
# Standard errors: no p value of a number on a computer stands for more.
_MOST = 37.0


def shape(sizes: tuple[int, ...], delta: float = DELTA) -> Floats:
    """(looks,) the boundary at each look, for c = 1."""
    n = np.array(sizes, float)
    out: Floats = (n[-1] / n) ** (0.5 - delta)
    return out


def crossing(c: float, sizes: tuple[int, ...], delta: float = DELTA) -> float:
    """The chance that any look is beyond its boundary on either side, where there is nothing to see."""
    steps = np.diff(np.array(sizes, float), prepend=0.0)
    ends = c * shape(sizes, delta) * np.sqrt(np.cumsum(steps))  # of the sum, at each look
    crossed = 2 * float(ndtr(-ends[0] / steps[0] ** 0.5))
    nodes, density, weights = np.zeros(1), np.ones(1), np.ones(1)
    for k, (end, step) in enumerate(zip(ends, steps, strict=True)):
        if k:  # sums within the boundary so far that stray beyond it now
            sd = step**0.5
            beyond = ndtr((nodes - end) / sd) + ndtr((-nodes - end) / sd)
            crossed += float(weights @ (density * beyond))
        if k + 1 < len(steps):
            at, size = _rule(int(_DENSE * end / step**0.5) // _LOT + 2)
            fresh = at * end
            gaps = (fresh[:, None] - nodes) / step**0.5
            kernel = np.exp(-0.5 * gaps**2) / (2 * np.pi * step) ** 0.5
            density = kernel @ (weights * density)
            nodes, weights = fresh, size * end
    return min(crossed, 1.0)


@cache
def _rule(lots: int) -> tuple[Floats, Floats]:
    """Gauss and Legendre's nodes and weights."""
    return leggauss(lots * _LOT)


@lru_cache(maxsize=64)
def _log_crossing(sizes: tuple[int, ...]) -> PchipInterpolator:
    """By boundary; never rising."""
    return PchipInterpolator(_GRID, np.log([crossing(c, sizes) if c else 1.0 for c in _GRID]))


def over_looks(c: float, sizes: tuple[int, ...]) -> float:
    """The chance of `crossing`, from a table of it; two-sided."""
    last = float(_GRID[-1])
    beyond = float(log_ndtr(-c) - log_ndtr(-last)) if c > last else 0.0
    return float(np.exp(_log_crossing(sizes)(min(c, last)) + beyond))


@lru_cache(maxsize=1024)
def critical(alpha: float, sizes: tuple[int, ...]) -> float:
    """The boundary c that any look crosses with chance `alpha`: the inverse of `over_looks`."""
    return float(brentq(lambda c: over_looks(c, sizes) - alpha, 0.0, _MOST)) if alpha < 1 else 0.0


def deviations(p: float) -> float:
    """How many standard errors a two-sided p value stands for."""
    return min(float(-ndtri(0.5 * p)), _MOST)


def two_sided(z: float) -> float:
    """The p value of so many."""
    return float(2 * ndtr(-z))
