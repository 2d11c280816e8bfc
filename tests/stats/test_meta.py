"""The random-effects mean against numerical integration, and what it must obey."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtr

from seedspread.stats.meta import RandomEffects, random_effects
from seedspread.stats.variance_ratio import FromJackknife

# (estimate, standard error): two that are far from 0, three of which one is an outlier, and the eight schools
# of Rubin (1981) in tens of points.
NORMAL = [
    [(1.93, 0.5), (3.04, 0.6)],
    [(0.1, 0.2), (-0.1, 0.3), (1.4, 0.25)],
    [(2.839, 1.49), (0.794, 1.02), (-0.275, 1.63), (0.682, 1.1), (-0.064, 0.94), (0.063, 1.14), (1.801, 1.04),
     (1.216, 1.76)],
]  # fmt: skip


def pooled(known: list[tuple[float, float]], df: float = np.inf) -> RandomEffects:
    return random_effects([FromJackknife(y, error, df) for y, error in known], 0.95)


@pytest.mark.parametrize("known", NORMAL)
def test_normal_estimates_give_the_double_integral(known: list[tuple[float, float]]) -> None:
    """By scipy's adaptive integration over the mean and tau, of the densities as they are written."""
    y, error = np.array(known).T

    def density(mean: float, tau: float) -> float:
        sd = np.sqrt(error**2 + tau**2)
        return float(np.exp(-0.5 * (((y - mean) / sd) ** 2).sum() - 0.5 * tau**2) / sd.prod())

    def expected(value: str, at: float = 0.0) -> float:
        def weighted(mean: float, tau: float) -> float:
            further = ndtr((at - mean) / tau) if value == "further" else 1.0
            return density(mean, tau) * (tau if value == "tau" else further)

        high = at if value == "mean" else 12.0
        return float(integrate.dblquad(weighted, 1e-9, 6.0, -12.0, high, epsabs=1e-6, epsrel=1e-4)[0])

    found, whole = pooled(known), expected("all")
    assert expected("mean", found.log_ratio) / whole == pytest.approx(0.5, abs=0.002)
    assert expected("mean", found.interval.low) / whole == pytest.approx(0.025, abs=0.001)
    assert expected("mean", found.interval.high) / whole == pytest.approx(0.975, abs=0.001)
    assert expected("further", found.prediction.low) / whole == pytest.approx(0.025, abs=0.001)
    assert expected("further", found.prediction.high) / whole == pytest.approx(0.975, abs=0.001)
    assert found.tau == pytest.approx(expected("tau") / whole, rel=0.005)
    side = expected("mean", 0.0) / whole
    assert found.p == pytest.approx(2 * min(side, 1 - side), rel=0.03)


def test_other_shapes_of_estimates_stand_as_they_are() -> None:
    """Student's t with 4 degrees of freedom, summed on a plain grid over true ratios, means and taus."""
    known = [(0.2, 0.4), (2.5, 0.5), (1.0, 0.3)]
    true, means, taus = np.linspace(-8, 10, 451), np.linspace(-8, 10, 181), np.arange(0.025, 5, 0.05)
    joint = np.exp(-0.5 * taus[:, None] ** 2) * np.ones_like(means)
    for y, error in known:
        likelihood = stats.t.pdf((true - y) / error, 4)
        joint *= [likelihood @ stats.norm.pdf(true[:, None], means, tau) for tau in taus]
    below = np.cumsum(joint.sum(axis=0)) / joint.sum()
    found = pooled(known, 4)
    ends = [found.interval.low, found.log_ratio, found.interval.high]
    assert np.interp(ends, means + 0.05, below) == pytest.approx([0.025, 0.5, 0.975], abs=0.003)
    assert found.tau == pytest.approx(joint.sum(axis=1) @ taus / joint.sum(), rel=0.02)


ESTIMATES = st.lists(
    st.tuples(st.floats(-5, 5), st.floats(0.05, 3)), min_size=2, max_size=9, unique_by=lambda x: x[0]
)


@settings(max_examples=10, deadline=None)
@given(ESTIMATES, st.floats(-3, 3), st.floats(3, 50))
def test_it_moves_and_turns_with_the_datasets(
    known: list[tuple[float, float]], shift: float, df: float
) -> None:
    found = pooled(known, df)
    moved = pooled([(y + shift, error) for y, error in known], df)
    turned = pooled([(-y, error) for y, error in known], df)
    width = found.interval.high - found.interval.low
    for name in ("interval", "prediction"):
        one, other, mirror = (getattr(each, name) for each in (found, moved, turned))
        assert [other.low, other.high] == pytest.approx([one.low + shift, one.high + shift], abs=0.01 * width)
        assert [mirror.low, mirror.high] == pytest.approx([-one.high, -one.low], abs=0.01 * width)
    assert found.prediction.low <= found.interval.low < found.log_ratio
    assert found.log_ratio < found.interval.high <= found.prediction.high
    assert found.tau > 0
    assert (found.p < 0.05) == (0 not in found.interval) or abs(found.p - 0.05) < 0.002


def test_an_outlier_among_many_precise_datasets_is_not_ignored() -> None:
    """Normal likelihoods have no room for it at tau = 0, however many others agree."""
    agree = [(0.02 * k, 0.1) for k in range(-5, 6)]
    for outlier in (3.0, -3.0):
        assert pooled([*agree, (outlier, 0.1)]).tau > 0.6
    assert pooled(agree).tau < 0.1
