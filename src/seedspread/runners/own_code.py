"""Common parts of the runners of the user's own code, programs and functions, and of their runs."""

import hashlib
import json
import math
import os
import select
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import tomli_w
from safetensors import SafetensorError
from safetensors.numpy import load

from seedspread.atomic import open_regular
from seedspread.errors import abridged, is_installed, reason
from seedspread.runners.contract import Level, Runner, RunnerError, WorkItem
from seedspread.runners.outputs import plain_text
from seedspread.runners.recording import FOLDER as LOG_FOLDER
from seedspread.runners.recording import LAYER, PREDICTIONS, VALUES
from seedspread.runners.supervise import LOG_BYTES
from seedspread.runs.files import FORMAT, UNREADABLE, open_file, read_file, read_json
from seedspread.runs.folder import (
    FAILED_ATTEMPT,
    LOG,
    PROCESS,
    Heartbeat,
    RunFailedError,
    RunFolderError,
)
from seedspread.runs.lease import is_running, process
from seedspread.runs.metrics import Metric, is_until
from seedspread.runs.run import key_of
from seedspread.runs.stopping import StoppedError, StopRequest
from seedspread.runs.studies import STUDIES

# Columns of every table of runs, and so reserved: no parameter or metric may have these names.
COLUMNS = ("seed", "folder", "collapsed", "majority", "study", "key")
_LIMIT = 2**30
GRACE_SECONDS = 30.0
_POLL_SECONDS = 0.5
_TAIL_LINES, _TAIL_BYTES, _LINE_WIDTH = 20, 2**14, 200
_KILL_SECONDS = 10.0
# Usual names of the position on a curve, which is not a metric.
_STEPS = ("epoch", "step", "iteration", "batch", "global_step")


@dataclass(frozen=True)
class Reported:
    """The values that a run has reported.

    Attributes:
        values: last value by name, unchecked.
        curve: one mapping per call of `log`, in order.
        arrays: arguments of `log_predictions`; None if it was not called.
    """

    values: Mapping[str, Any]
    curve: tuple[Mapping[str, Any], ...] = ()
    arrays: Mapping[str, np.ndarray[Any, Any]] | None = None


def read_logged(folder: Path, begin: int = 0, *, by_layer: bool = True) -> Reported:
    """Return what `seedspread.log` and `log_predictions` wrote into a folder.

    Values from before this attempt, the first `begin` bytes, belong to the curve only. Calls with
    `layer` are about layers, unless `by_layer` is False: then it is a parameter of the run.
    """
    arrays, content = None, _content(folder / VALUES)
    before, now = _lines(content[:begin]), _lines(content[begin:])
    predictions = _content(folder / PREDICTIONS)
    if predictions:
        try:
            arrays = load(predictions)
        except SafetensorError as error:
            raise RunFailedError(f"its predictions cannot be read: {error}") from None
    of_run = [values for values in now if not (by_layer and LAYER in values)]
    last = {name: value for values in of_run for name, value in values.items()}
    return Reported(last, (*before, *now), arrays)


