"""What runners of people's own code share: programs and functions, and single runs of them."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seedspread.runners.command import Parameters
from seedspread.runners.contract import Level, Runner, RunnerError
from seedspread.runners.inputs import check_unchanged, digests_of
from seedspread.runners.measured import (
    CurvesSoFar,
    Reported,
    forget_logged,
    logged_so_far,
    read_logged,
)
from seedspread.runners.recording import FOLDER as LOG_FOLDER
from seedspread.runs.files import UNREADABLE, read_json
from seedspread.runs.folder import RunFolder
from seedspread.runs.metrics import Metric
from seedspread.runs.record import RunFailedError
from seedspread.runs.request import RunRequest
from seedspread.runs.run_files import FAILED_ATTEMPT, Heartbeat
from seedspread.runs.stopping import StopRequest

# The folder of a run in which its code logs.
LOGGED = "logged"


class OwnCode(Runner):
    """A runner of one's own code; subclasses are frozen dataclasses that have these fields.

    Attributes:
        name: by which records know it.
        promised: the metrics that a run must report.
        inputs: patterns of files whose content is part of a run's identity.
        environment: names of variables whose values are.
    """

    name: str
    promised: tuple[Metric, ...]
    inputs: tuple[str, ...]
    environment: tuple[str, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those that are promised."""
        return tuple(metric.name for metric in self.promised)

    def values(self, parameters: Parameters) -> dict[str, Any]:
        """The parameters by name."""
        return dict(parameters.values)

    def as_planned(self, values: Mapping[str, Level], folder: str) -> Parameters:
        """Values, with the inputs and the declared variables as they are now."""
        environment = tuple((name, os.environ.get(name)) for name in sorted(self.environment))
        return Parameters(tuple(values.items()), digests_of(Path(folder), self.inputs), environment)

    def implemented(self, parameters: Parameters, implementation: str) -> Parameters:
        """It is computed as it is written."""
        raise RunnerError("one's own code has one implementation; leave --implementation out")

    def may_use_gpu(self, parameters: Parameters) -> bool:
        """It may."""
        return True

    def run(
        self, requests: Sequence[RunRequest], stop: StopRequest, data_dir: Path | None
    ) -> Iterator[tuple[int, object]]:
        """One after the other."""
        for number, request in enumerate(requests):
            planned = [(request.parameters, request.seed or 0)]
            facts = {"runner": self.name, "base_key": self.base_keys(planned)[0]}
            try:
                if self.keys(planned, None) != [request.key]:
                    raise RunFailedError("this is not the run that was planned: give the same command again")
                yield number, self.run_one(facts, request, stop)
            except Exception as error:
                yield number, error

    def run_one(self, facts: Mapping[str, Any], request: RunRequest, stop: StopRequest) -> dict[str, float]:
        """Runs one; its metrics, when all went well. `facts` of the runner are for its provenance."""
        raise NotImplementedError


class OwnRun:
    """One run of one's own code on its way.

    Args:
        start: the folder that it is started in, and that its inputs are seen from.
        inputs: patterns of the files that it depends on.
        promised: the metrics that it must report.
        facts: of its runner, for its provenance.
        request: the run.
        stop: a wish to stop.
    """

    def __init__(
        self,
        start: str,
        inputs: tuple[str, ...],
        promised: tuple[Metric, ...],
        facts: Mapping[str, Any],
        request: RunRequest,
        stop: StopRequest,
    ) -> None:
        if request.folder is None or request.seed is None:
            raise ValueError("a run of one's own code needs a folder and a seed")
        self._start, self._inputs, self._promised = start, inputs, promised
        self._facts, self._stop = facts, stop
        self._parameters: Parameters = request.parameters
        self._seed, self._threads = request.seed, request.threads or 1
        self._folder = RunFolder(request.folder.absolute(), request.key or "", request.guard)
        self._started_at = time.monotonic()
        self._curves = CurvesSoFar(self._folder.path / LOGGED, dict(self._parameters.values))

    def heartbeat(self, where: str) -> Heartbeat:
        """What is known of a run under way: its last line of output, its time, what it has logged."""
        spent = time.monotonic() - self._started_at
        return Heartbeat(None, where, spent=spent, curves=self._curves.look())

    def check_inputs(self, when: str) -> None:
        """Raises `RunFailedError` if they are not the planned ones."""
        check_unchanged(Path(self._start), self._inputs, self._parameters.inputs, when)

    def announced(self, own: Path, logged: Path) -> dict[str, str]:
        """The variables by which the code knows its run."""
        return {
            "SEEDSPREAD_FOLDER": str(own),
            "SEEDSPREAD_SEED": str(self._seed),
            "SEEDSPREAD_PARAMETERS": json.dumps(dict(self._parameters.values)),
            LOG_FOLDER: str(logged),
        }

    def provenance(self) -> dict[str, Any]:
        """What else is to be known of it."""
        return {
            **self._facts,
            "seed": self._seed,
            "config": dict(self._parameters.values),
            "inputs": dict(self._parameters.inputs),
            "environment": dict(self._parameters.environment),
            "threads": self._threads,
        }

    def note_failure(self, logged: Path, metrics: object = None) -> None:
        """Remembers what this attempt, which has failed, leaves behind: it is not the next one's."""
        left = {"metrics": metrics, "values": logged_so_far(logged)}
        self._folder.write(FAILED_ATTEMPT, json.dumps(left).encode())

    def forget(self, logged: Path) -> None:
        """Begins afresh: what former attempts have logged is emptied, and with it what a failed one left."""
        forget_logged(logged)
        (self._folder.path / FAILED_ATTEMPT).unlink(missing_ok=True)

    def left_by_failure(self) -> tuple[Any, int]:
        """The state of the metrics' file, and the size of the values, that a failed attempt has left."""
        try:
            left = read_json(str(self._folder.path), FAILED_ATTEMPT)
            return left["metrics"], int(left["values"])
        except UNREADABLE:
            return None, 0

    def logged(self, folder: Path) -> Reported:
        """What was logged, in attempts that were interrupted too, but for what a failed one has left."""
        return read_logged(folder, self.left_by_failure()[1])
