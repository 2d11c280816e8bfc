"""Any program as a runner: a command with placeholders, started once per run without a shell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedspread.errors import did_you_mean
from seedspread.runners.command import RESERVED, Command, Parameters, check_parameter_name
from seedspread.runners.contract import Level, RunnerError
from seedspread.runners.own_code import OwnCode
from seedspread.runners.program_run import ProgramRun
from seedspread.runs.identity import key_of
from seedspread.runs.metrics import Metric
from seedspread.runs.request import RunRequest
from seedspread.runs.stopping import StopRequest

RUNNER = "program"


@dataclass(frozen=True)
class ProgramRunner(OwnCode):
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

    def full_name(self, name: str) -> str:
        """Any name but those with a meaning of their own."""
        check_parameter_name(name, self.metrics)
        return name

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
        return self.as_planned(values, self.command.folder)

    def keys(self, runs: Sequence[tuple[Parameters, int]], data_dir: Path | None) -> list[str]:
        """By command, parameters, seed, inputs and declared environment variables."""
        return [key_of(self._identity(p, seed) | {"inputs": dict(p.inputs)}) for p, seed in runs]

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

    def check(self, parameters: Iterable[Parameters], data_dir: Path | None) -> None:
        """The program must be there."""
        if not self.command.is_there:
            program = self.command.template[0]
            raise RunnerError(f"the program {program!r} is not there, or cannot be run; see run.command")

    def run_one(self, facts: Mapping[str, Any], request: RunRequest, stop: StopRequest) -> dict[str, float]:
        """Under a supervisor."""
        return ProgramRun(self.command, self.inputs, self.promised, facts, request, stop).result()
