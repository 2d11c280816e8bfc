"""A Python function as a runner: called once per run, in the worker's process."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seedspread.errors import did_you_mean
from seedspread.runners.command import Parameters, check_parameter_name
from seedspread.runners.contract import Level, RunnerError
from seedspread.runners.function_run import FunctionRun
from seedspread.runners.own_code import OwnCode
from seedspread.runners.python_function import PythonFunction
from seedspread.runs.identity import key_of
from seedspread.runs.metrics import Metric
from seedspread.runs.request import RunRequest
from seedspread.runs.stopping import StopRequest

RUNNER = "function"


@dataclass(frozen=True)
class FunctionRunner(OwnCode):
    """Calls a function with the parameters and the seed as its arguments.

    Attributes:
        function: what is called.
        promised: the metrics that a run must report.
        inputs: patterns of files whose content is part of a run's identity.
        environment: names of variables whose values are.
    """

    function: PythonFunction
    promised: tuple[Metric, ...] = ()
    inputs: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    name: str = RUNNER

    @classmethod
    def from_name(
        cls,
        name: str,
        folder: Path,
        promised: Iterable[Metric] = (),
        inputs: Iterable[str] = (),
        environment: Iterable[str] = (),
    ) -> "FunctionRunner":
        """`package.module:function`, imported from `folder` or what is installed, and run in `folder`."""
        function = PythonFunction.from_name(name, folder)
        return cls(function, tuple(promised), tuple(inputs), tuple(environment))

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        promised: Iterable[Metric] = (),
        inputs: Iterable[str] = (),
        environment: Iterable[str] = (),
    ) -> "FunctionRunner":
        """A function that is there, to be run in the folder that Python is in."""
        return cls(PythonFunction.of(function), tuple(promised), tuple(inputs), tuple(environment))

    # What a run is

    @property
    def origin(self) -> str:
        """The function: where it is, what it is called, what it takes."""
        function = self.function
        return f"{function.folder}:{function.name}({', '.join(function.arguments)})"

    def full_name(self, name: str) -> str:
        """An argument of the function."""
        check_parameter_name(name, self.metrics)
        arguments = self.function.arguments
        if name not in arguments and not self.function.takes_any:
            takes = ", ".join(("seed", *arguments))
            hint = did_you_mean(name, arguments)
            raise RunnerError(f"{self.function.name} takes no argument {name!r}{hint} (it takes {takes})")
        return name

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Parameters:
        """With the inputs as they are now; every argument without a default must have a value."""
        missing = [name for name in self.function.required if name not in values]
        if missing:
            raise RunnerError(
                f"{self.function.name} needs a value for {missing[0]!r}: give it as a factor or a setting"
            )
        return self.as_planned(values, self.function.folder)

    def keys(self, runs: Sequence[tuple[Parameters, int]], data_dir: Path | None) -> list[str]:
        """By the function's source and what it reads, parameters, seed, inputs, environment variables."""
        source = {"source": dict(self.function.source.parts)}
        return [key_of(self._identity(p, seed) | source | {"inputs": dict(p.inputs)}) for p, seed in runs]

    def base_keys(self, runs: Sequence[tuple[Parameters, int]]) -> list[str | None]:
        """The same without source and inputs: the function by where it is and what it takes."""
        return [key_of(self._identity(p, seed) | {"origin": self.origin}) for p, seed in runs]

    def _identity(self, parameters: Parameters, seed: int) -> dict[str, Any]:
        return {
            "runner": self.name,
            "function": self.function.name,
            "parameters": dict(parameters.values),
            "seed": seed,
            "environment": dict(parameters.environment),
        }

    def notes(self, parameters: Iterable[Parameters]) -> list[str]:
        """What the function reads whose changes nobody sees."""
        reads = self.function.source.reads
        if not reads:
            return []
        return [f"{self.function.title} also reads {', '.join(reads)}: changes of these are not noticed."]

    # How it is run

    @property
    def is_portable(self) -> bool:
        """By its name; code that is pickled stays in memory."""
        return self.function.code is None

    def run_one(self, facts: Mapping[str, Any], request: RunRequest, stop: StopRequest) -> dict[str, float]:
        """In this process."""
        return FunctionRun(self.function, self.inputs, self.promised, facts, request, stop).result()
