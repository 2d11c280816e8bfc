"""The posterior of a log variance ratio, on a grid: probabilities and quantiles."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp, stdtr, stdtrit

from seedspread.stats.arms import Floats
from seedspread.stats.scale.algebra import solve
from seedspread.stats.scale.layout import Layout
from seedspread.stats.scale.model import Fit

# Reciprocal degrees of freedom, and their prior: normal values with 2/5, tails down to 3.3 with 1/5 each.
TAILS = np.array([0.0, 0.1, 0.2, 0.3])
PRIOR = np.array([2.0, 1.0, 1.0, 1.0]) / 5
# Added to squared deviations, of an arm's variance: copies of a run, and arms that are multiples of each
# other, stay finite.
FLOOR = 1e-6
# Experiments that are fitted at once: as many as stay in the processor's cache.
BATCH = 32
# Points where the model is fitted and where it is interpolated: to 18 deviations, dense in the middle.
_FITTED, _INTERPOLATED, _WIDTH, _BEND = 19, 801, 18.0, 3.6
# The probability that may lie beyond the grid on either side.
_BEYOND = 1e-5


def _nodes(count: int) -> tuple[Floats, Floats]:
    even = np.linspace(-1, 1, count)
    return _WIDTH * np.sinh(_BEND * even) / np.sinh(_BEND), np.cosh(_BEND * even)


_NODES, _STEP = _nodes(_FITTED)
_FINE, _FINE_STEP = _nodes(_INTERPOLATED)
_EDGES = (_FINE[1:] + _FINE[:-1]) / 2  # between its points
_INTERPOLATE = CubicSpline(np.linspace(-1, 1, _FITTED), np.eye(_FITTED))(np.linspace(-1, 1, _INTERPOLATED))


@dataclass(frozen=True)
class Posterior:
    """Of the log variance ratios of a batch of experiments.

    Attributes:
        center, scale: (e,) where the grid lies.
        mass: (e, g) the probability of each of its points.
        tails: (e,) the mean of the reciprocal degrees of freedom.
    """

    center: Floats
    scale: Floats
    mass: Floats
    tails: Floats

    @cached_property
    def cumulative(self) -> Floats:
        """(e, g) the probability below each point, with half of its own."""
        return np.cumsum(self.mass, axis=1) - 0.5 * self.mass

    def below(self, log_ratio: float | Floats) -> Floats:
        """(e,) the probability that the log ratio is smaller."""
        at = (np.broadcast_to(log_ratio, self.center.shape) - self.center) / self.scale
        return np.array([np.interp(x, _FINE, row) for x, row in zip(at, self.cumulative, strict=True)])

    def above(self, log_ratio: float | Floats) -> Floats:
        """(e,) that it is larger; small ones are as exact as those below."""
        return Posterior(-self.center, self.scale, self.mass[:, ::-1], self.tails).below(
            -np.asarray(log_ratio)
        )

    def quantile(self, probability: float) -> Floats:
        """(e,) the log ratio that lies above so much of the posterior."""
        found = [np.interp(probability, row, _FINE) for row in self.cumulative]
        return self.center + self.scale * np.array(found)

    def shifted(self, log_ratio: Floats) -> "Posterior":
        """(e,) added to the log ratios."""
        return Posterior(self.center + log_ratio, self.scale, self.mass, self.tails)

    def only(self, place: int) -> "Posterior":
        """Of one experiment of the batch."""
        one = slice(place, place + 1)
        return Posterior(self.center[one], self.scale[one], self.mass[one], self.tails[one])

    def minus(self, other: "Posterior") -> "Posterior":
        """Of the difference from another one of as many experiments, the two being independent."""
        center, scale = self.center - other.center, np.hypot(self.scale, other.scale)
        ends = center[:, None] + scale[:, None] * _EDGES
        below = np.empty_like(ends)
        for k, end in enumerate(ends):
            points = other.center[k] + other.scale[k] * _FINE
            at = (end[:, None] + points - self.center[k]) / self.scale[k]
            below[k] = np.interp(at, _FINE, self.cumulative[k]) @ other.mass[k]
        mass = np.diff(below, axis=1, prepend=0.0, append=1.0)
        return Posterior(center, scale, mass, np.maximum(self.tails, other.tails))

    @staticmethod
    def of_t(log_ratio: float, std_error: float, df: float) -> "Posterior":
        """What a t statistic is sure of, as one experiment."""
        # The grid ends at 18 scales, and the tails of few degrees of freedom lie beyond 18 standard errors.
        scale = std_error * max(1.0, -float(stdtrit(df, _BEYOND)) / _WIDTH)
        below = stdtr(df, _EDGES * scale / std_error)
        mass = np.diff(below, prepend=0.0, append=1.0)[None]
        return Posterior(np.array([log_ratio]), np.array([scale]), mass, np.zeros(1))

    @property
    def p(self) -> Floats:
        """(e,) twice the smaller tail about a ratio of 1."""
        return 2 * np.minimum(self.below(0.0), self.above(0.0))


def posterior(
    layout: Layout, values: Floats, floor: Floats, tails: Floats = TAILS, prior: Floats = PRIOR
) -> Posterior:
    """Of (e, n, 2, b) values, 0 where there is no run; see `Fit` for `floor`."""
    best = Fit(layout, values, floor, np.zeros((len(values), 1)), tails)
    center, scale = _window(best, prior)
    fit = Fit(layout, values, floor, center[:, None] + scale[:, None] * _NODES, tails, near=best)
    tempered, evidence = _temper(fit.log_posterior, share_of_information(layout, tails))
    weights = evidence + np.log(prior)
    weights = weights - logsumexp(weights, axis=1, keepdims=True)
    log_density = logsumexp(tempered + weights[:, None], axis=2)
    density = np.exp(log_density @ _INTERPOLATE.T) * _FINE_STEP
    return Posterior(center, scale, density / density.sum(axis=1, keepdims=True), np.exp(weights) @ tails)


def posterior_of(values: Floats, present: NDArray[np.bool_], paired: bool) -> Posterior:
    """Of (e, n, 2, b) values as they are, without ties: for simulations."""
    counts = present.sum(axis=0)
    means = np.where(present, values, 0.0).sum(axis=1) / np.maximum(counts, 1)
    deviations = np.where(present, values - means[:, None], 0.0)
    variances = (deviations**2).sum(axis=(1, 3)) / (counts - 1).clip(0).sum(axis=1)
    standard = deviations / np.sqrt(variances)[:, None, :, None]
    out = [
        posterior(
            Layout(present, paired),
            standard[k : k + BATCH],
            np.full((len(standard[k : k + BATCH]), 2), FLOOR),
        )
        for k in range(0, len(standard), BATCH)
    ]
    fields = ("center", "scale", "mass", "tails")
    whole = Posterior(*(np.concatenate([getattr(part, name) for part in out]) for name in fields))
    return whole.shifted(np.log(variances[:, 0] / variances[:, 1]))


def _window(fit: Fit, prior: Floats) -> tuple[Floats, Floats]:
    """(e,) the mean and standard deviation of the posterior, roughly: a normal mixture over tails."""
    index = fit.index["ratio"]
    unit = np.zeros_like(fit.gradient)
    unit[index] = 1.0
    variance = (1 + 2 * fit.u) * solve(fit.caution, unit)[index, :, 0]
    best = fit.phi[index, :, 0]
    weights = np.exp(fit.log_posterior[:, 0] - fit.log_posterior[:, 0].max(axis=1, keepdims=True)) * prior
    weights = weights / weights.sum(axis=1, keepdims=True)
    center = (weights * best).sum(axis=1)
    return center, np.sqrt((weights * (variance + (best - center[:, None]) ** 2)).sum(axis=1))


def share_of_information(layout: Layout, tails: Floats) -> Floats:
    """(v,) the share of its likelihood that is believed, for each of the tails.

    A multivariate t gives all d runs of a seed one weight. If each arm has tails of its own, the variance of
    the estimate (the sandwich) leaves nu / (nu + d / 2) of the information that pairs seem to give. Half as
    much again is taken off because the tails are known from few seeds: without it, up to 9 % false alarms on
    contaminated pairs.
    """
    nu = 1 / np.maximum(tails, 1e-12)
    weighted, total = np.zeros_like(nu), 0
    for pattern in layout.patterns:
        d = sum(pattern.runs)
        runs = len(pattern.seeds) * d
        weighted += runs * (nu / (nu + 0.75 * d) if pattern.paired else 1.0)
        total += runs
    return weighted / total


def _temper(log_posterior: Floats, share: Floats) -> tuple[Floats, Floats]:
    """(e, t, v) log densities with that share of the information, and (e, v) the evidence for each tail."""
    log_step = np.log(_STEP)[:, None]
    evidence = logsumexp(log_posterior + log_step, axis=1)
    tempered = share * log_posterior
    return tempered - logsumexp(tempered + log_step, axis=1)[:, None], evidence
