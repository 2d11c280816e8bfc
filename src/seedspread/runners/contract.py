"""What anything must be to be run in a study: a subclass of `Runner`.

A study knows of a run its parameters, which only its runner understands, its seed and its key. A subclass of
`Runner` gets plans, leases, engines, resuming and the store. `examples/own_runner` is a complete one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from seedspread.errors import SeedspreadError
from seedspread.runs.request import RunRequest
from seedspread.runs.stopping import StopRequest

Level = str | int | float | bool


class RunnerError(SeedspreadError):
    """What a study asks for is nothing that its runner can run; the message names the parameter."""


class AmbiguousNameError(RunnerError):
    """A short name that several parameters have."""


class Group(NamedTuple):
    """Runs that one worker may run together.

    Attributes:
        name: equal for runs that may be run together.
        size: how many of them are worth running together.
    """

    name: str
    size: int


class Runner(ABC):
    """Runs runs of one kind: a subclass has a `name`, `parameters`, `keys` and `run`; the rest has defaults.

    A runner is sent to worker processes and compared with others, so make it a frozen dataclass of plain
    values: it can be pickled and hashed. `name`, `origin`, `metrics` and `is_portable` may be plain
    attributes of the class.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in records and in study files."""

    @property
    def origin(self) -> str:
        """Folder or function whose code it runs; empty if a package brings it."""
        return ""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what its runs measure, the main one first; if empty, study files declare them."""
        return ()

    # What a run is

    @abstractmethod
    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Any:
        """Return the checked parameters of a cell; `RunnerError` if a value cannot be.

        Args:
            base: `preset` of the study file.
            values: factors and settings, by their full names.
        """

    @abstractmethod
    def keys(self, runs: Sequence[tuple[Any, int]], data_dir: Path | None) -> list[str]:
        """Return the identity of each run: a hash of all that can alter its result (`runs.identity.key_of`).

        Args:
            runs: parameters and seed of each.
            data_dir: the data folder.
        """

    def base_keys(self, runs: Sequence[tuple[Any, int]]) -> list[str | None]:
        """Return the identity of each run without the content of its input files; None if it has none."""
        return [None] * len(runs)

    def values(self, parameters: Any) -> dict[str, Any]:
        """Return the parameters as plain values, which the store keeps."""
        return dict(parameters)

    def full_name(self, name: str) -> str:
        """Return the parameter that a study means by a name; `RunnerError` if there is none."""
        return name

    def short_name(self, full: str) -> str:
        """Return a parameter's shortest clear name, for tables and audits."""
        return full

    def implemented(self, parameters: Any, implementation: str) -> Any:
        """Return the parameters with another way to compute the same; `RunnerError` if there is none."""
        raise RunnerError(f"runs of {self.name} have one implementation; leave --implementation out")

    def driving(self, streams: tuple[str, ...]) -> Self:
        """Return this runner with seeds that drive these streams only; `RunnerError` if one is unknown."""
        raise RunnerError(f"vary: no stream is called {streams[0]!r}; its runs have one seed")

    def notes(self, parameters: Iterable[Any]) -> list[str]:
        """Return remarks on these runs that a plan prints."""
        return []

    # How it is run

    def check(self, parameters: Iterable[Any], data_dir: Path | None) -> None:  # noqa: B027 - most need nothing
        """Raise, in one line, if an extra or data that these runs need are missing."""

    def why_not_here(self, parameters: Any) -> str | None:
        """Return why this machine cannot run it, so that its worker leaves it to others; None if it can."""
        return None

    def seconds(self, parameters: Sequence[Any]) -> float | None:
        """Return how long these runs take on one core of this machine; None if unknown.

        `MissingExtraError` if it could be measured with more installed.
        """
        return None

    def group(self, parameters: Any, threads: int) -> Group | None:
        """Return the group of runs that may be run together with this one; None if it is always alone."""
        return None

    def may_use_gpu(self, parameters: Any) -> bool:
        """Return whether to set a GPU aside for it, if there are some."""
        return False

    @property
    def is_portable(self) -> bool:
        """Whether a process that is started later, such as a job of Slurm, can import its code."""
        return True

    @abstractmethod
    def run(
        self, requests: Sequence[RunRequest], stop: StopRequest, data_dir: Path | None
    ) -> Iterator[tuple[int, object]]:
        """Run runs of one group, and leave their records.

        A record is what `RunFolder.finish` writes: a result with `format`, `runner`, `key`, `metrics` and
        `collapsed` at least, and a provenance with `runner`, `seed` and `config` (the parameters).
        Every write goes through the run's folder, which asks `guard` first. While it runs, the folder is told
        now and then how far it is (`RunFolder.beat`): that is what people see as progress. When `stop` is set
        each run leaves what it can be resumed from and ends with `StoppedError`.

        Yields:
            each run's number among the requests, and its result or the exception that it ended with, as soon
            as that is known: then the run is given back. One that fails leaves the others alone. An exception
            that is raised instead means that those of which nothing was told could not be run together.
        """
