"""A process between a worker and a program: it runs the program and makes sure that nothing outlives the run.

Started as a script with the standard library alone (`python -I -S supervise.py`), so that it is cheap.
It has its own session, so that whatever ends a study by its process group (closing a terminal,
`timeout -s KILL`) spares it, and it can end the program.
Its order is a line of JSON on its standard input; a second line, or SIGTERM, asks it to stop.
If the input ends, the worker is dead, and the program is killed at once, as with SIGUSR1. The outcome
is a line of JSON on its standard output. All of the program's descendants end with it, even those that have
left its process group: if the kernel allows it (Linux), they become children of this process when their
parent exits.

`host.py` supervises the runs of a function in the same way, with a forked child as the program.
"""

import contextlib
import ctypes
import errno
import functools
import json
import math
import os
import selectors
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

# A larger log is rotated, keeping one old file: a run keeps at most twice this.
LOG_BYTES = 8 * 2**20
_LINE_BYTES = 2**16
_TICK_SECONDS = 0.2
_OUTPUTS = ("stdout", "stderr", "answer")
# Time limit for killing a program's leftovers: processes that fork faster are left alone after that.
_END_SECONDS = 30.0
_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # not Linux: the process group must do
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Log:
    """A file that accepts any amount of output and keeps the end of it: `PATH`, and before it `PATH.old`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = self._open()

    def write(self, chunk: bytes) -> None:
        """Append to the file; a full disk loses this output, not the run."""
        with contextlib.suppress(OSError):
            if os.fstat(self._file.fileno()).st_size + len(chunk) > LOG_BYTES:
                os.replace(self._path, f"{self._path}.old")
                self._file.close()
                self._file = self._open()
            self._file.write(chunk)

    def _open(self) -> BinaryIO:
        """Open for appending; a link or a pipe in its place would lead elsewhere, and is an `OSError`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.fdopen(os.open(self._path, flags, 0o644), "ab", buffering=0)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no file", self._path)
        return file


def last_line(tail: bytes) -> str:
    """Return the last line that is not blank; a progress bar's carriage return ends a line too."""
    lines = tail.rstrip().replace(b"\r", b"\n").rpartition(b"\n")
    return lines[2].decode(errors="replace").strip()


class Program(Protocol):
    """The supervised process, its two outputs, and its exit code once it has ended."""

    pid: int
    returncode: Any
    stdout: Any
    stderr: Any

    def poll(self) -> int | None: ...


Order = dict[str, Any]


def started(order: Order) -> Program:
    """Start the program of an order: `command`, `folder` to start it in, `environment`."""
    return subprocess.Popen(  # noqa: S603 - the command of the user's study
        order["command"],
        cwd=order["folder"],
        env=order["environment"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - there is one thread here
    )


def die_with_parent(is_so: bool = True) -> None:
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL if is_so else 0)


