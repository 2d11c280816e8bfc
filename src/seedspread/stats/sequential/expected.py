"""How many seeds a growing study will take, on normal values.

Pitman and Morgan's test stands in for the headline, which is the same on normal values but for what it gives
away to tails (`_TAILS`), and takes milliseconds where the headline takes minutes.
"""

from dataclasses import dataclass
from math import cosh, log

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from seedspread.stats.arms import Floats
from seedspread.stats.result import Looks
from seedspread.stats.sequential.looks import nominal

_DRAWS = 2000
# The headline's deviations of normal values over those of Pitman and Morgan's test: 0.90 to 0.95 with 5 to 40
# seeds, with pairs that correlate and without.
_TAILS = 0.92
ALPHA = 0.05


@dataclass(frozen=True)
class SoFar:
    """What is known of two arms already: their number of seeds, variance ratio and correlation."""

    seeds: int
    ratio: float
    correlation: float


@dataclass(frozen=True)
class Expected:
    """Of a growing study.

    Attributes:
        seeds: per arm, on average.
        met: the share of studies that end by their rule, not by their limit.
    """

    seeds: float
    met: float


def expected(
    sizes: tuple[int, ...],
    factor: float,
    ratio: float,
    *,
    precision: float | None = None,
    correlation: float = 0.0,
    comparisons: int = 1,
    equivalence: float = 2.0,
    so_far: SoFar | None = None,
) -> Expected:
    """From simulated studies.

    Args:
        sizes: seeds per arm at each look, rising, the last the most that there may be.
        factor: see `Looks`.
        ratio: of the variances, in every comparison.
        precision: the study ends once every ratio is known to this factor either way; without it, once every
            ratio is shown to differ from 1, or shown to be near it.
        correlation: of the arms over their seeds.
        comparisons: that must all be decided; the levels are shared among them.
        equivalence: variances that differ by no more than this factor count as alike.
        so_far: the first seeds, and which ratio they show; else from the first seed on.
    """
    rng = np.random.default_rng(21)
    alpha = ALPHA / comparisons
    ends, met = np.zeros(_DRAWS, int), np.ones(_DRAWS, bool)
    for _ in range(comparisons):
        studies = _Studies(sizes[-1], ratio, correlation, so_far, rng)
        looks = [Looks(sizes, k + 1, factor / _TAILS) for k in range(len(sizes))]
        decided = np.stack([_is_met(look, precision, studies, alpha, equivalence) for look in looks])
        ever = decided.any(axis=0)
        ends = np.maximum(ends, np.where(ever, decided.argmax(axis=0), len(sizes) - 1))
        met &= ever
    return Expected(float(np.mean(np.array(sizes)[ends])), float(np.mean(met)))


def _is_met(
    looks: Looks, precision: float | None, studies: "_Studies", alpha: float, equivalence: float
) -> NDArray[np.bool_]:
    """(draws,) whether the rule is met at a look that is still to come."""
    n = looks.sizes[looks.number - 1]
    if n <= studies.seen:
        return np.zeros(_DRAWS, bool)
    f, r2 = studies.first(n)
    if precision is not None:  # the interval's ends, from Pitman and Morgan's test turned round
        t = stdtrit(n - 2, 0.5 * nominal(looks, alpha))
        narrow: NDArray[np.bool_] = 1 + 2 * (1 - r2) * t**2 / (n - 2) <= cosh(log(precision))
        return narrow
    tail = np.minimum(_below(f, r2, n), _below(1 / f, r2, n))
    beyond = np.maximum(_below(f * equivalence, r2, n), _below(equivalence / f, r2, n))
    decided: NDArray[np.bool_] = (2 * tail < nominal(looks, alpha)) | (
        beyond < 0.5 * nominal(looks, 2 * alpha)
    )
    return decided


def _below(f: Floats, r2: Floats, n: int) -> Floats:
    """The confidence that the true ratio is below 1, where `f` is seen (Pitman and Morgan)."""
    r = (f - 1) / np.sqrt((f + 1) ** 2 - 4 * r2 * f)
    out: Floats = stdtr(n - 2, -r * np.sqrt((n - 2) / np.maximum(1 - r**2, 1e-12)))
    return out


class _Studies:
    """Simulated studies of two arms, which may begin with seeds that are known.

    Attributes:
        seen: how many of those there are.
    """

    def __init__(
        self, limit: int, ratio: float, correlation: float, so_far: SoFar | None, rng: np.random.Generator
    ) -> None:
        self.seen = 0 if so_far is None else so_far.seeds
        x, own = rng.standard_normal((2, _DRAWS, max(limit - self.seen, 0)))
        y = correlation * x + (1 - correlation**2) ** 0.5 * own
        x = x * ratio**0.5
        self._sums = [np.cumsum(part, axis=1) for part in (x, y, x**2, y**2, x * y)]
        self._before = (0.0,) * 5
        if so_far is not None:
            df, covariance = so_far.seeds - 1, so_far.correlation * so_far.ratio**0.5
            self._before = (0.0, 0.0, df * so_far.ratio, float(df), df * covariance)

    def first(self, n: int) -> tuple[Floats, Floats]:
        """(draws,) the variance ratio of the first n seeds, and their squared correlation."""
        at = n - self.seen - 1
        x, y, xx, yy, xy = (b + s[:, at] for b, s in zip(self._before, self._sums, strict=True))
        xx, yy, xy = xx - x**2 / n, yy - y**2 / n, xy - x * y / n
        return xx / yy, xy**2 / (xx * yy)
