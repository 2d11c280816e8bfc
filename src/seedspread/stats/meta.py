"""The mean log variance ratio over datasets whose true ratios differ: a random-effects model on a grid.

Each dataset's posterior is used as it is, without a normal approximation: convolved with N(0, tau), it is the
likelihood of the mean. Priors: flat on the mean, half-normal with scale 1 on tau, the sd of the true log
ratios. Two or three datasets reveal next to nothing about tau from their scatter, so that intervals without a
prior are useless (Hartung and Knapp's may span a factor of a million) or too short.

C. Roever, Bayesian random-effects meta-analysis using the bayesmeta R package, Journal of Statistical
Software 93 (2020) 6. T. Friede, C. Roever, S. Wandel and B. Neuenschwander, Meta-analysis of few small
studies in orphan diseases, Research Synthesis Methods 8 (2017) 79-91.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.integrate import cumulative_trapezoid, trapezoid
from scipy.special import ndtr

from seedspread.stats.groups import Floats
from seedspread.stats.result import Interval
from seedspread.stats.variance_ratio import LogRatioEstimate

# Number of points for tau and for the mean, and how much they crowd near zero and near the common mean.
_TAUS, _MEANS, _BEND = 32, 161, 4.0
# How far the grid of tau extends beyond the scatter, and that of the means beyond the datasets (in taus).
_BEYOND, _MARGIN = 4.0, 3.0
# Points per standard deviation of the most precise dataset, and how many at most.
_PER_SD, _MOST_POINTS = 6, 512


@dataclass(frozen=True)
class RandomEffects:
    """The posterior of the mean log ratio of datasets like these, and of how much they differ."""

    log_ratio: float  # median of the mean
    interval: Interval  # of the mean, as a log ratio
    p: float  # twice the posterior probability that the mean lies on the other side of 0
    prediction: Interval  # of the log ratio of a further dataset
    tau: float  # posterior mean of the sd of the true log ratios


def random_effects(estimates: Sequence[LogRatioEstimate], level: float) -> RandomEffects:
    """Return the mean over two or more independent datasets, from the log variance ratio of each."""
    posteriors = [estimate.distribution() for estimate in estimates]
    ends = np.array([[d.quantile(q) for q in (1e-4, 0.16, 0.5, 0.84, 1 - 1e-4)] for d in posteriors]).T
    errors, low, high = (ends[3] - ends[1]) / 2, ends[0].min(), ends[4].max()
    points = np.linspace(low, high, min(int(np.ceil(_PER_SD * (high - low) / errors.min())), _MOST_POINTS))
    mass = np.exp([d.log_density(points) for d in posteriors])  # (k, points)

    scatter = ((ends[2] - ends[2].mean()) ** 2).sum()
    taus, tau_widths = _crowded(_TAUS, 0.0, _BEND)
    largest = _BEYOND + min(scatter**0.25, (scatter / (len(mass) - 1)) ** 0.5)
    taus, tau_widths = largest * taus, largest * tau_widths
    common = np.average(ends[2], weights=errors**-2)
    reach = max(high - common, common - low) + _MARGIN * largest
    bend = float(np.arcsinh(reach / (errors**-2).sum() ** -0.5))
    means, mean_widths = (reach * x for x in _crowded(_MEANS, -bend, bend))
    means = common + means

    # Slightly more than tau, so that its kernel is smooth on these points.
    smooth = np.hypot(taus, 0.6 * (points[1] - points[0]))
    squares = -0.5 * (points[:, None] - means) ** 2
    logs = []
    for s in smooth:
        likelihoods = np.maximum(mass @ np.exp(squares / s**2), 1e-300)  # (k, means)
        logs.append(np.log(likelihoods).sum(axis=0) - len(mass) * np.log(s))
    joint = np.array(logs) - 0.5 * taus[:, None] ** 2  # the prior of tau
    joint = np.exp(joint - joint.max()) * tau_widths[:, None] * mean_widths
    of_mean = trapezoid(joint, axis=0)
    return _summary(taus, means, joint / trapezoid(of_mean), level)


def _crowded(count: int, low: float, high: float) -> tuple[Floats, Floats]:
    """Return points of a sinh from `low` to `high`, the last of which is 1, and the width of each."""
    even = np.linspace(low, high, count)
    return np.sinh(even) / np.sinh(high), np.cosh(even) / np.sinh(high) * (even[1] - even[0])


def _summary(taus: Floats, means: Floats, joint: Floats, level: float) -> RandomEffects:
    """Summarize the (taus, means) joint probabilities, which are in units of the grid's steps."""
    of_mean, of_tau = trapezoid(joint, axis=0), trapezoid(joint, axis=1)
    below = float(np.interp(0.0, means, _below(of_mean)))
    above = float(np.interp(0.0, -means[::-1], _below(of_mean[::-1])))
    tail = (1 - level) / 2
    low, high = np.interp([tail, 1 - tail], _below(of_mean), means)
    sds = np.maximum(taus, 1e-9)[:, None]

    def excess(at: float, probability: float) -> float:
        return float(trapezoid(trapezoid(ndtr((at - means) / sds) * joint))) - probability

    span = means[0] - 9 * taus[-1], means[-1] + 9 * taus[-1]
    ends = [float(optimize.brentq(excess, *span, args=(q,), xtol=1e-6)) for q in (tail, 1 - tail)]
    return RandomEffects(
        log_ratio=float(np.interp(0.5, _below(of_mean), means)),
        interval=Interval(float(low), float(high), level),
        p=min(2 * min(below, above), 1.0),
        prediction=Interval(ends[0], ends[1], level),
        tau=float(trapezoid(of_tau * taus)),
    )


def _below(density: Floats) -> Floats:
    return np.asarray(cumulative_trapezoid(density, initial=0.0))
