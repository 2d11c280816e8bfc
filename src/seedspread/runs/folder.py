"""A run's folder: what stands in it, under which name, and how it is read and written.

While a run is under way there are `run.json` (what it began with), `heartbeat.json` (how far it is), its
checkpoints and its lease; when it is done, `result.json`, `provenance.json`, `config.toml` and what its
runner keeps beside them: `history.parquet`, `predictions.safetensors`. `result.json` appears last: it is
there if and only if the run is done.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError
from seedspread.runs.record import (
    CONFIG,
    FAILURE,
    FORMAT,
    PROVENANCE,
    RESULT,
    UNREADABLE,
    Failure,
    RecordError,
    read_json,
)

_BEGUN, _HEARTBEAT = "run.json", "heartbeat.json"
_HISTORY, _PREDICTIONS = "history.parquet", "predictions.safetensors"
_BEAT_SECONDS = 5.0


class RunFolderError(SeedspreadError):
    """A run's folder cannot be used, or not be written to."""


@dataclass(frozen=True)
class Heartbeat:
    """How far a run is: a share of its work from 0 to 1, and where in words."""

    done: float
    where: str


class RunFolder:
    """The folder of one run.

    Args:
        path: where it is.
        key: the run; only needed to write.
        guard: is called before every write, and raises if the folder is no longer this process's to write to.
    """

    def __init__(self, path: Path, key: str = "", guard: Callable[[], None] | None = None) -> None:
        self.path = path
        self.key = key
        self.guard = guard
        self._started = datetime.now(UTC)
        self._beat = 0.0

    # What is there

    @property
    def is_done(self) -> bool:
        """Whether the run has its result."""
        return (self.path / RESULT).exists()

    @property
    def has_failed(self) -> bool:
        """Whether a failure is written down."""
        return (self.path / FAILURE).exists()

    @property
    def has_begun(self) -> bool:
        """Whether there is something to resume from."""
        return (self.path / _BEGUN).exists() or bool(self.checkpoints())

    @property
    def could_be_a_run(self) -> bool:
        """Whether any file tells that a run was here."""
        names = (CONFIG, RESULT, _BEGUN, FAILURE)
        return self.path.is_dir() and (
            any((self.path / name).exists() for name in names) or any(self.path.glob("lease-*"))
        )

    def marks(self) -> tuple[list[str], bool]:
        """What changes whenever the run begins, ends or fails, and whether it may be under way.

        Reads no file.
        """
        files = {file.name: file for file in os.scandir(self.path)}
        marks = [
            f"{name} {files[name].stat().st_mtime_ns}" for name in (RESULT, FAILURE, _BEGUN) if name in files
        ]
        return marks, RESULT not in files and any(name.startswith("lease-") for name in files)

    # Reading

    def result(self) -> dict[str, Any]:
        """The fields of the result."""
        try:
            return read_json(str(self.path), RESULT)
        except FileNotFoundError:
            raise RecordError(f"{self.path} holds no finished run (no {RESULT})") from None
        except (OSError, ValueError) as error:
            raise RecordError(
                f"{self.path / RESULT} is not a result of this package: {error}; delete it to run again"
            ) from error

    def finished_at(self) -> int:
        """When the result appeared, in nanoseconds."""
        return (self.path / RESULT).stat().st_mtime_ns

    def config_path(self) -> Path:
        """The file with the run's parameters."""
        return self.path / CONFIG

    def failure(self) -> Failure | None:
        """Why the run failed; None if it has not."""
        if not self.has_failed:
            return None
        try:
            return Failure.read(str(self.path))
        except RecordError as error:
            return Failure(str(error))
        except UNREADABLE:
            return Failure(f"{self.path / FAILURE} is damaged")

    def heartbeat(self) -> Heartbeat | None:
        """How far the run is, as it last said."""
        try:
            values = read_json(str(self.path), _HEARTBEAT)
            return Heartbeat(min(max(float(values["done"]), 0.0), 1.0), str(values["where"]))
        except UNREADABLE:  # none yet, or from before it told how far a run is
            return None

    def seconds(self) -> float | None:
        """How long the finished run took, since it was last started; None where that is not known."""
        try:
            return float(read_json(str(self.path), PROVENANCE)["seconds_since_last_start"])
        except UNREADABLE:
            return None

    def history(self, columns: Sequence[str] | None = None) -> pa.Table:
        """What was recorded over training, a row per epoch and layer; all columns, or some."""
        return pq.read_table(self.path / _HISTORY, columns=None if columns is None else list(columns))

    def predictions(self, *names: str) -> dict[str, NDArray[Any]]:
        """Stored arrays by name: logits `(repeats, N, classes)`, labels and ids `(N,)`, a runner's own."""
        path = self.path / _PREDICTIONS
        try:
            with safe_open(path, framework="numpy") as file:
                return {name: file.get_tensor(name) for name in names}
        except (OSError, SafetensorError) as error:
            raise RecordError(f"{path} cannot be read ({error}): run it again") from error

    def checkpoints(self) -> list[Path]:
        """All checkpoints, oldest first: `checkpoint-NUMBER-CHECKSUM.safetensors`."""
        return sorted(self.path.glob("checkpoint-*"), key=checkpoint_number)

    # Writing

    def open(self, config: str, *, resume: bool) -> bool:
        """Makes the folder, or looks what there is to resume from; True if the result is there already.

        Args:
            config: the run's parameters, as TOML.
            resume: whether an unfinished or finished run of the same key is welcome.
        """
        if self.is_done:
            self._check_key(str(self.result().get("key")))
            if not resume:
                raise RunFolderError(
                    f"{self.path} holds this run's result; use it, or name another folder with --out"
                )
            self._sweep()
            return True
        if (self.path / _BEGUN).exists():
            self._check_key(self._begun()["key"])
            if not resume:
                raise RunFolderError(
                    f"{self.path} holds an unfinished run; add --resume to resume it, or use --out"
                )
        self.writing(lambda: self.path.mkdir(parents=True, exist_ok=True))
        self._sweep()
        self.write(CONFIG, config.encode())
        return False

    def begin(self, threads: int) -> int:
        """Notes that the run has begun; returns its thread count: what it first began with."""
        if (self.path / _BEGUN).exists():
            return int(self._begun()["threads"])
        self.write(_BEGUN, _json({"key": self.key, "threads": threads}))
        return threads

    def beat(self, heartbeat: Callable[[], Heartbeat]) -> None:
        """Tells now and then how far the run is."""
        now = time.monotonic()
        if now - self._beat >= _BEAT_SECONDS:
            self._beat = now
            beat = heartbeat()
            self.write(_HEARTBEAT, _json({"done": beat.done, "where": beat.where}))

    def keep_history(self, table: pa.Table) -> None:
        """Writes what was recorded over training."""

        def parquet() -> None:
            with replacing(self.path / _HISTORY, self.guard) as temporary:
                pq.write_table(table, temporary)

        self.writing(parquet)

    def keep_predictions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Writes arrays by name."""
        self.write(_PREDICTIONS, save({name: np.ascontiguousarray(a) for name, a in arrays.items()}))

    def finish(
        self, result: Mapping[str, Any], provenance: Mapping[str, Any], packages: Sequence[str] = ()
    ) -> None:
        """Writes the record, the result last.

        Args:
            result: the same values, to the bit, whenever the run is repeated: metrics, diagnostics.
            provenance: what else is to be known; at least runner, seed and config.
            packages: whose versions belong to the environment.
        """
        self.write(PROVENANCE, _json(self._environment(packages) | dict(provenance)))
        self.write(RESULT, _json(result))
        self._sweep()

    def fail(self, failure: Failure) -> None:
        """Writes down why the run has failed: the only way in which that is done."""
        self.write(FAILURE, _json(failure.values()))

    def forget_failure(self) -> None:
        """Lets the run be tried again."""
        (self.path / FAILURE).unlink(missing_ok=True)

    def put_result_aside(self) -> None:
        """Keeps a damaged result out of the way."""
        result = self.path / RESULT
        result.replace(result.with_suffix(".damaged"))

    def writing(self, write: Callable[[], object]) -> None:
        """Runs a piece of writing; a full disk or a read-only folder is one clear line."""
        try:
            if self.guard is not None:
                self.guard()
            write()
        except OSError as error:
            raise RunFolderError(
                f"cannot write to {self.path}: {error.strerror}; what was written before is kept: mend it, "
                "then resume with the same command (seedspread train: with --resume)"
            ) from error

    def write(self, name: str, content: bytes) -> None:
        """A file of the folder, whole or not at all."""

        def whole() -> None:
            with replacing(self.path / name, self.guard) as temporary:
                temporary.write_bytes(content)

        self.writing(whole)

    def _sweep(self) -> None:
        """Deletes what a run that was killed has left half-written, or had no time to delete."""
        leftovers = [p for p in self.path.glob(".*-*") if not p.name.startswith(".lease-")]
        leftovers.append(self.path / FAILURE)
        if self.is_done:
            leftovers += [*self.checkpoints(), self.path / _HEARTBEAT, self.path / _BEGUN]
        for leftover in leftovers:
            self.writing(partial(leftover.unlink, missing_ok=True))

    def _check_key(self, key: str) -> None:
        if key != self.key:
            raise RunFolderError(
                f"{self.path} holds another run ({key}, not {self.key}): its config, its data or this "
                "package's numerics differ; use another folder"
            )

    def _begun(self) -> dict[str, Any]:
        try:
            begun = read_json(str(self.path), _BEGUN)
            return {"key": begun["key"], "threads": int(begun["threads"])}
        except UNREADABLE as error:
            raise RunFolderError(f"{self.path / _BEGUN} is damaged: {error}; use another folder") from error

    def _environment(self, packages: Sequence[str]) -> dict[str, Any]:
        ended = datetime.now(UTC)
        return {
            "format": FORMAT,
            "started": self._started.isoformat(),
            "ended": ended.isoformat(),
            "seconds_since_last_start": (ended - self._started).total_seconds(),
            "platform": platform.platform(),
            "processor": platform.processor(),
            "python": sys.version.split()[0],
            "versions": {name: version(name) for name in ("seedspread", *packages)},
        }


def checkpoint_number(path: Path) -> int:
    """A checkpoint's place in the order of writing, from its name."""
    middle = path.name.split("-")[1]
    return int(middle) if middle.isdigit() else 0


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, default=str) + "\n").encode()
