"""The difference of two log ratios that are known independently."""

import numpy as np
import pytest
from scipy import integrate, stats

from seedspread.stats.variance_ratio import FromJackknife, difference, interval_of, posterior_of

NORMAL = 1e9  # degrees of freedom


def test_of_two_normals_it_is_normal() -> None:
    found = difference(FromJackknife(2.0, 0.6, NORMAL), FromJackknife(0.5, 0.8, NORMAL))
    exact = stats.norm(1.5, 1.0)
    for p in (0.001, 0.025, 0.5, 0.975, 0.999):
        assert found.quantile(p) == pytest.approx(exact.ppf(p), abs=2e-3)
    assert found.above(0.0) == pytest.approx(exact.sf(0.0), abs=1e-4)
    assert found.below(-2.0) == pytest.approx(exact.cdf(-2.0), rel=0.02)


@pytest.mark.parametrize("df", [(2, 3), (4, 30), (9, 9)])
def test_of_two_t_statistics_it_is_their_convolution(df: tuple[int, int]) -> None:
    found = difference(FromJackknife(1.0, 0.5, df[0]), FromJackknife(0.2, 0.4, df[1]))
    first, second = stats.t(df[0], 1.0, 0.5), stats.t(df[1], 0.2, 0.4)
    for at in (-2.0, 0.0, 0.8, 3.0):
        exact, _ = integrate.quad(lambda x, at=at: second.pdf(x) * first.cdf(at + x), -np.inf, np.inf)
        assert found.below(at) == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("df", [2.0, 5.0, 40.0])
def test_a_t_statistic_keeps_its_quantiles(df: float) -> None:
    found, exact = FromJackknife(0.7, 0.3, df).distribution(), stats.t(df, 0.7, 0.3)
    for p in (0.005, 0.1, 0.5, 0.975):
        assert found.quantile(p) == pytest.approx(exact.ppf(p), abs=0.01)


def test_turned_round_it_changes_its_sign() -> None:
    rng = np.random.default_rng(0)
    present = np.ones((6, 2, 1), bool)
    first, second = (posterior_of(rng.normal(size=(1, 6, 2, 1)), present, True)[0] for _ in range(2))
    one, other = first.minus(second), second.minus(first)
    for p in (0.025, 0.5, 0.8):
        assert one.quantile(p) == pytest.approx(-other.quantile(1 - p), abs=1e-3)


@pytest.mark.parametrize(
    ("n", "paired"),
    [
        (5, True),
        *(pytest.param(*one, marks=pytest.mark.soak) for one in ((12, False), (5, False), (12, True))),
    ],
)
def test_its_interval_covers_the_ratio_of_ratios(n: int, paired: bool) -> None:
    """Ratios 2 and 6 in 300 pairs of sets: 95 % intervals must hold 3 in about as many."""
    rng, present = np.random.default_rng(n), np.ones((n, 2, 1), bool)
    found = []
    for ratio in (2.0, 6.0):
        shared = 0.7 * rng.normal(size=(300, n, 1, 1)) if paired else 0.0
        values = (rng.normal(size=(300, n, 2, 1)) + shared) * np.sqrt([ratio, 1.0])[:, None]
        found.append(posterior_of(values, present, paired))
    both = [second.minus(first) for first, second in zip(*found, strict=True)]
    covered = [min(one.below(np.log(3.0)), one.above(np.log(3.0))) > 0.025 for one in both]
    assert 0.92 <= np.mean(covered) <= 0.995


def test_of_many_seeds_it_is_what_the_variances_of_log_variances_add_up_to() -> None:
    """The log of a normal sample's variance has the variance 2 / (n - 1); the difference has four of them."""
    n = 400
    rng, present = np.random.default_rng(3), np.ones((n, 2, 1), bool)
    values = rng.normal(size=(2, 1, n, 2, 1))
    first, second = (posterior_of(v, present, False)[0] for v in values)
    spread = second.minus(first)
    sds = values.std(axis=2, ddof=1)[:, 0, :, 0] ** 2
    assert spread.quantile(0.5) == pytest.approx(
        np.log(sds[1, 0] / sds[1, 1]) - np.log(sds[0, 0] / sds[0, 1]), abs=0.06
    )
    width = spread.quantile(0.975) - spread.quantile(0.025)
    assert width == pytest.approx(2 * 1.96 * np.sqrt(8 / (n - 1)), rel=0.1)


def test_the_interval_is_that_of_the_ratio() -> None:
    found = interval_of(difference(FromJackknife(1.0, 0.3, NORMAL), FromJackknife(1.0, 0.4, NORMAL)), 0.95)
    assert found.low == pytest.approx(np.exp(-1.96 * 0.5), rel=0.01)
    assert found.high == pytest.approx(np.exp(1.96 * 0.5), rel=0.01)
