"""The contract by which anything is run in a study.

A study knows of a run its parameters, which only its runner understands, its seed and its key. Whoever
implements `Runner` gets plans, leases, engines, resuming and the store for it. A runner is sent to worker
processes and compared with others: it can be pickled and hashed, as a frozen dataclass of plain values can.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from seedspread.errors import SeedspreadError
from seedspread.runs.request import RunRequest
from seedspread.runs.stopping import StopRequest

Level = str | int | float | bool


class RunnerError(SeedspreadError):
    """What a study asks for is nothing that its runner can run; the message names the parameter."""


class AmbiguousNameError(RunnerError):
    """A short name that several parameters have."""


class Runner(Protocol):
    """Runs runs of one kind."""

    @property
    def name(self) -> str:
        """By which records know it."""

    @property
    def origin(self) -> str:
        """Whose code it runs: a folder, a function; empty if it is this package's own."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """What can be measured of its runs, by name."""

    # What a run is

    def full_name(self, name: str) -> str:
        """The parameter that a study means by a name, which may be short; `RunnerError` if there is none."""

    def short_name(self, full: str) -> str:
        """A parameter's shortest clear name, as tables and audits call it."""

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Any:
        """Checked parameters: those of `base` (a preset's name), and `values` by their full names."""

    def values(self, parameters: Any) -> dict[str, Any]:
        """Parameters as plain values, as a store keeps them."""

    def implemented(self, parameters: Any, implementation: str) -> Any:
        """The parameters with another way to compute the same; `RunnerError` if there is no such way."""

    def keys(self, runs: Sequence[tuple[Any, int]], data_dir: Path | None) -> list[str]:
        """The identity of each run, from its parameters and seed."""

    def base_keys(self, runs: Sequence[tuple[Any, int]]) -> list[str | None]:
        """What each run is but for the content of its input files; None for one that has none."""

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the random streams that a run's seed drives, each of which can be driven alone."""

    def driving(self, streams: tuple[str, ...]) -> "Runner":
        """The same runner, whose runs' seeds drive these streams only."""

    def notes(self, parameters: Iterable[Any]) -> list[str]:
        """What a plan should say of these runs, for people."""

    # How it is run

    @property
    def is_portable(self) -> bool:
        """Whether it can be written down for a process that is started later, as a job of Slurm is."""

    def check(self, parameters: Iterable[Any], data_dir: Path | None) -> None:
        """Raises at once, in one line, if an extra or data that these runs need are not there."""

    def why_not_here(self, parameters: Any) -> str | None:
        """Why a worker on this machine cannot run it and should leave it to others; None if it can."""

    def seconds(self, parameters: Sequence[Any]) -> float | None:
        """How long these runs will take on one core of this machine; None if that cannot be told.

        `MissingExtraError` if it could be, with more installed.
        """

    def may_use_gpu(self, parameters: Any) -> bool:
        """Whether a GPU is to be set aside for it, where there are some."""

    def group(self, parameters: Any, threads: int) -> str | None:
        """Runs with the same answer may be run together by one worker; None for one that is always alone."""

    def group_size(self, parameters: Any) -> int:
        """How many of a group are worth running together."""

    def run(
        self, requests: Sequence[RunRequest], stop: StopRequest, data_dir: Path | None
    ) -> Iterator[tuple[int, object]]:
        """Runs runs that may be run together, and leaves their records.

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
