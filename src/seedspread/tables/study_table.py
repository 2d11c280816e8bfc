"""The runs of a recorded study as a table: a run that serves several cells stands in each of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from seedspread.runs.levels import counted_runs, level_name, setting_name
from seedspread.runs.store import Store
from seedspread.runs.studies import RecordedCell, RecordedStudy
from seedspread.runs.table import RunsError, parameter_columns, read_row


def study_table(store: Store, studies: Sequence[RecordedStudy], metrics: Sequence[str]) -> pd.DataFrame:
    """One row per cell and seed that has ended: metrics, parameters, the cell's own levels, and the study.

    A run that ended with an error of its own has no metric, and counts as collapsed.

    Args:
        store: where the runs lie.
        studies: one, or the parts of a collection.
        metrics: that every run must have.
    """
    rows = []
    for study in studies:
        read = {key: _row(store, key, metrics) for key in study.keys if store.is_done(key)}
        for cell in study.cells:
            levels = {factor: level_name(level) for factor, level in cell.levels.items()}
            rows += [
                read[key] | levels | {"study": study.name, "seed": seed, "key": key}
                for seed, key in cell.runs.items()
                if key in read
            ]
        rows += crashed_rows(store, study)
    return pd.DataFrame(rows)


def crashed_rows(store: Store, study: RecordedStudy) -> list[dict[str, Any]]:
    """One row per cell and seed whose run ended with an error of its own: no metric, counted as collapsed.

    It has the run's parameters too, where they are plain values.
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


def _row(store: Store, key: str, metrics: Sequence[str]) -> dict[str, Any]:
    row = read_row(store.folder(key), metrics)
    if isinstance(row, str):
        raise RunsError(f"{row}; move it away and try again")
    return row


def shared_runs(study: RecordedStudy) -> list[str]:
    """A line on runs that serve several cells: `7 runs of margin_type = subtract serve margin = 1, 2 alike`.

    What differs between those cells makes no difference to the run, so it is computed once.
    """
    users: dict[str, list[int]] = {}
    for place, cell in enumerate(study.cells):
        for key in cell.runs.values():
            users.setdefault(key, []).append(place)
    times: dict[tuple[int, ...], int] = {}
    for places in users.values():
        if len(places) > 1:
            times[tuple(places)] = times.get(tuple(places), 0) + 1
    return [_shared([study.cells[i] for i in places], count) for places, count in times.items()]


def _shared(cells: list[RecordedCell], count: int) -> str:
    levels = {factor: list(dict.fromkeys(level_name(c.levels[factor]) for c in cells))
              for factor in cells[0].levels}  # fmt: skip
    common = setting_name((factor, names[0]) for factor, names in levels.items() if len(names) == 1)
    differ = "; ".join(f"{f} = {_listed(names)}" for f, names in levels.items() if len(names) > 1)
    of = f" of {common}" if common else ""
    verb = "serves" if count == 1 else "serve"
    return (
        f"{counted_runs(count)}{of} {verb} {differ} alike: that makes no difference to them, so each is "
        "computed once and stands in every one of these comparisons."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
