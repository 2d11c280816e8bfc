"""What the user's code reports of a run: read, checked, and written into the record."""

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from seedspread.atomic import open_regular
from seedspread.errors import is_installed, reason
from seedspread.runners.recording import PREDICTIONS, VALUES
from seedspread.runs.files import FORMAT, UNREADABLE, read_file
from seedspread.runs.folder import RunFailedError, RunFolder, RunFolderError, thinned
from seedspread.runs.metrics import Metric

if TYPE_CHECKING:
    import pyarrow as pa

# Columns of every table of runs, which no parameter and no metric may be called.
COLUMNS = ("seed", "folder", "collapsed", "majority", "study", "key")
_LIMIT = 2**30
_LOOK_BYTES, _MOST_POINTS = 2**22, 2**14
# What people call the place on a curve, which is no measurement.
_STEPS = ("epoch", "step", "iteration", "batch", "global_step")


@dataclass(frozen=True)
class Reported:
    """What a run has reported.

    Attributes:
        values: last value of each name, unchecked.
        curve: one mapping per call of `log`, in order.
        arrays: of `log_predictions`; None if it was not called.
    """

    values: Mapping[str, Any]
    curve: tuple[Mapping[str, Any], ...] = ()
    arrays: Mapping[str, np.ndarray[Any, Any]] | None = None


def read_logged(folder: Path, begin: int = 0) -> Reported:
    """Return what `seedspread.log` and `log_predictions` have left in a folder.

    Args:
        folder: the folder in which the run logs.
        begin: size of the values when this attempt began; those before are part of the curve only.
    """
    arrays, content = None, _content(folder / VALUES)
    before, now = _lines(content[:begin]), _lines(content[begin:])
    predictions = _content(folder / PREDICTIONS)
    if predictions:
        try:
            arrays = load(predictions)
        except SafetensorError as error:
            raise RunFailedError(f"its predictions cannot be read: {error}") from None
    last = {name: value for values in now for name, value in values.items()}
    return Reported(last, (*before, *now), arrays)


def _lines(content: bytes) -> list[dict[str, Any]]:
    lines = []
    for line in content.splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue  # a process that was killed in mid-line
        if isinstance(values, dict):
            lines.append(values)
    return lines


class CurvesSoFar:
    """The curves that a run under way has logged so far; each look reads what is new.

    Args:
        folder: the folder in which the run logs.
        known: names that are no measurements: its parameters.
    """

    def __init__(self, folder: Path, known: Iterable[str]) -> None:
        self._path, self._known = folder / VALUES, {*known, *COLUMNS, *_STEPS}
        self._read, self._rest = 0, b""
        self._curves: dict[str, list[float]] = {}

    def look(self) -> dict[str, list[float]]:
        """Return the values of each metric, in order."""
        content = self._rest + self._new()
        lines, newline, self._rest = content.rpartition(b"\n")
        for values in _lines(lines + newline):
            for name, value in values.items():
                if name not in self._known and _is_finite(value):
                    self._add(name, float(value))
        return {name: thinned(values) for name, values in self._curves.items()}

    def _add(self, name: str, value: float) -> None:
        curve = self._curves.setdefault(name, [])
        if len(curve) == _MOST_POINTS:
            del curve[::2]
        curve.append(value)

    def _new(self) -> bytes:
        try:
            file = open_regular(self._path, os.O_RDONLY)
        except OSError:
            return b""
        try:
            if os.fstat(file).st_size < self._read:  # a new attempt has emptied it
                self._read, self._rest, self._curves = 0, b"", {}
            content = os.pread(file, _LOOK_BYTES, self._read)
        finally:
            os.close(file)
        self._read += len(content)
        return content


def logged_so_far(folder: Path) -> int:
    """Return the size of the values that were logged."""
    return len(_content(folder / VALUES))


def forget_logged(logged: Path) -> None:
    """Empty what a former attempt has logged; the file itself stays, which `log` may have open."""
    try:
        (logged / PREDICTIONS).unlink(missing_ok=True)
        file = open_regular(logged / VALUES, os.O_WRONLY)
        os.ftruncate(file, 0)
        os.close(file)
    except FileNotFoundError:
        pass
    except OSError as error:
        where = f"what was logged in {logged} cannot be emptied"
        raise RunFolderError(
            f"{where}: {reason(error)}; a link or a folder among it must be removed"
        ) from None


def _content(path: Path) -> bytes:
    try:
        return read_file(path, _LIMIT)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RunFailedError(f"what it logged cannot be read: {error}") from None


def check_metrics(values: Mapping[str, Any], promised: Iterable[Metric]) -> dict[str, float]:
    """Return the numbers among `values`; `RunFailedError` if a promised one is missing or not finite."""
    numbers = {name: float(value) for name, value in values.items() if _is_finite(value)}
    for metric in promised:
        if metric.name in numbers:
            continue
        if metric.name not in values:
            reported = f"it reported {', '.join(map(repr, values))}" if values else "it reported nothing"
            raise RunFailedError(f"metric {metric.name!r} is missing: {reported}", metric=metric.name)
        value = values[metric.name]
        if value is None or isinstance(value, float):
            what = "NaN or infinite"
            raise RunFailedError(f"metric {metric.name!r} is {what}", metric=metric.name, what=what)
        raise RunFailedError(f"metric {metric.name!r} is no number: {value!r:.80}", metric=metric.name)
    return numbers


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def file_run(
    folder: RunFolder,
    reported: Reported,
    promised: Iterable[Metric],
    provenance: Mapping[str, Any],
) -> dict[str, float]:
    """Write the record of a run that ended well, and return its metrics.

    Args:
        folder: the run's folder.
        reported: everything that it has reported.
        promised: metrics that it must have reported.
        provenance: at least runner, seed and config.
    """
    promised = tuple(promised)
    # Many programs report their parameters as well, which are known.
    known = {*COLUMNS, "dataset", *provenance["config"]}
    metrics = check_metrics({n: v for n, v in reported.values.items() if n not in known}, promised)
    chance = {metric.name: metric.chance for metric in promised if metric.chance is not None}
    if reported.curve and is_installed("pyarrow"):  # without it the curve is only where it was logged
        folder.keep_history(_curve_table(reported.curve))
    if reported.arrays is not None:
        arrays = dict(reported.arrays)
        folder.keep_predictions(arrays | {"logits": arrays["logits"][None]})  # one repeat, as readers expect
    result = {
        "format": FORMAT,
        "runner": provenance["runner"],
        "key": folder.key,
        "metrics": metrics,
        "chance": chance,
        "collapsed": any(_is_no_better(metric, metrics[metric.name]) for metric in promised),
    }
    folder.finish(result, provenance)
    return metrics


def _is_no_better(metric: Metric, value: float) -> bool:
    if metric.chance is None:
        return False
    return value <= metric.chance if metric.better == "higher" else value >= metric.chance


def _curve_table(curve: Iterable[Mapping[str, Any]]) -> "pa.Table":
    """Return a table with a row per call of `log`; what a call did not report is empty."""
    import pyarrow as pa  # noqa: PLC0415 - not in the base

    rows = [{name: float(v) for name, v in row.items() if _is_finite(v)} for row in curve]
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([row.get(name) for row in rows], pa.float64()) for name in names})


def read_metrics_file(path: Path) -> dict[str, Any]:
    """Return the object in a `metrics.json`, empty if there is no file; else `RunFailedError`."""
    try:
        values = json.loads(read_file(path))
    except FileNotFoundError:
        return {}
    except UNREADABLE as error:
        raise RunFailedError(f"its metrics.json cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise RunFailedError("its metrics.json holds no JSON object")
    return values
