"""Tests of spread that do not rest on normality, or that use the pairing of seeds."""

from dataclasses import replace
from typing import cast

import numpy as np
from scipy import optimize, stats

from seedspread.stats.arms import Arm, Floats, common_seeds
from seedspread.stats.classic import evidence_for, independence_evidence, t_test, unless_contradicted
from seedspread.stats.result import Interval, TestResult


def seed_jackknife(arm: Arm, baseline: Arm, level: float) -> TestResult:
    """Miller's jackknife of the log variance ratio, leaving out whole seeds.

    Each arm's log within-cell variance is computed without each seed in turn; the spread of the resulting
    pseudo-values gives its standard error, and the two arms meet in a t interval with Welch's degrees of
    freedom. Seeds that both arms share are not used as pairs: for normal values the variance of the log ratio
    falls with the square of the correlation, so that leaving pairs out can cost power but not validity.

    R. G. Miller, Jackknifing variances, Annals of Mathematical Statistics 39 (1968) 567-582.
    """
    blank = TestResult(
        key="seed_jackknife",
        name="seed jackknife (Miller)",
        about="spread",
        why="the seed is the unit; neither normal values nor a model of the tails is needed",
        assumes="independent seeds, arms of like shape",
        evidence="each seed, with all its twins, counts once; that seeds are independent no table can tell, "
        "and with few of them unlike tails pass for a ratio",
    )
    if not (arm.has_spread and baseline.has_spread):
        return replace(blank, note="an arm has no spread within its cells, so there is no ratio")
    errors = [log_variance_error(x) for x in (arm, baseline)]
    if None in errors:
        return replace(
            blank, note="needs three seeds in each arm, and spread that does not rest on one of them alone"
        )
    (first, k1), (second, k2) = cast(list[tuple[float, int]], errors)
    square = first**2 + second**2
    if square == 0:
        return replace(blank, note="every seed deviates equally far, so that its error is not estimable")
    df = square**2 / (first**4 / (k1 - 1) + second**4 / (k2 - 1))
    log_ratio = float(np.log(arm.within_variance / baseline.within_variance))
    half = stats.t.ppf((1 + level) / 2, df) * np.sqrt(square)
    t = log_ratio / np.sqrt(square)
    return replace(
        blank,
        statistic=float(t),
        df=(float(df),),
        p=float(2 * stats.t.sf(abs(t), df)),
        estimate=float(np.exp(log_ratio)),
        std_error=float(np.sqrt(square)),
        interval=Interval(float(np.exp(log_ratio - half)), float(np.exp(log_ratio + half)), level),
    )


def log_variance_error(arm: Arm) -> tuple[float, int] | None:
    """The jackknife's standard error of an arm's log within-cell variance, and how many seeds it rests on."""
    k = len(arm.seed_codes)
    if k < 3:
        return None
    squares, runs = arm.by_seed  # with the factor n / (n - 1) that leaving a run out of a cell needs
    df = arm.df - runs
    total = (arm.residuals**2).sum()
    left = total - squares
    if np.any(df < 1) or np.any(left <= 1e-12 * total):
        return None
    logs = np.log(left / df)
    return float(np.sqrt((k - 1) / k * ((logs - logs.mean()) ** 2).sum())), k


def bonett(arm: Arm, baseline: Arm, level: float, independent: bool | None) -> TestResult:
    """Bonett's test and interval of a variance ratio: the normal theory, with the kurtosis estimated.

    The kurtosis is pooled at the ratio that is tested, so that the interval means something away from 1 too.

    D. G. Bonett, Robust confidence interval for a ratio of standard deviations, Applied Psychological
    Measurement 30 (2006) 432-439.
    """
    blank = TestResult(
        key="bonett",
        name="Bonett, pooled",
        about="spread",
        why="allows for heavy tails through the kurtosis, which F does not",
        assumes="independent runs; both arms of one shape",
        assumptions_met=unless_contradicted(independent),
        evidence=independence_evidence(independent),
    )
    x, y = arm.values, baseline.values
    if min(len(x), len(y)) < 5:
        return replace(blank, note="needs five runs in each arm: the kurtosis cannot be had from fewer")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return replace(blank, note="an arm has no spread at all, so there is no ratio")
    pair = _BonettPair(x, y)
    z = stats.norm.ppf((1 + level) / 2)
    low, high = (pair.bound(z, sign) for sign in (-1, 1))
    return replace(blank, p=pair.p_value(), estimate=pair.ratio, interval=Interval(low, high, level))


