"""Table rows from a store: the runs of its studies, or all runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seedspread.runs.files import RecordError
from seedspread.runs.levels import counted_runs, level_name, setting_name
from seedspread.runs.run import Run, parameter_columns, read_run
from seedspread.runs.store import RunsError, Store, finished_runs
from seedspread.runs.studies import RecordedStudy, load_studies, stale_runs

if TYPE_CHECKING:
    import pandas as pd


def read_runs(
    store: Store, studies: Sequence[RecordedStudy], metrics: Sequence[str] = ()
) -> tuple[list[Run], list[str]]:
    """Return the finished runs of studies, cell by cell, and a line on each run that cannot be read.

    A run that serves several cells is read once, and has a row in each. Metrics that a run did not report are
    computed from its predictions.
    """
    keys = dict.fromkeys(key for study in studies for key in study.keys if store.is_done(key))
    read = {key: read_run(store.folder(key), metrics) for key in keys}
    runs = [
        replace(run, study=study.name, cell=tuple(cell.levels.items()), seed=seed)
        for study in studies
        for cell in study.cells
        for seed, key in cell.runs.items()
        if isinstance(run := read.get(key), Run)
    ]
    return runs, [str(one) for one in read.values() if isinstance(one, RecordError)]


def study_runs(store: Store, studies: Sequence[RecordedStudy], metrics: Sequence[str]) -> "pd.DataFrame":
    """Return one row per cell and seed that has ended: metrics, parameters, levels of the cell, the study.

    A run that ended with an error of its own has no metric, and counts as collapsed. A run that cannot be
    read, or lacks a metric, is an error. An audit finds a run's predictions by the column `folder`.
    predictions.
    """
    rows = []
    for study in studies:
        runs, problems = read_runs(store, [study], metrics)
        _check(problems)
        rows += [run.row(metrics) for run in runs] + crashed_rows(store, study)
    return _frame(rows)


def all_runs(store: Store, metrics: Sequence[str] = ()) -> "tuple[pd.DataFrame, tuple[str, ...]]":
    """Return one row per run of a store that has ended, and a note on outdated runs that are left out.

    A run that cannot be read is an error. Metrics that a run did not report come from its predictions.
    """
    runs, problems = finished_runs(store.path, metrics)
    _check(problems)
    stale = stale_runs(store)
    rows = [run.row(metrics) for run in runs if run.key not in stale]
    left_out = f"{len(runs) - len(rows)} runs from before their inputs changed were left out."
    crashed = {row["key"]: row for study in load_studies(store)[0] for row in crashed_rows(store, study)}
    rows += [{k: value for k, value in row.items() if k not in ("study", "key")} for row in crashed.values()]
    return _frame(rows), (left_out,) if stale else ()


def _check(problems: Sequence[str]) -> None:
    if problems:
        raise RunsError(f"{problems[0]}; move it away and try again")


def crashed_rows(store: Store, study: RecordedStudy) -> list[dict[str, Any]]:
    """Return one row per cell and seed whose run ended with an error of its own; it counts as collapsed.

    The row has no metric, but the run's parameters if they are plain values.
    """
    crashed = {key for key in study.keys if store.has_crashed(key)}
    return [
        (parameter_columns(cell.parameters) if isinstance(cell.parameters, Mapping) else {})
        | {factor: level_name(level) for factor, level in cell.levels.items()}
        | {"study": study.name, "seed": seed, "key": key, "collapsed": True}
        for cell in study.cells
        for seed, key in cell.runs.items()
        if key in crashed
    ]


def shared_runs(study: RecordedStudy) -> list[str]:
    """Note runs that serve several cells: `7 runs of margin_type = subtract serve margin = 1, 2 alike`.

    The factors in which those cells differ do not affect the run, so it is computed once.
    """
    users: dict[str, list[int]] = {}
    for place, cell in enumerate(study.cells):
        for key in cell.runs.values():
            users.setdefault(key, []).append(place)
    times = Counter(tuple(places) for places in users.values() if len(places) > 1)
    said = []
    for places, count in times.items():
        cells = [study.cells[place] for place in places]
        levels = {
            factor: list(dict.fromkeys(level_name(cell.levels[factor]) for cell in cells))
            for factor in cells[0].levels
        }
        common = setting_name((factor, names[0]) for factor, names in levels.items() if len(names) == 1)
        several = [(factor, names) for factor, names in levels.items() if len(names) > 1]
        differ = "; ".join(f"{f} = {', '.join(names[:-1])} and {names[-1]}" for f, names in several)
        runs = f"{counted_runs(count)} of {common}" if common else counted_runs(count)
        said.append(
            f"{runs} serve{'s' * (count == 1)} {differ} alike: that makes no difference to them, so each is "
            "computed once and stands in every one of these comparisons."
        )
    return said


def _frame(rows: list[dict[str, Any]]) -> "pd.DataFrame":
    import pandas as pd  # noqa: PLC0415 - slow, and `run`, `plan` and `status` need no table

    return pd.DataFrame(rows)
