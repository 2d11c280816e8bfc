"""The sd over seeds of one group, or the one that several groups share, with its interval.

Its square has a scaled chi-square distribution with fewer degrees of freedom than normal values would give:
2 / (2 / df + k / n), for an excess kurtosis k of n runs (G. E. P. Box, Biometrika 40 (1953) 318-335; D. G.
Bonett, Computational Statistics & Data Analysis 50 (2006) 775-782). Runs that share a seed count by how much
they agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy import stats

from seedspread.stats.groups import Group, same_seed_runs
from seedspread.stats.result import Estimate, Interval
from seedspread.stats.variance_ratio import LogEstimate, from_medians, ratio_at

# Few runs hardly show their kurtosis: it counts as if so many more had this one (benchmarks/spread.py).
_PRIOR_RUNS, PRIOR_KURTOSIS = 15, 2.0


@dataclass(frozen=True)
class SdEstimate:
    """The confidence in logarithms of a variance, by the sd of a sample and its degrees of freedom."""

    sd: float
    df: float

    def above(self, log_variance: float) -> float:
        """Return the confidence that the true variance is larger."""
        return float(stats.chi2.cdf(self.df * self.sd**2 * exp(-log_variance), self.df))

    def below(self, log_variance: float) -> float:
        """Return the confidence that it is smaller."""
        return float(stats.chi2.sf(self.df * self.sd**2 * exp(-log_variance), self.df))

    def quantile(self, probability: float) -> float:
        """Return the log variance below which the true one lies with so much confidence."""
        return log(self.sd**2 * self.df / float(stats.chi2.isf(probability, self.df)))


def sd_of(estimate: LogEstimate, level: float) -> Estimate:
    """Return the sd, or the ratio of sds, and its central interval."""
    low, middle, high = (ratio_at(estimate, p) ** 0.5 for p in ((1 - level) / 2, 0.5, (1 + level) / 2))
    return Estimate(estimate.sd if isinstance(estimate, SdEstimate) else middle, Interval(low, high, level))


def pooled_sd(groups: Sequence[Group]) -> SdEstimate:
    """Return the sd within the cells of groups that share one; each needs two seeds, and one some spread."""
    first = np.cumsum([0, *(group.blocks.max() + 1 for group in groups)])
    blocks = np.concatenate([group.blocks + at for group, at in zip(groups, first, strict=False)])
    values = np.concatenate([group.values for group in groups])
    whole = Group("", values, blocks, np.concatenate([group.seeds for group in groups]))
    runs, squares = len(values), float((whole.residuals**2).sum())
    seen = runs * float((from_medians(whole) ** 4).sum()) / squares**2 - 3
    twins = same_seed_runs(whole)
    worth = 1.0 if twins is None else twins.effective_df / whole.df
    return SdEstimate(
        whole.within_variance**0.5, worth * degrees_of_freedom(whole.df, runs, _shrunken(runs, seen))
    )


def _shrunken(runs: float, kurtosis: float) -> float:
    return (runs * max(kurtosis, 0.0) + _PRIOR_RUNS * PRIOR_KURTOSIS) / (runs + _PRIOR_RUNS)


def degrees_of_freedom(df: float, runs: float, kurtosis: float) -> float:
    """Return those of a chi-square with the variance that log s² has at an excess kurtosis."""
    return 2 / (2 / df + kurtosis / runs)
