"""A process that keeps a Python function loaded and forks a child for each of its runs.

This way no run can harm another: whatever a run does to its interpreter, its module, threads, signals or
outputs ends with its child, and its leftover processes are killed. Forking a process that has one thread and
has done nothing but imports costs milliseconds. A module that starts threads or CUDA on import cannot be
forked after that: then each child imports it by itself.

Orders come from the worker as for `supervise.py`; a child's answer is the function's return value, or its
failure.
"""

import atexit
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from seedspread.runners.supervise import Order, descendants, die_with_parent, end_descendants, serve
from seedspread.runs.folder import MACHINES, Failure, RunFailedError, gpu

_SIZE_BYTES = 8
# A host's answer if it must not be forked anymore.
COLD = "cannot be forked"
_CLOSE_SECONDS = 10.0


class Loadable(Protocol):
    """A function that can be sent to another process, where it is loaded once."""

    def load(self) -> Callable[..., Any]: ...


class Host:
    """A process that is started once and runs one run after another: the worker's side."""

    def __init__(self, function: Loadable, environment: Mapping[str, str | None], *, warm: bool) -> None:
        ours = {name: value for name, value in os.environ.items() if name not in environment}
        # Many modules ask whether there is a GPU when they are imported, which must not start CUDA.
        ours.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        code = f"import sys; sys.path[:] = {sys.path!r}; from seedspread.runners.host import main; main()"
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ours | {name: value for name, value in environment.items() if value is not None},
            start_new_session=True,
        )
        atexit.register(self.close)
        content = pickle.dumps((function, warm))
        assert self.process.stdin is not None  # noqa: S101 - a pipe
        with suppress(BrokenPipeError):  # it was killed, which the next order will reveal
            self.process.stdin.write(len(content).to_bytes(_SIZE_BYTES, "big") + content)
            self.process.stdin.flush()

    def close(self) -> None:
        """End the process, along with whatever it runs."""
        atexit.unregister(self.close)
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: S101, PT018 - pipes
        with suppress(BrokenPipeError):
            self.process.stdin.close()  # end of input makes it exit
        try:
            self.process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:  # it is suspended, or hangs while loading
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def main() -> None:
    """Run as a host: read what to load, then serve."""
    report, nothing = os.dup(1), os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    content = _received(int.from_bytes(_received(_SIZE_BYTES), "big"))
    function, warm = pickle.loads(content)  # noqa: S301 - what the worker sent
    states = _Generators()

    def start(order: Order) -> Child:
        if warm and not states.loaded:
            before = threading.active_count()  # Python's threads; those of libraries survive forks
            die_with_parent()  # a module that hangs on import would not notice the worker's end
            with suppress(BaseException):  # each child reports the error
                os.chdir(order["folder"])
                function.load()
            die_with_parent(False)
            states.note()
            torch: Any = sys.modules.get("torch")
            has_more = threading.active_count() > before or descendants()
            if has_more or (torch is not None and torch.cuda.is_initialized()):
                raise ValueError(COLD)
        return Child(function, states, order, report)

    serve(start, report)
    end_descendants()


def _received(size: int) -> bytes:
    content, place = bytearray(size), 0
    with os.fdopen(0, "rb", buffering=0, closefd=False) as pipe:
        while place < size:
            count = pipe.readinto(memoryview(content)[place:])
            if not count:
                sys.exit()  # the worker is dead
            place += count
    return bytes(content)


class _Generators:
    """The states of global random number generators that loading the function has set.

    A forked child would start with its parent's numpy state. A state that the function's module has seeded is
    kept; an arbitrary one is drawn afresh, as in a process that has just started.
    """

    def __init__(self) -> None:
        self._first, self.loaded = self._now(), False

    def note(self) -> None:
        self.loaded, self._then = True, self._now()

    def restore(self) -> None:
        """Restore, in a child, the states that loading has set."""
        if not self.loaded:
            return
        if self._then[0] != self._first[0]:
            random.setstate(self._then[0])  # Python itself reseeds it after a fork
        if (numpy := sys.modules.get("numpy")) and str(self._then[1]) == str(self._first[1]):
            numpy.random.seed()

    def _now(self) -> tuple[Any, Any]:
        import numpy as np  # noqa: PLC0415 - in the host only

        state: Any = np.random.get_state(legacy=True)  # noqa: NPY002 - what others' code may use
        return random.getstate(), (state[1].tobytes(), *state[2:])


