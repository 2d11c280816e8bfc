"""All comparisons of an audit at a glance: a table that fits a screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seedspread.analysis.numbers import between, number, p_value
from seedspread.analysis.words import answer_word, forest_arms
from seedspread.render.table import Column, Table
from seedspread.runs.levels import stratum_name
from seedspread.stats.result import Interval, Summary

if TYPE_CHECKING:
    from seedspread.analysis.comparison import AuditResult, Comparison, Forest

# Rows that fit a screen; of more comparisons those with the smallest p values are shown.
MOST_ROWS = 30
_BAR = 21
_WIDEST = 100.0
# The columns of the table with bars that a narrow terminal can do without, and what a name needs.
_MEANS, _INTERVAL, _BARS = (1, 2), (4,), (7,)
_NAME = 20


def overview_table(audit: AuditResult, most: int | None = MOST_ROWS, bars: bool = False) -> Table:
    """A row for each comparison: means and sds, the ratio, its interval, p, and the word.

    Args:
        audit: what was compared.
        most: rows to show at most; None for all.
        bars: draw the intervals in characters, for a terminal.
    """
    shown = list(audit.comparisons)
    if most is not None and len(shown) > most:
        shown = sorted(shown, key=lambda c: 2.0 if c.p_holm is None else c.p_holm)[:most]
    axis = _axis(shown, audit.forests) if bars else None
    alone = len({(c.group, c.baseline) for c in audit.comparisons}) == 1
    rows = [_row(c, alone, axis) for c in shown]
    rows += [_mean_row(forest, audit.group, alone, axis) for forest in audit.forests]
    several = len(audit.comparisons) > 1
    first = audit.comparisons[0]
    arms = (first.arm_name, first.baseline_name) if alone else ("arm", "baseline")
    headings = [audit.by or audit.group if alone else "comparison", *arms]
    headings += ["ratio", f"{audit.level:.0%} interval", "p (Holm)" if several else "p", "difference"]
    headings += [axis.heading] if axis else []
    over = f", {first.arm_name} over {first.baseline_name}" if alone else ""
    title = f"{audit.value}: mean ± sd, and the ratio of variances{over}"
    return Table("overview", title, tuple(Column(heading) for heading in headings), tuple(rows))


def fitted(table: Table, width: int) -> Table:
    """The overview for a terminal: without bars, means or intervals where there is no room for them."""
    for without in ((), _BARS, _BARS + _MEANS, _BARS + _MEANS + _INTERVAL):
        kept = [i for i, column in enumerate(table.columns) if i not in without]
        words = [max(map(len, column.whole.split()), default=0) for column in table.columns]
        widths = [max(words[i], *(len(row[i]) for row in table.rows)) for i in kept]
        if min(widths[0], _NAME) + sum(widths[1:]) + 3 * len(kept) <= width:
            break
    title = table.title if 1 in kept else table.title.replace("mean ± sd, and the ratio", "the ratio")
    return replace(
        table,
        title=title,
        columns=tuple(table.columns[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in table.rows),
    )


def _row(c: Comparison, alone: bool, axis: _Axis | None) -> tuple[str, ...]:
    interval, ratio = c.headline.shown_interval, c.headline.ratio
    bar = (axis.bar(ratio, interval),) if axis else ()
    stratum = stratum_name(c.by, c.stratum) if c.stratum else ""
    name = (stratum or c.arm_name) if alone else c.title
    arms = (mean_and_sd(s) for s in c.pooled)
    return (name, *arms, number(ratio), between(interval), p_value(c.p_holm), answer_word(c), *bar)


def _mean_row(forest: Forest, factor: str, alone: bool, axis: _Axis | None) -> tuple[str, ...]:
    bar = (axis.bar(forest.pooled, forest.interval),) if axis else ()
    name = "together" if alone else f"together: {' against '.join(forest_arms(forest, factor))}"
    ends = between(forest.interval)
    return (name, "", "", number(forest.pooled), ends, p_value(forest.pooled_p), "", *bar)


def mean_and_sd(s: Summary) -> str:
    """As papers print it, to the second digit of the sd: `93.12 ± 0.41`."""
    if s.sd is None or s.sd == 0 or not math.isfinite(s.sd):
        return f"{s.mean:.4g}" + ("" if s.sd is None else " ± 0")
    places = 1 - math.floor(math.log10(s.sd))
    if places > 6 or s.sd >= 1e6:
        return f"{s.mean:.4g} ± {s.sd:.2g}"
    return f"{s.mean:.{max(places, 0)}f} ± {s.sd:.{max(places, 0)}f}"


class _Axis:
    """A logarithmic axis in characters."""

    def __init__(self, ends: Sequence[float]) -> None:
        finite = [e for e in ends if 0 < e < math.inf]
        self._low = max(min([*finite, 0.5]), 1 / _WIDEST)
        self._high = min(max([*finite, 2.0]), _WIDEST)

    @property
    def heading(self) -> str:
        left, right = f"{self._low:.2g}", f"{self._high:.3g}"
        return left + f"{right:>{_BAR - len(left)}}"

    def _place(self, ratio: float) -> int:
        ratio = min(max(ratio, self._low), self._high)
        share = math.log(ratio / self._low) / math.log(self._high / self._low)
        return round(share * (_BAR - 1))

    def bar(self, ratio: float | None, interval: Interval | None) -> str:
        """The interval as a line, the ratio as a dot, a bar at 1."""
        cells = [" "] * _BAR
        if interval is not None:
            ends = self._place(interval.low), self._place(interval.high)
            cells[ends[0] : ends[1] + 1] = ["─"] * (ends[1] - ends[0] + 1)
            if interval.low < self._low:
                cells[0] = "←"
            if interval.high > self._high:
                cells[-1] = "→"
        cells[self._place(1.0)] = "│"
        if ratio is not None and ratio > 0:
            cells[self._place(ratio)] = "●"
        return "".join(cells)


def _axis(comparisons: Sequence[Comparison], forests: Sequence[Forest]) -> _Axis:
    intervals = [c.headline.shown_interval for c in comparisons] + [f.interval for f in forests]
    return _Axis([end for i in intervals if i is not None for end in (i.low, i.high)])
