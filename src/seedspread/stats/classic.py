"""The classical tests: F, Levene, Brown-Forsythe, Welch, Shapiro-Wilk, two-way deviations."""

import warnings
from dataclasses import replace

import numpy as np
from scipy import stats

from seedspread.stats.arms import Arm, Floats
from seedspread.stats.result import Interval, TestResult


def independence_evidence(independent: bool | None) -> str:
    """What the data say of independent runs."""
    return {
        True: "every run is a seed of its own; that seeds are independent no table can tell",
        False: "runs of one seed resemble each other",
        None: "runs of one seed may resemble each other; too few seeds to tell",
    }[independent]


def unless_contradicted(independent: bool | None) -> bool | None:
    """For tests that rest on independent runs alone, which a table can contradict but never confirm."""
    return False if independent is False else None


def evidence_for(assumption: str, holds: bool | None) -> str:
    """`normality is contradicted`."""
    status = {True: "is not contradicted", False: "is contradicted", None: "cannot be told"}
    return f"{assumption} {status[holds]}"


def f_interval(ratio: float, df: tuple[float, float], level: float) -> Interval:
    """The exact interval of a ratio of variances of normal data."""
    tail = (1 - level) / 2
    return Interval(float(ratio / stats.f.ppf(1 - tail, *df)), float(ratio / stats.f.ppf(tail, *df)), level)


def f_p_value(ratio: float, df: tuple[float, float]) -> float:
    """Two-sided: twice the smaller tail."""
    return float(min(1.0, 2 * min(stats.f.sf(ratio, *df), stats.f.cdf(ratio, *df))))


def f_test(
    arm: Arm, baseline: Arm, level: float, normal: bool | None, independent: bool | None
) -> TestResult:
    """The ratio of pooled variances (Eq. vr), as though every run were independent."""
    blank = TestResult(
        key="f",
        name="F test, pooled",
        about="spread",
        why="the classical test of two variances, exact on normal values",
        assumes="normal values, independent runs",
        assumptions_met=_both(normal, independent),
        evidence=f"{evidence_for('normality', normal)}; {independence_evidence(independent)}",
    )
    top, bottom = arm.values.var(ddof=1), baseline.values.var(ddof=1)
    if np.ptp(arm.values) == 0 or np.ptp(baseline.values) == 0 or not (top > 0 and bottom > 0):
        return replace(blank, note="an arm has no spread at all, so there is no ratio to test")
    ratio, df = float(top / bottom), (len(arm.values) - 1.0, len(baseline.values) - 1.0)
    return replace(
        blank,
        statistic=ratio,
        df=df,
        p=f_p_value(ratio, df),
        estimate=ratio,
        interval=f_interval(ratio, df, level),
    )


def _both(normal: bool | None, independent: bool | None) -> bool | None:
    """Met only where normality was tested and no two runs share a seed."""
    if normal is False or independent is False:
        return False
    return True if normal and independent else None


def deviations_test(arm: Arm, baseline: Arm, center: str, independent: bool | None) -> TestResult:
    """Levene's test (center "mean") or Brown and Forsythe's (center "median"), the two arms pooled."""
    levene = center == "mean"
    blank = TestResult(
        key="levene" if levene else "brown_forsythe",
        name="Levene (means), pooled" if levene else "Brown-Forsythe (medians), pooled",
        about="spread",
        why="less sensitive to heavy tails than F",
        assumes="independent runs; deviations well enough behaved for an analysis of variance",
        assumptions_met=unless_contradicted(independent),
        evidence=independence_evidence(independent),
    )
    middle = np.mean if center == "mean" else np.median
    if len(arm.values) < 3 or len(baseline.values) < 3:
        return replace(
            blank, note="needs three runs in each arm: two always lie equally far from their middle"
        )
    if not any(np.ptp(np.abs(x.values - middle(x.values))) > 0 for x in (arm, baseline)):
        return replace(blank, note="the deviations do not vary within the arms")
    test = stats.levene(arm.values, baseline.values, center=center)
    df = (1.0, float(len(arm.values) + len(baseline.values) - 2))
    return replace(blank, statistic=float(test.statistic), df=df, p=float(test.pvalue))


