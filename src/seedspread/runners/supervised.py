"""A run of one's own code in a process that is watched over: how it is ended, and how its end is told."""

import json
import math
import os
import select
import signal
import subprocess
import time
from abc import ABC
from contextlib import suppress
from typing import IO, Any

from seedspread.errors import abridged
from seedspread.runners.contract import WorkItem
from seedspread.runners.outputs import plain_text
from seedspread.runners.own_code import OwnCode, OwnRun
from seedspread.runners.supervise import LOG_BYTES
from seedspread.runs.files import UNREADABLE, open_file, read_file, read_json
from seedspread.runs.folder import LOG, PROCESS, RunFailedError
from seedspread.runs.lease import is_running, process
from seedspread.runs.stopping import StoppedError, StopRequest

GRACE_SECONDS = 30.0
_POLL_SECONDS = 0.5
_TAIL_LINES, _TAIL_BYTES, _LINE_WIDTH = 20, 2**14, 200
_KILL_SECONDS = 10.0


class SupervisedRun(OwnRun, ABC):
    """A run whose code is a process under a supervisor (`supervise.py`, `host.py`), which ends with this one.

    The lease is kept by this process, so that code that holds its interpreter for long is not taken for dead.
    """

    def __init__(self, runner: OwnCode, item: WorkItem, stop: StopRequest) -> None:
        super().__init__(runner, item, stop)
        self._log, self._log_begin = self._folder.path / LOG, 0

    def _end_former(self, own: int = 0) -> None:
        """Kill what a former attempt has left running here: its worker hangs, its lease was taken over.

        The supervisor that is to run this attempt, process `own`, is left alone.
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
                # Its supervisor kills the code, and goes; one that does not is killed, and the code with it.
                is_late = time.monotonic() > deadline - _KILL_SECONDS / 2
                os.kill(former["pid"], signal.SIGKILL if is_late else signal.SIGUSR1)
            time.sleep(0.02)

    def _ended(
        self, supervisor: "subprocess.Popen[bytes]", order: dict[str, Any], timeout: float | None = None
    ) -> dict[str, Any]:
        """Give a supervisor its order, and return how what it ran has ended."""
        assert supervisor.stdin is not None and supervisor.stdout is not None  # noqa: S101, PT018 - pipes
        with suppress(FileNotFoundError):
            self._log_begin = self._log.stat().st_size
        order |= {"log": str(self._log), "timeout": timeout, "grace": GRACE_SECONDS}
        self._folder.write(PROCESS, json.dumps(process(supervisor.pid)).encode())
        with suppress(BrokenPipeError):  # it was killed, which is seen below
            _send(supervisor.stdin, order)
            self._watch(supervisor, timeout)
        try:
            if not select.select([supervisor.stdout], [], [], 0)[0]:  # others may hold a dead one's pipe
                raise ValueError("it said nothing")
            return dict(json.loads(supervisor.stdout.readline()))
        except ValueError:
            if self._stop.number is not None:
                raise StoppedError("stopped; it had to be killed", self._stop.number) from None
            raise RunFailedError("the process that watched over it was killed") from None

    def _watch(self, supervisor: "subprocess.Popen[bytes]", timeout: float | None) -> None:
        """Wait for the supervisor's report; kill it if it does not stop the code when it should."""
        assert supervisor.stdout is not None  # noqa: S101 - a pipe
        slack, asked = GRACE_SECONDS + _KILL_SECONDS, False
        deadline = time.monotonic() + (math.inf if timeout is None else timeout + slack)
        while not select.select([supervisor.stdout], [], [], _POLL_SECONDS)[0]:
            self._folder.beat(lambda: self._heartbeat("".join(self._tail()[-1:]).strip()))
            if self._stop.number is not None and not asked:
                asked, deadline = True, time.monotonic() + slack
                supervisor.terminate()
            if time.monotonic() > deadline:
                supervisor.kill()  # what it runs dies with it
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
                is_anew = size < self._log_begin  # the log was put aside, and begun anew
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


def _send(pipe: IO[bytes], message: Any) -> None:
    pipe.write(json.dumps(message).encode() + b"\n")
    pipe.flush()
