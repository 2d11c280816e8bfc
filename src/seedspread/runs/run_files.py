"""What lies in a run's folder, under which name, and how it is read.

While a run is under way there are `run.json` (what it began with), `heartbeat.json` (how far it is), its
checkpoints and its lease, of a program `process.json` (who watches over it) and `log.txt`; when it is done,
`result.json`, `provenance.json`, `config.toml` and what its runner keeps beside them: `history.parquet`,
`predictions.safetensors`. `result.json` appears last: it is there if and only if the run is done.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from seedspread.errors import SeedspreadError, require_extra
from seedspread.runs.files import (
    UNREADABLE,
    RecordError,
    damage_of_arrays,
    damage_of_parquet,
    open_file,
    read_json,
    read_record,
)
from seedspread.runs.record import CONFIG, FAILURE, PROVENANCE, RESULT, Failure

if TYPE_CHECKING:
    import pyarrow as pa

BEGUN, HEARTBEAT, PROCESS, LOG = "run.json", "heartbeat.json", "process.json", "log.txt"
FAILED_ATTEMPT = "attempt.json"
HISTORY, PREDICTIONS = "history.parquet", "predictions.safetensors"
_CHECKPOINT = r"checkpoint-[0-9]{6,}-[0-9a-f]{16}"
_CHECKPOINT_FILE = re.compile(rf"{_CHECKPOINT}\.safetensors")
_FILES = "config|result|provenance|failure|run|heartbeat|history|predictions|process|attempt"
# All that this program writes into a run's folder while it writes a file, and nothing else.
TEMPORARY = re.compile(rf"\.({_FILES}|{_CHECKPOINT})-[0-9a-f]{{16}}\.[a-z]+")


class RunFolderError(SeedspreadError):
    """A run's folder cannot be used, or not be written to."""


# Points of a curve that a heartbeat carries, and how many curves.
_POINTS, _CURVES = 100, 4


@dataclass(frozen=True)
class Heartbeat:
    """How far a run is.

    Attributes:
        done: the share of its work, from 0 to 1; None if that cannot be told.
        where: the same in words.
        images_per_second: how fast it is, if it counts images.
        spent: of its worker's seconds, so far; a share of them, if several runs are trained together.
        seconds: the same for the whole run, if that can be told.
        curves: what it has measured so far, in order, by name.
    """

    done: float | None
    where: str
    images_per_second: float | None = None
    spent: float | None = None
    seconds: float | None = None
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: str) -> "Heartbeat":
        """As a run has left it; what is no number in it is left out."""
        values = read_json(folder, HEARTBEAT)
        done, curves = values["done"], values.get("curves")
        return cls(
            done=None if done is None else min(max(float(done), 0.0), 1.0),
            where=str(values["where"]),
            images_per_second=_amount(values.get("images_per_second")),
            spent=_amount(values.get("spent")),
            seconds=_amount(values.get("seconds")),
            curves=_curves(curves) if isinstance(curves, dict) else {},
        )


