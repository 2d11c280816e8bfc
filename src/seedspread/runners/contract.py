"""The base class of everything that a study can run, and a run on its way to a worker.

A study knows a run by its parameters, which only its runner understands, its seed and its key. A subclass of
`Runner` gets plans, leases, engines, resuming and the store. `examples/own_runner` is a complete one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from seedspread.errors import RunnerError
from seedspread.runs.folder import RunFolder
from seedspread.runs.lease import LEASE_SECONDS, Lease
from seedspread.runs.run import Run
from seedspread.runs.stopping import StopRequest
from seedspread.runs.store import Store

__all__ = ["AmbiguousNameError", "Level", "Runner", "RunnerError", "WorkItem"]

Level = str | int | float | bool


class AmbiguousNameError(RunnerError):
    """A short name that several parameters share."""


@dataclass(frozen=True)
class WorkItem:
    """A run on its way to a worker, with its lease once a worker has claimed it; it can be sent anywhere.

    Attributes:
        run: its folder is absolute.
        threads: CPU threads, unless the parameters set them; a run that has begun keeps its own.
        lease_seconds: time after which a silent lease may be taken over.
        gpus: number of GPUs requested from a cluster; a worker that cannot use them refuses the run.
        lease: the right to write into its folder.
    """

    run: Run
    runner: "Runner"
    data_dir: Path | None = None
    threads: int = 1
    lease_seconds: float = LEASE_SECONDS
    gpus: float = 0.0
    lease: Lease | None = None

    @property
    def key(self) -> str:
        return self.run.key

    @property
    def store(self) -> Store:
        return Store(Path(self.run.folder).parent)

    def folder(self) -> RunFolder:
        """Return the folder of the run, which refuses to write once the lease is lost."""
        guard = None if self.lease is None else self.lease.check
        return RunFolder(Path(self.run.folder), self.run.key, guard)


class Runner(ABC):
    """Runs one kind of code. A subclass must define `name`, `parameters`, `keys` and `run`.

    Most also define `metrics`, `values`, `check` or `seconds`; the other defaults suit nearly all.
    A runner is sent to worker processes and compared with others, so make it a frozen dataclass of plain
    values: it can be pickled and hashed. `name`, `origin`, `metrics` and `is_portable` may be plain
    attributes of the class.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in records and in study files."""

    @abstractmethod
    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Any:
        """Return the checked parameters of a cell; `RunnerError` if a value is invalid.

        Args:
            base: `preset` of the study file.
            values: factors and settings, by their full names.
        """

    @abstractmethod
    def keys(self, runs: Sequence[tuple[Any, int]], data_dir: Path | None) -> list[str]:
        """Return the identity of each run: a hash of all that can alter its result (`runs.run.key_of`).

        Args:
            runs: parameters and seed of each.
            data_dir: the data folder.
        """

    @abstractmethod
    def run(self, item: WorkItem, stop: StopRequest) -> object:
        """Run `item` and leave its record; raise if it fails.

        A record is what `RunFolder.finish` writes: a result with `format`, `runner`, `key`, `metrics` and
        `collapsed` at least, and a provenance with `runner`, `seed` and `config` (the parameters).
        Every write goes through the item's `folder()`, which checks its lease first. `RunFolder.beat`, called
        now and then, records the run's progress for users. Once `stop` is set, the run writes what it can be
        resumed from and raises `StoppedError`.

        Returns:
            anything: only the record counts.
        """

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics of its runs, the main one first; if empty, study files declare them."""
        return ()

    def values(self, parameters: Any) -> dict[str, Any]:
        """Return the parameters as plain values, which the store keeps."""
        return dict(parameters)

    def check(self, parameters: Iterable[Any], data_dir: Path | None) -> None:  # noqa: B027 - most need nothing
        """Raise, in one line, if these runs need an extra or data that are missing."""

    def prepare(self, parameters: Iterable[Any], store: Store) -> None:  # noqa: B027 - most need nothing
        """Prepare, once and before any of these runs starts, what they share in the store."""

    def seconds(self, parameters: Sequence[Any]) -> float | None:
        """Return how long these runs take on one core of this machine; None if unknown.

        `MissingExtraError` if it could be measured with more packages installed.
        """
        return None

    # Rarely needed

    @property
    def origin(self) -> str:
        """The folder or function whose code it runs; empty if it comes from a package."""
        return ""

    def base_keys(self, runs: Sequence[tuple[Any, int]]) -> list[str | None]:
        """Return the identity of each run without the content of its input files; None if it has none."""
        return [None] * len(runs)

    def full_name(self, name: str) -> str:
        """Return the full name of a parameter that a study names; `RunnerError` if there is none."""
        return name

    def short_name(self, full: str) -> str:
        """Return a parameter's shortest unambiguous name, for tables and audits."""
        return full

    def located(self, folder: str) -> Self:
        """Return this runner for a study file in `folder`, to which its relative paths refer."""
        return self

    def driving(self, sources: tuple[str, ...]) -> Self:
        """Return this runner with seeds that control these sources only; `RunnerError` if one is unknown."""
        raise RunnerError(f"vary: no source is called {sources[0]!r}; its runs have one seed")

    def notes(self, parameters: Iterable[Any]) -> list[str]:
        """Return remarks on these runs for a plan to print."""
        return []

    def why_not_here(self, parameters: Any) -> str | None:
        """Return why this machine cannot run it, so that its worker leaves it to others; None if it can."""
        return None

    @staticmethod
    def margins_if_clamped(values: Mapping[str, Any]) -> Sequence[float] | None:
        """Return each layer's margin from the stored parameters of a run; None if it clamps, or has none."""
        return None

    def may_use_gpu(self, parameters: Any) -> bool:
        """Return whether to reserve a GPU for it, if there are any."""
        return False

    def why_not_on_gpus(self, parameters: Any, gpus: float, *, here: bool) -> str | None:
        """Return why a run would not use this many GPUs, anywhere or `here`, on this machine; else None."""
        return None

    @property
    def is_portable(self) -> bool:
        """True if a process that is started later, such as a Slurm job, can import its code."""
        return True
