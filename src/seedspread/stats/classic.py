"""Tests of two groups: F, Levene, Brown-Forsythe, Miller's jackknife, Pitman-Morgan.

Further tests: Welch's and the paired t test of means, and the Shapiro-Wilk test of normality.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seedspread.stats.distributions import f_cdf, f_ppf, f_sf, t_ppf, t_sf
from seedspread.stats.groups import Floats, Group, common_seeds, dummies
from seedspread.stats.result import Estimate, Interval, TestResult


def f_interval(ratio: float, df: tuple[float, float], level: float) -> Interval:
    """Return the exact interval of a variance ratio for normal values, with `df` degrees of freedom."""
    tail = (1 - level) / 2
    return Interval(float(ratio / f_ppf(1 - tail, *df)), float(ratio / f_ppf(tail, *df)), level)


def f_p_value(ratio: float, df: tuple[float, float]) -> float:
    """Return the two-sided p value of a variance ratio of normal values: twice the smaller tail."""
    return float(min(1.0, 2 * min(f_sf(ratio, *df), f_cdf(ratio, *df))))


def f_test(
    group: Group, baseline: Group, level: float, normal: bool | None, independent: bool | None
) -> TestResult:
    """Test the ratio of pooled variances, as if every run were independent.

    `normal` and `independent` are whether the data are so; None if that is unknown.
    """
    both_met = False if False in (normal, independent) else normal and independent
    blank = TestResult(
        key="f",
        name="F test, pooled",
        about="spread",
        why="the classical test of two variances, exact on normal values",
        assumes="normal values, independent runs",
        assumptions_met=both_met,
    )
    top, bottom = group.values.var(ddof=1), baseline.values.var(ddof=1)
    if np.ptp(group.values) == 0 or np.ptp(baseline.values) == 0 or not (top > 0 and bottom > 0):
        return replace(blank, note="a group has no spread at all, so there is no ratio to test")
    ratio, df = float(top / bottom), (len(group.values) - 1.0, len(baseline.values) - 1.0)
    return replace(
        blank,
        statistic=ratio,
        df=df,
        p=f_p_value(ratio, df),
        estimate=ratio,
        interval=f_interval(ratio, df, level),
    )


def deviations_test(group: Group, baseline: Group, center: str, independent: bool | None) -> TestResult:
    """Test equal spread by deviations from the mean (Levene) or the median (Brown and Forsythe).

    M. B. Brown and A. B. Forsythe, Robust tests for the equality of variances, Journal of the American
    Statistical Association 69 (1974) 364-367.
    """
    from scipy import stats  # noqa: PLC0415 - slow, and only details need it

    levene = center == "mean"
    blank = TestResult(
        key="levene" if levene else "brown_forsythe",
        name="Levene (means), pooled" if levene else "Brown-Forsythe (medians), pooled",
        about="spread",
        why="less sensitive to heavy tails than F",
        assumes="independent runs; deviations well enough behaved for an analysis of variance",
        assumptions_met=False if independent is False else None,
    )
    middle = np.mean if center == "mean" else np.median
    if len(group.values) < 3 or len(baseline.values) < 3:
        return replace(
            blank, note="needs three runs in each group: two always lie equally far from their middle"
        )
    if not any(np.ptp(np.abs(x.values - middle(x.values))) > 0 for x in (group, baseline)):
        return replace(blank, note="the deviations do not vary within the groups")
    test = stats.levene(group.values, baseline.values, center=center)
    df = (1.0, float(len(group.values) + len(baseline.values) - 2))
    return replace(blank, statistic=float(test.statistic), df=df, p=float(test.pvalue))


Effect = tuple[float | None, tuple[float, ...]]


def two_way(cells: list[tuple[int, int, Floats]]) -> list[Effect] | str:
    """Return F and df of the first factor, the second, and their interaction (Type II), or why not.

    A cell is a level of each factor and its values. The fits work on cell means weighted by cell sizes, which
    gives the same sums of squares as the runs and does not grow with them.
    """
    sizes = np.array([len(values) for _, _, values in cells], dtype=float)
    means = np.array([values.mean() for _, _, values in cells])
    residual = float(sum(((values - values.mean()) ** 2).sum() for _, _, values in cells))
    residual_df = float(sizes.sum() - len(cells))
    if residual_df < 1 or residual <= 1e-24 * float((sizes * means**2).sum()):
        return "the deviations do not vary within cells"
    first, second = (dummies(np.array([cell[i] for cell in cells]))[:, 1:] for i in (0, 1))
    ones = np.ones((len(cells), 1))

    def fit(*columns: Floats) -> tuple[float, int]:
        design = np.hstack([ones, *columns]) * np.sqrt(sizes)[:, None]
        target = means * np.sqrt(sizes)
        solved, _, rank, _ = np.linalg.lstsq(design, target, rcond=None)
        return float(((target - design @ solved) ** 2).sum()), int(rank)

    main, main_rank = fit(first, second)
    effects: list[Effect] = []
    for other in (second, first):
        without, rank = fit(other)
        df = (float(main_rank - rank), residual_df)
        effects.append(((without - main) / df[0] / (residual / residual_df) if df[0] else None, df))
    df = (float(len(cells) - main_rank), residual_df)
    effects.append((main / df[0] / (residual / residual_df) if df[0] else None, df))
    return effects


def welch(group: Group, baseline: Group, level: float, independent: bool | None) -> TestResult:
    """Test the means of all runs pooled by Welch's t test."""
    blank = TestResult(
        key="welch",
        name="Welch's t, pooled",
        about="means",
        why="means are tested in every comparison; variances need not be equal",
        assumes="means roughly normal, independent runs",
        assumptions_met=False if independent is False else None,
    )
    return _t_test(blank, group.values, baseline.values, level, "run")


