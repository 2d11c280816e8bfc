"""`collect`: from what other tools have written to a table of runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from seedspread.errors import did_you_mean
from seedspread.render.table import head_of
from seedspread.render.web import for_notebook
from seedspread.runs.metrics import metric_of
from seedspread.runs.table import has_begun
from seedspread.tables.sources.files import quiet
from seedspread.tables.sources.from_hydra import HydraReader
from seedspread.tables.sources.from_json import JsonReader
from seedspread.tables.sources.from_lightning import LightningReader
from seedspread.tables.sources.from_mlflow import MlflowReader
from seedspread.tables.sources.from_optuna import OptunaReader
from seedspread.tables.sources.from_store import StoreReader
from seedspread.tables.sources.from_tensorboard import TensorBoardReader
from seedspread.tables.sources.from_wandb import WandbReader
from seedspread.tables.sources.place import Place
from seedspread.tables.sources.point import At
from seedspread.tables.sources.run import Better, CollectedRun, Reader, SourceError, Unread
from seedspread.tables.sources.table import check_metrics, rows_of, shaped, without_duplicates

# The surest sign first: a job of Hydra's may hold logs of Lightning's, and anything may hold JSON.
READERS: tuple[Reader, ...] = (
    StoreReader(), MlflowReader(), OptunaReader(), HydraReader(), LightningReader(), TensorBoardReader(),
    WandbReader(), JsonReader(),
)  # fmt: skip
KINDS = tuple(reader.kind for reader in READERS)


@dataclass(frozen=True, repr=False)
class Collected:
    """What was found in a source.

    Attributes:
        table: a row per run: run, experiment or study if there are several, seed, parameters, step, metrics.
        unread: what gives no row, and why.
        notes: what else is to be known of how the table came about.
        source: as the user named it.
        kind: of the source.
        title: the kind's name for people.
        seed: the parameter that became the column `seed`; None if there is none.
        varying: the parameters that vary, as columns of the table.
        constant: those that do not.
        better: the direction by which the best was taken; None if it was not asked for.
        declared: the direction that the source itself records for the first metric, if any. An audit of a
            `Collected` goes by it; one of its `table` goes by the column's name.
    """

    table: pd.DataFrame
    unread: tuple[Unread, ...]
    notes: tuple[str, ...]
    source: str
    kind: str
    title: str
    seed: str | None
    varying: tuple[str, ...]
    constant: tuple[str, ...]
    better: Better | None
    declared: Better | None

    def __repr__(self) -> str:
        return f"<Collected: {len(self.table)} runs of {self.title} from {self.source}>"

    def _repr_html_(self) -> str:
        what = f"{len(self.table)} runs of {self.title} from {self.source}; .table has all of them."
        unread = [f"{len(self.unread)} give no row{_first(self.unread)}."] if self.unread else []
        return for_notebook([what], [head_of(self.table)], [*self.notes, *unread])


def collect(
    source: "str | Path",
    metric: "str | Sequence[str]",
    at: str = "last",
    *,
    kind: str | None = None,
    better: Literal["higher", "lower"] | None = None,
    all_parameters: bool = False,
    keep_duplicates: bool = False,
) -> Collected:
    """A table of the runs that another tool has logged: one row per run.

    Args:
        source: a folder, a file, or the address of an MLflow server or of a database.
        metric: what to take of each run; of several, the first decides on the step.
        at: `last`, `best`, or `step=N`.
        kind: of the source; by default what lies there tells.
        better: which direction is the best; by default what the source or the metric's name tells.
        all_parameters: keep those that are the same in all runs, too.
        keep_duplicates: keep runs with the same parameters and seed as a later one.
    """
    metrics = [metric] if isinstance(metric, str) else list(dict.fromkeys(metric))
    when = At.of(at)
    place = Place.of(source)
    reader, others = find_reader(place, kind)
    with quiet():
        items = list(reader.read(place, metrics, when.word != "last"))
    runs = [item for item in items if isinstance(item, CollectedRun)]
    unread = [item for item in items if isinstance(item, Unread)]
    if not runs:
        raise SourceError(f"no run could be read from {place.source}{_first(unread)}")
    check_metrics(runs, metrics, place.source)
    direction, told_by = _direction(metrics[0], better, runs)
    rows, without = rows_of(runs, metrics, when, direction)
    if not rows:
        raise SourceError(f"no run in {place.source} has {metrics[0]} at {when.words}{_first(without)}")
    made = shaped(rows, metrics, reader.group, all_parameters=all_parameters)
    if not keep_duplicates:
        rows, twice = without_duplicates(rows, made.seed)
        unread += twice
        made = shaped(rows, metrics, reader.group, all_parameters=all_parameters)
    notes = [f"It could be read as {other} too: --kind {other}." for other in others]
    if when.word == "best" and all(len(row.run.curves.get(metrics[0], ())) < 2 for row in rows):
        notes.append(f"Each run has one value of {metrics[0]}: that is taken.")
    elif when.word == "best":
        notes.append(f"The best {metrics[0]} is the {direction.replace('er', 'est')}, as {told_by} tells.")
    if place.links:
        notes.append(f"{place.links} links were not followed.")
    notes += _gaps(made.table, metrics)
    return Collected(
        made.table, (*unread, *without), tuple(notes), place.source, reader.kind, reader.title,
        made.seed, made.varying, made.constant, direction if when.word == "best" else None,
        direction if told_by == "the study" else None,
    )  # fmt: skip


def find_reader(place: Place, kind: str | None = None) -> tuple[Reader, list[str]]:
    """The reader for what lies there, and the kinds that it could be as well."""
    if kind is not None and kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise SourceError(f"the kind must be one of {', '.join(KINDS)}; got {kind!r}{hint}")
    if place.path is not None and not place.path.exists():
        raise SourceError(f"{place.source} does not exist; give a folder, a file or an address of results")
    found = [reader for reader in READERS if reader.recognises(place)]
    if kind is not None:
        asked = next(reader for reader in READERS if reader.kind == kind)
        # What stands behind an address cannot be seen from here.
        if asked not in found and place.path is not None:
            looks = f"; it looks like {found[0].title}" if found else ""
            raise SourceError(f"{place.source} holds nothing of {asked.title}{looks}")
        return asked, []
    if not found:
        raise SourceError(
            f"{place.source} holds no results that are known: an MLflow folder or database, an Optuna study, "
            "Hydra jobs, Lightning CSV logs, TensorBoard events, a W&B export or JSON files; --kind names it"
        )
    # Nearly every folder of results has some JSON in it.
    return found[0], [reader.kind for reader in found[1:] if reader.kind != "json"]


def is_source(source: "str | Path") -> bool:
    """Whether something other than a plain table or a store of runs lies there, that can be collected."""
    place = Place.of(source)
    if place.path is not None and (not place.path.exists() or has_begun(place.path)):
        return False
    return any(reader.recognises(place) for reader in READERS if reader.kind != "store")


def _direction(metric: str, better: Better | None, runs: Sequence[CollectedRun]) -> tuple[Better, str]:
    """Which direction is better, and what tells it."""
    if better is not None:
        return better, "the option"
    said = {run.better[metric] for run in runs if metric in run.better}
    if len(said) > 1:
        raise SourceError(
            f"the studies differ in which {metric} is better; say --higher-is-better or --lower-is-better"
        )
    return (said.pop(), "the study") if said else (metric_of(metric).better, "its name")


def _first(unread: Sequence[Unread]) -> str:
    """The reason of the first, for an error."""
    if not unread:
        return ""
    more = f"; and {len(unread) - 1} more" if len(unread) > 1 else ""
    return f": {unread[0].name}: {unread[0].reason}{more}"


def _gaps(table: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """Where a row lacks its seed, or a metric beyond the first."""
    names = [name for name in ("seed", *metrics[1:]) if name in table.columns]
    return [
        f"{int(table[n].isna().sum())} of {len(table)} rows have no {n}."
        for n in names
        if table[n].isna().any()
    ]
