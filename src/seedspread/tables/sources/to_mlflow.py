"""The other way: a store's runs to MLflow, each once however often it is exported."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedspread.runs.files import UNREADABLE
from seedspread.runs.folder import RunFolder
from seedspread.runs.record import Record
from seedspread.runs.store import Store
from seedspread.runs.studies import stale_runs
from seedspread.runs.table import is_store
from seedspread.tables.sources.files import quiet, reason
from seedspread.tables.sources.from_mlflow import connect, one_line, pages
from seedspread.tables.sources.from_store import STALE
from seedspread.tables.sources.parameters import flat
from seedspread.tables.sources.run import SourceError, Unread, count

if TYPE_CHECKING:
    from mlflow import MlflowClient

_KEY = "seedspread.key"
# MLflow takes so many at once, and parameters no longer than this.
_MOST_METRICS, _MOST_PARAMETERS, _LONGEST = 1000, 100, 6000


@dataclass(frozen=True)
class Exported:
    """What was exported.

    Attributes:
        uri: to where.
        experiment: under which name.
        exported: how many runs.
        there: how many were there already.
        unread: what could not be exported, and why.
    """

    uri: str
    experiment: str
    exported: int
    there: int
    unread: tuple[Unread, ...]

    @property
    def words(self) -> str:
        """For people."""
        where = f"{self.uri}, experiment {self.experiment}"
        lines = [f"exported to MLflow ({where}): {count(self.exported, 'run')}; there before: {self.there}"]
        return "\n".join([*lines, *(f"  not exported: {one.name}: {one.reason}" for one in self.unread)])

    def values(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        unread = [{"name": one.name, "reason": one.reason} for one in self.unread]
        return {
            "uri": self.uri, "experiment": self.experiment, "exported": self.exported, "there": self.there,
            "unread": unread,
        }  # fmt: skip


def export(store: "Path | str", uri: str) -> Exported:
    """Exports finished runs that are not there yet: parameters, seed, metrics, curves; the key as a tag."""
    store = Path(store)
    if not store.is_dir() or not is_store(store):
        raise SourceError(f"{store} holds no finished run; --mlflow exports a store of this package's runs")
    with quiet():
        return _export(store, uri)


def _export(store: Path, uri: str) -> Exported:
    client = connect(uri)
    name = store.resolve().name
    unread, exported = [], 0
    with one_line(uri):
        experiment = client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else client.create_experiment(name)
        there = _keys_there(client, number)
        keys = [key for key in Store(store).keys() if Store(store).is_done(key)]  # noqa: SIM118
        stale = stale_runs(Store(store))
        for key in keys:
            if key in there:
                continue
            if key in stale:
                unread.append(Unread(key, STALE))
                continue
            try:
                record = Record.read(str(Store(store).folder(key)))
            except UNREADABLE as error:
                unread.append(Unread(key, reason(error)))
                continue
            _export_run(client, number, record, Store(store).run(key))
            exported += 1
    return Exported(uri, name, exported, len(there & set(keys)), tuple(unread))


def _keys_there(client: "MlflowClient", experiment: str) -> set[str]:
    """The runs that are there; one that an interrupted export left half-written is deleted."""
    found = set()
    for run in pages(client.search_runs, experiment_ids=[experiment]):
        key = run.data.tags.get(_KEY)
        if key is not None and run.info.status == "FINISHED":
            found.add(key)
        elif key is not None:
            client.delete_run(run.info.run_id)
    return found


def _export_run(client: "MlflowClient", experiment: str, record: Record, folder: RunFolder) -> None:
    from mlflow.entities import Metric, Param  # noqa: PLC0415

    started, ended = (_milliseconds(record.provenance.get(name)) for name in ("started", "ended"))
    tags = {
        _KEY: record.key,
        "seedspread.runner": record.runner,
        "seedspread.dataset": record.dataset,
        "seedspread.collapsed": str(record.collapsed),
    }
    run = client.create_run(experiment, started, tags, run_name=record.key).info.run_id
    parameters = {**flat(record.parameters), "seed": record.seed}
    listed = [Param(name, str(value)[:_LONGEST]) for name, value in parameters.items()]
    for start in range(0, len(listed), _MOST_PARAMETERS):
        client.log_batch(run, params=listed[start : start + _MOST_PARAMETERS])
    when = ended or started or 0
    metrics = [Metric(name, value, when, 0) for name, value in record.metrics.items() if math.isfinite(value)]
    metrics += [Metric(name, value, when, step) for name, value, step in _curves(folder)]
    for start in range(0, len(metrics), _MOST_METRICS):
        client.log_batch(run, metrics=metrics[start : start + _MOST_METRICS])
    client.set_terminated(run, "FINISHED", ended)


def _curves(folder: RunFolder) -> Iterator[tuple[str, float, int]]:
    """What was recorded by epoch, as (name, value, epoch); of layers, each has its own name."""
    try:
        table = folder.history()
    except (OSError, ValueError):  # pyarrow's own are both
        return  # a runner need not keep any
    rows = table.to_pylist() if "epoch" in table.column_names else []
    for row in rows:
        layer = f".layer{row['layer']}" if "layer" in row else ""
        for name, value in row.items():
            if name not in ("epoch", "layer") and isinstance(value, int | float) and math.isfinite(value):
                yield f"history.{name}{layer}", float(value), int(row["epoch"])


def _milliseconds(time: object) -> int | None:
    """Of a time as a record has it."""
    try:
        return int(datetime.fromisoformat(str(time)).timestamp() * 1000)
    except ValueError:
        return None
