"""MLflow, through its own client: its runs read from a folder, database or server; a store exported to it."""

import logging
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedspread.errors import require_extra
from seedspread.runs.files import UNREADABLE
from seedspread.runs.folder import RunFolder
from seedspread.runs.run import Run
from seedspread.runs.store import Store, is_store
from seedspread.runs.studies import stale_runs
from seedspread.tables.sources.files import Place, copy_of, quiet, reason
from seedspread.tables.sources.logs import STALE
from seedspread.tables.sources.run import (
    CollectedRun,
    Curve,
    Reader,
    SourceError,
    Unread,
    count,
    flat,
    is_seed,
    with_name,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as LoggedRun

_PAGE = 1000


class MlflowReader(Reader):
    """Every run of every experiment that is not deleted; unfinished and failed ones are listed as unread."""

    kind = "mlflow"
    title = "MLflow"
    looks_like = "an MLflow folder or database"
    group = "experiment"

    def recognizes(self, place: Place) -> bool:
        if place.path is None:
            return place.source.startswith(("http://", "https://", "databricks"))
        if place.folder is not None:
            return any((child / "meta.yaml").is_file() for child in place.folder.iterdir() if child.is_dir())
        return {"experiments", "latest_metrics"} <= place.tables

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterator[CollectedRun | Unread]:
        with _client(place) as client, one_line(place.source):
            experiments = {e.experiment_id: e.name for e in pages(client.search_experiments)}
            runs = list(pages(client.search_runs, experiment_ids=list(experiments), order_by=["start_time"]))
            for run in runs:
                yield _collected(client, run, experiments[run.info.experiment_id], metrics if whole else ())


@contextmanager
def _client(place: Place) -> Iterator["MlflowClient"]:
    if place.path is None:
        yield connect(place.source)
    elif place.folder is not None:
        yield connect(place.path.absolute().as_uri())
    else:
        with copy_of(place.path) as copy:
            yield connect(f"sqlite:///{copy}")


def connect(uri: str) -> "MlflowClient":
    """Return MLflow's client, without log messages; it reads folders only if it is told to."""
    require_extra("mlflow", "MLflow")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    # A wrong address would take minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    from mlflow import MlflowClient  # noqa: PLC0415

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with one_line(uri):
        return MlflowClient(tracking_uri=uri)


@contextmanager
def one_line(source: str) -> Iterator[None]:
    """Turn what MLflow raises into an error of one line."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:  # MLflow's own, those of requests, of SQLAlchemy and of its drivers
        raise SourceError(f"MLflow cannot use {source}: {reason(error)}") from error


def _collected(
    client: "MlflowClient", run: "LoggedRun", group: str, whole: Sequence[str]
) -> CollectedRun | Unread:
    name = run.info.run_name or run.info.run_id
    if run.info.status != "FINISHED":
        return Unread(f"{name} ({run.info.run_id[:8]})", f"its status is {run.info.status}")
    curves: dict[str, Curve] = {
        metric.key: [(float(metric.step), float(metric.value))] for metric in run.data.to_proto().metrics
    }
    for key in set(whole) & set(curves):
        history = client.get_metric_history(run.info.run_id, key)
        curves[key] = [(float(point.step), float(point.value)) for point in history]
    seeds = {key: value for key, value in run.data.tags.items() if is_seed(key)}
    return CollectedRun(name, with_name({**seeds, **run.data.params}, name), curves, group)


def pages(search: Any, **options: Any) -> Iterator[Any]:
    """Yield everything that a search of MLflow finds, page by page."""
    token = None
    while True:
        page = search(max_results=_PAGE, page_token=token, **options)
        yield from page
        token = page.token
        if not token:
            return


_KEY = "seedspread.key"
# MLflow accepts this many at once, and parameters of this length.
_MOST_METRICS, _MOST_PARAMETERS, _LONGEST = 1000, 100, 6000


@dataclass(frozen=True)
class Exported:
    """Number of runs that were exported, and that were there before; what could not be exported."""

    uri: str
    experiment: str
    exported: int
    there: int
    unread: tuple[Unread, ...]

    def __str__(self) -> str:
        where = f"{self.uri}, experiment {self.experiment}"
        lines = [f"exported to MLflow ({where}): {count(self.exported, 'run')}; there before: {self.there}"]
        return "\n".join([*lines, *(f"  not exported: {one.name}: {one.reason}" for one in self.unread)])


@quiet()
def export(path: "Path | str", uri: str) -> Exported:
    """Export finished runs that are not there yet: parameters, seed, metrics, curves; the key as a tag."""
    if not Path(path).is_dir() or not is_store(Path(path)):
        raise SourceError(f"{path} holds no finished run; --mlflow exports a store of this package's runs")
    client, store = connect(uri), Store(Path(path))
    name = store.path.resolve().name
    unread, exported = [], 0
    with one_line(uri):
        experiment = client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else client.create_experiment(name)
        there = _keys_there(client, number)
        keys = [key for key in store.keys() if store.is_done(key)]  # noqa: SIM118
        stale = stale_runs(store)
        for key in keys:
            if key in there:
                continue
            if key in stale:
                unread.append(Unread(key, STALE))
                continue
            try:
                run = Run.read(str(store.folder(key)))
            except UNREADABLE as error:
                unread.append(Unread(key, reason(error)))
                continue
            _export_run(client, number, run, store.run(key))
            exported += 1
    return Exported(uri, name, exported, len(there & set(keys)), tuple(unread))


def _keys_there(client: "MlflowClient", experiment: str) -> set[str]:
    """Return the keys of runs that are there; delete what an interrupted export left half-written."""
    found = set()
    for run in pages(client.search_runs, experiment_ids=[experiment]):
        key = run.data.tags.get(_KEY)
        if key is not None and run.info.status == "FINISHED":
            found.add(key)
        elif key is not None:
            client.delete_run(run.info.run_id)
    return found


def _export_run(client: "MlflowClient", experiment: str, run: Run, folder: RunFolder) -> None:
    from mlflow.entities import Metric, Param  # noqa: PLC0415

    started, ended = (_milliseconds(run.provenance.get(name)) for name in ("started", "ended"))
    tags = {
        _KEY: run.key,
        "seedspread.runner": run.runner,
        "seedspread.dataset": run.dataset,
        "seedspread.collapsed": str(run.collapsed),
    }
    run_id = client.create_run(experiment, started, tags, run_name=run.key).info.run_id
    parameters = {**flat(run.parameters), "seed": run.seed}
    listed = [Param(name, str(value)[:_LONGEST]) for name, value in parameters.items()]
    for start in range(0, len(listed), _MOST_PARAMETERS):
        client.log_batch(run_id, params=listed[start : start + _MOST_PARAMETERS])
    when = ended or started or 0
    metrics = [Metric(name, value, when, 0) for name, value in run.metrics.items() if math.isfinite(value)]
    metrics += [Metric(name, value, when, step) for name, value, step in _history(folder)]
    for start in range(0, len(metrics), _MOST_METRICS):
        client.log_batch(run_id, metrics=metrics[start : start + _MOST_METRICS])
    client.set_terminated(run_id, "FINISHED", ended)


def _history(folder: RunFolder) -> Iterator[tuple[str, float, int]]:
    """Yield name, value and epoch of what was recorded by epoch; each layer has a name of its own."""
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
    try:
        return int(datetime.fromisoformat(str(time)).timestamp() * 1000)
    except ValueError:
        return None
