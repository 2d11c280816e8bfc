"""A run's folder: the files in it, and how they are created, updated, finished and read.

While a run is under way there are `run.json` (how it began), `heartbeat.json` (its progress), its
checkpoints and its lease; for a program also `process.json` (its supervisor) and `log.txt`. When it is done:
`result.json`, `provenance.json`, `config.toml` and what its runner stores beside them: `history.parquet`,
`predictions.safetensors`, `model.safetensors`, `training.safetensors`. `result.json` appears last: it
exists if and only if the run is done. A run that failed has `failure.json`. Nothing is pickled, and a file
is either complete or absent.
"""

import errno
import hashlib
import json
import logging
import math
import os
import platform
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError, printable, require_extra
from seedspread.runs.files import (
    FORMAT,
    UNREADABLE,
    NewerFormatError,
    RecordError,
    damage_of,
    open_file,
    read_file,
    read_json,
    read_record,
)

if TYPE_CHECKING:
    import pyarrow as pa


def gpu() -> dict[str, Any]:
    """Return the device that torch uses in this process, and its settings; empty if unknown."""
    torch: Any = sys.modules.get("torch")
    with suppress(Exception):  # a user's program may have any module named torch
        if torch is not None and torch.cuda.is_initialized():
            cudnn, cuda = torch.backends.cudnn, torch.version.cuda
            flags = {
                "algorithms": torch.are_deterministic_algorithms_enabled(),
                "cudnn": cudnn.deterministic and not cudnn.benchmark,
                "cublas_workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
            }
            facts = {"device": "cuda", "gpu": torch.cuda.get_device_name(), "deterministic": flags}
            return facts | {"cuda": cuda, "cudnn": cudnn.version()}
        if torch is not None and not torch.cuda.is_available() and not torch.backends.mps.is_available():
            return {"device": "cpu"}
    return {}


@cache
def processor() -> str:
    """Return the CPU's name and a digest of its instruction sets; CPUs with equal values round alike."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:  # not Linux, or no permission
        return f"{platform.machine()} {platform.processor()}".strip()
    wanted = ("vendor_id", "model name", "flags", "CPU implementer", "CPU part", "Features")
    pairs = [line.partition(":") for line in text.split("\n\n")[0].splitlines()]
    facts = [value.strip() for name, _, value in pairs if name.strip() in wanted]
    digest = hashlib.sha256(" ".join(facts).encode()).hexdigest()[:8]
    name = next((value.strip() for name, _, value in pairs if name.strip() == "model name"), "")
    return f"{platform.machine()} {name} ({digest})"


# Details of failures that the run itself caused, and signals with which programs terminate themselves.
_OWN = ("exit_status", "what", "raised")
_OWN_SIGNALS = (signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)

# Errors that the machine causes, not the run.
MACHINES = (errno.ENOSPC, errno.EDQUOT, errno.EIO)

RESULT, PROVENANCE, CONFIG, FAILURE = "result.json", "provenance.json", "config.toml", "failure.json"


class RunFailedError(SeedspreadError):
    """A run that cannot go on; `details` contains the cause as plain values."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details
        self.traceback = ""

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> "RunFailedError":
        """Return the error of another process, from the values of its `Failure`."""
        failure = Failure.of_values(values)
        error = cls(failure.message, **failure.details)
        error.traceback = failure.traceback
        return error


@dataclass(frozen=True)
class Failure:
    """The failure of a run; `details` contains the cause as plain values, such as the layer of a NaN loss."""

    message: str
    traceback: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        try:
            message = str(error) or type(error).__name__
        except Exception:  # the user's exception may fail to format itself
            message = type(error).__name__
        if not isinstance(error, SeedspreadError):
            message = f"{type(error).__name__}: {message}"
            is_machines = isinstance(error, OSError) and error.errno in MACHINES
            details: Mapping[str, Any] = {} if is_machines else {"raised": type(error).__name__}
        else:
            details = error.details if isinstance(error, RunFailedError) else {}
        where = error.traceback if isinstance(error, RunFailedError) else ""
        return cls(message, where or "".join(traceback.format_exception(error)), details)

    @property
    def last_line(self) -> str:
        return (self.message.strip().splitlines() or ["no reason was given"])[-1]

    @property
    def is_own(self) -> bool:
        """True if the run itself ended with an error, so that it counts as a failed one.

        False if it was refused, for changed inputs say, or ended from outside: a dead worker, a timeout,
        SIGKILL.
        """
        return any(name in self.details for name in _OWN) or self.details.get("signal") in _OWN_SIGNALS

    def values(self) -> dict[str, Any]:
        return {**self.details, "format": FORMAT, "message": self.message, "traceback": self.traceback}

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> "Failure":
        own = ("format", "message", "traceback")
        details = {name: value for name, value in values.items() if name not in own}
        return cls(str(values["message"]), str(values["traceback"]), details)


