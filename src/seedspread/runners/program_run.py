"""One run of a program on its way: started under a supervisor, watched, and filed when it has ended well."""

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import tomli_w

from seedspread.errors import abridged
from seedspread.runners import supervise
from seedspread.runners.command import Command, search_path
from seedspread.runners.measured import Reported, file_run, read_metrics_file
from seedspread.runners.own_code import LOGGED, OwnRun
from seedspread.runs.files import UNREADABLE, open_file, read_json
from seedspread.runs.lease import is_running, process
from seedspread.runs.metrics import Metric
from seedspread.runs.record import RunFailedError
from seedspread.runs.request import RunRequest
from seedspread.runs.run_files import LOG, PROCESS
from seedspread.runs.stopping import StoppedError, StopRequest

GRACE_SECONDS = 30.0
_POLL_SECONDS = 0.5
_TAIL_LINES, _TAIL_BYTES = 20, 2**14
_KILL_SECONDS = 10.0
METRICS = "metrics.json"
_LINE_WIDTH = 200
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class ProgramRun(OwnRun):
    """One run on its way.

    Args:
        command: what is started.
        inputs: patterns of the files that it depends on.
        promised: the metrics that it must report.
        facts: of its runner, for its provenance.
        request: the run.
        stop: a wish to stop.
    """

    def __init__(
        self,
        command: Command,
        inputs: tuple[str, ...],
        promised: tuple[Metric, ...],
        facts: Mapping[str, Any],
        request: RunRequest,
        stop: StopRequest,
    ) -> None:
        super().__init__(command.folder, inputs, promised, facts, request, stop)
        self._command = command
        self._log = self._folder.path / LOG
        self._log_begin = 0

    def result(self) -> dict[str, float]:
        """Runs the program; its metrics, when all went well."""
        if self._folder.open(self._config(), resume=True):
            return dict(self._folder.result()["metrics"])
        self._threads = self._folder.begin(self._threads)
        self.check_inputs("when it started")
        self._end_former()
        work, logged = self._folder.own_folder("program"), self._folder.own_folder(LOGGED)
        if not any(work.iterdir()):
            self.forget(logged)  # nothing to resume from: it starts afresh
        ended = self._supervised(work, logged)
        self._raise_if_stopped(ended)
        try:
            self.check_inputs("when it ended")
            self._raise_if_failed(ended)
            return self._file(ended["last_line"], work, logged)
        except RunFailedError:
            self.note_failure(logged, _state_of(work / METRICS))
            raise

    def _file(self, last_line: str, work: Path, logged: Path) -> dict[str, float]:
        try:
            reported = self._reported(last_line, work, logged)
            return file_run(self._folder, reported, self._promised, self._facts_of_run())
        except RunFailedError as error:
            raise self._with_tail(str(error), **error.details) from None

    def _reported(self, last_line: str, work: Path, logged: Path) -> Reported:
        """By any of the ways; a file that a failed attempt has left does not count."""
        logs, before = self.logged(logged), self.left_by_failure()[0]
        is_new = before is None or _state_of(work / METRICS) != before
        in_file = read_metrics_file(work / METRICS) if is_new else {}
        return replace(logs, values={**logs.values, **_object(last_line), **in_file})

    def _end_former(self) -> None:
        """Kills what a former attempt has left running here: its worker hangs, its lease was taken over."""
        try:
            former = read_json(str(self._folder.path), PROCESS)
        except UNREADABLE:
            return
        deadline = time.monotonic() + _KILL_SECONDS
        while is_running(former):
            if time.monotonic() > deadline:
                raise RunFailedError(f"an earlier attempt still runs (process {former['pid']}): end it")
            with suppress(ProcessLookupError):
                os.kill(former["pid"], signal.SIGUSR1)  # its supervisor kills the program, and goes
            time.sleep(0.02)

    def _config(self) -> str:
        return tomli_w.dumps(
            {"command": list(self._command.template), "parameters": dict(self._parameters.values)}
        )

    def _supervised(self, work: Path, logged: Path) -> dict[str, Any]:
        """Runs the program under a supervisor, which ends with this process; returns what became of it."""
        order = {
            "command": self._command.words(self._parameters, self._seed, str(work)),
            "folder": self._command.folder,
            "environment": self._environment(work, logged),
            "log": str(self._log),
            "timeout": self._command.timeout,
            "grace": GRACE_SECONDS,
        }
        with suppress(FileNotFoundError):
            self._log_begin = self._log.stat().st_size
        with subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", "-S", supervise.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as supervisor:
            assert supervisor.stdin is not None and supervisor.stdout is not None  # noqa: S101, PT018 - pipes
            self._folder.write(PROCESS, json.dumps(process(supervisor.pid)).encode())
            with suppress(BrokenPipeError):  # it was killed, which is seen below
                _send(supervisor.stdin, order)
                self._watch(supervisor)
            told = supervisor.stdout.read()
        try:
            return dict(json.loads(told))
        except ValueError:
            if self._stop.number is not None:
                raise StoppedError("stopped; it had to be killed", self._stop.number) from None
            raise RunFailedError("the process that watched over the program was killed") from None

    def _watch(self, supervisor: "subprocess.Popen[bytes]") -> None:
        """Until it has something to say; one that does not stop what it should have stopped is killed."""
        assert supervisor.stdin is not None and supervisor.stdout is not None  # noqa: S101, PT018 - pipes
        slack, asked = GRACE_SECONDS + _KILL_SECONDS, False
        deadline = math.inf if self._command.timeout is None else self._command.timeout + slack
        deadline += time.monotonic()
        while not select.select([supervisor.stdout], [], [], _POLL_SECONDS)[0]:
            self._folder.beat(lambda: self.heartbeat(self._last_line()))
            if self._stop.number is not None and not asked:
                asked, deadline = True, time.monotonic() + slack
                _send(supervisor.stdin, "stop")
            if time.monotonic() > deadline:
                supervisor.kill()  # the program dies with it
                return

    def _environment(self, work: Path, logged: Path) -> dict[str, str]:
        planned = dict(self._parameters.environment)  # whatever they are where this run takes place
        return {
            "PYTHONUNBUFFERED": "1",  # so that its last line can be seen while it runs
            **dict.fromkeys(THREADS, str(self._threads)),
            **{name: value for name, value in os.environ.items() if name not in planned},
            "PATH": search_path(),
            **{name: value for name, value in planned.items() if value is not None},
            **self.announced(work, logged),
        }

    def _raise_if_stopped(self, ended: dict[str, Any]) -> None:
        if self._stop.number is not None and ended.get("stopped"):
            raise StoppedError("stopped; what the program left in its folder is kept", self._stop.number)

    def _raise_if_failed(self, ended: dict[str, Any]) -> None:
        if "error" in ended:
            program = self._command.template[0]
            raise RunFailedError(f"{program!r} could not be started: {ended['error']}")
        if ended["timed_out"]:
            limit = self._command.timeout
            raise self._with_tail(f"it took longer than its timeout of {limit:g} s", timeout=limit)
        if ended["signal"] is not None:
            name = _signal_name(ended["signal"])
            raise self._with_tail(f"it was ended by signal {name}", signal=ended["signal"])
        if ended["exit_status"]:
            raise self._with_tail(f"exit status {ended['exit_status']}", exit_status=ended["exit_status"])

    def _with_tail(self, message: str, **details: Any) -> RunFailedError:
        tail = self._tail()
        last = f" (last output: {abridged(tail[-1], _LINE_WIDTH)})" if tail else " (no output)"
        return RunFailedError(f"{message}{last}; see {self._log}", log_tail="\n".join(tail), **details)

    def _tail(self) -> list[str]:
        """The last lines of this attempt's output that are not blank."""
        try:
            with open_file(self._log) as file:
                size = os.fstat(file.fileno()).st_size
                begin = self._log_begin if size >= self._log_begin else 0  # it was put aside, and begun anew
                file.seek(max(begin, size - _TAIL_BYTES))
                lines = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
        except OSError:
            return []
        return [line for line in lines if line.strip()][-_TAIL_LINES:]

    def _last_line(self) -> str:
        tail = self._tail()
        return tail[-1].strip() if tail else ""

    def _facts_of_run(self) -> dict[str, Any]:
        return {**self.provenance(), "command": list(self._command.template)}


def _state_of(path: Path) -> list[int] | None:
    """Changes whenever a file is written; None where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return [status.st_ino, status.st_mtime_ns, status.st_size]


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _send(pipe: IO[bytes], message: Any) -> None:
    pipe.write(json.dumps(message).encode() + b"\n")
    pipe.flush()


def _object(line: str) -> dict[str, Any]:
    """A JSON object that is the last line of a program's output; empty if it is anything else."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
