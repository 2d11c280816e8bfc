"""Past runs as a yardstick: a bound for single runs, and a test of new runs' mean.

Higher values are better throughout, so worse runs lie below.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from math import comb, log1p, sqrt

import numpy as np
from scipy import stats

from seedspread.stats.groups import Floats
from seedspread.stats.headline import FEWEST_SEEDS

# Shapiro and Wilk's p below which past runs don't count as normal.
_NOT_NORMAL = 0.05
# Random regroupings of a permutation test, and runs beyond which they are drawn with replacement.
_REGROUPINGS, _MANY = 9_999, 1_000
# The mean's share of the level if the spread is tested too.
MEAN_SHARE = 0.95


@cache
def tolerance_factor(n: int, share: float, confidence: float) -> float:
    """Return k such that at most `share` of a normal population lies below mean - k sd, with confidence."""
    shift = float(stats.norm.isf(share)) * sqrt(n)
    return float(stats.nct.ppf(confidence, n - 1, shift)) / sqrt(n)


@cache
def order_rank(n: int, share: float, confidence: float) -> int:
    """Return which of n sorted runs bounds at most `share` of any population, with confidence; 0 if none.

    S. S. Wilks, Determination of sample sizes for setting tolerance limits, Annals of Mathematical
    Statistics 12 (1941) 91-96.
    """
    return int(np.sum(stats.binom.sf(np.arange(n), n, share) >= confidence))


def fewest_runs(share: float, confidence: float) -> int:
    """Return how many runs a distribution-free bound takes: 59 for 5%, 299 for 1%, with 95% confidence."""
    return int(np.ceil(log1p(-confidence) / log1p(-share)))


def is_normal(values: Floats) -> bool:
    """Return whether (n,) values, n >= 3, are compatible with a normal distribution."""
    return bool(np.ptp(values) > 0 and stats.shapiro(values).pvalue >= _NOT_NORMAL)


@dataclass(frozen=True)
class Bound:
    """A value below which a healthy run falls in at most a share of cases, with confidence.

    `method` is `order statistics` (distribution-free), `normal` (noncentral t) or `lowered` (normal, but no
    higher than the worst past run, since these don't look normal).
    """

    value: float
    method: str


def bound(values: Floats, share: float, confidence: float) -> Bound | None:
    """Return the bound of (n,) past runs; None if they are too few and all equal."""
    n, mean = len(values), float(values.mean())
    if rank := order_rank(n, share, confidence):
        return Bound(float(np.sort(values)[rank - 1]), "order statistics")
    if np.ptp(values) == 0:
        return None
    normal = mean - tolerance_factor(n, share, confidence) * float(values.std(ddof=1))
    if is_normal(values):
        return Bound(normal, "normal")
    return Bound(min(normal, float(values.min())), "lowered")


@dataclass(frozen=True)
class MeanTest:
    """The mean of (k,) new runs vs (n,) past ones: a pooled t, or a permutation test of the runs.

    The t test of a single new run is the prediction interval for one run. The permutation test takes its
    place if the past runs don't look normal and enough regroupings exist for p values below `alpha`, which is
    therefore the level that decides, after all adjustments.
    """

    history: Floats
    new: Floats
    alpha: float

    @property
    def difference(self) -> float:
        return float(self.new.mean() - self.history.mean())

    @cached_property
    def permutes(self) -> bool:
        regroupings = comb(len(self.history) + len(self.new), len(self.new))
        return min(regroupings, _REGROUPINGS) * self.alpha > 1 and not is_normal(self.history)

    @cached_property
    def _error(self) -> tuple[float, float]:
        """Standard error of the difference, 0 if no spread is known, and its degrees of freedom."""
        n, k = len(self.history), len(self.new)
        size = sqrt(1 / n + 1 / k)
        squares = sum(float(((side - side.mean()) ** 2).sum()) for side in (self.history, self.new))
        sd = sqrt(squares / (n + k - 2))
        return (size * sd if sd > 1e-12 * np.abs(self.history).max() else 0.0), n + k - 2

    def p_below(self, shift: float = 0.0) -> float | None:
        """Return the p value of a mean that has changed by less than `shift`; None if no spread is known."""
        if self.permutes:
            return _permutation_p(self.history + shift, self.new)
        se, df = self._error
        if se == 0:
            return 1.0 if self.difference >= shift else None
        return float(stats.t.cdf((self.difference - shift) / se, df))

    def p_above(self, shift: float = 0.0) -> float | None:
        """Return the p value of a mean that has changed by more than `shift`."""
        return MeanTest(-self.history, -self.new, self.alpha).p_below(-shift)

    def interval(self, level: float) -> tuple[float, float]:
        se, df = self._error
        half = float(stats.t.ppf((1 + level) / 2, df)) * se
        return self.difference - half, self.difference + half


def _permutation_p(history: Floats, new: Floats) -> float:
    """Return the share of regroupings in which the mean of as many runs as `new` is as low."""
    every, k = np.concatenate([new, history]), len(new)
    highest = float(new.mean()) + 1e-12 * float(np.abs(every).max())
    if k == 1:
        return float(np.mean(every <= highest))
    rng = np.random.default_rng(0)
    if k * k > len(every) and len(every) <= _MANY:
        drawn = rng.random((_REGROUPINGS, len(every))).argpartition(k, axis=1)[:, :k]
    else:
        drawn = rng.integers(len(every), size=(_REGROUPINGS, k))
    if k * k <= len(every):  # few runs out of many: drop draws that repeat one
        drawn = drawn[(np.diff(np.sort(drawn, axis=1), axis=1) > 0).all(axis=1)]
    return float((1 + np.sum(every[drawn].mean(axis=1) <= highest)) / (1 + len(drawn)))


def mean_level(n: int, k: int, alpha: float) -> float:
    """Return the level of the mean's test; with enough runs on both sides, the spread has a share of it."""
    return alpha * (MEAN_SHARE if min(n, k) >= FEWEST_SEEDS else 1.0)