def _t_test(
    blank: TestResult, x: Floats, y: Floats, level: float, unit: str, *, paired: bool = False
) -> TestResult:
    """Fill in `blank` with Welch's or the paired t test of (n,) and (m,) values."""
    from scipy import stats  # noqa: PLC0415 - slow, and only details need it

    blank = replace(blank, estimate=float(x.mean() - y.mean()))
    if min(len(x), len(y)) < 2:
        return replace(blank, note=f"a group has a single {unit}")
    if (paired and _flat(x - y + max(abs(x).max(), 1.0))) or (_flat(x) and _flat(y)):
        return replace(blank, note="there is no spread to test with")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one group may be constant: the tests allow it
        test = stats.ttest_rel(x, y) if paired else stats.ttest_ind(x, y, equal_var=False)
    low, high = test.confidence_interval(level)
    return replace(
        blank,
        statistic=float(test.statistic),
        df=(float(test.df),),
        p=float(test.pvalue),
        interval=Interval(float(low), float(high), level),
    )


def shapiro(group: Group, title: str = "") -> TestResult:
    """Test the normality of a group's pooled values; `title` is the group's displayed name."""
    from scipy import stats  # noqa: PLC0415 - slow, and only details need it

    blank = TestResult(
        key=f"shapiro_{group.name}",
        name=f"Shapiro-Wilk, {title or group.name}",
        about="shape",
        why="the F test rests on normality; a large p is weak evidence for it at small n",
        assumes="independent runs",
    )
    if len(group.values) < 3:
        return replace(blank, note="needs three runs")
    if np.ptp(group.values) == 0:
        return replace(blank, note="all values are equal")
    if len(group.values) > 5000:
        return replace(blank, note="its p value is not known beyond 5,000 runs")
    result = stats.shapiro(group.values)
    return replace(blank, statistic=float(result.statistic), p=float(result.pvalue))


# With fewer runs the Shapiro-Wilk test misses most departures from normality, so a large p means little.
_FEWEST_FOR_NORMALITY = 8


def are_normal(groups: Sequence[Group], tests: Sequence[TestResult]) -> bool | None:
    """Return whether groups pass as normal by their `shapiro` tests; None if there are too few runs."""
    if any(t.p is not None and t.p < 0.05 for t in tests):
        return False
    enough = all(len(group.values) >= _FEWEST_FOR_NORMALITY for group in groups)
    return True if enough and all(t.p is not None for t in tests) else None


def seed_jackknife(group: Group, baseline: Group, level: float) -> TestResult:
    """Test the log variance ratio by Miller's jackknife, leaving out whole seeds.

    Each group's log within-cell variance is computed without each seed in turn. The spread of the resulting
    pseudo-values gives its standard error, and the t interval has Welch's degrees of freedom. Shared seeds
    are not used as pairs: for normal values the variance of the log ratio falls with the square of the
    correlation, so leaving pairs out can cost power but not validity.

    R. G. Miller, Jackknifing variances, Annals of Mathematical Statistics 39 (1968) 567-582.
    """
    blank = TestResult(
        key="seed_jackknife",
        name="seed jackknife (Miller)",
        about="spread",
        why="the seed is the unit; neither normal values nor a model of the tails is needed",
        assumes="independent seeds, groups of like shape",
    )
    if not (group.has_spread and baseline.has_spread):
        return replace(blank, note="a group has no spread within its cells, so there is no ratio")
    first, second = log_variance_error(group), log_variance_error(baseline)
    if first is None or second is None:
        return replace(
            blank, note="needs three seeds in each group, and spread that does not rest on one of them alone"
        )
    (error, k), (other, m) = first, second
    square = error**2 + other**2
    if square == 0:
        return replace(blank, note="every seed deviates equally far, so that its error is not estimable")
    df = square**2 / (error**4 / (k - 1) + other**4 / (m - 1))
    log_ratio = float(np.log(group.within_variance / baseline.within_variance))
    half = t_ppf((1 + level) / 2, df) * np.sqrt(square)
    t = log_ratio / np.sqrt(square)
    return replace(
        blank,
        statistic=float(t),
        df=(float(df),),
        p=float(2 * t_sf(abs(t), df)),
        estimate=float(np.exp(log_ratio)),
        std_error=float(np.sqrt(square)),
        interval=Interval(float(np.exp(log_ratio - half)), float(np.exp(log_ratio + half)), level),
    )


