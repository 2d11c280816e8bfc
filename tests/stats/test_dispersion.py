"""The dispersion regression and the sd of groups, against statsmodels, scipy and direct likelihoods."""

from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize, stats

from seedspread.stats.dispersion import (
    Dispersion,
    SdEstimate,
    degrees_of_freedom,
    deviations,
    pooled_sd,
    sd_of,
)
from seedspread.stats.groups import Floats, Group

_DESIGN = np.array(list(product((1.0, -1.0), (1.0, -1.0), (-1.0, 0.0, 1.0))))
_X = np.column_stack([np.ones(12), _DESIGN, _DESIGN[:, 0] * _DESIGN[:, 1]])


def _cells(values: Floats, shared: bool = False) -> list[Group]:
    n = values.shape[1]
    return [Group.of(row, np.arange(n) + (0 if shared else k * n)) for k, row in enumerate(values)]


def _drawn(seed: int, n: int, log_variances: Floats) -> Floats:
    return (
        np.random.default_rng(seed).normal(size=(len(log_variances), n)) * np.exp(log_variances / 2)[:, None]
    )


@pytest.mark.parametrize("n", [7, 10])
def test_coefficients_are_those_of_statsmodels_gamma_regression(n: int) -> None:
    cells = _cells(_drawn(n, n, _X @ [0.3, 1.0, 0.0, 0.4, -0.5]))
    seeds = [deviations(cell) for cell in cells]
    y = np.concatenate([each[~np.isnan(each)] for each in seeds])
    rows = np.concatenate([np.full((~np.isnan(each)).sum(), k) for k, each in enumerate(seeds)])
    family = sm.families.Gamma(sm.families.links.Log())
    glm = sm.GLM(y, _X[rows], family=family).fit(tol=1e-12, maxiter=200)
    fit = Dispersion(cells, _X)
    np.testing.assert_allclose(fit.b, 2 * glm.params, atol=1e-6)
    # The cells' part of the deviance, in units of the same variation.
    whole = sm.GLM(y, np.eye(12)[rows], family=family).fit(tol=1e-12, maxiter=200)
    f, df = fit.left_over
    assert df == 7
    assert f * fit.variation * df == pytest.approx(glm.deviance - whole.deviance, rel=1e-6)


def _reml(values: Floats, x: Floats) -> Floats:
    """Smyth's double GLM by its restricted likelihood, saturated means: sums of squares are chi-square."""
    n, squares = values.shape[1], values.var(axis=1, ddof=1)

    def minus(b: Floats) -> float:
        return float(((n - 1) / 2 * (x @ b + squares / np.exp(x @ b))).sum())

    return np.asarray(optimize.minimize(minus, np.zeros(x.shape[1]), tol=1e-12).x)


def test_normal_values_give_the_effects_of_the_double_glm() -> None:
    """Absolute deviations are 88% as efficient as squares: with 200 seeds per cell they nearly agree."""
    values = _drawn(3, 200, _X @ [0.0, 0.8, -0.4, 0.3, 0.2])
    fit, reml = Dispersion(_cells(values), _X), _reml(values, _X)
    np.testing.assert_allclose(fit.b, reml, atol=0.09)
    errors = np.sqrt(np.diag(fit.covariance))
    by_squares = np.sqrt(np.diag(np.linalg.inv(_X.T @ _X * 199 / 2)))
    np.testing.assert_allclose(errors / by_squares, 0.88**-0.5, rtol=0.08)


def test_deviations_of_normal_values_estimate_the_sd_whatever_their_number() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 4, 5, 8, 9):
        found = [np.nanmean(deviations(Group.of(rng.normal(size=n)))) for _ in range(800)]
        assert np.mean(found) == pytest.approx(1.0, abs=0.04)


def test_a_seed_in_two_blocks_is_one_deviation() -> None:
    values = np.random.default_rng(1).normal(size=8)
    one = Group.of(values)
    twice = Group("", np.tile(values, 2), np.repeat([0, 1], 8), np.tile(np.arange(8), 2), ((), ()))
    np.testing.assert_allclose(deviations(twice), deviations(one))


@pytest.mark.parametrize("shape", ["t5", "gamma"])
def test_the_omnibus_test_keeps_its_level_where_bartletts_does_not(shape: str) -> None:
    rng, ours, bartlett = np.random.default_rng(5), 0, 0
    for _ in range(150):
        values = rng.standard_t(5, (10, 10)) if shape == "t5" else rng.gamma(2.0, size=(10, 10))
        ours += Dispersion(_cells(values)).p_left_over < 0.05
        bartlett += stats.bartlett(*values).pvalue < 0.05
    assert ours <= 16  # 5% are 7.5, with a standard error of 2.7
    assert bartlett > 45


def test_shared_seeds_that_scale_alike_are_blocks() -> None:
    """A seed that is far off in every cell is far off once: contrasts of cells are known better for it."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=10) + 0.2 * rng.normal(size=(12, 10))
    apart, together = Dispersion(_cells(values), _X), Dispersion(_cells(values, shared=True), _X)
    assert together.shared
    assert not apart.shared
    np.testing.assert_allclose(together.b, apart.b)
    assert together.variation < 0.6 * apart.variation


def test_the_interval_of_an_sd_is_chi_square() -> None:
    low, high = np.sqrt(9 * 4.0 / stats.chi2.ppf([0.975, 0.025], 9))
    found = sd_of(SdEstimate(2.0, 9.0), 0.95)
    assert found.value == 2.0
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert degrees_of_freedom(9, 10, 0.0) == 9


def test_groups_of_equal_sd_are_pooled_and_copies_add_nothing() -> None:
    values = _drawn(6, 12, np.zeros(5))
    pooled = pooled_sd(_cells(values))
    assert pooled.sd == pytest.approx(values.var(axis=1, ddof=1).mean() ** 0.5)
    assert 30 < pooled.df < 55
    copies = pooled_sd(_cells(np.tile(values[0], (5, 1)), shared=True))
    assert copies.df == pytest.approx(pooled_sd(_cells(values[:1])).df, rel=0.35)
