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

from seedspread.errors import SeedspreadError, printable, reason
from seedspread.runs.files import NewerFormatError
from seedspread.runs.folder import Heartbeat, RunFolder, RunFolderError
from seedspread.runs.lease import LEASE_SECONDS, Holder, Lease, StalenessTracker, claim, newest
from seedspread.runs.table import finished_runs, is_collapsed, layer_table, tidy_table

if TYPE_CHECKING:
    import pandas as pd

State = Literal["done", "collapsed", "running", "failed", "interrupted", "waiting"]
STATES: tuple[State, ...] = ("done", "collapsed", "running", "failed", "interrupted", "waiting")
_SHOWN = 10
FINISHED: tuple[State, ...] = ("done", "collapsed")


@dataclass(frozen=True)
class RunState:
    """Where a run is.

    Attributes:
        message: the last line of its failure, if it has failed.
        heartbeat: how far it is, while it runs.
        worker: the process that runs it, told apart from all others.
        name: its cell and seed, where a study names it.
    """

    key: str
    state: State
    message: str = ""
    heartbeat: Heartbeat | None = None
    worker: str = ""
    name: str = ""


def by_state(states: Mapping[str, RunState]) -> str:
    """`93 done, 3 failed`."""
    counts = Counter(state.state for state in states.values())
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


class StoreError(SeedspreadError):
    """A store that cannot be used."""


class Store:
    """A folder of runs, `PATH/KEY/`."""

    def __init__(self, path: "Path | str") -> None:
        self.path = Path(path)

    def folder(self, key: str) -> Path:
        return self.path / key

    def run(self, key: str) -> RunFolder:
        return RunFolder(self.folder(key), key)

    def claim(self, key: str, tracker: StalenessTracker) -> Lease | None:
        """The right to run a run; None if another has it. `RunFolderError` if its place is no folder."""
        self.run(key).check_place()
        return claim(self.folder(key), tracker)

    def is_done(self, key: str) -> bool:
        return self.run(key).is_done

    def has_failed(self, key: str) -> bool:
        """Whether a run has failed, and nobody is trying it again."""
        run = self.run(key)
        return run.has_failed and not run.is_done and _at_work(run.path) is None

    def has_crashed(self, key: str) -> bool:
        """Whether a run has ended with an error of its own, and nobody is trying it again."""
        failure = self.run(key).failure() if self.has_failed(key) else None
        return failure is not None and failure.is_own

    def damage(self, key: str) -> str:
        """What is wrong with a run's result; empty if nothing is, or if there is none.

        Raises `NewerFormatError` for a result that is whole, and newer than this program.
        """
        collapsed = is_collapsed(self.folder(key)) if self.is_done(key) else False
        return collapsed if isinstance(collapsed, str) else ""

    def can_be_retried(self, key: str) -> bool:
        """False for what a newer version has written, and for what lies where no run can be."""
        try:
            self.run(key).check_place()
            self.damage(key)
        except (NewerFormatError, RunFolderError):
            return False
        return True

    def forget_failure(self, key: str) -> None:
        """Let a failed run be tried again; a damaged result is kept aside."""
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
            return RunState(key, *_finished(run.path))
        if not run.path.is_dir():
            return RunState(key, "waiting")
        holder = _at_work(run.path)
        if holder is not None:
            return RunState(key, "running", heartbeat=run.heartbeat(), worker=holder.worker)
        failure = run.failure()
        if failure is not None:
            return RunState(key, "failed", failure.last_line)
        return RunState(key, "interrupted" if run.has_begun else "waiting")

    def finished_by_base_key(self) -> dict[str, str]:
        """Of runs that depend on input files, the one that ended last, by its key without them."""
        ended: dict[str, tuple[int, str]] = {}
        for key in self.keys():
            run = self.run(key)
            base = run.base_key() if run.is_done else None
            if base is not None:
                ended[base] = max(ended.get(base, (0, "")), (run.finished_at(), key))
        return {base: key for base, (_, key) in ended.items()}

    def states(self, keys: Iterable[str]) -> dict[str, RunState]:
        return {key: self.state(key) for key in keys}

    def running(self) -> list[RunState]:
        begun = (
            key for key in self.keys() if not self.is_done(key) and any(self.folder(key).glob("lease-*"))
        )
        return [state for key in begun if (state := self.state(key)).state == "running"]

    def keys(self) -> list[str]:
        """Names of all folders of the store that could be runs."""
        if not self.path.is_dir():
            return []
        with os.scandir(self.path) as entries:
            folders = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        return sorted(name for name in folders if not name.startswith("."))

    def problems(self) -> list[str]:
        """A line on each file that is damaged or not of a run."""
        foreign = [
            f"{path} is not a run's folder"
            for path in sorted(self.path.iterdir() if self.path.is_dir() else ())
            if not path.name.startswith((".", "report.")) and not RunFolder(path).could_be_a_run
        ]
        return finished_runs(self.path)[1] + foreign

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
        """Number of runs in each state."""
        times = Counter(self.state(key).state for key in self.keys())
        return {state: times[state] for state in STATES}

    def table(self, metrics: Sequence[str] = ()) -> "pd.DataFrame":
        """One row per finished run that can be read, each field once.

        A parameter has its short name (`margin_type`) where no other field has it, else the full one
        (`training.epochs`). First come those that vary, the seed and the metrics.

        Args:
            metrics: computed from a run's predictions if it did not report them; what chance scores stands
                beside, as `chance.NAME` (of accuracies as `majority`).
        """
        return tidy_table(finished_runs(self.path, metrics)[0], metrics)

    def layers(self) -> "pd.DataFrame":
        """One row per finished run, layer and epoch, of runs that record their layers.

        Columns: the parameters that vary, `seed`, `layer` (from 0), `epoch` (from 1), `loss`,
        `clamp_activation_rate` (NaN in runs that do not clamp), `gradient_norm`, `positive_pairs`, `folder`.
        """
        return layer_table(finished_runs(self.path)[0])

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def _repr_html_(self) -> str:
        import pandas as pd  # noqa: PLC0415 - slow, and no worker needs it

        counts = ", ".join(f"{count} {state}" for state, count in self.counts().items() if count)
        what = f"{len(self.keys())} runs: {counts}" if counts else "no runs"
        table = self.table()
        place = list(table.columns).index("seed")
        first = table.iloc[:, : list(table.columns).index("collapsed")]
        in_order = first.sort_values(list(first.columns[: place + 1]), key=_sortable, kind="stable")
        rest = ".table() has every field, .layers() what was recorded by layer and epoch."
        with pd.option_context("display.max_colwidth", None):
            rows = in_order.head(_SHOWN).map(_cell).to_html(index=False, border=0) if len(table) else ""
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


def _sortable(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Levels of several types have no order of their own."""
    import pandas as pd  # noqa: PLC0415 - slow, and no worker needs it

    return column if pd.api.types.is_numeric_dtype(column) else column.astype(str)


def _finished(folder: Path) -> tuple[State, str]:
    try:
        collapsed = is_collapsed(folder)
    except NewerFormatError as error:
        return "failed", str(error)
    if isinstance(collapsed, str):
        return "failed", f"{collapsed}; run it again with --retry-failed"
    return ("collapsed", "") if collapsed else ("done", "")


def _at_work(folder: Path) -> Holder | None:
    """Who runs a run, as far as a glance can tell. Who would take over waits and watches."""
    holder = newest(folder)
    if holder is None or holder.is_dead:
        return None
    return holder if holder.is_here or time.time() - holder.beat / 1e9 < 2 * LEASE_SECONDS else None