class Supervisor:
    """Runs one program.

    A program may answer on its own pipe, `answer`; after its answer, it has the grace period to end.

    Args:
        order: `log`, `timeout` in seconds or null, and `grace`, the seconds between the request to stop
            and the kill.
        start: starts the program, from its other fields in `order`.
    """

    def __init__(self, order: Order, start: Callable[[Order], Program] = started) -> None:
        self._order, self._program = order, start
        self._tail = self._answer = b""
        self._selector = selectors.DefaultSelector()
        self._deadline = None if order["timeout"] is None else time.monotonic() + order["timeout"]
        self._kill_at: float | None = None
        self.stopped = self.timed_out = self.abandoned = self._is_watching = False

    def run(self) -> dict[str, Any]:
        try:
            self._log = Log(self._order["log"])
            program = self._program(self._order)
        except OSError as error:
            return {"error": f"{error.strerror}: {error.filename}"}
        except ValueError as error:
            return {"error": str(error)}
        try:
            self._watch(program)
        finally:
            self._signal(program.pid, signal.SIGKILL)  # its group, if descendants are unknown
            end_descendants()
        while any(self._read(key) for key in list(self._selector.get_map().values()) if key.data in _OUTPUTS):
            pass
        self._selector.close()
        code = program.returncode or 0
        return {
            "exit_status": None if code < 0 else code,
            "signal": -code if code < 0 else None,
            "timed_out": self.timed_out,
            "stopped": self.stopped,
            "last_line": last_line(self._tail),
            "answer": self._answer.decode(errors="replace"),
        }

    def _watch(self, program: Program) -> None:
        """Wait until the program itself has ended."""
        self._is_watching = True
        self._selector.register(0, selectors.EVENT_READ, "orders")
        self._selector.register(_wakeups(), selectors.EVENT_READ, "signals")
        for name in _OUTPUTS:
            if stream := getattr(program, name, None):
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, selectors.EVENT_READ, name)
        while program.poll() is None:
            self._step(program.pid)
            if self._answer.endswith(b"\n"):
                self._kill_at = self._kill_at or time.monotonic() + self._order["grace"]

    def _step(self, group: int) -> None:
        for key, _ in self._selector.select(_TICK_SECONDS):
            if key.data in _OUTPUTS:
                self._read(key)
            elif key.data == "signals":
                os.read(key.fd, 4096)
            elif os.read(0, 4096):
                self.stopped = True
            else:
                self._selector.unregister(0)
                self.abandoned = True
        if self.abandoned:
            self._signal(group, signal.SIGKILL)
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline and not self.stopped:
            self.timed_out = True
        if (self.stopped or self.timed_out) and self._kill_at is None:
            self._kill_at = now + self._order["grace"]
            self._signal(group, signal.SIGTERM)
        if self._kill_at is not None and now >= self._kill_at:
            self._signal(group, signal.SIGKILL)

    def asked_to(self, what: str) -> None:
        """Record a signal; exit if there is no program to watch yet."""
        if not self._is_watching:
            end_descendants()  # the program may just have started
            os._exit(1)
        setattr(self, what, True)

    def _read(self, key: selectors.SelectorKey) -> bool:
        """Read available output; return False if there is none."""
        try:
            chunk = os.read(key.fd, 2**16)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(key.fileobj)
            return False
        if key.data == "answer":
            self._answer += chunk
            return True
        self._log.write(chunk)
        if key.data == "stdout":
            self._tail = (self._tail + chunk)[-_LINE_BYTES:]
        return True

    def _signal(self, group: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def end_descendants() -> None:
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        for descendant in descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(descendant, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


@functools.cache
def _wakeups() -> int:
    """Return a file that becomes readable with every signal, so that the program's end is seen at once."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def descendants(pid: int | None = None) -> list[int]:
    pid = pid or os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(number) for number in file.read().split()]
    except OSError:
        return []
    return [one for child in children for one in (child, *descendants(child))]


def serve(start: Callable[[Order], Program], report: int = 1, orders: float = math.inf) -> None:
    """Take this many orders, each a line of JSON; run each, and report how it ended in a line on `report`."""
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _prctl(_SET_SUBREAPER, 1)
    text = b""
    while orders:
        while b"\n" not in text:
            chunk = os.read(0, 2**16)
            if not chunk:
                return
            text += chunk
        order, _, text = text.partition(b"\n")
        supervisor = Supervisor(json.loads(order), start)
        supervisor.stopped = bool(text)
        signal.signal(signal.SIGTERM, lambda *_, one=supervisor: one.asked_to("stopped"))
        signal.signal(signal.SIGUSR1, lambda *_, one=supervisor: one.asked_to("abandoned"))
        line = json.dumps(supervisor.run()) + "\n"
        for number in (signal.SIGTERM, signal.SIGUSR1):  # until the next order there is nothing else to end
            signal.signal(number, signal.SIG_DFL)
        with contextlib.suppress(BrokenPipeError), open(report, "wb", closefd=False) as worker:
            worker.write(line.encode())
        orders = 0 if supervisor.stopped or supervisor.abandoned else orders - 1


if __name__ == "__main__":
    serve(started, orders=1)