def two_way_tests(
    arm: Arm, baseline: Arm, center: str, independent: bool | None = None
) -> tuple[TestResult, ...]:
    """The two-way analysis of absolute deviations from cell means or medians, Type II.

    Group, block and interaction each get a p value. The fits work on cell
    means weighted by cell sizes, which gives the same sums of squares as the runs one by one and does not
    grow with them.
    """
    label = "Levene" if center == "mean" else "Brown-Forsythe"
    terms = ("group", "block", "interaction")
    blanks = [
        TestResult(
            key=f"two_way_{center}_{term}",
            name=f"two-way {label}: {term}",
            about="spread",
            why=f"the factorial analysis: deviations from cell {center}s, so block means are taken out",
            assumes="independent runs; deviations well enough behaved for an analysis of variance",
            assumptions_met=unless_contradicted(independent),
            evidence=independence_evidence(independent),
        )
        for term in terms
    ]
    blocks = sorted({*arm.cells, *baseline.cells})
    if len(blocks) < 2:
        return ()
    middle = np.mean if center == "mean" else np.median
    cells = [
        (g, blocks.index(b), np.abs(values - middle(values)))
        for g, x in enumerate((arm, baseline))
        for b, values in x.cells.items()
    ]
    effects = two_way(cells)
    if isinstance(effects, str):
        return tuple(replace(blank, note=effects) for blank in blanks)
    return tuple(
        replace(blank, note="some cells are empty, so there is no interaction to test")
        if f is None
        else replace(blank, statistic=f, df=df, p=float(stats.f.sf(f, *df)))
        for blank, (f, df) in zip(blanks, effects, strict=True)
    )


Effect = tuple[float | None, tuple[float, ...]]


def two_way(cells: list[tuple[int, int, Floats]]) -> list[Effect] | str:
    """F and degrees of freedom of the first factor, the second, and their interaction (Type II), or why not.

    Args:
        cells: (level of the first factor, level of the second, values) for each cell that is not empty.
    """
    sizes = np.array([len(values) for _, _, values in cells], dtype=float)
    means = np.array([values.mean() for _, _, values in cells])
    residual = float(sum(((values - values.mean()) ** 2).sum() for _, _, values in cells))
    residual_df = float(sizes.sum() - len(cells))
    if residual_df < 1 or residual <= 1e-24 * float((sizes * means**2).sum()):
        return "the deviations do not vary within cells"
    first, second = (_dummies(np.array([cell[i] for cell in cells])) for i in (0, 1))
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


def _dummies(codes: Floats) -> Floats:
    out: Floats = (codes[:, None] == np.unique(codes)[None, 1:]).astype(float)
    return out


def welch(arm: Arm, baseline: Arm, level: float, independent: bool | None) -> TestResult:
    """Welch's t test of the means of all runs pooled."""
    blank = TestResult(
        key="welch",
        name="Welch's t, pooled",
        about="means",
        why="means are tested in every comparison; variances need not be equal",
        assumes="means roughly normal, independent runs",
        assumptions_met=unless_contradicted(independent),
        evidence=independence_evidence(independent),
    )
    x, y = arm.values, baseline.values
    difference = float(x.mean() - y.mean())
    if len(x) < 2 or len(y) < 2:
        return replace(blank, estimate=difference, note="an arm has a single run")
    if np.ptp(x) == 0 and np.ptp(y) == 0:
        return replace(blank, estimate=difference, note="neither arm has any spread")
    return t_test(blank, x, y, level)


def t_test(blank: TestResult, x: Floats, y: Floats, level: float, *, paired: bool = False) -> TestResult:
    """`blank` with the t test of two means: Welch's, or of pairs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one arm may be constant: the tests allow it
        test = stats.ttest_rel(x, y) if paired else stats.ttest_ind(x, y, equal_var=False)
    low, high = test.confidence_interval(level)
    return replace(
        blank,
        statistic=float(test.statistic),
        df=(float(test.df),),
        p=float(test.pvalue),
        estimate=float(x.mean() - y.mean()),
        interval=Interval(float(low), float(high), level),
    )


def shapiro(arm: Arm, title: str = "") -> TestResult:
    """Shapiro and Wilk's test of the pooled values of one arm; `title` is what its name has it called."""
    blank = TestResult(
        key=f"shapiro_{arm.name}",
        name=f"Shapiro-Wilk, {title or arm.name}",
        about="shape",
        why="the F test rests on normality; a large p is weak evidence for it at small n",
        assumes="independent runs",
    )
    if len(arm.values) < 3:
        return replace(blank, note="needs three runs")
    if np.ptp(arm.values) == 0:
        return replace(blank, note="all values are equal")
    if len(arm.values) > 5000:
        return replace(blank, note="its p value is not known beyond 5,000 runs")
    result = stats.shapiro(arm.values)
    return replace(blank, statistic=float(result.statistic), p=float(result.pvalue))
