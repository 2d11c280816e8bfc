"""MLflow and Optuna, each through its own client: runs in a folder, a database, a journal or a server."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from seedspread.errors import require_extra
from seedspread.runs.metrics import Better
from seedspread.tables.columns import is_seed
from seedspread.tables.sources.run import (
    CollectedRun,
    Curve,
    Place,
    Reader,
    SourceError,
    Unread,
    copy_of,
    flat,
    may_be_parameter,
    number,
    reason,
    starts_with,
    with_name,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_PAGE = 1000


class MlflowReader(Reader):
    """Every run of every experiment that is not deleted; unfinished and failed runs are listed as unread."""

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
        with ExitStack() as copies, _one_line(place.source):
            client = connect(_address(place, copies))
            experiments = {e.experiment_id: e.name for e in _pages(client.search_experiments)}
            runs = list(_pages(client.search_runs, experiment_ids=list(experiments), order_by=["start_time"]))
            for run in runs:
                yield _collected(client, run, experiments[run.info.experiment_id], metrics if whole else ())


def _address(place: Place, copies: ExitStack) -> str:
    """Return MLflow's address of a place; for a database, of a copy that `copies` removes."""
    if place.path is None:
        return place.source
    if place.folder is not None:
        return place.path.absolute().as_uri()
    return f"sqlite:///{copies.enter_context(copy_of(place.path))}"


def connect(uri: str) -> "MlflowClient":
    """Return MLflow's client, with logging silenced and reading of folders enabled."""
    require_extra("mlflow", "MLflow")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    # Without this, a wrong address would take minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    from mlflow import MlflowClient  # noqa: PLC0415

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with _one_line(uri):
        return MlflowClient(tracking_uri=uri)


@contextmanager
def _one_line(source: str) -> Iterator[None]:
    """Turn any error of MLflow into an error of one line."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:  # MLflow's own, those of requests, of SQLAlchemy and of its drivers
        raise SourceError(f"MLflow cannot use {source}: {reason(error)}") from error


def _collected(client: "MlflowClient", run: "Run", group: str, whole: Sequence[str]) -> CollectedRun | Unread:
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


def _pages(search: Any, **options: Any) -> Iterator[Any]:
    """Yield everything that an MLflow search finds, page by page."""
    token = None
    while True:
        page = search(max_results=_PAGE, page_token=token, **options)
        yield from page
        token = page.token
        if not token:
            return


_JOURNAL = b'{"op_code":'


class OptunaReader(Reader):
    """A run is a trial, whose number is not a seed; incomplete trials are listed as unread."""

    kind = "optuna"
    title = "Optuna"
    looks_like = "an Optuna study"
    group = "study"

    def recognizes(self, place: Place) -> bool:
        is_journal = place.file is not None and starts_with(place.file, _JOURNAL)
        return is_journal or {"studies", "trials"} <= place.tables

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterator[CollectedRun | Unread]:
        require_extra("optuna", "reading Optuna's studies")
        import optuna  # noqa: PLC0415

        with _storage(place) as storage:
            for name in optuna.get_all_study_names(storage):
                study = optuna.load_study(study_name=name, storage=storage)
                for trial in study.get_trials(deepcopy=False):
                    yield _trial(study, trial, whole)


@contextmanager
def _storage(place: Place) -> Iterator[Any]:
    import optuna  # noqa: PLC0415
    from optuna.storages.journal import JournalFileBackend  # noqa: PLC0415

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        if place.path is None:
            yield place.source
        else:
            with copy_of(place.path) as copy:
                journal = None if place.tables else JournalFileBackend(str(copy))
                yield optuna.storages.JournalStorage(journal) if journal else f"sqlite:///{copy}"
    except Exception as error:  # each storage has its own errors, and a damaged file may raise any
        raise SourceError(f"Optuna cannot read {place.source}: {reason(error)}") from error
    finally:
        optuna.logging.set_verbosity(verbosity)


def _trial(study: "Study", trial: "FrozenTrial", whole: bool) -> CollectedRun | Unread:
    name = f"{study.study_name}/{trial.number}"
    if trial.state.name != "COMPLETE":
        return Unread(name, f"the trial's state is {trial.state.name}")
    several = [f"value_{n}" for n in range(len(study.directions))]
    names = study.metric_names or (several if len(several) > 1 else ["value"])
    curves: dict[str, Curve] = {key: [(None, value)] for key, value in zip(names, trial.values, strict=True)}
    steps = sorted(trial.intermediate_values.items())
    if len(names) == 1 and steps and whole:
        curves[names[0]] = [(float(step), value) for step, value in steps]
    attributes = flat(trial.user_attrs)
    measured = {key: number(value) for key, value in attributes.items() if not is_seed(key)}
    curves = {**{key: [(None, value)] for key, value in measured.items() if value is not None}, **curves}
    parameters = {key: value for key, value in attributes.items() if may_be_parameter(key, value)}
    parameters |= flat(trial.params)
    better: list[Better] = ["lower" if d.name == "MINIMIZE" else "higher" for d in study.directions]
    return CollectedRun(name, parameters, curves, study.study_name, dict(zip(names, better, strict=True)))
