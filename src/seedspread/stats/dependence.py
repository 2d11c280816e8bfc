"""Are the runs of one seed in different blocks independent? Twins that agree must not be counted twice."""

import numpy as np
from scipy import stats

from seedspread.stats.arms import Arm, Floats
from seedspread.stats.result import Twins


def has_twins(arm: Arm) -> bool:
    """Whether any seed has more than one run."""
    return len(arm.seed_codes) < len(arm.values)


def runs_per_seed(arm: Arm) -> float:
    """How many runs share the seed of a run, itself included, on average over runs that count for spread."""
    counts = arm.by_seed[1]
    return float((counts**2).sum() / counts.sum()) if counts.any() else 1.0


def twins(arm: Arm) -> Twins | None:
    """How alike an arm's runs of one seed are; None where no seed has more than one run."""
    if not has_twins(arm):
        return None
    table = arm.matrix
    complete = table[~np.isnan(table).any(axis=1)]
    counted = np.sum(~np.isnan(table), axis=1)
    several = int(np.sum(counted > 1))
    spans = np.nanmax(table, axis=1) - np.nanmin(table, axis=1)
    identical = int(np.sum((counted > 1) & (spans == 0)))
    correlation, p = intraclass_correlation(complete) if len(complete) >= 3 else (None, None)
    return Twins(
        group=arm.name,
        seeds=several,
        identical=identical,
        correlation=correlation,
        p=p,
        effective_df=effective_df(arm.df, runs_per_seed(arm), correlation),
        naive_df=len(arm.values) - 1,
    )


def are_dependent(pairs: Twins) -> bool:
    """Whether the runs of a seed must not be counted as independent: copies of each other, or correlated.

    Values of few digits tie by chance, so that copies count only where half of the seeds are.
    """
    copies = pairs.identical >= 2 and 2 * pairs.identical >= pairs.seeds
    return copies or (pairs.p is not None and pairs.p < 0.05)


def intraclass_correlation(table: Floats) -> tuple[float | None, float | None]:
    """ICC(3,1) of (seeds, blocks) and the p value of its F test; block means are taken out.

    P. E. Shrout and J. L. Fleiss, Intraclass correlations, Psychological Bulletin 86 (1979) 420-428.
    """
    n, k = table.shape
    centred = table - table.mean(axis=0)
    rows = centred.mean(axis=1)
    between = k * (rows**2).sum() / (n - 1)
    within = ((centred - rows[:, None]) ** 2).sum() / ((n - 1) * (k - 1))
    if between + within <= 1e-20 * max(float(np.abs(table).max()) ** 2, 1e-300):
        return None, None
    if within <= 1e-20 * between:
        return 1.0, 0.0
    correlation = (between - within) / (between + (k - 1) * within)
    return float(correlation), float(stats.f.sf(between / within, n - 1, (n - 1) * (k - 1)))


def effective_df(df: float, runs: float, correlation: float | None) -> float:
    """What `df` degrees of freedom are worth when the runs of a seed correlate: df / (1 + (runs - 1) r^2).

    For normal values with equal correlation r between the `runs` blocks, the pooled within-cell variance s^2
    has Var(s^2) = 2 sigma^4 / df * (1 + (runs - 1) r^2). An unknown correlation counts as 1.
    """
    r = 1.0 if correlation is None else correlation
    return df / (1 + (runs - 1) * r**2)