BEGUN, HEARTBEAT, PROCESS, LOG = "run.json", "heartbeat.json", "process.json", "log.txt"
FAILED_ATTEMPT = "attempt.json"
HISTORY, PREDICTIONS = "history.parquet", "predictions.safetensors"
# The trained model, and the state to resume its training from; either may be deleted to save space.
MODEL, TRAINING = "model.safetensors", "training.safetensors"
_CHECKPOINT = r"checkpoint-[0-9]{6,}-[0-9a-f]{16}"
_CHECKPOINT_FILE = re.compile(rf"{_CHECKPOINT}\.safetensors")
_FILES = "config|result|provenance|failure|run|heartbeat|history|predictions|model|training|process|attempt"
# Names of the temporary files that this program creates in a run's folder, and no others.
TEMPORARY = re.compile(rf"\.({_FILES}|{_CHECKPOINT})-[0-9a-f]{{16}}\.[a-z]+")


_log = logging.getLogger(__name__)


class RunFolderError(SeedspreadError):
    """A run's folder that cannot be used, or cannot be written to."""


# Tolerance: logits are stored in single precision, accuracies as decimals.
_SAME_ACCURACY = 1e-6
_BEAT_SECONDS = 5.0


@dataclass(frozen=True)
class Heartbeat:
    """Progress of a run; None for what it does not report.

    Attributes:
        done: share of its work, from 0 to 1.
        where: the same in words.
        spent: seconds since its last start.
        seconds: the same over all starts.
    """

    done: float | None
    where: str
    spent: float | None = None
    seconds: float | None = None


