"""From several sets of runs to the two answers."""

from collections.abc import Sequence
from dataclasses import replace

from seedspread.analysis.audit import affordable, audit_runs, check_options, metric_of_runs
from seedspread.analysis.compare import Comparer
from seedspread.analysis.comparison import AuditResult
from seedspread.analysis.sets.agreement import Agreement, agreements
from seedspread.analysis.sets.compared import CompareResult
from seedspread.analysis.sets.join import JoinedSets, RunSet, few, join
from seedspread.runs.metrics import Better
from seedspread.tables.check import check_runs, with_baseline
from seedspread.tables.errors import TableError
from seedspread.tables.labels import coded
from seedspread.tables.question import SET, Question
from seedspread.tables.read import Table

_RESAMPLES = 10_000


def compare_tables(
    tables: Sequence[tuple[str, Table]],
    question: Question,
    level: float,
    equivalence: float,
    better: Better | None = None,
) -> CompareResult:
    """The same question of each table; the first is what the others are compared with.

    Args:
        tables: by name.
        question: of each; without a group a table is one sample.
        level: of the intervals.
        equivalence: by which factor variances, or ratios of them, may differ and count as alike.
        better: which direction is better; by default what the tables and the value's name tell.
    """
    check_options(level, _RESAMPLES, None, None, equivalence)
    sets, notes = [], []
    for name, table in tables:
        one, told = _set_of(name, table, question, better)
        sets.append(one)
        notes += told
    joined = _with_baseline(join(sets), question)
    comparer = Comparer(joined.metric, level, affordable(_RESAMPLES, len(joined.runs.frame)), 0, None, None)
    # No mean over settings: arms are no sample of arms.
    spread = replace(audit_runs(joined.by_setting(), comparer, equivalence), forests=(), forest=None)
    found = agreements(joined, level, equivalence) if joined.runs.columns.group != SET else ()
    columns = joined.runs.columns
    return CompareResult(
        names=joined.names,
        sources=tuple(one.runs.source for one in sets),
        value=columns.value,
        metric=joined.metric,
        group=None if columns.group == SET else columns.group,
        baseline=columns.baseline or "",
        spread=spread,
        agreements=found,
        only=joined.only,
        copies=joined.copies,
        notes=(
            *joined.notes,
            *_assumed(joined, spread, found),
            *spread.notes,
            *joined.runs.notes,
            *dict.fromkeys(notes),
        ),
    )


def _set_of(name: str, table: Table, question: Question, better: Better | None) -> tuple[RunSet, list[str]]:
    """A table's runs, and notes that name it."""
    if question.group is None and question.value is not None:
        question = replace(question, group=SET)
        table = replace(table, frame=table.frame.assign(**{SET: name}))
    runs = check_runs(table, question, better)
    if runs.frame.empty:
        raise TableError(f"{runs.source} has no run with a value")
    metric, told = metric_of_runs(runs, None, better, accuracies=False)
    return RunSet(name, runs, metric), [*(f"{name}: {note}" for note in runs.notes), *told]


def _with_baseline(joined: JoinedSets, question: Question) -> JoinedSets:
    """With the arm that the others are compared with, as it would be in a table of all."""
    if joined.runs.columns.group == SET:
        if question.baseline is not None:
            raise TableError("--baseline is a level of the group; name the column with --group")
        return joined
    if question.baseline is None and len(coded(joined.runs.frame["group"])[1]) < 2:
        return joined
    return replace(joined, runs=with_baseline(joined.runs, question))


def _assumed(joined: JoinedSets, spread: AuditResult, found: Sequence[Agreement]) -> list[str]:
    lines = [f"Only in {name}: {few(settings)}." for name, settings in joined.only.items()]
    if joined.runs.columns.group == SET:
        lines.append("Each set is one sample; --group names the column that tells its arms apart.")
    if any(c.headline.pairs for c in spread.comparisons):
        lines.append("Seeds that a setting has in two sets were used as pairs, as between arms of an audit.")
    if found:
        lines.append(
            "Whether sets agree is judged as if they were independent; where a seed gives like results in "
            "both, the intervals are wider than need be."
        )
    return lines