def log_variance_error(group: Group) -> tuple[float, int] | None:
    """Return the jackknife standard error of a group's log within-cell variance, and its number of seeds."""
    k = len(group.seed_codes)
    if k < 3:
        return None
    squares, runs = group.by_seed  # scaled by n / (n - 1), as leaving a run out of a cell requires
    df = group.df - runs
    total = (group.residuals**2).sum()
    left = total - squares
    if np.any(df < 1) or np.any(left <= 1e-12 * total):
        return None
    logs = np.log(left / df)
    return float(np.sqrt((k - 1) / k * ((logs - logs.mean()) ** 2).sum())), k


def pitman_morgan(group: Group, baseline: Group, level: float, normal: bool | None = None) -> TestResult:
    """Test paired variances: they are equal if sum and difference of the pairs are uncorrelated.

    The pairs are seed means, so with several blocks the variances of those are compared.

    E. J. G. Pitman, Biometrika 31 (1939) 9-12; W. A. Morgan, Biometrika 31 (1939) 13-19.
    """
    blank = TestResult(
        key="pitman_morgan",
        name="Pitman-Morgan, paired seeds",
        about="spread",
        why="the same seeds in both groups are pairs, and if they correlate, the comparison is more precise",
        assumes="normal pairs",
        assumptions_met=normal,
    )
    in_a, in_b = common_seeds(group, baseline)
    if len(in_a) < 3:
        return replace(blank, note="needs three seeds that are in both groups")
    x, y = group.seed_means[in_a], baseline.seed_means[in_b]
    if _flat(x) or _flat(y):
        return replace(blank, note="a group has no spread over the shared seeds")
    n = len(x)
    ratio = float(x.var(ddof=1) / y.var(ddof=1))
    share = 1 - np.corrcoef(x, y)[0, 1] ** 2
    averaged = max(len(group.cells), len(baseline.cells)) > 1
    if share < 1e-12:
        return replace(blank, estimate=ratio, note="the pairs are perfectly correlated")
    t = float((ratio - 1) * np.sqrt((n - 2) / (4 * ratio * share)))
    k = 1 + 2 * share * t_ppf((1 + level) / 2, n - 2) ** 2 / (n - 2)
    root = np.sqrt(k**2 - 1)
    return replace(
        blank,
        statistic=t,
        df=(float(n - 2),),
        p=float(2 * t_sf(abs(t), n - 2)),
        estimate=ratio,
        interval=Interval(float(ratio * (k - root)), float(ratio * (k + root)), level),
        note="variances of the seed means over blocks" if averaged else "",
    )


def _flat(values: Floats) -> bool:
    return bool(np.ptp(values) <= 1e-12 * np.abs(values).max())


def seed_means_test(group: Group, baseline: Group, level: float) -> TestResult:
    """Test the means of seeds: paired t if the groups share all seeds, Welch's otherwise."""
    in_a, in_b = common_seeds(group, baseline)
    paired = len(in_a) == len(group.seed_codes) == len(baseline.seed_codes) and len(in_a) >= 2
    blank = TestResult(
        key="seed_means",
        name="paired t on seed means" if paired else "Welch's t on seed means",
        about="means",
        why="the seed is the unit; same-seed runs are averaged first",
        assumes="independent seeds, means roughly normal",
    )
    x, y = group.seed_means, baseline.seed_means
    if paired:
        x, y = x[in_a], y[in_b]
    return _t_test(blank, x, y, level, "seed", paired=paired)


# A difference of means needs three pairs, as a paired t test does.
_FEWEST_PAIRS = 3


def mean_difference(group: Group, baseline: Group, level: float) -> Estimate:
    """Return the difference of the seeds' means, group minus baseline, with a t interval.

    Shared seeds are pairs. If all are shared the interval is the paired t test's, if none are it is Welch's;
    between the two, each part adds its own variance.
    """
    x, y = group.seed_means, baseline.seed_means
    value = float(x.mean() - y.mean())
    if min(len(x), len(y)) < 2:
        return Estimate(value)
    in_a, in_b = common_seeds(group, baseline)
    if len(in_a) < _FEWEST_PAIRS:
        in_a = in_b = in_a[:0]
    # Each seed's contribution to the difference; their squares sum to its variance.
    a, b = ((v - v.mean()) / len(v) * (len(v) / (len(v) - 1)) ** 0.5 for v in (x, y))
    parts = (a[in_a] - b[in_b], np.delete(a, in_a), np.delete(b, in_b))
    squares = np.array([part @ part for part in parts])
    variance = float(squares.sum())
    if variance <= (1e-12 * abs(value)) ** 2:
        return Estimate(value)
    df = 1 / float(((squares / variance) ** 2 / [max(len(part) - 1, 1) for part in parts]).sum())
    half = float(t_ppf((1 + level) / 2, df)) * variance**0.5
    return Estimate(value, Interval(value - half, value + half, level))
