"""What a run has left behind, read into one shape whatever ran: its record.

A record stands in several files of the run's folder (`folder.py` has their names). Those in JSON state the
version of the format; one of another version is refused.
"""

import math
import os
import signal
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seedspread.errors import SeedspreadError
from seedspread.runs.files import FORMAT, read_record

# What a failure's details have if the run itself came to grief, and signals by which programs die themselves.
_OWN = ("exit_status", "what", "raised")
_OWN_SIGNALS = (signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)

RESULT, PROVENANCE, CONFIG, FAILURE = "result.json", "provenance.json", "config.toml", "failure.json"


class RunFailedError(SeedspreadError):
    """A run that cannot go on, with what is known of the cause as plain values."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


@dataclass(frozen=True)
class Failure:
    """Why a run failed.

    Attributes:
        message: for people.
        traceback: where in the code; empty if nothing was raised.
        details: the cause as plain values, such as layer, epoch and batch of a loss that is not finite.
    """

    message: str
    traceback: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """All that an exception tells."""
        message = str(error) or type(error).__name__
        if not isinstance(error, SeedspreadError):
            message = f"{type(error).__name__}: {message}"
            details: Mapping[str, Any] = {"raised": type(error).__name__}
        else:
            details = error.details if isinstance(error, RunFailedError) else {}
        return cls(message, "".join(traceback.format_exception(error)), details)

    @property
    def last_line(self) -> str:
        """What fits a list of failures."""
        return (self.message.strip().splitlines() or ["no reason was given"])[-1]

    @property
    def is_own(self) -> bool:
        """Whether the run itself ended with an error: it counts as a failed one.

        Not what it was refused for, such as changed inputs, nor what ended it from outside: a worker that
        died, a timeout, SIGKILL.
        """
        return any(name in self.details for name in _OWN) or self.details.get("signal") in _OWN_SIGNALS

    def values(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {**self.details, "format": FORMAT, "message": self.message, "traceback": self.traceback}

    @classmethod
    def read(cls, folder: str) -> "Failure":
        """From a run's folder."""
        values = read_record(folder, FAILURE)
        message, where = str(values.pop("message")), str(values.pop("traceback"))
        del values["format"]
        return cls(message, where, values)


@dataclass(frozen=True)
class Record:
    """A finished run.

    Attributes:
        key: its identity.
        runner: what ran it.
        parameters: what it was run with, as its runner wrote them down.
        seed: likewise.
        metrics: its values by name.
        chance: what a run that learnt nothing scores, by metric.
        dataset: what it was run on; empty where its runner does not say.
        collapsed: finished, but not a sample of the same thing as others.
        result: all fields of the result, a runner's own diagnostics among them.
        provenance: environment, versions, times.
    """

    key: str
    runner: str
    parameters: Mapping[str, Any]
    seed: int
    metrics: Mapping[str, float]
    chance: Mapping[str, float]
    dataset: str
    collapsed: bool
    result: Mapping[str, Any]
    provenance: Mapping[str, Any]

    @classmethod
    def read(cls, folder: str) -> "Record":
        """From a run's folder; any error says what is wrong with it.

        Plain strings and bytes: with ten thousand runs, paths and decoding would be most of the time.
        """
        result, provenance = read_record(folder, RESULT), read_record(folder, PROVENANCE)
        _check_names(RESULT, result, "runner", "metrics", "collapsed")
        _check_names(PROVENANCE, provenance, "seed", "config")
        metrics = result["metrics"].items()
        return cls(
            key=os.path.basename(folder),
            runner=str(result["runner"]),
            parameters=provenance["config"],
            seed=int(provenance["seed"]),
            metrics={name: math.nan if value is None else float(value) for name, value in metrics},
            chance=result.get("chance") or {},
            dataset=str(result.get("dataset", "")),
            collapsed=bool(result["collapsed"]),
            result=result,
            provenance=provenance,
        )


def _check_names(file: str, values: Mapping[str, Any], *names: str) -> None:
    """Raises `ValueError` if a field that every record has is not there."""
    for name in names:
        if name not in values:
            raise ValueError(f"{file} has no {name!r}")
