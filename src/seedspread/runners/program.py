"""Any program as a runner: a command with placeholders, started once per run without a shell."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedspread.errors import did_you_mean
from seedspread.metrics import Metric
from seedspread.runners.contract import Level, RunnerError
from seedspread.runners.inputs import Digests, digests_of
from seedspread.runners.program_run import ProgramRun, search_path
from seedspread.runs.identity import key_of
from seedspread.runs.request import RunRequest
from seedspread.stopping import StopRequest

RUNNER = "program"
# Names that stand for something else than a parameter.
_RESERVED = ("seed", "folder")
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_.-]*)\}")


@dataclass(frozen=True)
class Parameters:
    """What a run of a program is, but for its seed."""

    values: tuple[tuple[str, Level], ...]
    inputs: Digests
    environment: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class ProgramRunner:
    """Runs a command.

    Attributes:
        command: its words; `{seed}`, `{folder}` and `{PARAMETER}` are replaced in each, `{{` is a brace.
        folder: of the study, in which the program is started.
        promised: the metrics that a run must report.
        inputs: patterns of files whose content is part of a run's identity.
        environment: names of variables whose values are.
        timeout: seconds that a run may take.
    """

    command: tuple[str, ...]
    folder: str
    promised: tuple[Metric, ...]
    inputs: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout: float | None = None
    name: str = RUNNER

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those that are promised."""
        return tuple(metric.name for metric in self.promised)

    def full_name(self, name: str) -> str:
        """Any name but those with a meaning of their own."""
        if name in _RESERVED:
            raise RunnerError(f"{name!r} cannot be a parameter: it stands for the run's own {name}")
        if name in self.metrics:
            raise RunnerError(f"{name!r} is a parameter and a metric; call one of them otherwise")
        return name

    def short_name(self, full: str) -> str:
        """The same."""
        return full

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Parameters:
        """With the inputs as they are now; every placeholder must have a value."""
        known = [*_RESERVED, *values]
        for name in self.placeholders:
            if name not in known:
                hint = did_you_mean(name, known)
                raise RunnerError(
                    f"run.command has {{{name}}}, which is no parameter{hint} (there are {', '.join(known)})"
                )
        digests = digests_of(Path(self.folder), self.inputs)
        environment = tuple((name, os.environ.get(name)) for name in sorted(self.environment))
        return Parameters(tuple(values.items()), digests, environment)

    @property
    def placeholders(self) -> set[str]:
        """What the command names."""
        return {match[1] for word in self.command for match in _PLACEHOLDER.finditer(word) if match[1]}

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
        """The same without the inputs."""
        return [key_of(self._identity(p, seed)) if self.inputs else None for p, seed in runs]

    def _identity(self, parameters: Parameters, seed: int) -> dict[str, Any]:
        return {
            "runner": self.name,
            "command": list(self.command),
            "parameters": dict(parameters.values),
            "seed": seed,
            "environment": dict(parameters.environment),
        }

    def notes(self, parameters: Iterable[Parameters]) -> list[str]:
        """What the command leaves out, which may be an oversight."""
        names = dict.fromkeys(["seed", *(name for one in parameters for name, _ in one.values)])
        unused = [name for name in names if name not in self.placeholders]
        if not unused:
            return []
        which = ", ".join(f"{{{name}}}" for name in unused)
        found = "SEEDSPREAD_SEED or SEEDSPREAD_PARAMETERS"
        return [f"The command does not name {which}: the program must look into {found}."]

    def check(self, parameters: Iterable[Parameters], data_dir: Path | None) -> None:
        """The program must be there."""
        program = self.command[0]
        if not _PLACEHOLDER.search(program) and self._find(program) is None:
            raise RunnerError(f"the program {program!r} is not there, or cannot be run; see run.command")

    def _find(self, program: str) -> str | None:
        if os.path.dirname(program):
            return shutil.which(os.path.join(self.folder, program))
        return shutil.which(program, path=search_path())

    def seconds(self, parameters: Sequence[Parameters]) -> float | None:
        """Nobody knows."""
        return None

    @property
    def streams(self) -> tuple[str, ...]:
        """What it draws from its seed, only the program knows."""
        return ()

    def driving(self, streams: tuple[str, ...]) -> "ProgramRunner":
        """There is nothing to choose from."""
        return self

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
                yield number, ProgramRun(self, request, stop).result()
            except Exception as error:
                yield number, error

    def words(self, parameters: Parameters, seed: int, folder: str) -> list[str]:
        """The command of a run: each value is part of one argument, whatever it contains."""
        values = dict(parameters.values) | {"seed": seed, "folder": folder}

        def value(match: re.Match[str]) -> str:
            return as_text(values[match[1]]) if match[1] else match[0][0]

        words = [_PLACEHOLDER.sub(value, word) for word in self.command]
        return [self._find(words[0]) or words[0], *words[1:]]


def as_text(value: Level) -> str:
    """A value as a word of a command: `true` and `false` as TOML has them."""
    return str(value).lower() if isinstance(value, bool) else str(value)