class Child:
    """A forked process that calls the function; `supervise.py` treats it as a program."""

    def __init__(self, function: Loadable, states: _Generators, order: Order, report: int) -> None:
        pipes = [os.pipe() for _ in range(3)]
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            for number in (report, *(reader for reader, _ in pipes)):
                os.close(number)  # the reader of the other end must see that the host is gone
            _become_child(function, states, order, [writer for _, writer in pipes])
        for _, writer in pipes:
            os.close(writer)
        self.stdout, self.stderr, self.answer = (os.fdopen(reader, "rb", buffering=0) for reader, _ in pipes)

    def poll(self) -> int | None:
        """Return how it ended: the exit status, or a negative number for a signal; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _become_child(function: Loadable, states: _Generators, order: Order, pipes: list[int]) -> None:
    """Answer an order and exit; this function never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        die_with_parent()
        *outputs, answers = pipes
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for output, pipe in zip((1, 2), outputs, strict=True):
            os.dup2(pipe, output)
        sys.stdin = os.fdopen(0, closefd=False, encoding="utf-8")
        sys.stdout, sys.stderr = (
            os.fdopen(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
            for number in (1, 2)
        )
        states.restore()
        me = os.getpid()
        answer = _answer(function, order)
        if os.getpid() != me:  # a process that the function forked, and that returned from it
            os._exit(0)
        _flush()
        with open(answers, "wb") as worker:
            worker.write(json.dumps(answer).encode() + b"\n")
        atexit._run_exitfuncs()  # exit handlers of its libraries, such as closing a log
        _flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        _flush()
    finally:
        os._exit(1)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # it may be closed, or replaced by anything
            stream.flush()


def _answer(function: Loadable, order: Order) -> dict[str, Any]:
    """Call the function; return `returned`, or the values of the failure."""
    try:
        for name, value in order["environment"].items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        try:
            os.chdir(order["folder"])
        except OSError as error:
            raise RunFailedError(
                f"the folder in which it is to run, {order['folder']}: {error.strerror}"
            ) from None
        called = function.load()
        arguments = order["arguments"]
        if order["work"]:
            arguments["folder"] = Path(order["work"])
        return {"returned": numbers(called(**arguments), order["metric"]), "device": gpu()}
    except Exception as error:
        answer: dict[str, Any] = {"failure": Failure.of(error).values()}
        if isinstance(error, OSError) and error.errno in MACHINES:
            answer["errno"] = error.errno
        return answer
    except BaseException as error:  # the interpreter's own
        message = f"it raised {type(error).__name__}: {error}".removesuffix(": ")
        raised = RunFailedError(message, raised=type(error).__name__).with_traceback(error.__traceback__)
        return {"failure": Failure.of(raised).values()}


def numbers(returned: Any, metric: str | None) -> dict[str, Any]:
    """Return the numbers that a function returned, by name; numpy's and torch's as floats.

    A single number becomes `metric`, if that is set.
    """
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        return {str(name): _number(value) for name, value in returned.items()}
    number = _number(returned)
    if metric is not None and isinstance(number, int | float):
        return {metric: number}
    raise RunFailedError(
        f"it returned {type(returned).__name__}; return a dict of numbers, such as {{'accuracy': 0.93}}"
    )


def _number(value: Any) -> Any:
    """Return a number unchanged; anything else as text, which is later refused with its name."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if str(getattr(value, "dtype", "")).endswith(("bool", "bool_")):
        return str(value)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return f"{value!r:.200}"
