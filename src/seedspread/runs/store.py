"""The store: one folder per run, safe with many writers, readable while they write."""

import math
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from seedspread.errors import SeedspreadError, printable, reason
from seedspread.runs.files import UNREADABLE, NewerFormatError, RecordError
from seedspread.runs.folder import CONFIG, PROVENANCE, RESULT, Heartbeat, RunFolder, RunFolderError
from seedspread.runs.lease import LEASE_SECONDS, Holder, Lease, StalenessTracker, claim, newest
from seedspread.runs.metrics import rate_from_histogram
from seedspread.runs.plugins import load_plugin, plugins
from seedspread.runs.run import Run, full_names, read_run

if TYPE_CHECKING:
    import pandas as pd


class RunsError(SeedspreadError):
    """A stored run that cannot be used."""


def is_store(folder: Path) -> bool:
    """Return whether `folder` contains a finished run; other tools also write files called `result.json`."""
    return any(map(_is_ours, _finished(folder)))


def store_of(folders: Iterable[str]) -> Path | None:
    """Return the store that contains all these folders of finished runs; None if none or several do."""
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
    """Return whether `folder` directly contains a run of this package, finished or not."""
    runs = (run for run in folder.glob("*/") if (run / CONFIG).exists())
    return any(marks or is_running for marks, is_running in (RunFolder(run).marks() for run in runs))


def _finished(folder: Path) -> Any:
    # One level deep only: what a run's program stores in its own folder is not a run.
    return (path.parent for path in folder.glob(f"*/{RESULT}") if not path.parent.is_symlink())


def finished_runs(folder: Path, metrics: Sequence[str] = ()) -> tuple[list[Run], list[str]]:
    """Return the finished runs that can be read, and a line on each that cannot."""
    found = [read_run(path, metrics) for path in sorted(_finished(folder))]
    runs = [one for one in found if isinstance(one, Run)]
    return runs, [str(one) for one in found if isinstance(one, RecordError)]


def correct_predictions(folders: list[str]) -> NDArray[np.bool_] | None:
    """Return (runs, N) which examples each run got right; None unless all are readable and comparable."""
    try:
        stored = [RunFolder(Path(folder)).correct() for folder in folders]
    except (RecordError, IndexError, ValueError):
        return None  # missing or damaged: test-set noise cannot be computed
    alike = all(np.array_equal(ids, stored[0][0]) for ids, _ in stored)
    return np.stack([correct for _, correct in stored]) if stored and alike else None


def devices(folders: Iterable[str]) -> Counter[str]:
    """Count runs by the device in their records; an empty name stands for none recorded."""
    records = (RunFolder(Path(folder)).provenance_if_readable() for folder in folders)
    return Counter(str(facts.get("gpu") or facts.get("device") or "") for facts in records)


# Columns of a run besides parameters and metrics; `dataset` may be a parameter as well.
_ABOUT = ("seed", "collapsed", "majority", "folder")
# Sources of randomness share names with other things (`order`, `augment`); `name` alone is unclear.
_WHOLE = ("seeds.", "probe.", "data.name")
_SEED = "seeds.run"
_LAYERS = (
    "layer", "epoch", "loss", "clamp_activation_rate", "rate_if_clamped", "gradient_norm",
    "block_gradient_norm", "positive_pairs",
)  # fmt: skip
_HISTOGRAM = "similarity_histogram"


def tidy_table(runs: Sequence[Run], metrics: Sequence[str] = ()) -> "pd.DataFrame":
    """Return one row per run: parameters that vary, seed, metrics, then what is the same in all runs.

    Factors have the names that their study gives them. Any other parameter has the last part of its name
    if that is unique, else its full name. The chance scores of `metrics` are added.
    """
    import pandas as pd  # noqa: PLC0415 - slow, and no worker needs it

    chance = [run.chance_columns([name for name in metrics if name != "accuracy"]) for run in runs]
    parameters = [full_names(run.parameters) for run in runs]
    factors = dict.fromkeys(factor for run in runs for factor, _ in run.cell)
    columns = dict.fromkeys(
        name for run, scores in zip(runs, chance, strict=True) for name in (*run.metrics, *scores)
    )
    names = _names(runs, parameters, set(factors), {*columns, *_ABOUT})
    rows = [
        {"dataset": run.dataset}
        | {name: own[whole] for whole, name in names.items() if whole in own}
        | {**run.metrics, **scores, "seed": run.seed, "collapsed": run.collapsed, "majority": run.majority}
        | {"folder": run.folder, **dict(run.cell)}
        for run, own, scores in zip(runs, parameters, chance, strict=True)
    ]
    described = [*factors, "dataset", *names.values()]
    # Levels of a parameter may have several types.
    vary = [name for name in described if len({repr(row.get(name)) for row in rows}) > 1]
    order = [*vary, "seed", *columns, "collapsed", "majority", *described, "folder"]
    table = pd.DataFrame(rows, columns=list(dict.fromkeys(order)))
    unsaid = [c for c in ("dataset", "majority") if rows and table[c].isin(["", math.nan]).all()]
    return table.drop(columns=unsaid)


