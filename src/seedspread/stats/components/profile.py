"""Intervals from the profile of the restricted likelihood: they may begin at zero.

The profile of a component is the likelihood's maximum over all others, each at least zero. An interval holds
the values whose profile is within half a quantile of chi-square (1 df) of the maximum.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats
from scipy.interpolate import PchipInterpolator

from seedspread.stats.arms import Floats, Ints
from seedspread.stats.components.likelihood import Likelihood, maximise

# Values at which a profile is tabulated: far and near, the latter in standard errors.
_LOWEST = 1e-5
_FAR = np.concatenate([[0.0], np.logspace(-5, 5, 51)])
_SEVERAL = 40  # contrasts up to which several maxima are looked for
_NEAR = np.arange(-14, 15) / 4
_REFINED = 8
_POINTS = 200


@dataclass(frozen=True)
class Curve:
    """The profile of one component.

    Attributes:
        estimate: where it is highest.
        grid: where it was computed.
        drops: twice what it is below its maximum there.
    """

    estimate: float
    grid: Floats
    drops: Floats

    @cached_property
    def _smooth(self) -> PchipInterpolator:
        finite = np.isfinite(self.drops)
        return PchipInterpolator(np.log(self.grid[finite] + _LOWEST), self.drops[finite], extrapolate=False)

    def drop(self, at: Floats) -> Floats:
        """Between the points of the grid too; infinite beyond them."""
        out: Floats = self._smooth(np.log(at + _LOWEST))
        return np.where(np.isnan(out), np.inf, np.maximum(out, 0.0))

    def within(self, quantile: float) -> Floats:
        """(n,) rising points that cover the values at which the drop is at most `quantile`."""
        inside = np.flatnonzero(self.drops <= quantile)
        place = np.searchsorted(self.grid, self.estimate)
        first, last = min([place, *inside[:1]]) - 1, max([place, *inside[-1:]]) + 1
        ends = np.log(self.grid[[max(first, 0), min(last, len(self.grid) - 1)]] + _LOWEST)
        points = np.exp(np.linspace(ends[0], ends[1], _POINTS)) - _LOWEST
        return np.unique(np.append(np.maximum(points, 0.0), self.estimate))


def cut(level: float) -> float:
    """The quantile of chi-square, 1 df."""
    return float(stats.chi2.ppf(level, 1))


def fit(likelihood: Likelihood) -> tuple[Floats, float]:
    """(K,) the components where the likelihood is highest, from several starts, and its maximum."""
    k = likelihood.size
    starts = np.vstack([np.full(k, 1 / k), 0.02 + 0.9 * np.eye(k)])
    if k > 2:  # several factors, and few runs, may have several maxima
        starts = np.vstack([starts, np.random.default_rng(0).gamma(0.5, 1.0, (10 * k, k)) + 1e-3])
    found, values = maximise(likelihood, starts, np.ones_like(starts, dtype=bool), 0.0)
    best = int(np.argmax(values))
    return np.where(found[best] < 1e-9, 0.0, found[best]), float(values[best])


def profiles(likelihood: Likelihood, estimates: Floats, top: float) -> list[Curve]:
    """The profile of each component."""
    grids = _grids(likelihood, estimates)
    which = np.repeat(np.arange(len(grids)), [len(grid) for grid in grids])
    values = _profile(likelihood, estimates, which, np.concatenate(grids))
    drops = np.maximum(2 * (top - values), 0.0)
    return [Curve(float(estimates[i]), grid, drops[which == i]) for i, grid in enumerate(grids)]


def _grids(likelihood: Likelihood, estimates: Floats) -> list[Floats]:
    """Per component rising values at which to compute its profile, the estimate among them."""
    information = likelihood.at(estimates[None])[2][0]
    errors = 1 / np.sqrt(np.maximum(np.diag(information), 1e-12))
    out = []
    for estimate, error in zip(estimates, errors, strict=True):
        # Logarithmic above zero, as the profile is nearly a parabola there.
        near = estimate * np.exp(_NEAR * error / estimate) if estimate > error / 4 else error * _NEAR[15:]
        inside = near[(near > _FAR[1]) & (near < _FAR[-1])]
        far = _FAR if len(estimates) < 3 else _FAR[::2]
        out.append(np.unique(np.concatenate([[0.0], far, inside, [estimate]])))
    return out


def intervals(
    likelihood: Likelihood, estimates: Floats, top: float, curves: list[Curve], level: float
) -> list[tuple[float, float]]:
    """Per component the ends of its interval: zero where that is inside, infinity where nothing bounds it."""
    ends = [[0.0, np.inf] for _ in curves]
    brackets = [
        (i, side, *bracket)
        for i, curve in enumerate(curves)
        for side in (0, 1)
        if (bracket := _bracket(curve, side, cut(level))) is not None
    ]
    if brackets:
        which, _, low, high = (np.array(part) for part in zip(*brackets, strict=True))
        for _ in range(2):
            points = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, _REFINED)
            found = _profile(likelihood, estimates, np.repeat(which, _REFINED), points.ravel())
            excess = 2 * (top - found.reshape(points.shape)) - cut(level)
            low, high, end = _crossing(points, excess)
        for (i, side, *_), value in zip(brackets, end, strict=True):
            ends[i][side] = float(value)
    return [(low, high) for low, high in ends]


def _profile(likelihood: Likelihood, estimates: Floats, which: Ints, values: Floats) -> Floats:
    """(G,) the maximum over all other components where component `which` has this value."""
    k = likelihood.size
    starts = [estimates]
    if k > 2 and likelihood.contrasted <= _SEVERAL:
        starts += [np.full(k, 0.3), np.append(np.ones(k - 1), 0.0)]
    rows = np.arange(len(which))
    found = []
    for begin in starts:
        start = np.maximum(np.tile(begin, (len(which), 1)), 1e-3)
        start[rows, which] = values
        free = np.ones_like(start, dtype=bool)
        free[rows, which] = False
        found.append(maximise(likelihood, start, free, 1e-9)[1])
    out: Floats = np.max(found, axis=0)
    return out


def _bracket(curve: Curve, side: int, quantile: float) -> tuple[float, float] | None:
    """Two values between which the interval ends on this side; None where it has no end there."""
    inside = np.flatnonzero(curve.drops <= quantile)
    first = int(inside[0]) - 1 if side == 0 else int(inside[-1])
    if first < 0 or first + 1 >= len(curve.grid):
        return None
    return float(curve.grid[first]), float(curve.grid[first + 1])


def _crossing(points: Floats, excess: Floats) -> tuple[Floats, Floats, Floats]:
    """(B, P) points and what is above the quantile there -> (B,) neighbours of the change of sign, and it."""
    rows = np.arange(len(points))
    inside = excess <= 0
    change = np.argmax(inside[:, 1:] != inside[:, :-1], axis=1)
    low, high = points[rows, change], points[rows, change + 1]
    a, b = excess[rows, change], excess[rows, change + 1]
    with np.errstate(invalid="ignore"):
        share = np.where(np.isfinite(a) & np.isfinite(b) & (a != b), a / (a - b), 0.5)
    return low, high, low + np.clip(share, 0.0, 1.0) * (high - low)


@dataclass(frozen=True)
class Contrast:
    """A component of two arms: the intervals of their ratio and difference, and the p of no difference."""

    ratio: tuple[float, float]
    difference: tuple[float, float]
    p: float


def contrast(first: Curve, second: Curve, units: tuple[float, float], level: float) -> Contrast:
    """From the profile of both arms together, which is the sum of theirs: they have no component in common.

    Args:
        first: of the arm.
        second: of the baseline.
        units: of their curves, as variances.
        level: of the intervals.
    """
    quantile = cut(level)
    x = first.within(quantile)
    spent = first.drop(x)
    x, left = x[spent <= quantile] * units[0], quantile - spent[spent <= quantile]
    least, most = (side * units[1] for side in _reach(second, quantile, left))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where both may be zero, every ratio may be.
        high, low = np.where((x == 0) & (least == 0), np.inf, x / least), np.where(x == 0, 0.0, x / most)
    ends = float((x - most).min()), float((x - least).max())
    both = np.concatenate([first.within(quantile) * units[0], second.within(quantile) * units[1]])
    equal = float((first.drop(both / units[0]) + second.drop(both / units[1])).min())
    return Contrast((float(low.min()), float(high.max())), ends, float(stats.chi2.sf(equal, 1)))


def _reach(curve: Curve, quantile: float, drops: Floats) -> tuple[Floats, Floats]:
    """The least and the largest value at which the profile is `drops` below its maximum, or less."""
    points = curve.within(quantile)
    heights = curve.drop(points)
    top = int(np.searchsorted(points, curve.estimate))
    left, right = slice(top, None, -1), slice(top, None)
    beyond = np.inf if heights[-1] <= quantile else points[-1]
    return (
        np.interp(drops, np.maximum.accumulate(heights[left]), points[left]),
        np.interp(drops, np.maximum.accumulate(heights[right]), points[right], right=beyond),
    )
