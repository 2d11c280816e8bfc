"""Any program as a runner: a command with placeholders, started once per run without a shell."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedspread.errors import did_you_mean
from seedspread.metrics import Metric
from seedspread.runners.command import RESERVED, Command, Parameters, check_parameter_name
from seedspread.runners.contract import Level, RunnerError
from seedspread.runners.inputs import digests_of
from seedspread.runners.program_run import ProgramRun
from seedspread.runs.identity import key_of
from seedspread.runs.record import RunFailedError
from seedspread.runs.request import RunRequest
from seedspread.stopping import StopRequest

RUNNER = "program"


@dataclass(frozen=True)
class ProgramRunner:
    """Runs a command.

    Attributes:
        command: what is started.
        promised: the metrics that a run must report.
        inputs: patterns of files whose content is part of a run's identity.
        environment: names of variables whose values are.
    """

    command: Command
    promised: tuple[Metric, ...]
    inputs: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    name: str = RUNNER

    # What a run is

    @property
    def origin(self) -> str:
        """The study's folder."""
        return self.command.folder

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those that are promised."""
        return tuple(metric.name for metric in self.promised)

    def full_name(self, name: str) -> str:
        """Any name but those with a meaning of their own."""
        check_parameter_name(name, self.metrics)
        return name

    def short_name(self, full: str) -> str:
        """The same."""
        return full

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Parameters:
        """With the inputs as they are now; every placeholder must have a value."""
        names = [*RESERVED, *values]
        for name in self.command.placeholders:
            if name not in names:
                hint = did_you_mean(name, names)
                raise RunnerError(
                    f"run.command has {{{name}}}, which is no parameter{hint} (there are {', '.join(names)}; "
                    "a brace is written twice)"
                )
        digests = digests_of(Path(self.command.folder), self.inputs)
        environment = tuple((name, os.environ.get(name)) for name in sorted(self.environment))
        return Parameters(tuple(values.items()), digests, environment)

    def values(self, parameters: Parameters) -> dict[str, Any]:
        """The parameters by name."""
        return dict(parameters.values)

    def keys(self, runs: Sequence[tuple[Parameters, int]], data_dir: Path | None) -> list[str]:
        """By command, parameters, seed, inputs and declared environment variables."""
        return [key_of(self._identity(p, seed) | {"inputs": dict(p.inputs)}) for p, seed in runs]

    def former_keys(self, runs: Sequence[tuple[Parameters, int]], data_dir: Path | None) -> list[str | None]:
        """There are none."""
        return [None] * len(runs)

    def base_keys(self, runs: Sequence[tuple[Parameters, int]]) -> list[str | None]:
        """The same without the inputs, in this folder: the same command elsewhere is another program."""
        if not self.inputs:
            return [None] * len(runs)
        return [key_of(self._identity(p, seed) | {"folder": self.command.folder}) for p, seed in runs]

    def _identity(self, parameters: Parameters, seed: int) -> dict[str, Any]:
        return {
            "runner": self.name,
            "command": list(self.command.template),
            "parameters": dict(parameters.values),
            "seed": seed,
            "environment": dict(parameters.environment),
        }

    @property
    def streams(self) -> tuple[str, ...]:
        """What it draws from its seed, only the program knows."""
        return ()

    def driving(self, streams: tuple[str, ...]) -> "ProgramRunner":
        """There is nothing to choose from."""
        return self

    def notes(self, parameters: Iterable[Parameters]) -> list[str]:
        """What the command leaves out, which may be an oversight."""
        names = dict.fromkeys(["seed", *(name for one in parameters for name, _ in one.values)])
        unused = [f"{{{name}}}" for name in names if name not in self.command.placeholders]
        notes = [] if self.inputs else ["No run.inputs are named: changes of the program go unnoticed."]
        if not unused:
            return notes
        where = "SEEDSPREAD_SEED or SEEDSPREAD_PARAMETERS"
        return [*notes, f"The command does not name {', '.join(unused)}: the program must look into {where}."]

    # How it is run

    @property
    def is_portable(self) -> bool:
        """It is plain values."""
        return True

    def check(self, parameters: Iterable[Parameters], data_dir: Path | None) -> None:
        """The program must be there."""
        if not self.command.is_there:
            program = self.command.template[0]
            raise RunnerError(f"the program {program!r} is not there, or cannot be run; see run.command")

    def seconds(self, parameters: Sequence[Parameters]) -> float | None:
        """Nobody knows."""
        return None

    def may_use_gpu(self, parameters: Parameters) -> bool:
        """It may."""
        return True

    def group(self, parameters: Parameters, threads: int) -> str | None:
        """A program runs alone."""
        return None

    def group_size(self, parameters: Parameters) -> int:
        """Alone."""
        return 1

    def run(
        self, requests: Sequence[RunRequest], stop: StopRequest, data_dir: Path | None
    ) -> Iterator[tuple[int, object]]:
        """One program after the other."""
        for number, request in enumerate(requests):
            try:
                yield number, self._run(request, stop)
            except Exception as error:
                yield number, error

    def _run(self, request: RunRequest, stop: StopRequest) -> dict[str, float]:
        planned = [(request.parameters, request.seed or 0)]
        if self.keys(planned, None) != [request.key]:
            raise RunFailedError("this is not the run that was planned: give the same command again")
        facts = {"runner": self.name, "base_key": self.base_keys(planned)[0]}
        return ProgramRun(self.command, self.inputs, self.promised, facts, request, stop).result()