def _amount(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < math.inf else None


class RunFolder:
    """The folder of one run.

    Args:
        path: where it is.
        key: the run; only needed to write.
        guard: called before every write; raises if this process may no longer write to the folder.
    """

    def __init__(self, path: Path, key: str = "", guard: Callable[[], None] | None = None) -> None:
        self.path, self.key, self.guard = path, key, guard
        self._started = datetime.now(UTC)
        self._beat = 0.0

    # State

    def check_place(self) -> None:
        """Refuse anything but a folder: a link would lead out of the store."""
        if self.path.is_symlink():
            raise RunFolderError(f"{self.path} is a link; a run's folder must be a folder: remove the link")
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is not a folder, as a run's place must be: move it away")

    @property
    def is_done(self) -> bool:
        return (self.path / RESULT).exists()

    @property
    def has_failed(self) -> bool:
        return (self.path / FAILURE).exists()

    @property
    def has_begun(self) -> bool:
        """True if there is something to resume from."""
        return (self.path / BEGUN).exists() or bool(self.checkpoints())

    @property
    def could_be_a_run(self) -> bool:
        is_folder = self.path.is_dir() and not self.path.is_symlink()
        files = ((self.path / name).exists() for name in (CONFIG, RESULT, BEGUN, FAILURE))
        return is_folder and (any(files) or any(self.path.glob("lease-*")))

    @property
    def has_predictions(self) -> bool:
        return (self.path / PREDICTIONS).exists()

    def damage(self) -> str:
        """Return what a quick look finds wrong with a finished run's arrays; empty if nothing."""
        return damage_of(self.path / PREDICTIONS) or damage_of(self.path / HISTORY)

    def check_digest(self, name: str, provenance: Mapping[str, Any] | None = None) -> None:
        """Raise `RecordError` if a file differs from the run's record; older records have no digests."""
        if provenance is None:
            try:
                provenance = read_record(str(self.path), PROVENANCE)
            except FileNotFoundError:  # the run has not ended yet
                return
        digests = provenance.get("digests") or {}
        if name == CONFIG and CONFIG not in digests:  # older records lack this one
            return
        if digests and _digest(self.path / name) not in digests.get(name, [None]):
            raise RecordError(f"{self.path / name} is not what the run wrote: it was edited or swapped")

    def tampered(self) -> str:
        """Return how a finished run differs from its record when all files are read; empty if not at all.

        This includes an accuracy that is not that of the stored predictions.
        """
        try:
            for name in (RESULT, CONFIG, HISTORY, PREDICTIONS):
                self.check_digest(name)
            for name in (MODEL, TRAINING):
                if (self.path / name).exists():
                    self.check_digest(name)
            accuracy = self.result()["metrics"].get("accuracy")
            if accuracy is None or not self.has_predictions:
                return ""
            correct = float(self.correct()[1].mean())
            if min(abs(accuracy - correct), abs(accuracy / 100 - correct)) > _SAME_ACCURACY:
                return f"{self.path}: its accuracy is {accuracy:g}, and that of its predictions {correct:g}"
        except UNREADABLE as error:
            return str(error)
        return ""

    def marks(self) -> tuple[list[str], bool]:
        """Return marks that change when the run begins, ends or fails, and whether it may be running."""
        files = {file.name: file for file in os.scandir(self.path)}
        marks = [
            f"{name} {files[name].stat().st_mtime_ns}" for name in (RESULT, FAILURE, BEGUN) if name in files
        ]
        return marks, RESULT not in files and any(name.startswith("lease-") for name in files)

    # Reading

    def result(self) -> dict[str, Any]:
        try:
            return read_record(str(self.path), RESULT)
        except FileNotFoundError:
            raise RecordError(f"{self.path} holds no finished run (no {RESULT})") from None
        except (OSError, ValueError) as error:
            raise RecordError(
                f"{self.path / RESULT} is not a result of this package: {error}; delete it to run again"
            ) from error

    def finished_at(self) -> int:
        """Time at which the result appeared, in nanoseconds."""
        return (self.path / RESULT).stat().st_mtime_ns

    def config_path(self) -> Path:
        return self.path / CONFIG

    def failure(self) -> Failure | None:
        if not self.has_failed:
            return None
        try:
            failure = Failure.of_values(read_record(str(self.path), FAILURE))
            if isinstance(log := failure.details.get("log"), str):  # the store may have been moved since
                failure = replace(failure, message=failure.message.replace(log, str(self.path / LOG)))
            return failure
        except RecordError as error:
            return Failure(str(error))
        except UNREADABLE:
            return Failure(f"{self.path / FAILURE} is damaged")

    def heartbeat(self) -> Heartbeat | None:
        """Return the run's progress, without fields that are not numbers."""
        try:
            values = read_json(str(self.path), HEARTBEAT)
            done = values["done"]
            return Heartbeat(
                done=None if done is None else min(max(float(done), 0.0), 1.0),
                where=str(values["where"]),
                spent=_amount(values.get("spent")),
                seconds=_amount(values.get("seconds")),
            )
        except UNREADABLE:  # missing, or damaged
            return None

    def provenance_if_readable(self) -> dict[str, Any]:
        """Return the provenance of a finished run; empty if it cannot be read."""
        try:
            return read_record(str(self.path), PROVENANCE)
        except UNREADABLE:
            return {}

    def base_key(self) -> str | None:
        """Key without the content of input files; None if the run has none, or it cannot be read."""
        base = self.provenance_if_readable().get("base_key")
        return base if isinstance(base, str) else None

    def provenance(self) -> dict[str, Any]:
        return read_record(str(self.path), PROVENANCE)

    def inputs(self) -> dict[str, str]:
        """Input files of the finished run, with the checksums of their content."""
        inputs = self.provenance_if_readable().get("inputs")
        return inputs if isinstance(inputs, dict) else {}

    def seconds(self) -> float | None:
        """Seconds of a worker's time that the finished run took since its last start; None if unknown.

        Runs that were trained together record their share as `worker_seconds`.
        """
        values = self.provenance_if_readable()
        return _amount(values.get("worker_seconds", values.get("seconds_since_last_start")))

    def history(self, columns: Sequence[str] | None = None) -> "pa.Table":
        """Return the history, a row per epoch and layer: all columns, or these."""
        self.check_digest(HISTORY)
        with open_file(self.path / HISTORY) as file:
            require_extra("parquet", f"reading {self.path / HISTORY}")
            from pyarrow import parquet  # noqa: PLC0415 - not in the base

            stored = parquet.ParquetFile(file)
            there = stored.schema_arrow.names
            return stored.read(there if columns is None else [name for name in columns if name in there])

    def predictions(self, *names: str) -> dict[str, NDArray[Any]]:
        """Stored arrays by name: logits `(repeats, N, classes)`, labels and ids `(N,)`, a runner's own."""
        path = self.path / PREDICTIONS
        try:
            self.check_digest(PREDICTIONS)
            with open_file(path), safe_open(path, framework="numpy") as file:
                return {name: file.get_tensor(name) for name in names}
        except (OSError, SafetensorError) as error:
            raise RecordError(f"{path} cannot be read ({error}): run it again") from error

    def correct(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The test examples' ids, and whether the first repeat classified them correctly, `(N,)` each."""
        stored = self.predictions("logits", "labels", "ids")
        return stored["ids"], stored["logits"][0].argmax(axis=1) == stored["labels"]

    def checkpoints(self) -> list[Path]:
        """All checkpoints, oldest first: `checkpoint-NUMBER-CHECKSUM.safetensors`."""
        return sorted(self.own_files(_CHECKPOINT_FILE), key=_checkpoint_number)

    def own_files(self, pattern: re.Pattern[str]) -> list[Path]:
        """Regular files in the folder whose names match; links are ignored."""
        try:
            with os.scandir(self.path) as entries:
                return [
                    self.path / entry.name
                    for entry in entries
                    if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []

    # Writing

    def open(self, config: str, *, resume: bool) -> bool:
        """Create the folder, or check what there is to resume from; return whether it has a result already.

        Args:
            config: the run's parameters, as TOML.
            resume: whether to continue an unfinished run, or accept a finished one, of the same key.
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
        """Make a folder for the run's own code, which survives every attempt."""
        path = self.path / name
        if path.is_symlink():
            raise RunFolderError(f"{path} is a link, which would lead out of the run's folder: remove it")
        self.writing(lambda: path.mkdir(exist_ok=True))
        return path

    def begin(self, threads: int) -> int:
        """Record that the run has begun; return its number of threads, which stays that of the first time."""
        if (begun := self._begun()) is not None:
            return int(begun["threads"])
        self.write(BEGUN, _json({"key": self.key, "threads": threads}))
        return threads

    def beat(self, heartbeat: Callable[[], Heartbeat]) -> None:
        """Write the heartbeat, unless the last one is recent."""
        now = time.monotonic()
        if now - self._beat >= _BEAT_SECONDS:
            self._beat = now
            self.write(HEARTBEAT, _json(asdict(heartbeat())))

    def keep_history(self, table: "pa.Table") -> None:
        from pyarrow import parquet  # noqa: PLC0415 - not in the base

        self._replace(HISTORY, lambda temporary: parquet.write_table(table, temporary))

    def keep_predictions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.write(PREDICTIONS, save({name: np.ascontiguousarray(a) for name, a in arrays.items()}))

    def finish(
        self, result: Mapping[str, Any], provenance: Mapping[str, Any], packages: Sequence[str] = ()
    ) -> None:
        """Write the record, the result last.

        Args:
            result: values that are identical whenever the run is repeated: metrics, diagnostics.
            provenance: everything else; at least runner, seed and config.
            packages: those whose versions can alter the result.
        """
        ended = datetime.now(UTC)
        known = {
            "format": FORMAT,
            "started": self._started.isoformat(),
            "ended": ended.isoformat(),
            "seconds_since_last_start": (ended - self._started).total_seconds(),
            "platform": platform.platform(),
            "processor": processor(),
            "python": sys.version.split()[0],
            "versions": {name: version(name) for name in ("seedspread", *packages)},
        }
        content = _json(result)
        found = {name: _digest(self.path / name) for name in (CONFIG, HISTORY, PREDICTIONS, MODEL, TRAINING)}
        digests = {name: [digest] for name, digest in found.items() if digest is not None}
        digests[RESULT] = [hashlib.sha256(content).hexdigest()]
        self.write(PROVENANCE, _json({**known, **provenance, "digests": digests}))
        self.write(RESULT, content)
        self._sweep()

    def fail(self, failure: Failure) -> None:
        self.write(FAILURE, _json(failure.values()))

    def forget_failure(self) -> None:
        (self.path / FAILURE).unlink(missing_ok=True)

    def drop(self, name: str) -> None:
        self.writing(lambda: (self.path / name).unlink(missing_ok=True))

    def put_result_aside(self) -> None:
        """Rename a damaged result, and the arrays that belong to it, to keep them out of the way."""
        for name in (RESULT, HISTORY, PREDICTIONS, MODEL, TRAINING):
            if os.path.lexists(self.path / name):
                self.put_aside(self.path / name)

    def put_aside(self, path: Path) -> None:
        """Rename a damaged file to `NAME.damaged`."""
        self.writing(lambda: path.replace(path.with_name(f"{path.name}.damaged")))

    def writing(self, write: Callable[[], object]) -> None:
        """Call `write`; report a full disk or a read-only folder in one line."""
        try:
            if self.guard is not None:
                self.guard()
            write()
        except OSError as error:
            alone = "" if self.guard else ", with --resume,"  # no lease: it was started on its own
            raise RunFolderError(
                f"cannot write to {self.path}: {error.strerror}; earlier work is kept. Fix this, "
                f"then rerun the same command{alone} to resume"
            ) from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the folder, whole or not at all."""
        self._replace(name, lambda temporary: temporary.write_bytes(content))

    def _replace(self, name: str, write: Callable[[Path], object]) -> None:
        def whole() -> None:
            with replacing(self.path / name, self.guard) as temporary:
                write(temporary)

        self.writing(whole)

    def _sweep(self) -> None:
        """Delete temporary files that a killed run left behind."""
        leftovers = [*self.own_files(TEMPORARY), self.path / FAILURE]
        if self.is_done:
            leftovers += self.checkpoints()
            leftovers += [self.path / name for name in (HEARTBEAT, BEGUN, PROCESS, FAILED_ATTEMPT)]
        for leftover in leftovers:
            self.writing(partial(leftover.unlink, missing_ok=True))

    def _check_key(self, key: str) -> None:
        if key != self.key:
            raise RunFolderError(
                f"{self.path} holds another run ({key}, not {self.key}): its config, its data or this "
                "package's numerics differ; use another folder"
            )

    def _begun(self) -> dict[str, Any] | None:
        """Return how the run began; None if it has not begun, or must begin afresh after damage."""
        try:
            begun = read_json(str(self.path), BEGUN)
            return {"key": str(begun["key"]), "threads": int(begun["threads"])}
        except FileNotFoundError:
            return None
        except NewerFormatError:
            raise
        except UNREADABLE as error:
            self.begin_afresh(f"{self.path / BEGUN} is damaged ({error})", self.path / BEGUN)
            return None

    def begin_afresh(self, why: str, *damaged: Path) -> None:
        """Set aside all checkpoints, which cannot be used, and warn."""
        _log.warning("%s", printable(f"{why}: put aside, and the run begun afresh"))
        for path in (*damaged, *self.checkpoints()):
            self.put_aside(path)


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if there is none."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _checkpoint_number(path: Path) -> int:
    return int(path.name.split("-")[1])


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True, default=str) + "\n").encode()


T = TypeVar("T")
KEPT = 2


def write_checkpoint(folder: RunFolder, content: bytes) -> None:
    """Add a checkpoint, then delete all but the last two."""
    number = max((_checkpoint_number(path) for path in folder.checkpoints()), default=0) + 1
    name = f"checkpoint-{number:06d}-{_checksum(content)}.safetensors"
    folder.write(name, content)
    for old in folder.checkpoints()[:-KEPT]:
        folder.writing(partial(old.unlink, missing_ok=True))


def newest_checkpoint(folder: RunFolder, parse: Callable[[bytes], T]) -> T | None:
    """Return the newest checkpoint that is complete and that `parse` can read; None if there is none.

    `parse` raises one of `UNREADABLE` if it cannot.
    """
    problems = []
    for path in reversed(folder.checkpoints()):
        try:
            content = read_file(path, sys.maxsize)
            if _checksum(content) != path.stem.rsplit("-", 1)[-1]:
                raise ValueError("its checksum differs")
            return parse(content)
        except UNREADABLE as error:
            problems.append(f"{path.name}: {error}")
    if problems:
        folder.begin_afresh(f"no checkpoint in {folder.path} can be resumed from ({'; '.join(problems)})")
    return None


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
