"""A run's folder as its runner sees it: how it is begun, written to and finished."""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from seedspread.atomic import replacing
from seedspread.errors import printable
from seedspread.runs.environment import environment
from seedspread.runs.files import FORMAT, UNREADABLE, NewerFormatError, read_json
from seedspread.runs.record import CONFIG, FAILURE, PROVENANCE, RESULT, Failure
from seedspread.runs.run_files import (
    BEGUN,
    FAILED_ATTEMPT,
    HEARTBEAT,
    HISTORY,
    PREDICTIONS,
    PROCESS,
    TEMPORARY,
    Heartbeat,
    RunFiles,
    RunFolderError,
)

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

_BEAT_SECONDS = 5.0


class RunFolder(RunFiles):
    """The folder of one run.

    Args:
        path: where it is.
        key: the run; only needed to write.
        guard: is called before every write, and raises if the folder is no longer this process's to write to.
    """

    def __init__(self, path: Path, key: str = "", guard: Callable[[], None] | None = None) -> None:
        super().__init__(path)
        self.key = key
        self.guard = guard
        self._started = datetime.now(UTC)
        self._beat = 0.0

    def open(self, config: str, *, resume: bool) -> bool:
        """Makes the folder, or looks what there is to resume from; True if the result is there already.

        Args:
            config: the run's parameters, as TOML.
            resume: whether an unfinished or finished run of the same key is welcome.
        """
        self.check_place()
        if self.is_done:
            self._check_key(str(self.result().get("key")))
            if not resume:
                raise RunFolderError(
                    f"{self.path} holds this run's result; use it, or name another folder with --out"
                )
            self._sweep()
            return True
        if (begun := self._begun()) is not None:
            self._check_key(begun["key"])
            if not resume:
                raise RunFolderError(
                    f"{self.path} holds an unfinished run; add --resume to resume it, or use --out"
                )
        self.writing(lambda: self.path.mkdir(parents=True, exist_ok=True))
        self._sweep()
        self.write(CONFIG, config.encode())
        return False

    def own_folder(self, name: str) -> Path:
        """A folder in the run's, for what is not ours to look at; it is there through every attempt."""
        path = self.path / name
        if path.is_symlink():
            raise RunFolderError(f"{path} is a link, which would lead out of the run's folder: remove it")
        self.writing(lambda: path.mkdir(exist_ok=True))
        return path

    def begin(self, threads: int) -> int:
        """Notes that the run has begun; returns its thread count: what it first began with."""
        if (begun := self._begun()) is not None:
            return int(begun["threads"])
        self.write(BEGUN, _json({"key": self.key, "threads": threads}))
        return threads

    def beat(self, heartbeat: Callable[[], Heartbeat]) -> None:
        """Tells now and then how far the run is."""
        now = time.monotonic()
        if now - self._beat >= _BEAT_SECONDS:
            self._beat = now
            self.write(HEARTBEAT, _json(asdict(heartbeat())))

    def keep_history(self, table: "pa.Table") -> None:
        """Writes what was recorded over training."""
        from pyarrow import parquet  # noqa: PLC0415 - not in the base

        def whole() -> None:
            with replacing(self.path / HISTORY, self.guard) as temporary:
                parquet.write_table(table, temporary)

        self.writing(whole)

    def keep_predictions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Writes arrays by name."""
        self.write(PREDICTIONS, save({name: np.ascontiguousarray(a) for name, a in arrays.items()}))

    def finish(
        self, result: Mapping[str, Any], provenance: Mapping[str, Any], packages: Sequence[str] = ()
    ) -> None:
        """Writes the record, the result last.

        Args:
            result: the same values, to the bit, whenever the run is repeated: metrics, diagnostics.
            provenance: what else is to be known; at least runner, seed and config.
            packages: whose versions belong to the environment.
        """
        self.write(
            PROVENANCE, _json({"format": FORMAT} | environment(self._started, packages) | dict(provenance))
        )
        self.write(RESULT, _json(result))
        self._sweep()

    def fail(self, failure: Failure) -> None:
        """Writes down why the run has failed: the only way in which that is done."""
        self.write(FAILURE, _json(failure.values()))

    def forget_failure(self) -> None:
        """Lets the run be tried again."""
        (self.path / FAILURE).unlink(missing_ok=True)

    def put_result_aside(self) -> None:
        """Keeps a damaged result, and the arrays that belong to it, out of the way."""
        for name in (RESULT, HISTORY, PREDICTIONS):
            if os.path.lexists(self.path / name):
                self.put_aside(self.path / name)

    def put_aside(self, path: Path) -> None:
        """Keeps a damaged file of the folder as `NAME.damaged`."""
        self.writing(lambda: path.replace(path.with_name(f"{path.name}.damaged")))

    def writing(self, write: Callable[[], object]) -> None:
        """Runs a piece of writing; a full disk or a read-only folder is one clear line."""
        try:
            if self.guard is not None:
                self.guard()
            write()
        except OSError as error:
            alone = "" if self.guard else ", with --resume,"  # no lease: it was started by itself
            raise RunFolderError(
                f"cannot write to {self.path}: {error.strerror}; what was written before is kept: mend it, "
                f"then rerun the same command{alone} to resume"
            ) from error

    def write(self, name: str, content: bytes) -> None:
        """A file of the folder, whole or not at all."""

        def whole() -> None:
            with replacing(self.path / name, self.guard) as temporary:
                temporary.write_bytes(content)

        self.writing(whole)

    def _sweep(self) -> None:
        """Deletes what a run that was killed has left half-written, or had no time to delete."""
        leftovers = [*self.own_files(TEMPORARY), self.path / FAILURE]
        if self.is_done:
            leftovers += [
                *self.checkpoints(),
                *(self.path / name for name in (HEARTBEAT, BEGUN, PROCESS, FAILED_ATTEMPT)),
            ]
        for leftover in leftovers:
            self.writing(partial(leftover.unlink, missing_ok=True))

    def _check_key(self, key: str) -> None:
        if key != self.key:
            raise RunFolderError(
                f"{self.path} holds another run ({key}, not {self.key}): its config, its data or this "
                "package's numerics differ; use another folder"
            )

    def _begun(self) -> dict[str, Any] | None:
        """What the run began with; None if it has not, or if that is damaged: then it begins afresh."""
        try:
            begun = read_json(str(self.path), BEGUN)
            return {"key": str(begun["key"]), "threads": int(begun["threads"])}
        except FileNotFoundError:
            return None
        except NewerFormatError:
            raise
        except UNREADABLE as error:
            _log.warning(
                "%s",
                printable(f"{self.path / BEGUN} is damaged ({error}): put aside, and the run begun afresh"),
            )
            for path in [self.path / BEGUN, *self.checkpoints()]:
                self.put_aside(path)
            return None


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, default=str) + "\n").encode()
