"""One run of a Python function: called in this process, watched, and filed when it has ended well."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli_w

from seedspread.runners.measured import file_run
from seedspread.runners.output import OutputFile
from seedspread.runners.own_code import LOGGED, OwnRun
from seedspread.runners.program_run import THREADS
from seedspread.runners.python_function import PythonFunction
from seedspread.runs.lease import LeaseLostError
from seedspread.runs.metrics import Metric
from seedspread.runs.record import RunFailedError
from seedspread.runs.request import RunRequest
from seedspread.runs.run_files import RunFolderError
from seedspread.runs.stopping import Interruption, StoppedError, StopRequest

_WATCH_SECONDS = 0.5


class FunctionRun(OwnRun):
    """One run on its way.

    Args:
        function: what is called.
        inputs: patterns of the files that it depends on.
        promised: the metrics that it must report.
        facts: of its runner, for its provenance.
        request: the run.
        stop: a wish to stop.
    """

    def __init__(
        self,
        function: PythonFunction,
        inputs: tuple[str, ...],
        promised: tuple[Metric, ...],
        facts: Mapping[str, Any],
        request: RunRequest,
        stop: StopRequest,
    ) -> None:
        super().__init__(function.folder, inputs, promised, facts, request, stop)
        self._function = function

    def result(self) -> dict[str, float]:
        """Calls the function; its metrics, when all went well."""
        values = dict(self._parameters.values)
        config = tomli_w.dumps({"function": self._function.name, "parameters": values})
        if self._folder.open(config, resume=True):
            return dict(self._folder.result()["metrics"])
        self._threads = self._folder.begin(self._threads)
        self.check_inputs("when it started")
        own, logged = self._folder.own_folder("program"), self._folder.own_folder(LOGGED)
        arguments: dict[str, Any] = {**values, "seed": self._seed}
        if self._function.takes_folder:
            arguments["folder"] = own
        else:  # it begins afresh, and so does what it logs
            self.forget(logged)
        try:
            return self._file(self._called(arguments, self._environment(own, logged)), logged)
        except StoppedError:
            raise
        except Exception:
            self.note_failure(logged)
            raise

    def _file(self, returned: Any, logged: Path) -> dict[str, float]:
        self.check_inputs("when it ended")
        logs = self.logged(logged)
        reported = {**logs.values, **_numbers(returned, self._promised)}
        if not reported:
            raise RunFailedError("it returned nothing: return a dict of numbers, such as {'accuracy': 0.93}")
        return file_run(self._folder, replace(logs, values=reported), self._promised, self._facts_of_run())

    def _called(self, arguments: dict[str, Any], environment: Mapping[str, str | None]) -> Any:
        """What the function returns; whatever it raises is an `Exception`."""
        try:
            with ExitStack() as stack:
                output = stack.enter_context(OutputFile(self._folder.path / "log.txt"))
                stack.enter_context(_environment_with(environment))
                stack.enter_context(_working_in(self._function.folder))
                function = self._function.load()
                stack.enter_context(_limited_threads(self._threads))
                stack.enter_context(self._watched(output))
                returned = self._interruptible(lambda: function(**arguments))
        except Exception:
            if self._stop.number is None:
                raise
        if self._stop.number is not None:
            kept = "; what it left in its folder is kept" if self._function.takes_folder else ""
            raise StoppedError(f"stopped{kept}", self._stop.number)
        return returned

    def _interruptible(self, call: Callable[[], Any]) -> Any:
        """Calls; a wish to stop ends it where it is."""
        if self._stop.number is not None:
            return None
        try:
            self._stop.interrupts = True
            returned = call()
            self._stop.interrupts = False
            return returned
        except Exception:
            raise
        except BaseException as error:  # of the interpreter, which would end the worker
            if self._stop.number is not None or isinstance(error, Interruption):
                return None
            message = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise RunFailedError(f"it raised {message}", raised=type(error).__name__) from error
        finally:
            self._stop.interrupts = False

    @contextmanager
    def _watched(self, output: OutputFile) -> Iterator[None]:
        """Tells in the background how far the function is, by what it printed last, and limits its log."""
        over = threading.Event()

        def watch() -> None:
            with suppress(LeaseLostError, RunFolderError, OSError):  # whoever files the run will see it too
                while not over.wait(_WATCH_SECONDS):
                    self._folder.beat(lambda: self.heartbeat(output.last_line()))
                    output.limit()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _environment(self, own: Path, logged: Path) -> dict[str, str | None]:
        threads = {name: os.environ.get(name, str(self._threads)) for name in THREADS}
        return {
            **threads,
            **dict(self._parameters.environment),
            **self.announced(own, logged),
        }

    def _facts_of_run(self) -> dict[str, Any]:
        return {
            **self.provenance(),
            "function": self._function.name,
            "source": dict(self._function.source.parts),
            "reads": list(self._function.source.reads),
        }


def _numbers(returned: Any, promised: tuple[Metric, ...]) -> dict[str, Any]:
    """What a function returned, by name; single numbers of numpy and torch as floats."""
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        return {str(name): _number(value) for name, value in returned.items()}
    number = _number(returned)
    if len(promised) == 1 and isinstance(number, int | float):
        return {promised[0].name: number}
    raise RunFailedError(
        f"it returned {type(returned).__name__}; return a dict of numbers, such as {{'accuracy': 0.93}}"
    )


def _number(value: Any) -> Any:
    """A number as such; anything else as it is, to be refused by its name."""
    if isinstance(value, str | bytes | bool | int | float):
        return value
    if str(getattr(value, "dtype", "")).endswith(("bool", "bool_")):
        return str(value)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return value


@contextmanager
def _environment_with(values: Mapping[str, str | None]) -> Iterator[None]:
    """Environment variables for a while; None for one that is not to be there."""
    before = {name: os.environ.get(name) for name in values}
    _set_environment(values)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    before = os.getcwd()
    try:
        os.chdir(folder)
    except OSError as error:
        raise RunFailedError(f"the folder in which it is to run, {folder}: {error.strerror}") from None
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _limited_threads(threads: int) -> Iterator[None]:
    """CPU threads of libraries that are loaded already; others look at the environment when they are."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
    try:
        from threadpoolctl import threadpool_limits  # noqa: PLC0415 - not ours; comes with scikit-learn
    except ImportError:
        yield
        return
    with threadpool_limits(limits=threads):
        yield