class _BonettPair:
    def __init__(self, x: Floats, y: Floats) -> None:
        self.sizes = len(x), len(y)
        self.variances = float(x.var(ddof=1)), float(y.var(ddof=1))
        self.fourth = tuple(float(((v - _trimmed_mean(v)) ** 4).sum()) for v in (x, y))
        self.ratio = self.variances[0] / self.variances[1]

    def error(self, ratio: float) -> float:
        """The standard error of the log ratio if the true ratio were `ratio`."""
        (n1, n2), (v1, v2), (a1, a2) = self.sizes, self.variances, self.fourth
        kurtosis = (n1 + n2) * (a1 + ratio**2 * a2) / ((n1 - 1) * v1 + ratio * (n2 - 1) * v2) ** 2
        # Below the least that any distribution has, the estimate is noise.
        parts = [max(kurtosis - (n - 3) / n, 1e-12) / (n - 1) for n in self.sizes]
        return float(np.sqrt(sum(parts)))

    def distance(self, log_ratio: float, z: float) -> float:
        """How far the corrected log ratio lies from `log_ratio`, at the critical value z."""
        n1, n2 = self.sizes
        # Bonett's equaliser; it is 1 for equal sizes, and undefined where z reaches a size.
        z = min(z, 0.9 * min(n1, n2))
        return float(np.log(n1 / (n1 - z) * (n2 - z) / n2 * self.ratio)) - log_ratio

    def bound(self, z: float, sign: int) -> float:
        """The end of the interval below (-1) or above (+1) the estimate."""

        def excess(log_ratio: float) -> float:
            return abs(self.distance(log_ratio, z)) - z * self.error(float(np.exp(log_ratio)))

        middle = self.distance(0.0, z)
        far = middle + sign * 1.0
        while excess(far) < 0:
            far += sign * 1.0
            if abs(far - middle) > 200:
                return 0.0 if sign < 0 else float("inf")
        return float(np.exp(optimize.brentq(excess, *sorted((middle, far)))))

    def p_value(self) -> float:
        """The smallest level whose interval leaves out 1."""
        error = self.error(1.0)

        def excess(z: float) -> float:
            return z * error - abs(self.distance(0.0, z))

        if abs(self.distance(0.0, 0.0)) == 0:
            return 1.0
        high = 1.0
        while excess(high) < 0 and high < 200:
            high *= 2
        if excess(high) < 0:
            return 0.0
        return float(2 * stats.norm.sf(optimize.brentq(excess, 0.0, high)))


def _trimmed_mean(values: Floats) -> float:
    trim = 1 / (2 * np.sqrt(len(values) - 4))
    return float(np.median(values) if trim >= 0.5 else stats.trim_mean(values, trim))


def pitman_morgan(arm: Arm, baseline: Arm, level: float, normal: bool | None = None) -> TestResult:
    """Pitman and Morgan's test: variances are equal when sum and difference of the pairs are uncorrelated.

    It works on the seed means, so with several blocks it compares the variances of those.

    E. J. G. Pitman, Biometrika 31 (1939) 9-12; W. A. Morgan, Biometrika 31 (1939) 13-19.
    """
    blank = TestResult(
        key="pitman_morgan",
        name="Pitman-Morgan, paired seeds",
        about="spread",
        why="the same seeds in both arms are pairs, and correlated pairs sharpen the comparison",
        assumes="normal pairs",
        assumptions_met=normal,
        evidence=evidence_for("normality", normal),
    )
    in_a, in_b = common_seeds(arm, baseline)
    if len(in_a) < 3:
        return replace(blank, note="needs three seeds that are in both arms")
    x, y = arm.seed_means[in_a], baseline.seed_means[in_b]
    if _flat(x) or _flat(y):
        return replace(blank, note="an arm has no spread over the shared seeds")
    n = len(x)
    ratio = float(x.var(ddof=1) / y.var(ddof=1))
    share = 1 - np.corrcoef(x, y)[0, 1] ** 2
    averaged = max(len(arm.cells), len(baseline.cells)) > 1
    note = "variances of the seed means over blocks" if averaged else ""
    if share < 1e-12:
        return replace(blank, estimate=ratio, note="the pairs are perfectly correlated")
    t = float((ratio - 1) * np.sqrt((n - 2) / (4 * ratio * share)))
    k = 1 + 2 * share * stats.t.ppf((1 + level) / 2, n - 2) ** 2 / (n - 2)
    root = np.sqrt(k**2 - 1)
    return replace(
        blank,
        statistic=t,
        df=(float(n - 2),),
        p=float(2 * stats.t.sf(abs(t), n - 2)),
        estimate=ratio,
        interval=Interval(float(ratio * (k - root)), float(ratio * (k + root)), level),
        note=note,
    )


def _flat(values: Floats) -> bool:
    return bool(np.ptp(values) <= 1e-12 * np.abs(values).max())


def seed_means_test(arm: Arm, baseline: Arm, level: float) -> TestResult:
    """The means with the seed as unit: paired t where the arms share all seeds, Welch's otherwise."""
    in_a, in_b = common_seeds(arm, baseline)
    paired = len(in_a) == len(arm.seed_codes) == len(baseline.seed_codes) and len(in_a) >= 2
    blank = TestResult(
        key="seed_means",
        name="paired t on seed means" if paired else "Welch's t on seed means",
        about="means",
        why="the seed is the unit; twins are averaged first",
        assumes="independent seeds, means roughly normal",
        evidence="each seed counts once; that seeds are independent no table can tell",
    )
    x, y = arm.seed_means, baseline.seed_means
    if paired:
        x, y = x[in_a], y[in_b]
    difference = float(x.mean() - y.mean())
    if min(len(x), len(y)) < 2:
        return replace(blank, estimate=difference, note="an arm has a single seed")
    if (paired and _flat(x - y + max(abs(x).max(), 1.0))) or (_flat(x) and _flat(y)):
        return replace(blank, estimate=difference, note="there is no spread to test against")
    return t_test(blank, x, y, level, paired=paired)