def _layer_rows(calls: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Return calls of `log`; in those about a layer, `rate` and the time get their names in histories."""
    times = Counter[int]()
    for call in calls:
        if type(layer := call.get(LAYER)) is int:
            times[layer] += 1
            epoch = next((call[name] for name in _STEPS if _is_finite(call.get(name))), times[layer])
            renamed = {"clamp_activation_rate" if name == "rate" else name: v for name, v in call.items()}
            yield renamed | {"epoch": epoch}
        else:
            yield call


def _lines(content: bytes) -> list[dict[str, Any]]:
    lines = []
    for line in content.splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue  # the process was killed in the middle of a line
        if isinstance(values, dict):
            lines.append(values)
    return lines


def _content(path: Path) -> bytes:
    try:
        return read_file(path, _LIMIT)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RunFailedError(f"what it logged cannot be read: {error}") from None


def _measured(values: Mapping[str, Any], promised: Sequence[Metric]) -> dict[str, Any]:
    """Return the metrics for a result; `RunFailedError` if a promised one is missing or not finite.

    A metric that counts until something that was never reached is left out, and censored.
    """
    metrics: dict[str, float | None] = {n: float(v) for n, v in values.items() if _is_finite(v)}
    if not promised and not metrics:
        raise RunFailedError("no metric is reported: it printed and logged none", metric="accuracy")
    collapsed, censored = False, []
    for metric in promised:
        name, number = metric.name, metrics.get(metric.name)
        if number is not None:
            if metric.chance is not None:
                is_higher = metric.better == "higher"
                collapsed |= number <= metric.chance if is_higher else number >= metric.chance
            continue
        if name not in values:
            reported = f"it reported {', '.join(map(repr, values))}" if values else "it reported nothing"
            raise RunFailedError(f"metric {name!r} is missing: {reported}", metric=name)
        value = values[name]
        if is_until(name) and (value is None or value == math.inf):
            censored.append(name)  # it was never reached
        elif value is None or isinstance(value, float):
            what = "NaN or infinite"
            raise RunFailedError(f"metric {name!r} is {what}", metric=name, what=what)
        else:
            raise RunFailedError(f"metric {name!r} is not a number: {value!r:.80}", metric=name)
    measured = {
        "metrics": metrics | dict.fromkeys(censored),
        "chance": {metric.name: metric.chance for metric in promised if metric.chance is not None},
        "collapsed": collapsed or bool(censored),
    }
    return measured | ({"censored": censored} if censored else {})


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse one that has a name twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("it has a name twice")
    return values


def read_metrics_file(path: Path) -> dict[str, Any]:
    """Return the object in a `metrics.json`, empty if there is no file; else raise `RunFailedError`."""
    try:
        values = json.loads(read_file(path), object_pairs_hook=_without_repeats)
    except FileNotFoundError:
        return {}
    except UNREADABLE as error:
        raise RunFailedError(f"its metrics.json cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise RunFailedError("its metrics.json holds no JSON object")
    return values


# The subfolder of a run for what its code logs.
LOGGED = "logged"
# Arguments that a run receives besides its parameters.
RESERVED = ("seed", "folder", "python")
# The factor that a study's `repeat` adds.
REPEAT = "repeat"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_FILE_LIMIT = 10_000

# Names of files or parts of code, each with the SHA-256 of its content.
Digests = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Randomness:
    """The meaning of a run's seed, if the code has several sources of randomness.

    Each source receives its own number, which follows from the seed and the source's name.

    Attributes:
        sources: their names, such as `init` and `order`.
        driven: sources that the seed controls (the others are the same in all runs); all if empty.
        repeats: number of runs per seed.
    """

    sources: tuple[str, ...] = ()
    driven: tuple[str, ...] = ()
    repeats: int = 1

    def run_seed(self, seed: int) -> int:
        """Return the seed for all randomness outside the named sources."""
        return 0 if self.driven else seed

    def seeds(self, seed: int) -> dict[str, int]:
        """Return the number of each source: 31 bits, which every generator accepts."""
        own = {name: seed if name in (self.driven or self.sources) else 0 for name in self.sources}
        digests = {name: hashlib.sha256(f"{name} {of}".encode()).digest() for name, of in own.items()}
        return {name: int.from_bytes(digest[:4], "big") >> 1 for name, digest in digests.items()}

    def recorded(self, seed: int) -> dict[str, Any]:
        """Return the seeds for a record: of the whole run, and of the sources that differ from it."""
        own: dict[str, Any] = dict.fromkeys(self.driven, seed)
        return {"run": self.run_seed(seed), "sources": " ".join(self.sources), **own}


@dataclass(frozen=True)
class Parameters:
    """Everything that defines a run of a program or a function, apart from its seed.

    Attributes:
        inputs: digests of the files that it depends on.
        environment: variables that it depends on; None for a variable that is not set.
        repeat: number of the run among those of the same seed, from 1 on.
    """

    values: tuple[tuple[str, Level], ...]
    inputs: Digests = ()
    environment: tuple[tuple[str, str | None], ...] = ()
    repeat: int = 1


@dataclass(frozen=True, kw_only=True)
class OwnCode(Runner):
    """A runner of the user's own code.

    Attributes:
        promised: metrics that every run must report.
        inputs: patterns of files whose content is part of a run's identity.
        environment: names of variables whose values are part of it.
        randomness: the meaning of the seed.
    """

    promised: tuple[Metric, ...] = ()
    inputs: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    randomness: Randomness = Randomness()
    run_type: ClassVar[type["OwnRun"]]

    @property
    @abstractmethod
    def folder(self) -> str:
        """Folder in which the code runs, and relative to which its inputs are named."""

    @property
    @abstractmethod
    def code(self) -> dict[str, Any]:
        """Return a description of the code, for a run's configuration and key."""

    @property
    def recorded_code(self) -> dict[str, Any]:
        """Return a description of the code, for a run's provenance."""
        return self.code

    @property
    def content(self) -> dict[str, Any]:
        """Return the digests of the code itself for a run's key, apart from its inputs."""
        return {}

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(metric.name for metric in self.promised)

    def full_name(self, name: str) -> str:
        """Return the name; refuse one that is reserved in tables of runs."""
        if name in (*RESERVED, *COLUMNS, *(("seeds",) if self.randomness.sources else ())):
            raise RunnerError(f"{name!r} cannot be a parameter: the name is reserved")
        if name in self.metrics:
            raise RunnerError(f"{name!r} is a parameter and a metric; rename one of them")
        return name

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Parameters:
        """Return the values with the current inputs and declared variables."""
        environment = tuple((name, os.environ.get(name)) for name in sorted(self.environment))
        given = tuple((name, value) for name, value in values.items() if name != REPEAT or not self._repeats)
        repeat = int(values[REPEAT]) if self._repeats else 1
        return Parameters(given, digests_of(Path(self.folder), self.inputs), environment, repeat)

    @property
    def _repeats(self) -> bool:
        return self.randomness.repeats > 1

    def driving(self, sources: tuple[str, ...]) -> Self:
        known = self.randomness.sources
        for source in sources:
            if source not in known:
                one = "its runs have one seed: name more as sources = [...]"
                there = f"sources are {', '.join(known)}" if known else one
                raise RunnerError(f"vary: no source is called {source!r}; {there}")
        return replace(self, randomness=replace(self.randomness, driven=sources))

    def values(self, parameters: Parameters) -> dict[str, Any]:
        return dict(parameters.values)

    def identity(self, parameters: Parameters, seed: int) -> dict[str, Any]:
        """Return the identity of a run, apart from the content of files."""
        known = self.randomness
        return {
            "runner": self.name,
            **self.code,
            "parameters": dict(parameters.values),
            "seed": known.run_seed(seed),
            "environment": dict(parameters.environment),
            **({"sources": known.seeds(seed)} if known.sources else {}),
            **({"repeat": parameters.repeat} if parameters.repeat > 1 else {}),
        }

    def keys(self, runs: Sequence[tuple[Parameters, int]], data_dir: Path | None) -> list[str]:
        """Return hashes of code, parameters, seed, inputs and declared environment variables."""
        more = self.content
        return [key_of(self.identity(p, seed) | more | {"inputs": dict(p.inputs)}) for p, seed in runs]

    def may_use_gpu(self, parameters: Parameters) -> bool:
        return True

    def run(self, item: WorkItem, stop: StopRequest) -> dict[str, float]:
        if self.keys([(item.run.parameters, item.run.seed)], None) != [item.run.key]:
            raise RunFailedError("this is not the run that was planned: give the same command again")
        return self.run_type(self, item, stop).result()


class OwnRun(ABC):
    """One run of the user's own code, from its start to its record.

    The code is a process under a supervisor (`supervise.py`, `host.py`), which ends with this process. The
    lease is maintained here, so that code that blocks its interpreter for long is not taken for dead.
    """

    def __init__(self, runner: OwnCode, item: WorkItem, stop: StopRequest) -> None:
        self._runner, self._stop = runner, stop
        self._parameters: Parameters = item.run.parameters
        self._seed, self._threads = item.run.seed, item.threads
        self._folder = item.folder()
        self._started_at = time.monotonic()
        self._device: dict[str, Any] = {}  # the device that the code reports
        # Folders for the code's own files, and for this attempt's log. The latter is separate from others,
        # so that a process that has lost its lease but goes on cannot add to the holder's numbers.
        token = 0 if item.lease is None else item.lease.token
        self._work, self._logged = self._folder.path / "program", self._folder.path / LOGGED / f"{token:06d}"
        self._log, self._log_begin = self._folder.path / LOG, 0

    def result(self) -> dict[str, float]:
        """Run the code, write the record and return the metrics; a finished run is not run again."""
        config = {**self._runner.code, "parameters": dict(self._parameters.values)}
        if self._folder.open(tomli_w.dumps(config), resume=True):
            return dict(self._folder.result()["metrics"])
        self._threads = self._folder.begin(self._threads)
        self._check_inputs("when it started")
        self._folder.own_folder(self._work.name)
        self._take_over_logged()
        return self._run()

    @abstractmethod
    def _run(self) -> dict[str, float]:
        """Run the code, write the record and return the metrics."""

    def _leave_record(self, reported: Reported) -> dict[str, float]:
        """Write the record of a successful run, and return its metrics."""
        runner, folder, parameters = self._runner, self._folder, self._parameters
        known = runner.randomness
        # Everything that the run is called with, including its seeds by source and its number among repeats.
        config: dict[str, Any] = dict(parameters.values)
        config |= {"seeds": known.recorded(self._seed)} if known.sources else {}
        config |= {REPEAT: parameters.repeat} if known.repeats > 1 else {}
        # Many programs also report their parameters, which are known already.
        values = {n: v for n, v in reported.values.items() if n not in {*COLUMNS, "dataset", *config}}
        measured = _measured(values, runner.promised)
        curve = reported.curve if LAYER in config else tuple(_layer_rows(reported.curve))
        layers = sorted({row[LAYER] for row in curve if LAYER in row and LAYER not in config})
        if curve and is_installed("pyarrow"):  # without it, the curve remains only where it was logged
            import pyarrow as pa  # noqa: PLC0415 - not in the base

            # A row per call of `log`; values that a call did not report are empty.
            rows = [{name: float(v) for name, v in row.items() if _is_finite(v)} for row in curve]
            names = dict.fromkeys(name for row in rows for name in row)
            columns = {name: pa.array([row.get(name) for row in rows], pa.float64()) for name in names}
            folder.keep_history(pa.table(columns))
        if reported.arrays is not None:
            one_repeat = {"logits": reported.arrays["logits"][None]}  # the layout that readers expect
            folder.keep_predictions({**reported.arrays, **one_repeat})
        provenance = {
            "runner": runner.name,
            "base_key": runner.base_keys([(parameters, self._seed)])[0],
            "seed": self._seed,
            "config": config,
            "inputs": dict(parameters.inputs),
            "environment": dict(parameters.environment),
            "threads": self._threads,
            **runner.recorded_code,
            **self._device,
        }
        result = {"format": FORMAT, "runner": runner.name, "key": folder.key, **measured}
        folder.finish(result | ({"layers": layers} if layers else {}), provenance)
        return dict(measured["metrics"])

    def _heartbeat(self) -> Heartbeat:
        """Return the progress of a run under way: its last line of output, and its time."""
        last = "".join(self._tail()[-1:]).strip()
        return Heartbeat(None, last, spent=time.monotonic() - self._started_at)

    def _check_inputs(self, when: str) -> None:
        """Raise `RunFailedError` naming the first input that is not as planned."""
        try:
            now = dict(digests_of(Path(self._runner.folder), self._runner.inputs))
        except RunnerError as error:
            raise RunFailedError(f"{error} ({when})") from None
        before = dict(self._parameters.inputs)
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                what = "is new" if name not in before else "is gone" if name not in now else "has changed"
                raise RunFailedError(
                    f"its input {name} {what} since it was planned ({when}): give the same command again",
                    input=name,
                )

    def _variables(self) -> dict[str, str]:
        """Return the environment variables that describe the run to its code."""
        known = self._runner.randomness
        sources = known.seeds(self._seed).items()
        return {
            "SEEDSPREAD_FOLDER": str(self._work),
            "SEEDSPREAD_SEED": str(known.run_seed(self._seed)),
            **{f"SEEDSPREAD_SEED_{name.upper()}": str(number) for name, number in sources},
            "SEEDSPREAD_PARAMETERS": json.dumps(dict(self._parameters.values)),
            LOG_FOLDER: str(self._logged),
        }

    def _note_failure(self, files: Mapping[str, list[int] | None] | None = None) -> None:
        """Record what this failed attempt has reported, so that it is not attributed to the next one."""
        left = {"files": files or {}, "values": len(_content(self._logged / VALUES))}
        self._folder.write(FAILED_ATTEMPT, json.dumps(left).encode())

    def _take_over_logged(self) -> None:
        """Begin with a copy of what the previous attempt logged, if there was one."""
        self._folder.own_folder(LOGGED)
        before = [path for path in self._logged.parent.iterdir() if path.name < self._logged.name]
        source = max((path for path in before if path.is_dir() and not path.is_symlink()), default=None)
        self._folder.own_folder(f"{LOGGED}/{self._logged.name}")
        for name in (VALUES, PREDICTIONS):
            if content := _content((source or self._logged.parent) / name):
                self._folder.write(f"{LOGGED}/{self._logged.name}/{name}", content)

    def _forget_attempts(self) -> None:
        """Delete what previous attempts logged: this one starts afresh."""
        try:
            (self._logged / PREDICTIONS).unlink(missing_ok=True)
            os.close(open_regular(self._logged / VALUES, os.O_WRONLY | os.O_TRUNC))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise RunFolderError(
                f"what was logged in {self._logged} cannot be emptied: {reason(error)}; a link or a folder "
                "among it must be removed"
            ) from None
        (self._folder.path / FAILED_ATTEMPT).unlink(missing_ok=True)

    def _left_by_failure(self) -> tuple[dict[str, Any], int]:
        """Return file states and the size of the logged values after a failed attempt."""
        try:
            left = read_json(str(self._folder.path), FAILED_ATTEMPT)
            return left["files"], int(left["values"])
        except UNREADABLE:
            return {}, 0

    def _read_logged(self) -> Reported:
        """Return what was logged, by interrupted attempts too, but not by failed ones."""
        by_layer = LAYER not in dict(self._parameters.values)
        return read_logged(self._logged, self._left_by_failure()[1], by_layer=by_layer)

    def _end_former(self, own: int = 0) -> None:
        """Kill leftovers of a previous attempt here, whose worker hangs and whose lease was taken over.

        The supervisor of this attempt, process `own`, is spared.
        """
        try:
            former = read_json(str(self._folder.path), PROCESS)
        except UNREADABLE:
            return
        deadline = time.monotonic() + _KILL_SECONDS
        while is_running(former) and former["pid"] != own:
            if time.monotonic() > deadline:
                raise RunFailedError(f"an earlier attempt still runs (process {former['pid']}): end it")
            with suppress(ProcessLookupError, PermissionError):
                # Its supervisor kills the code and exits; otherwise it is killed itself, and the code too.
                is_late = time.monotonic() > deadline - _KILL_SECONDS / 2
                os.kill(former["pid"], signal.SIGKILL if is_late else signal.SIGUSR1)
            time.sleep(0.02)

    def _ended(
        self, supervisor: "subprocess.Popen[bytes]", order: dict[str, Any], timeout: float | None = None
    ) -> dict[str, Any]:
        """Give a supervisor its order, and return how the process ended."""
        assert supervisor.stdin is not None and supervisor.stdout is not None  # noqa: S101, PT018 - pipes
        with suppress(FileNotFoundError):
            self._log_begin = self._log.stat().st_size
        order |= {"log": str(self._log), "timeout": timeout, "grace": GRACE_SECONDS}
        self._folder.write(PROCESS, json.dumps(process(supervisor.pid)).encode())
        with suppress(BrokenPipeError):  # it was killed, which is noticed below
            supervisor.stdin.write(json.dumps(order).encode() + b"\n")
            supervisor.stdin.flush()
            self._watch(supervisor, timeout)
        try:
            if not select.select([supervisor.stdout], [], [], 0)[0]:  # others may hold a dead one's pipe
                raise ValueError("it printed nothing")
            return dict(json.loads(supervisor.stdout.readline()))
        except ValueError:
            if self._stop.number is not None:
                raise StoppedError("stopped; it had to be killed", self._stop.number) from None
            raise RunFailedError("the process that watched over it was killed") from None

    def _watch(self, supervisor: "subprocess.Popen[bytes]", timeout: float | None) -> None:
        """Wait for the supervisor's report; kill it if it does not stop the code in time."""
        assert supervisor.stdout is not None  # noqa: S101 - a pipe
        slack, asked = GRACE_SECONDS + _KILL_SECONDS, False
        deadline = time.monotonic() + (math.inf if timeout is None else timeout + slack)
        while not select.select([supervisor.stdout], [], [], _POLL_SECONDS)[0]:
            self._folder.beat(self._heartbeat)
            if self._stop.number is not None and not asked:
                asked, deadline = True, time.monotonic() + slack
                supervisor.terminate()
            if time.monotonic() > deadline:
                supervisor.kill()  # its program dies with it
            if supervisor.poll() is not None:
                return

    def _with_tail(self, message: str, **details: Any) -> RunFailedError:
        tail = self._tail()
        last = f" (last output: {abridged(tail[-1], _LINE_WIDTH)})" if tail else " (no output)"
        known = {"log": str(self._log), "log_tail": "\n".join(tail), **details}
        return RunFailedError(f"{message}{last}; see {self._log}", **known)

    def _tail(self) -> list[str]:
        """Return the last lines of this attempt's output that are not blank."""
        lines = plain_text(self._output(_TAIL_BYTES)).splitlines()
        return [line for line in lines if line.strip()][-_TAIL_LINES:]

    def _output(self, most: int = 2 * LOG_BYTES) -> bytes:
        """Return the last of this attempt's output."""
        try:
            with open_file(self._log) as file:
                size = os.fstat(file.fileno()).st_size
                is_anew = size < self._log_begin  # the log was rotated
                file.seek(max(0 if is_anew else self._log_begin, size - most))
                last = file.read(most)
        except OSError:
            return b""
        if is_anew and len(last) < most:
            with suppress(OSError):
                return (read_file(f"{self._log}.old") + last)[-most:]
        return last


def signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def digests_of(folder: Path, patterns: Iterable[str]) -> Digests:
    """Return the files that match the patterns, by path relative to `folder`, and their digests."""
    paths: dict[str, Path] = {}
    for pattern in patterns:
        matches = [path for path in _matching(folder, pattern) if path.is_file()]
        if not matches:
            raise RunnerError(
                f"inputs: {pattern!r} names no file in {folder}; name files, as in 'src/**/*.py'"
            )
        paths |= {Path(os.path.relpath(path, folder)).as_posix(): path for path in matches}
        if len(paths) > _FILE_LIMIT:
            raise RunnerError(f"inputs: {pattern!r} names more than {_FILE_LIMIT} files; name fewer")
    out = []
    try:
        for name in sorted(paths):
            with paths[name].open("rb") as file:
                out.append((name, hashlib.file_digest(file, "sha256").hexdigest()))
    except OSError as error:
        raise RunnerError(f"inputs: {error.filename} cannot be read: {error.strerror}") from None
    return tuple(out)


def _matching(folder: Path, pattern: str) -> list[Path]:
    matches = [folder / name for name in glob(pattern, root_dir=folder, recursive=True, include_hidden=True)]
    # Neither Python's bytecode nor the contents of a store are inputs.
    stores = {path for match in matches for path in match.parents if (path / STUDIES).is_dir()}
    return [path for path in matches if "__pycache__" not in path.parts and not stores & set(path.parents)]