def layer_table(runs: Sequence[Run]) -> "pd.DataFrame":
    """Return one row per run, layer and epoch: parameters that vary, seed, records, the run's folder.

    Layers are counted from 0, epochs from 1, or as a run's own code logged them. A run whose history has no
    layers, or cannot be read, has no rows.
    """
    import pandas as pd  # noqa: PLC0415 - slow, and no worker needs it

    table = tidy_table(runs)
    vary = list(table.columns[: list(table.columns).index("seed")])  # the columns before it
    about = [*vary, "seed", "folder"]
    found = {run.folder: run for run in runs}
    parts = [
        _history(found[row["folder"]]).assign(**{str(name): row[name] for name in about})
        for row in table[about].to_dict("records")
    ]
    parts = [part for part in parts if len(part)]
    columns = [*vary, "seed", *_LAYERS, "folder"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _history(run: Run) -> "pd.DataFrame":
    """Return what a run recorded about its layers, by epoch."""
    import pandas as pd  # noqa: PLC0415 - slow, and no worker needs it

    try:
        brought = load_plugin("runners", run.runner) if run.runner in plugins("runners") else None
        margins = brought.margins_if_clamped(run.parameters) if brought else None
        columns = (*_LAYERS, _HISTOGRAM) if margins else _LAYERS
        frame: pd.DataFrame = RunFolder(Path(run.folder)).history(columns).to_pandas()
        if not run.result.get("layers") or not {"layer", "epoch"} <= set(frame.columns):  # another history
            return pd.DataFrame()
        if margins:
            pairs = zip(frame["layer"], frame[_HISTOGRAM], strict=True)
            rates = pd.Series([rate_from_histogram(counts, margins[layer]) for layer, counts in pairs])
            frame["rate_if_clamped"] = frame["clamp_activation_rate"].astype(float).fillna(rates)
    except (*UNREADABLE, SeedspreadError):
        return pd.DataFrame()
    if frame["epoch"].dtype.kind == "i":  # a trainer counts from 0; epochs of `log` are kept as they are
        frame["epoch"] += 1
    frame = frame.reindex(columns=list(_LAYERS)).dropna(subset=["layer"]).astype({"layer": int})
    return frame.groupby(["layer", "epoch"], sort=False, as_index=False).last()  # calls of `log` may coincide


def _names(
    runs: Sequence[Run], parameters: Sequence[Mapping[str, Any]], factors: set[str], taken: set[str]
) -> dict[str, str]:
    """Return the column of each parameter, by its full name."""
    whole = dict.fromkeys(name for own in parameters for name in own)
    ends = Counter(name.rpartition(".")[2] for name in whole)
    sources = sum(name.startswith("seeds.") for name in whole)  # sources of randomness, each with its seed
    if sources <= 1 and all(own.get(_SEED) == run.seed for own, run in zip(parameters, runs, strict=True)):
        whole.pop(_SEED, None)
    names = {}
    for name in whole:
        end = name.rpartition(".")[2]
        is_clear = ends[end] == 1 and end not in taken and not name.startswith(_WHOLE)
        names[name] = end if name not in factors and is_clear else name
    return names


State = Literal["done", "collapsed", "running", "failed", "interrupted", "waiting"]
STATES: tuple[State, ...] = ("done", "collapsed", "running", "failed", "interrupted", "waiting")
_SHOWN = 10
FINISHED: tuple[State, ...] = ("done", "collapsed")


@dataclass(frozen=True)
class RunState:
    """The state of a run: not started, running, done, collapsed or failed.

    Attributes:
        message: the last line of its failure, if it has failed.
        heartbeat: its progress, while it runs.
        name: its cell and seed, if it belongs to a study.
    """

    key: str
    state: State
    message: str = ""
    heartbeat: Heartbeat | None = None
    name: str = ""


def by_state(states: Mapping[str, RunState]) -> str:
    """Return counts by state: `93 done, 3 failed`."""
    counts = Counter(state.state for state in states.values())
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


class StoreError(SeedspreadError):
    """A store that cannot be used."""


class Store:
    """A folder of runs, `PATH/KEY/`.

    Args:
        path: the folder.

    Example:
        ```python
        Store("runs").table()  # one row per run
        Store("runs").layers()  # one row per run, layer and epoch
        ```
    """

    def __init__(self, path: "Path | str") -> None:
        self.path = Path(path)

    def folder(self, key: str) -> Path:
        return self.path / key

    def run(self, key: str) -> RunFolder:
        return RunFolder(self.folder(key), key)

    def claim(self, key: str, tracker: StalenessTracker) -> Lease | None:
        """Return a run's lease; None if another has it. `RunFolderError` if its place is not a folder."""
        self.run(key).check_place()
        return claim(self.folder(key), tracker)

    def is_done(self, key: str) -> bool:
        return self.run(key).is_done

    def has_failed(self, key: str) -> bool:
        """Return whether a run has failed, and nobody is retrying it."""
        run = self.run(key)
        return run.has_failed and not run.is_done and _at_work(run.path) is None

    def has_crashed(self, key: str) -> bool:
        """Return whether a run has ended with an error of its own, and nobody is retrying it."""
        failure = self.run(key).failure() if self.has_failed(key) else None
        return failure is not None and failure.is_own

    def damage(self, key: str) -> str:
        """Return what is wrong with a run's result; empty if nothing is, or if there is none.

        Raises `NewerFormatError` for a result that is intact, but newer than this program.
        """
        run = read_run(self.folder(key)) if self.is_done(key) else None
        if isinstance(run, NewerFormatError):
            raise run
        return str(run) if isinstance(run, RecordError) else ""

    def can_be_retried(self, key: str) -> bool:
        """Return False for a newer version's run, and for anything but a folder."""
        try:
            self.run(key).check_place()
            self.damage(key)
        except (NewerFormatError, RunFolderError):
            return False
        return True

    def forget_failure(self, key: str) -> None:
        """Let a failed run be retried; a damaged result is set aside."""
        self.run(key).forget_failure()
        if self.damage(key):
            self.run(key).put_result_aside()

    def state(self, key: str) -> RunState:
        run = self.run(key)
        try:
            run.check_place()
        except RunFolderError as error:
            return RunState(key, "failed", str(error))
        if run.is_done:
            return _ended(key, read_run(run.path))
        if not run.path.is_dir():
            return RunState(key, "waiting")
        if _at_work(run.path) is not None:
            return RunState(key, "running", heartbeat=run.heartbeat())
        failure = run.failure()
        if failure is not None:
            return RunState(key, "failed", failure.last_line)
        return RunState(key, "interrupted" if run.has_begun else "waiting")

    def finished_by_base_key(self) -> dict[str, str]:
        """Return, by key without input files, the key of the run that finished last."""
        ended: dict[str, tuple[int, str]] = {}
        for key, run in self.finished(self.keys()).items():
            if isinstance(run, Run) and isinstance(base := run.provenance.get("base_key"), str):
                ended[base] = max(ended.get(base, (0, "")), (self.run(key).finished_at(), key))
        return {base: key for base, (_, key) in ended.items()}

    def states(self, keys: Iterable[str]) -> dict[str, RunState]:
        keys = list(keys)
        finished = self.finished(keys)
        return {key: _ended(key, finished[key]) if key in finished else self.state(key) for key in keys}

    def finished(self, keys: Iterable[str]) -> dict[str, Run | RecordError]:
        """Return those of these runs that are finished, or what is wrong with their files.

        This uses plain strings: with ten thousand runs, paths would take most of the time.
        """
        folders = {key: f"{self.path}/{key}" for key in keys}
        return {
            key: read_run(Path(folder))
            for key, folder in folders.items()
            if not os.path.islink(folder) and os.path.lexists(f"{folder}/{RESULT}")
        }

    def running(self) -> list[RunState]:
        begun = (
            key for key in self.keys() if not self.is_done(key) and any(self.folder(key).glob("lease-*"))
        )
        return [state for key in begun if (state := self.state(key)).state == "running"]

    def keys(self) -> list[str]:
        """Return the names of all folders of the store that could be runs."""
        if not self.path.is_dir():
            return []
        with os.scandir(self.path) as entries:
            folders = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        return sorted(name for name in folders if not name.startswith("."))

    def problems(self) -> list[str]:
        """Return a line for each file that is damaged or belongs to no run."""
        foreign = [
            f"{path} is not a run's folder"
            for path in sorted(self.path.iterdir() if self.path.is_dir() else ())
            if not path.name.startswith((".", "report.")) and not RunFolder(path).could_be_a_run
        ]
        damaged = [str(one) for one in self.finished(self.keys()).values() if isinstance(one, RecordError)]
        return damaged + foreign

    def verified(self, key: str) -> str:
        """Return what is wrong with a finished run after reading all of its files; empty if nothing."""
        run = read_run(self.folder(key))
        return str(run) if isinstance(run, RecordError) else self.run(key).tampered()

    def check(self) -> None:
        """Raise `StoreError` if nothing can be written here."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            trial = self.path / f".trial-{secrets.token_hex(8)}"
            trial.touch()
            trial.unlink()
        except OSError as error:
            raise StoreError(f"the store {self.path} cannot be written: {reason(error)}") from None

    def counts(self) -> dict[State, int]:
        times = Counter(state.state for state in self.states(self.keys()).values())
        return {state: times[state] for state in STATES}

    def table(self, metrics: Sequence[str] = ()) -> "pd.DataFrame":
        """Return one row per finished run that can be read, each field once.

        A parameter has its short name (`margin_type`) if that is unique, else the full one
        (`training.epochs`). First come those that vary, the seed and the metrics.

        Args:
            metrics: computed from a run's predictions if it did not report them; the chance score of each is
                added as `chance.NAME` (of accuracies as `majority`).
        """
        return tidy_table(finished_runs(self.path, metrics)[0], metrics)

    def layers(self) -> "pd.DataFrame":
        """Return one row per finished run, layer and epoch, for runs that record their layers.

        Columns: the parameters that vary, `seed`, `layer` (from 0), `epoch` (from 1), `loss`,
        `clamp_activation_rate` (NaN in runs whose margins have no effect, such as `subtract`),
        `rate_if_clamped` (what the margins of a run that does not clamp would cut), `gradient_norm` (of all
        that the layer trains), `block_gradient_norm` (of its encoder block), `positive_pairs` (ordered, of
        views), `folder`. Runs of one's own code have what they logged with `seedspread.log(layer=...)`.
        """
        return layer_table(finished_runs(self.path)[0])

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def _repr_html_(self) -> str:
        import pandas as pd  # noqa: PLC0415 - slow, and no worker needs it

        counts = ", ".join(f"{count} {state}" for state, count in self.counts().items() if count)
        what = f"{len(self.keys())} runs: {counts}" if counts else "no runs"
        table = self.table()
        first = table.iloc[:_SHOWN, : list(table.columns).index("collapsed")]
        rest = ".table() has every field, .layers() what was recorded by layer and epoch."
        with pd.option_context("display.max_colwidth", None):
            rows = first.map(_cell).to_html(index=False, border=0) if len(table) else ""
        left = len(table) - _SHOWN
        more = f"{left:,} more row{'s' * (left > 1)}. " if left > 0 else ""
        first_line, last_line = (
            f"<p>{escape(printable(line))}</p>" for line in (f"Store {self.path}, {what}.", f"{more}{rest}")
        )
        return f'<div style="color:inherit">{first_line}{rows}{last_line}</div>'


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.4g}"
    return "-" if value is None else printable(str(value))


def _ended(key: str, run: Run | RecordError) -> RunState:
    if isinstance(run, Run):
        return RunState(key, "collapsed" if run.collapsed else "done")
    again = "" if isinstance(run, NewerFormatError) else "; run it again with --retry-failed"
    return RunState(key, "failed", f"{run}{again}")


def _at_work(folder: Path) -> Holder | None:
    """Return the lease of the worker that seems to run a run; taking it over requires watching for longer."""
    holder = newest(folder)
    if holder is None or holder.is_dead:
        return None
    return holder if holder.is_here or time.time() - holder.beat / 1e9 < 2 * LEASE_SECONDS else None
