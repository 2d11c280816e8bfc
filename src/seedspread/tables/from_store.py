"""From a store to the rows of a table of runs: those of its studies, or all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from seedspread.runs.levels import counted_runs, level_name, setting_name
from seedspread.runs.store import Store
from seedspread.runs.studies import RecordedCell, RecordedStudy, load_studies, stale_runs
from seedspread.runs.table import RunFields, RunsError, parameter_columns, read_fields, runs_table


@dataclass(frozen=True)
class CellRun:
    """A finished run in one of the cells that it serves.

    Attributes:
        study: that names it.
        cell: of that study.
        seed: as the study counts it.
        key: of the run.
        fields: metrics, parameters and the rest of what the run left.
    """

    study: RecordedStudy
    cell: RecordedCell
    seed: int
    key: str
    fields: RunFields

    def row(self) -> dict[str, Any]:
        """Its metrics and parameters, the cell's own levels, and the study."""
        levels = {factor: level_name(level) for factor, level in self.cell.levels.items()}
        return self.fields.row() | levels | {"study": self.study.name, "seed": self.seed, "key": self.key}


def read_runs(
    store: Store, studies: Iterable[RecordedStudy], metrics: Sequence[str] = ()
) -> tuple[list[CellRun], list[str]]:
    """The finished runs of studies, cell by cell, and a line on each run that cannot be read.

    A run that serves several cells is read once, and listed in each.

    Args:
        store: where the runs lie.
        studies: one, or the parts of a collection.
        metrics: computed from a run's predictions if the run did not report them.
    """
    read: dict[str, RunFields | str | None] = {}
    runs = []
    for study in studies:
        for cell in study.cells:
            for seed, key in cell.runs.items():
                if key not in read:
                    read[key] = read_fields(store.folder(key), metrics) if store.is_done(key) else None
                fields = read[key]
                if isinstance(fields, RunFields):
                    runs.append(CellRun(study, cell, seed, key, fields))
    return runs, [one for one in read.values() if isinstance(one, str)]


def study_runs(store: Store, studies: Sequence[RecordedStudy], metrics: Sequence[str]) -> pd.DataFrame:
    """One row per cell and seed that has ended: metrics, parameters, the cell's own levels, and the study.

    A run that ended with an error of its own has no metric, and counts as collapsed. One that cannot be read
    is an error. The column `folder` is where an audit finds a run's predictions.

    Args:
        store: where the runs lie.
        studies: one, or the parts of a collection.
        metrics: that every run must have.
    """
    runs, problems = read_runs(store, studies, metrics)
    if problems:
        raise RunsError(f"{problems[0]}; move it away and try again")
    rows = []
    for study in studies:
        rows += [run.row() for run in runs if run.study is study] + crashed_rows(store, study)
    return pd.DataFrame(rows)


def all_runs(store: Store, metrics: Sequence[str]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """One row per run of a store that has ended, whatever names it, and a note on runs that are left out."""
    table, stale = runs_table(store.path, metrics), stale_runs(store)
    is_stale = table["folder"].map(lambda folder: Path(folder).name in stale)
    notes = (f"{is_stale.sum()} runs from before their inputs changed were left out.",) if stale else ()
    crashed = {row["key"]: row for study in load_studies(store)[0] for row in crashed_rows(store, study)}
    failed = [pd.DataFrame(crashed.values()).drop(columns=["study", "key"])] if crashed else []
    return pd.concat([table.loc[~is_stale], *failed]), notes


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
