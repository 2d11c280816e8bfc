"""A folder of finished runs as a table: one row per run, its metrics and its parameters as columns."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.errors import SeedspreadError
from seedspread.runs.files import UNREADABLE, NewerFormatError, RecordError, read_record
from seedspread.runs.folder import RunFolder
from seedspread.runs.metrics import SCORED, scores
from seedspread.runs.record import CONFIG, PROVENANCE, RESULT, Record

_PLAIN = (str, int, float, bool)


class RunsError(SeedspreadError):
    """A stored run cannot be used."""


def is_store(folder: Path) -> bool:
    """Whether any finished run lies in `folder`; other tools call their files `result.json` too."""
    return any(map(_is_ours, _finished(folder)))


def store_of(folders: Iterable[str]) -> Path | None:
    """The store that holds all these folders of finished runs; None if there is none, or several."""
    store = None
    for folder in map(Path, folders):
        if store is None and (folder / RESULT).exists() and _is_ours(folder):
            store = folder.parent
        if folder.parent != store:
            return None
    return store


def _is_ours(run: Path) -> bool:
    return any((run / name).exists() for name in (PROVENANCE, CONFIG))


def has_begun(folder: Path) -> bool:
    """Whether any run of this package lies right in `folder`, finished or not."""
    runs = (run for run in folder.glob("*/") if (run / CONFIG).exists())
    return any(marks or is_running for marks, is_running in (RunFolder(run).marks() for run in runs))


def _finished(folder: Path) -> Any:
    # One level down and no deeper: what a run's own program keeps in its folder is no run.
    return (path.parent for path in folder.glob(f"*/{RESULT}") if not path.parent.is_symlink())


@dataclass(frozen=True)
class RunFields:
    """What a row on a finished run is made of.

    Attributes:
        parameters: under their full names, such as `objective.margin_type`; what is empty is left out.
        metrics: by name.
        chance: what chance scores on those that were asked for, as `chance.NAME`.
        dataset: what it was run on; empty where its runner does not say.
        about: seed, collapsed, majority and folder.
    """

    parameters: Mapping[str, Any]
    metrics: Mapping[str, float]
    chance: Mapping[str, float]
    dataset: str
    about: Mapping[str, Any]

    def row(self) -> dict[str, Any]:
        """Parameters under their full names and, where clear in this run, the last part alone as well."""
        return (
            {"dataset": self.dataset}  # unless it is a parameter
            | dict(self.metrics)
            | _with_short_names(self.parameters)
            | dict(self.metrics)
            | dict(self.chance)
            | dict(self.about)
        )


def runs_table(folder: "Path | str", metrics: Sequence[str] = ()) -> pd.DataFrame:
    """One row per finished run: metrics, seed, dataset, collapsed, majority, folder, and its parameters.

    Parameters have their full names (`objective.margin_type`) and, where clear, the last part alone.
    A run that cannot be read is an error here; `finished_runs` goes on.

    Args:
        folder: of the store.
        metrics: that are wanted of every run; those that it was not stored with are computed from its
            predictions, if it kept them. What chance scores on them stands beside, as `chance.NAME`.
    """
    runs, problems = finished_runs(Path(folder), metrics)
    if problems:
        raise RunsError(f"{problems[0]}; move it away and try again")
    return pd.DataFrame([run.row() for run in runs])


def finished_runs(folder: Path, metrics: Sequence[str] = ()) -> tuple[list[RunFields], list[str]]:
    """The finished runs that can be read, and a line on each that cannot."""
    found = [read_fields(path, metrics) for path in sorted(_finished(folder))]
    runs = [one for one in found if not isinstance(one, str)]
    return runs, [one for one in found if isinstance(one, str)]


def read_fields(folder: Path, metrics: Sequence[str] = ()) -> RunFields | str:
    """What a finished run's row is made of, or what is wrong with the run."""
    try:
        if damage := RunFolder(folder).damage():
            return damage
        record = Record.read(str(folder))
        values, chance = with_metrics(record, folder, metrics)
        return RunFields(
            parameters=_full_names(record.parameters),
            metrics=values,
            chance={f"chance.{name}": chance[name] for name in metrics if name in chance},
            dataset=record.dataset,
            about={
                "seed": record.seed,
                "collapsed": record.collapsed,
                "majority": chance.get("accuracy", float("nan")),
                "folder": str(folder),
            },
        )
    except RecordError as error:
        return str(error)
    except UNREADABLE as error:
        return f"{folder} is not a readable run: {error}"


def with_metrics(
    record: Record, folder: Path, metrics: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """A run's metrics and what chance scores; those that it was not stored with come from its predictions."""
    values, chance = dict(record.metrics), dict(record.chance)
    lacking = any(name in SCORED and name not in values for name in metrics)
    if lacking and RunFolder(folder).has_predictions:
        stored = RunFolder(folder).predictions("logits", "labels")
        found, guessed = scores(stored["logits"][0], stored["labels"])
        values, chance = found | values, guessed | chance
    return values, chance


def is_collapsed(folder: Path) -> bool | str:
    """Whether a finished run is flagged as collapsed, or what is wrong with its files.

    Raises `NewerFormatError` for a result that is whole, and newer than this program.
    """
    try:
        collapsed = bool(read_record(str(folder), RESULT)["collapsed"])
        return RunFolder(folder).damage() or collapsed
    except NewerFormatError:
        raise
    except UNREADABLE as error:
        return f"{folder} is not a readable run: {error}"


def _full_names(parameters: Any) -> dict[str, Any]:
    """Parts of parameters with their names before those of their fields; what is empty is left out."""
    full: dict[str, Any] = {}
    for part, fields in parameters.items():
        if isinstance(fields, dict):
            full |= {f"{part}.{name}": value for name, value in fields.items() if value is not None}
        elif fields is not None:
            full[part] = fields
    return {name: v if isinstance(v, _PLAIN) else json.dumps(v) for name, v in full.items()}


def parameter_columns(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A run's parameters as the columns that a table of runs has for them."""
    return _with_short_names(_full_names(parameters))


def _with_short_names(full: Mapping[str, Any]) -> dict[str, Any]:
    return dict(full) | {name: full[whole] for name, whole in _short_names(tuple(full))}


@cache
def _short_names(full: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The last part of each name that no other shares, and the whole name; the same for most runs."""
    counts = Counter(name.rpartition(".")[2] for name in full)
    return tuple((name.rpartition(".")[2], name) for name in full if counts[name.rpartition(".")[2]] == 1)


def correct_predictions(folders: list[str]) -> NDArray[np.bool_] | None:
    """(runs, N) which test examples each run got right; None unless all can be read and saw the same ones."""
    found, ids = [], None
    for folder in folders:
        try:
            own, correct = RunFolder(Path(folder)).correct()
            if ids is not None and not np.array_equal(ids, own):
                return None
            ids = own
            found.append(correct)
        except (RecordError, IndexError, ValueError):
            return None  # none, or damaged: no floor can be had from these runs
    return np.stack(found) if found else None
