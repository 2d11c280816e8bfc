"""CSV exports of Weights & Biases: the runs table, a long history, or a panel with a column per run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seedspread.tables.sources.files import UNREADABLE, header, read_csv, reason
from seedspread.tables.sources.parameters import may_be_parameter, number, with_name
from seedspread.tables.sources.place import Place
from seedspread.tables.sources.rows import column, one_run, runs_apart, step_column
from seedspread.tables.sources.run import CollectedRun, Curve, SourceError, Unread

Shape = Literal["runs", "long", "wide"]
_RUNS = ("run_id", "run id", "run", "run_name", "run name", "name")
_BETWEEN = " - "
_BOUNDS = ("__MIN", "__MAX")
# Columns of the runs table that tell of the site, not of the run.
_ABOUT = set(
    "name state notes user created runtime sweep updated id hostname host command commit github _step "
    "_runtime _timestamp _wandb url description".split()
) | {
    "end time",
    "start time",
    "heartbeat at",
    "gpu type",
    "gpu count",
    "python version",
    "os",
    "relative time (process)",
}
_GROUPED = re.compile(r"(?P<key>[\w./ ]+): .+")


@dataclass(frozen=True)
class WandbReader:
    """A run is a row, the rows of one name, or a column."""

    kind: str = "wandb"
    title: str = "Weights & Biases"
    group: str = ""

    def recognises(self, place: Place) -> bool:
        """Whether the file's first line is one that the site writes."""
        is_csv = place.is_file and place.path is not None and place.path.suffix.lower() == ".csv"
        if not is_csv or place.path is None:
            return False
        shape = shape_of(header(place.path))
        return shape is not None and (shape != "long" or _is_history(place.path))

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterator[CollectedRun | Unread]:
        """The runs of the export."""
        path = place.path or Path()
        try:
            rows = read_csv(path)
        except UNREADABLE as error:
            raise SourceError(f"{place.source} cannot be read: {reason(error)}") from error
        shape = shape_of(header(path))
        if shape is None:
            raise SourceError(f"{place.source} is no export of Weights & Biases: no column names a run")
        if shape == "wide":
            yield from _wide(rows, header(path))
        elif shape == "long":
            for name, own in runs_apart(rows, path.stem):
                run = one_run(name, own, {})
                yield CollectedRun(name, _parameters(run.parameters, run.name, ()), run.curves)
        else:
            created = column(rows, ("created", "start time"))
            for row in sorted(rows, key=lambda row: row.get(created, "") if created else ""):
                yield _row(row, metrics)


def shape_of(names: Sequence[str]) -> Shape | None:
    """Which of the three exports has these columns."""
    lower = {name.lower() for name in names}
    per_run = [name for name in names if _BETWEEN in name]
    if per_run and len(names) - len(per_run) == 1:
        return "wide"
    if {"name", "state"} <= lower and lower & {"created", "runtime", "user", "sweep", "id"}:
        return "runs"
    row = dict.fromkeys(names, "")
    is_long = step_column([row]) and column([row], _RUNS)
    return "long" if is_long else None


def _is_history(path: Path) -> bool:
    """Whether rows are steps of runs: a table with a row per run may have the same columns."""
    try:
        rows = read_csv(path)
    except UNREADABLE:
        return False
    name, step = column(rows, _RUNS), step_column(rows)
    pairs = {(row[name], row[step]) for row in rows} if name and step else set()
    return len(pairs) == len(rows) > len({run for run, _ in pairs})


def _row(row: Mapping[str, str], metrics: Sequence[str]) -> CollectedRun | Unread:
    """A row of the runs table; it holds each metric's summary."""
    cells = {key.lower(): cell for key, cell in row.items()}
    name = cells.get("name") or cells.get("id") or "?"
    if cells.get("state", "finished").lower() != "finished":
        return Unread(name, f"its state is {cells['state'] or 'not given'}")
    step = number(cells.get("_step"))
    numbers = {key: number(cell) for key, cell in row.items() if key.lower() not in _ABOUT}
    curves: dict[str, Curve] = {key: [(step, value)] for key, value in numbers.items() if value is not None}
    return CollectedRun(name, _parameters(row, name, metrics), curves)


def _parameters(row: Mapping[str, str], name: str, metrics: Sequence[str]) -> dict[str, str]:
    """Cells that are neither about the site nor a metric by their names."""
    wanted = {key: cell for key, cell in row.items() if key.lower() not in _ABOUT and cell != ""}
    found = {k: cell for k, cell in wanted.items() if k not in metrics and may_be_parameter(k, cell)}
    return with_name(found, name)


def _wide(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> Iterator[CollectedRun | Unread]:
    """Columns such as `run - metric`; those with the bounds of what was drawn are passed over."""
    axis = next(name for name in names if _BETWEEN not in name)
    runs: dict[str, dict[str, Curve]] = {}
    for name in names:
        run, between, metric = name.rpartition(_BETWEEN)
        if not between or metric.endswith(_BOUNDS) or metric.startswith("_"):
            continue
        points = ((number(row[axis]), number(row[name])) for row in rows)
        runs.setdefault(run.removeprefix("Name: "), {})[metric] = [(s, v) for s, v in points if v is not None]
    for run, curves in runs.items():
        if _GROUPED.fullmatch(run):
            yield Unread(run, "a mean over a group of runs; ungroup the panel, then export it again")
        else:
            yield CollectedRun(run, with_name({}, run), curves)
