"""Looks at a study that grows: its next one, whether it stops there, and how many seeds are to come."""

from math import isfinite, sqrt

import pandas as pd

from seedspread.analysis.audit import audit_runs, metric_of_runs
from seedspread.analysis.compare import Comparer
from seedspread.analysis.comparison import Comparison
from seedspread.analysis.look_levels import factor_of
from seedspread.errors import SeedspreadError
from seedspread.runs.metrics import Metric
from seedspread.runs.sequential import LookedComparison, SequentialRecord, SequentialSpec, TakenLook
from seedspread.runs.studies import AuditSpec
from seedspread.stats.result import Interval, Looks
from seedspread.stats.sequential.expected import ALPHA, SoFar, expected
from seedspread.stats.sequential.levels import Progress
from seedspread.tables.check import check_table
from seedspread.tables.question import Question

# By which factor variances may differ and count as alike.
EQUIVALENCE = 2.0
# Arms that hardly ever correlate more: what even they do not meet is never met.
_MOST_ALIKE, _NEVER = 0.9, 0.01


def factor_for(spec: SequentialSpec, comparisons: int, progress: Progress) -> float:
    """See `look_levels.factor_of`; a rule that is never met is refused."""
    factor = factor_of(spec.sizes, progress)
    met = expected(
        spec.sizes, factor, 1.0, precision=spec.precision, correlation=_MOST_ALIKE, comparisons=comparisons
    ).met
    if spec.precision is not None and met < _NEVER:
        raise SeedspreadError(
            f"sequential.precision = {spec.precision:g} is never met with {spec.limit} seeds, even by arms "
            f"that correlate by {_MOST_ALIKE:g}: raise precision or limit"
        )
    return factor


def take_look(
    table: pd.DataFrame, spec: AuditSpec, record: SequentialRecord, metrics: tuple[Metric, ...] = ()
) -> TakenLook:
    """The next look: the headline of every comparison, and whether the study stops.

    Args:
        table: one row per run.
        spec: what is compared; the first metric is what is judged.
        record: the looks so far.
        metrics: as the study declares them.
    """
    number, value = len(record.looks) + 1, spec.values[0]
    sizes = record.spec.sizes
    question = Question.of(value, spec.group, spec.baseline, spec.blocks or None, "seed", spec.strata)
    runs = check_table(table, question, None)
    declared = next((metric for metric in metrics if metric.name == value), None)
    metric, _ = metric_of_runs(runs, declared, None, accuracies=False)
    comparer = Comparer(metric, 1 - ALPHA, 100, 0, None, None, brief=True)
    looks = Looks(sizes, number, record.factor or factor_of(sizes))
    found = audit_runs(runs, comparer, EQUIVALENCE, looks).comparisons
    seeds = sizes[number - 1]
    return TakenLook(seeds, tuple(map(_looked, found)), why_stop(record.spec, found, seeds))


def why_stop(spec: SequentialSpec, found: tuple[Comparison, ...], seeds: int) -> str:
    """Why a study ends at a look of so many seeds; empty if it goes on."""
    if spec.precision is not None:
        if all(_is_narrow(c.headline.shown_interval, spec.precision) for c in found):
            return f"known to a factor of {spec.precision:g}"
    elif all(c.word in ("shown", "shown to be small") for c in found):
        return "decided"
    return f"limit of {seeds} seeds reached" if seeds == spec.limit else ""


def _is_narrow(interval: Interval | None, precision: float) -> bool:
    return interval is not None and interval.low > 0 and sqrt(interval.high / interval.low) <= precision


def _looked(c: Comparison) -> LookedComparison:
    interval = c.headline.shown_interval
    return LookedComparison(
        title=c.title,
        ratio=_finite(c.headline.ratio),
        low=None if interval is None else _finite(interval.low),
        high=None if interval is None else _finite(interval.high),
        p=_finite(c.p_holm),
        word=c.word,
        correlation=_finite(c.paired_correlation),
    )


def _finite(value: float | None) -> float | None:
    """As JSON can have it."""
    return None if value is None or not isfinite(value) else float(value)


def seeds_to_come(record: SequentialRecord) -> float | None:
    """How many more each arm is expected to take, if ratios are what they seem; None if it cannot be told."""
    spec = record.spec
    if record.stopped or record.factor is None:
        return None
    if not record.looks:
        return expected(spec.sizes, record.factor, 1.0, precision=spec.precision).seeds
    last, totals = record.looks[-1], []
    for c in last.comparisons:
        if c.ratio:
            alike = min(max(c.correlation or 0.0, -0.99), 0.99)
            so_far = SoFar(last.seeds, c.ratio, alike)
            total = expected(
                spec.sizes, record.factor, c.ratio, precision=spec.precision, correlation=alike,
                comparisons=len(last.comparisons), so_far=so_far,
            )  # fmt: skip
            totals.append(total.seeds)
    return max(totals) - last.seeds if totals else None
