"""A run's folder: what stands in it, and when."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet
import torch
from safetensors.torch import save
from torch import Tensor

from seedspread.atomic import replacing
from seedspread.config import RunConfig
from seedspread.errors import SeedspreadError
from seedspread.identity import has_free_margin
from seedspread.presets import to_toml
from seedspread.training.outcome import RunResult
from seedspread.training.records import History

_BEAT_SECONDS = 5.0


class RunFailedError(SeedspreadError):
    """A run whose numbers are no longer finite."""


class RunFolderError(SeedspreadError):
    """A run's folder cannot be used, or not be written to."""


class RunFolder:
    """One folder per run; `result.json` is in it if and only if the run is done."""

    def __init__(self, path: Path, key: str, guard: Callable[[], None] | None = None) -> None:
        self.path = path
        self.key = key
        self.guard = guard
        self._started = datetime.now(UTC)
        self._beat = 0.0

    def open(self, config: RunConfig, *, resume: bool) -> RunResult | None:
        """Makes the folder, or looks what there is to go on from; returns a result that is there already."""
        if (self.path / "result.json").exists():
            result = RunResult.read(self.path)
            self._check_key(result.key)
            if not resume:
                raise RunFolderError(
                    f"{self.path} holds this run's result; use it, or name another folder with --out"
                )
            self._sweep()
            return result
        if (self.path / "run.json").exists():
            self._check_key(self._begun()["key"])
            if not resume:
                raise RunFolderError(
                    f"{self.path} holds an unfinished run; add --resume to go on with it, or use --out"
                )
        self.writing(lambda: self.path.mkdir(parents=True, exist_ok=True))
        self._sweep()
        self._write("config.toml", to_toml(config).encode())
        return None

    def _sweep(self) -> None:
        """Deletes what a run that was killed has left half-written, or had no time to delete."""
        leftovers = [p for p in self.path.glob(".*-*") if not p.name.startswith(".lease-")]
        leftovers.append(self.path / "failure.json")
        if (self.path / "result.json").exists():
            names = ("heartbeat.json", "run.json")
            leftovers += [*self.path.glob("checkpoint-*"), *(self.path / name for name in names)]
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
            begun: dict[str, Any] = json.loads((self.path / "run.json").read_text())
            return {"key": begun["key"], "threads": int(begun["threads"])}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{self.path / 'run.json'} is damaged: {error}; use another folder"
            ) from error

    def pin_threads(self, wanted: int | None) -> int:
        """The run's thread count: what it started with, however often it is resumed."""
        if (self.path / "run.json").exists():
            return int(self._begun()["threads"])
        threads = wanted or torch.get_num_threads()
        self._write("run.json", _json({"key": self.key, "threads": threads}))
        return threads

    def beat(self) -> None:
        """Shows that the run is alive."""
        now = time.monotonic()
        if now - self._beat >= _BEAT_SECONDS:
            self._beat = now
            beat = {"pid": os.getpid(), "host": platform.node(), "time": datetime.now(UTC).isoformat()}
            self._write("heartbeat.json", json.dumps(beat).encode())

    def fail(self, *, layer: int, epoch: int, batch: int, what: str) -> RunFailedError:
        """Writes failure.json and returns the error to raise."""
        message = (
            f"layer {layer}: {what} not finite in epoch {epoch + 1}, first at batch {batch}; "
            "try a smaller learning_rate"
        )
        failure = {"layer": layer, "epoch": epoch, "batch": batch, "what": what, "message": message}
        self._write("failure.json", _json(failure))
        return RunFailedError(message)

    def finish(
        self, config: RunConfig, result: RunResult, predictions: dict[str, Tensor], history: History
    ) -> None:
        """Writes all that a run leaves behind; `result.json` last."""
        table = history.table(with_rate=not has_free_margin(config))

        def parquet() -> None:
            with replacing(self.path / "history.parquet", self.guard) as temporary:
                pyarrow.parquet.write_table(table, temporary)

        self.writing(parquet)
        self._write("predictions.safetensors", save(predictions))
        self._write("provenance.json", _json(self._provenance(config)))
        self._write("result.json", _json(result.values()))
        self._sweep()

    def writing(self, write: Callable[[], object]) -> None:
        """Runs a piece of writing; a full disk or a read-only folder is one clear line."""
        try:
            if self.guard is not None:
                self.guard()
            write()
        except OSError as error:
            raise RunFolderError(
                f"cannot write to {self.path}: {error.strerror}; what was written before is kept: mend it "
                "and go on with --resume"
            ) from error

    def _write(self, name: str, content: bytes) -> None:
        def whole() -> None:
            with replacing(self.path / name, self.guard) as temporary:
                temporary.write_bytes(content)

        self.writing(whole)

    def _provenance(self, config: RunConfig) -> dict[str, Any]:
        ended = datetime.now(UTC)
        return {
            "config": config.model_dump(mode="json"),
            "started": self._started.isoformat(),
            "ended": ended.isoformat(),
            "seconds_since_last_start": (ended - self._started).total_seconds(),
            "threads": torch.get_num_threads(),
            "platform": platform.platform(),
            "processor": platform.processor(),
            "python": sys.version.split()[0],
            "versions": {name: version(name) for name in ("seedspread", "torch", "numpy")},
        }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