def _curves(values: Mapping[str, Any]) -> dict[str, list[float]]:
    lists = [(name, points) for name, points in values.items() if isinstance(points, list)]
    return {
        name: thinned([float(point) for point in points if _is_number(point)])
        for name, points in lists[:_CURVES]
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _amount(value: Any) -> float | None:
    """A finite number that is not negative; None for anything else."""
    return float(value) if _is_number(value) and value >= 0 else None


def thinned(values: Sequence[float]) -> list[float]:
    """As many points of a curve as a small picture shows, its last among them."""
    step = -(-len(values) // _POINTS) or 1
    return list(values[::-1][::step][::-1])


class RunFiles:
    """The folder of one run, to read.

    Args:
        path: where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    # What is there

    def check_place(self) -> None:
        """Refuses what is no folder: a link would lead out of the store."""
        if self.path.is_symlink():
            raise RunFolderError(f"{self.path} is a link; a run's folder must be a folder: remove the link")
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"{self.path} is not a folder, as a run's place must be: move it away")

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
        return (self.path / BEGUN).exists() or bool(self.checkpoints())

    @property
    def could_be_a_run(self) -> bool:
        """Whether any file tells that a run was here."""
        names = (CONFIG, RESULT, BEGUN, FAILURE)
        return (
            self.path.is_dir()
            and not self.path.is_symlink()
            and (any((self.path / name).exists() for name in names) or any(self.path.glob("lease-*")))
        )

    @property
    def has_predictions(self) -> bool:
        """Whether it kept what it predicted."""
        return (self.path / PREDICTIONS).exists()

    def damage(self) -> str:
        """What is wrong with the arrays of a finished run, as far as a glance can tell; empty if nothing."""
        return damage_of_arrays(self.path / PREDICTIONS) or damage_of_parquet(self.path / HISTORY)

    def marks(self) -> tuple[list[str], bool]:
        """What changes whenever the run begins, ends or fails, and whether it may be under way.

        Reads no file.
        """
        files = {file.name: file for file in os.scandir(self.path)}
        marks = [
            f"{name} {files[name].stat().st_mtime_ns}" for name in (RESULT, FAILURE, BEGUN) if name in files
        ]
        return marks, RESULT not in files and any(name.startswith("lease-") for name in files)

    # Reading

    def result(self) -> dict[str, Any]:
        """The fields of the result."""
        try:
            return read_record(str(self.path), RESULT)
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
            return Heartbeat.read(str(self.path))
        except UNREADABLE:  # none yet, or damaged
            return None

    def base_key(self) -> str | None:
        """What the finished run is but for its inputs; None if it has none, or cannot be read."""
        try:
            base = read_record(str(self.path), PROVENANCE).get("base_key")
        except UNREADABLE:
            return None
        return base if isinstance(base, str) else None

    def inputs(self) -> dict[str, str]:
        """The input files of the finished run, with their content's checksums."""
        try:
            return dict(read_record(str(self.path), PROVENANCE)["inputs"])
        except UNREADABLE:
            return {}

    def seconds(self, *, alone: bool) -> float | None:
        """What the finished run took of its worker's time, since it was last started; None if not known.

        Args:
            alone: whether no other can have been trained with it: then the time since its start is its own,
                and stands for `worker_seconds` if its runner records none.
        """
        try:
            values = read_record(str(self.path), PROVENANCE)
            own = "worker_seconds" if not alone or "worker_seconds" in values else "seconds_since_last_start"
            return float(values[own])
        except UNREADABLE:
            return None

    def history(self, columns: Sequence[str] | None = None) -> "pa.Table":
        """What was recorded over training, a row per epoch and layer; all columns, or some."""
        with open_file(self.path / HISTORY) as file:
            require_extra("parquet", f"reading {self.path / HISTORY}")
            from pyarrow import parquet  # noqa: PLC0415 - not in the base

            return parquet.read_table(file, columns=None if columns is None else list(columns))

    def predictions(self, *names: str) -> dict[str, NDArray[Any]]:
        """Stored arrays by name: logits `(repeats, N, classes)`, labels and ids `(N,)`, a runner's own."""
        path = self.path / PREDICTIONS
        try:
            with open_file(path), safe_open(path, framework="numpy") as file:
                return {name: file.get_tensor(name) for name in names}
        except (OSError, SafetensorError) as error:
            raise RecordError(f"{path} cannot be read ({error}): run it again") from error

    def correct(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The test examples' ids and which of them the first repeat got right, `(N,)` each."""
        stored = self.predictions("logits", "labels", "ids")
        return stored["ids"], stored["logits"][0].argmax(axis=1) == stored["labels"]

    def checkpoints(self) -> list[Path]:
        """All checkpoints, oldest first: `checkpoint-NUMBER-CHECKSUM.safetensors`."""
        return sorted(self.own_files(_CHECKPOINT_FILE), key=checkpoint_number)

    def own_files(self, pattern: re.Pattern[str]) -> list[Path]:
        """The folder's own regular files of a name; links and what lies in folders are left alone."""
        try:
            with os.scandir(self.path) as entries:
                return [
                    self.path / entry.name
                    for entry in entries
                    if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []


def checkpoint_number(path: Path) -> int:
    """A checkpoint's place in the order of writing, from its name."""
    return int(path.name.split("-")[1])
