"""Cells whose variances are far apart: pooled within cells, the largest speaks for all."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from seedspread.stats.arms import Arm, Floats
from seedspread.stats.scale.ratio import rounding

# Beyond so many times, and with a p value below that, variances of cells are not of one thing.
_MOST_TIMES = 10.0
_ALPHA = 0.001


@dataclass(frozen=True)
class CellRatio:
    """The two arms in one block: their variances, and the ratio.

    It is infinite where the baseline has no variance, and not a number where neither has any.
    """

    block: str
    variance: float
    baseline_variance: float
    ratio: float


@dataclass(frozen=True)
class Span:
    """From which to which variance the cells of an arm go, and the blocks that have these."""

    group: str
    low: float
    low_block: str
    high: float
    high_block: str


@dataclass(frozen=True)
class UnlikeCells:
    """The arms that are warned of, and the ratio of variances in each block that both arms have."""

    spans: tuple[Span, ...]
    ratios: tuple[CellRatio, ...]


def unlike_cells(arm: Arm, baseline: Arm) -> UnlikeCells | None:
    """Warns where an arm's cells differ in variance tenfold or more, beyond chance by Bartlett's test.

    That test takes heavy tails for unequal variances; hence p < 0.001, not 0.05.
    """
    spans = tuple(span for span in (_span(arm), _span(baseline)) if span is not None)
    return UnlikeCells(spans, _ratios(arm, baseline)) if spans else None


def _span(arm: Arm) -> Span | None:
    """From which to which variance an arm's cells go; None if they may all be one."""
    cells = {block: values for block, values in arm.cells.items() if len(values) > 1}
    if len(cells) < 2 or not arm.has_spread:
        return None
    df = np.array([len(values) - 1.0 for values in cells.values()])
    # Equal values need not be without variance: they are rounded.
    variances = np.maximum([_variance(values) for values in cells.values()], rounding(arm))
    low, high = int(variances.argmin()), int(variances.argmax())
    if variances[high] < _MOST_TIMES * variances[low] or bartlett_p(variances, df) >= _ALPHA:
        return None
    codes = list(cells)
    (a, low_block), (b, high_block) = (
        (_variance(cells[codes[k]]), arm.block_names[codes[k]]) for k in (low, high)
    )
    return Span(arm.name, a, low_block, b, high_block)


def bartlett_p(variances: Floats, df: Floats) -> float:
    """Bartlett's test of equal variances, from sample variances and their degrees of freedom.

    M. S. Bartlett, Properties of sufficiency and statistical tests, Proceedings of the Royal Society A 160
    (1937) 268-282.
    """
    total, others = df.sum(), len(df) - 1
    pooled = (df * variances).sum() / total
    statistic = -(df * np.log(variances / pooled)).sum()
    correction = 1 + ((1 / df).sum() - 1 / total) / (3 * others)
    return float(stats.chi2.sf(statistic / correction, others))


def _ratios(arm: Arm, baseline: Arm) -> tuple[CellRatio, ...]:
    out = []
    for block in sorted({*arm.cells} & {*baseline.cells}):
        sides = arm.cells[block], baseline.cells[block]
        if min(map(len, sides)) > 1:
            top, bottom = map(_variance, sides)
            ratio = top / bottom if bottom > 0 else float("inf") if top > 0 else float("nan")
            out.append(CellRatio(arm.block_names[block], top, bottom, ratio))
    return tuple(out)


def _variance(values: Floats) -> float:
    return 0.0 if np.ptp(values) == 0 else float(values.var(ddof=1))
