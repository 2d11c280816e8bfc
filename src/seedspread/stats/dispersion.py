"""Dispersion regression: the log variance of many cells on factors, and the sd that they may share.

A seed's absolute deviation from the median of its cell has a mean that is proportional to the cell's sd. It
is modeled by quasi-likelihood with a log link and one coefficient of variation for all cells, which the data
give: a double generalized linear model (G. K. Smyth, JRSS B 51 (1989) 47-60) in absolute deviations, since
in squared ones a test at 5% errs in 13% to 17% of experiments with t5 or gamma values (docs/statistics.md;
M. Davidian and R. J. Carroll, Variance function estimation, JASA 82 (1987) 1079-1091). Means are saturated:
each cell has its own, so that no effect on the mean can pass for one on the spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import exp, log

import numpy as np
from scipy.special import fdtrc, ndtri

from seedspread.stats.distributions import chi2_cdf, chi2_isf, chi2_sf, f_ppf
from seedspread.stats.groups import Floats, Group, same_seed_runs
from seedspread.stats.result import Estimate, Interval
from seedspread.stats.variance_ratio import FEWEST_PAIRS, FromJackknife, LogEstimate, from_medians, ratio_at

# With fewer seeds, no deviation in a cell varies.
FEWEST_IN_CELL = 3
_STEPS, _LONGEST_STEP, _CLOSE = 100, 1.0, 1e-12


def deviations(group: Group) -> Floats:
    """Return (k,) absolute deviations from medians by seed, in sds of normal values; NaN if there is none.

    An odd number of runs has its median among them: that deviation is always 0, and is left out (W. G. S.
    Hines and R. J. O. Hines, Biometrics 56 (2000) 451-454). A seed's deviations are averaged over blocks.
    """
    out = np.abs(from_medians(group))
    for block in group.cells:
        own = np.flatnonzero(group.blocks == block)
        out[own] /= _expected(len(own))
        if len(own) % 2:
            out[own[out[own].argmin()]] = np.nan
    known = ~np.isnan(out)
    sums = np.bincount(group.seed_index, np.where(known, out, 0.0))
    runs = np.bincount(group.seed_index, known)
    return np.where(runs > 0, sums / np.maximum(runs, 1), np.nan)


@cache
def _expected(n: int) -> float:
    """Return the mean absolute deviation of n normal values but the median, by Blom's approximation."""
    half = max(n // 2, 1)
    return float(-ndtri((np.arange(half) + 0.625) / (n + 0.25)).sum()) / half


class Dispersion:
    """The fit of log variance = x b over c cells.

    Args:
        cells: groups of at least `FEWEST_IN_CELL` seeds, each with some spread.
        x: (c, p) of full rank; a column of ones by default, which asks whether one variance fits all cells.
    """

    def __init__(self, cells: Sequence[Group], x: Floats | None = None) -> None:
        self.x = np.ones((len(cells), 1)) if x is None else x
        seeds = [deviations(cell) for cell in cells]
        kept = [each[~np.isnan(each)] for each in seeds]
        self.counts = np.array([float(len(each)) for each in kept])
        self.means = np.array([each.mean() for each in kept])
        self.inverse = np.linalg.inv(self.x.T @ (self.counts[:, None] * self.x))
        half = np.linalg.lstsq(self.x, np.log(self.means), rcond=None)[0]
        for _ in range(_STEPS):
            score = self.x.T @ (self.counts * (self.means / np.exp(self.x @ half) - 1))
            step = np.clip(self.inverse @ score, -_LONGEST_STEP, _LONGEST_STEP)
            half = half + step
            if np.abs(step).max() < _CLOSE:
                break
        self.b = 2 * half
        self.fitted = np.exp(self.x @ half)
        first = cells[0].seed_codes
        same = all(np.array_equal(first, cell.seed_codes) for cell in cells[1:])
        self.shared = len(cells) > 1 and same and len(first) >= FEWEST_PAIRS  # seeds are then blocks
        self.df, self.variation = self._variation(seeds)

    def _variation(self, seeds: Sequence[Floats]) -> tuple[float, float]:
        """Return the degrees of freedom and the squared coefficient of variation of a deviation.

        Seeds that all cells share are blocks: what a seed does to all of its deviations is taken out. The
        factor 1 + 1 / n makes up for the logarithm of few deviations; it was chosen by simulation.
        """
        unit = self.means / self.fitted
        residuals = [each / f - u for each, f, u in zip(seeds, self.fitted, unit, strict=True)]
        df = self.counts.sum() - len(seeds)
        if self.shared:
            table = np.stack(residuals)
            known = np.maximum((~np.isnan(table)).sum(axis=0), 1)
            residuals = list(table - np.nansum(table, axis=0) / known)
            df -= table.shape[1] - 1
        squares = sum(float(np.nansum(each**2)) for each in residuals)
        level = float(np.average(unit**2, weights=self.counts - 1))
        return float(df), squares / df / level * (1 + len(seeds) / self.counts.sum())

    @cached_property
    def covariance(self) -> Floats:
        """(p, p) covariance of the coefficients."""
        return np.asarray(4 * self.variation * self.inverse)

    def p(self, columns: slice) -> float:
        """Return the p value of some coefficients being 0 (Wald's F test)."""
        b, own = self.b[columns], self.covariance[columns, columns]
        return float(fdtrc(len(b), self.df, b @ np.linalg.solve(own, b) / len(b)))

    def estimate(self, contrast: Floats) -> FromJackknife:
        """Return the log variance ratio of a (p,) contrast of coefficients."""
        error = float(contrast @ self.covariance @ contrast) ** 0.5
        return FromJackknife(float(contrast @ self.b), error, self.df)

    @cached_property
    def left_over(self) -> tuple[float, int]:
        """F statistic of the variation among cells that the model leaves unexplained, with its df.

        It is the quasi-deviance: with a column of ones, the omnibus test of equal variances.
        """
        free = len(self.means) - self.x.shape[1]
        unit = self.means / self.fitted
        deviance = 2 * float((self.counts * (unit - 1 - np.log(unit))).sum())
        return deviance / max(free, 1) / self.variation, free

    @property
    def p_left_over(self) -> float:
        f, free = self.left_over
        return float(fdtrc(free, self.df, f)) if free else 1.0

    def variation_between(self, level: float) -> float:
        """Return the upper bound of the sd of the cells' true log variances, if these are a random sample."""
        f, free = self.left_over
        own = 4 * self.variation * len(self.counts) / self.counts.sum()
        excess = f / float(f_ppf(1 - level, free, self.df)) - 1
        return float((max(excess, 0.0) * own) ** 0.5)


# Few runs reveal little of their kurtosis, so it is averaged with this many runs of a prior kurtosis
# (benchmarks/spread.py).
_PRIOR_RUNS, PRIOR_KURTOSIS = 15, 2.0


@dataclass(frozen=True)
class SdEstimate:
    """The confidence distribution of a log variance, from the sd of a sample and its degrees of freedom."""

    sd: float
    df: float

    def above(self, log_variance: float) -> float:
        """Return the confidence that the true variance is larger."""
        return float(chi2_cdf(self.df * self.sd**2 * exp(-log_variance), self.df))

    def below(self, log_variance: float) -> float:
        """Return the confidence that the true variance is smaller."""
        return float(chi2_sf(self.df * self.sd**2 * exp(-log_variance), self.df))

    def quantile(self, probability: float) -> float:
        """Return the log variance that is above the true one with this confidence."""
        return log(self.sd**2 * self.df / float(chi2_isf(probability, self.df)))


def sd_of(estimate: LogEstimate, level: float) -> Estimate:
    """Return the sd, or the ratio of sds, and its central interval."""
    low, middle, high = (ratio_at(estimate, p) ** 0.5 for p in ((1 - level) / 2, 0.5, (1 + level) / 2))
    return Estimate(estimate.sd if isinstance(estimate, SdEstimate) else middle, Interval(low, high, level))


def pooled_sd(groups: Sequence[Group]) -> SdEstimate:
    """Return the sd within the cells of groups that share one; each needs two seeds, and one some spread.

    Its square has a scaled chi-square distribution with fewer degrees of freedom than normal values would
    give: 2 / (2 / df + k / n), for an excess kurtosis k of n runs (G. E. P. Box, Biometrika 40 (1953)
    318-335; D. G. Bonett, Computational Statistics & Data Analysis 50 (2006) 775-782). Runs that share a seed
    count by how much they agree.
    """
    first = np.cumsum([0, *(group.blocks.max() + 1 for group in groups)])
    blocks = np.concatenate([group.blocks + at for group, at in zip(groups, first, strict=False)])
    values = np.concatenate([group.values for group in groups])
    whole = Group("", values, blocks, np.concatenate([group.seeds for group in groups]))
    runs, squares = len(values), float((whole.residuals**2).sum())
    seen = runs * float((from_medians(whole) ** 4).sum()) / squares**2 - 3
    kurtosis = (runs * max(seen, 0.0) + _PRIOR_RUNS * PRIOR_KURTOSIS) / (runs + _PRIOR_RUNS)
    same_seed = same_seed_runs(whole)
    worth = 1.0 if same_seed is None else same_seed.effective_df / whole.df
    return SdEstimate(whole.within_variance**0.5, worth * degrees_of_freedom(whole.df, runs, kurtosis))


def degrees_of_freedom(df: float, runs: float, kurtosis: float) -> float:
    """Return those of a chi-square with the variance that log s² has at an excess kurtosis."""
    return 2 / (2 / df + kurtosis / runs)
