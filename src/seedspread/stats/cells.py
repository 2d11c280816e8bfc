"""Cells whose variances are far apart: pooled within cells, the largest speaks for all."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from seedspread.stats.arms import Arm, Floats
from seedspread.stats.scale.ratio import rounding

# Beyond so many times, and with a p value below that, variances of cells are not of one thing.
_MOST_TIMES = 10.0
_ALPHA = 0.001
# Cells that the sentence names.
_MOST_NAMED = 6


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
class UnlikeCells:
    """A warning, and the ratio of variances in each block that both arms have."""

    sentence: str
    ratios: tuple[CellRatio, ...]


def unlike_cells(arm: Arm, baseline: Arm) -> UnlikeCells | None:
    """Warns where an arm's cells differ in variance tenfold or more, beyond chance by Bartlett's test.

    That test takes heavy tails for unequal variances; hence p < 0.001, not 0.05.
    """
    spans = [_span(arm), _span(baseline)]
    warned = [s for s in spans if s]
    if not warned:
        return None
    ratios = _ratios(arm, baseline)
    listed = ", ".join(f"{r.block}: {_number(r.ratio)}" for r in ratios[:_MOST_NAMED])
    more = f" and {len(ratios) - _MOST_NAMED} more" if len(ratios) > _MOST_NAMED else ""
    by_cell = f" Ratios of variances by cell: {listed}{more}." if ratios else ""
    sentence = (
        f"Cells are unlike: {'; '.join(warned)}. A ratio within cells is then that of the cells with the "
        f"largest variance.{by_cell} Compare them apart (--by), or on a scale that they share."
    )
    return UnlikeCells(sentence, ratios)


def _span(arm: Arm) -> str:
    """From which to which variance an arm's cells go; empty if they may all be one."""
    cells = {block: values for block, values in arm.cells.items() if len(values) > 1}
    if len(cells) < 2 or not arm.has_spread:
        return ""
    df = np.array([len(values) - 1.0 for values in cells.values()])
    # Equal values need not be without variance: they are rounded.
    variances = np.maximum([_variance(values) for values in cells.values()], rounding(arm))
    low, high = int(variances.argmin()), int(variances.argmax())
    if variances[high] < _MOST_TIMES * variances[low] or bartlett_p(variances, df) >= _ALPHA:
        return ""
    codes = list(cells)
    ends = [f"{_number(_variance(cells[codes[k]]))} ({arm.block_names[codes[k]]})" for k in (low, high)]
    return f"the variance of {arm.title} goes from {ends[0]} to {ends[1]}"


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


def _number(value: float) -> str:
    return "none" if np.isnan(value) else "∞" if np.isinf(value) else f"{value:.3g}"
