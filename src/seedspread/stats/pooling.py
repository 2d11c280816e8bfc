"""May runs be pooled? Not if same-seed runs agree, nor if variances differ widely between blocks."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from seedspread.stats.groups import Floats, Group
from seedspread.stats.result import SameSeedRuns
from seedspread.stats.variance_ratio import rounding


def has_same_seed_runs(group: Group) -> bool:
    return len(group.seed_codes) < len(group.values)


def runs_per_seed(group: Group) -> float:
    """Return the number of runs that share a run's seed, itself included, averaged over runs."""
    counts = group.by_seed[1]
    return float((counts**2).sum() / counts.sum()) if counts.any() else 1.0


def same_seed_runs(group: Group) -> SameSeedRuns | None:
    """Return how much a group's runs of one seed agree; None if no seed has more than one run."""
    if not has_same_seed_runs(group):
        return None
    table = group.matrix
    complete = table[~np.isnan(table).any(axis=1)]
    several = np.sum(~np.isnan(table), axis=1) > 1
    spans = np.nanmax(table, axis=1) - np.nanmin(table, axis=1)
    correlation, p = intraclass_correlation(complete) if len(complete) >= 3 else (None, None)
    return SameSeedRuns(
        group=group.name,
        seeds=int(several.sum()),
        identical=int(np.sum(several & (spans == 0))),
        correlation=correlation,
        p=p,
        effective_df=effective_df(group.df, runs_per_seed(group), correlation),
        naive_df=len(group.values) - 1,
    )


def are_dependent(pairs: SameSeedRuns) -> bool:
    """Return whether same-seed runs must not be counted as independent: they are copies, or correlated.

    Values of few digits tie by chance, so copies count only if half of the seeds have them.
    """
    copies = pairs.identical >= 2 and 2 * pairs.identical >= pairs.seeds
    return copies or (pairs.p is not None and pairs.p < 0.05) or are_opposed(pairs)


def are_opposed(pairs: SameSeedRuns) -> bool:
    """Return whether same-seed runs correlate negatively, by a two-sided test: no common cause does that."""
    return pairs.p is not None and 1 - pairs.p < 0.025


def intraclass_correlation(table: Floats) -> tuple[float | None, float | None]:
    """Return ICC(3,1) of a (seeds, blocks) table and the p value of its F test; block means are removed.

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
    """Return the effective degrees of freedom if same-seed runs correlate: df / (1 + (runs - 1) r^2).

    For normal values with equal correlation r between the `runs` blocks, the pooled within-cell variance s^2
    has Var(s^2) = 2 sigma^4 / df * (1 + (runs - 1) r^2). An unknown correlation counts as 1.
    """
    r = 1.0 if correlation is None else correlation
    return df / (1 + (runs - 1) * r**2)


# Cells' variances count as unequal if they differ by this factor or more, with a p value below alpha.
_MOST_TIMES = 10.0
_ALPHA = 0.001


@dataclass(frozen=True)
class CellRatio:
    """The two groups in one block; a ratio of variances over 0 is infinite, of 0 over 0 NaN."""

    block: tuple[str, ...]
    ratio: float


@dataclass(frozen=True)
class Span:
    """The smallest and largest variance of a group's cells, and their blocks."""

    group: str
    low: float
    low_block: tuple[str, ...]
    high: float
    high_block: tuple[str, ...]


@dataclass(frozen=True)
class UnequalCells:
    """Groups whose cells have unequal variances, and the variance ratio in each block of both groups."""

    spans: tuple[Span, ...]
    ratios: tuple[CellRatio, ...]


def unequal_cells(group: Group, baseline: Group) -> UnequalCells | None:
    """Find groups whose cells differ in variance tenfold or more, beyond chance by Bartlett's test.

    That test mistakes heavy tails for unequal variances; hence p < 0.001, not 0.05.
    """
    spans = tuple(span for span in (_span(group), _span(baseline)) if span is not None)
    return UnequalCells(spans, _ratios(group, baseline)) if spans else None


def _span(group: Group) -> Span | None:
    cells = {block: values for block, values in group.cells.items() if len(values) > 1}
    if len(cells) < 2 or not group.has_spread:
        return None
    df = np.array([len(values) - 1.0 for values in cells.values()])
    # Equal values need not be without variance: they may be rounded.
    variances = np.maximum([_variance(values) for values in cells.values()], rounding(group))
    low, high = int(variances.argmin()), int(variances.argmax())
    if variances[high] < _MOST_TIMES * variances[low] or bartlett_p(variances, df) >= _ALPHA:
        return None
    codes = list(cells)
    (a, low_block), (b, high_block) = (
        (_variance(cells[codes[k]]), group.block_names[codes[k]]) for k in (low, high)
    )
    return Span(group.name, a, low_block, b, high_block)


def bartlett_p(variances: Floats, df: Floats) -> float:
    """Return Bartlett's p value of equal variances, from (k,) variances and their degrees of freedom.

    M. S. Bartlett, Properties of sufficiency and statistical tests, Proceedings of the Royal Society A 160
    (1937) 268-282.
    """
    total, others = df.sum(), len(df) - 1
    pooled = (df * variances).sum() / total
    statistic = -(df * np.log(variances / pooled)).sum()
    correction = 1 + ((1 / df).sum() - 1 / total) / (3 * others)
    return float(stats.chi2.sf(statistic / correction, others))


def _ratios(group: Group, baseline: Group) -> tuple[CellRatio, ...]:
    out = []
    for block in sorted({*group.cells} & {*baseline.cells}):
        sides = group.cells[block], baseline.cells[block]
        if min(map(len, sides)) > 1:
            top, bottom = map(_variance, sides)
            ratio = top / bottom if bottom > 0 else float("inf") if top > 0 else float("nan")
            out.append(CellRatio(group.block_names[block], ratio))
    return tuple(out)


def _variance(values: Floats) -> float:
    return 0.0 if np.ptp(values) == 0 else float(values.var(ddof=1))
