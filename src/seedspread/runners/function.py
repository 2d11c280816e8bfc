"""A Python function as a runner: imported or unpickled in a worker process, and called there once per run."""

import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType
from typing import Any, Self, TextIO

import cloudpickle

from seedspread.atomic import open_regular
from seedspread.errors import did_you_mean, reason
from seedspread.runners.contract import Level, RunnerError, WorkItem
from seedspread.runners.own_code import (
    ONE_SEED,
    REPEAT,
    RESERVED,
    THREADS,
    Digests,
    OwnCode,
    OwnRun,
    Parameters,
    Randomness,
)
from seedspread.runners.recording import APPEND
from seedspread.runners.source import Source, file_has, source_of, unwrapped
from seedspread.runners.supervise import LOG_BYTES
from seedspread.runs.files import open_file
from seedspread.runs.folder import RunFailedError, RunFolderError
from seedspread.runs.lease import LeaseLostError
from seedspread.runs.metrics import Metric
from seedspread.runs.run import key_of
from seedspread.runs.stopping import Interruption, StoppedError, StopRequest, in_background

_TAIL_BYTES = 2**14
_STDOUT, _STDERR = 1, 2


class OutputFile:
    """Standard output and error go into a file while it is open.

    The file itself, not a pipe that a thread empties: code that holds the interpreter's lock can print too,
    and what a process says when it dies is kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._streams: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)
        self._saved: tuple[int, int] | None = None

    def __enter__(self) -> "OutputFile":
        self._streams = sys.stdout, sys.stderr
        self._flush()
        try:
            file = open_regular(self._path, APPEND)
        except OSError as error:
            raise RunFolderError(
                f"{self._path} cannot be written to: {reason(error)}; a link or folder there must be removed"
            ) from None
        self._saved = os.dup(_STDOUT), os.dup(_STDERR)
        self._redirect(file)
        sys.stdout, sys.stderr = (
            os.fdopen(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
            for number in (_STDOUT, _STDERR)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        sys.stdout, sys.stderr = self._streams
        assert self._saved is not None  # noqa: S101 - it was entered
        for number, saved in zip((_STDOUT, _STDERR), self._saved, strict=True):
            os.dup2(saved, number)
            os.close(saved)

    def limit(self) -> None:
        """Put a file that has grown large aside; to be called now and then."""
        if os.fstat(_STDOUT).st_size > LOG_BYTES:
            os.replace(self._path, f"{self._path}.old")
            self._redirect(open_regular(self._path, APPEND))

    def last_line(self) -> str:
        """Return the last line of output that is not blank."""
        try:
            with open_file(self._path) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _redirect(self, file: int) -> None:
        for number in (_STDOUT, _STDERR):
            os.dup2(file, number)
        os.close(file)

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()


_KINDS = inspect.Parameter


@dataclass(frozen=True)
class PythonFunction:
    """A function that worker processes can be given: by its name, or as bytes that stay in memory.

    Attributes:
        name: `module:function`, by which it is imported unless it comes as code.
        path: the folder that its imports start from.
        folder: in which it is run, and from which its inputs are named.
        code: pickled function, if it cannot be imported: of a notebook, a script, or within a function.
        source: what its code depended on when the run was planned.
        arguments: names of its arguments, apart from the seed and the folder.
        required: arguments that have no default.
        takes_any: whether it takes any other argument as well.
        takes_folder: whether it has an argument `folder`.
        takes_seed: whether it has an argument `seed`; one for each source of randomness may do.
    """

    name: str
    path: str
    folder: str
    code: bytes | None
    source: Source
    arguments: tuple[str, ...]
    required: tuple[str, ...]
    takes_any: bool
    takes_folder: bool
    takes_seed: bool = True

    @classmethod
    def from_name(cls, name: str, folder: Path) -> "PythonFunction":
        """Import `package.module:function` as a script in `folder` would; `RunnerError` if that fails."""
        path = os.path.abspath(folder)
        return cls._of(_import(name, path), name, path, path, None)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "PythonFunction":
        """Describe a function: by its name if it can be imported by that, else by its code."""
        inner = _checked(function, getattr(function, "__name__", repr(function)))
        if (root := _import_root(function)) is not None:
            name = f"{function.__module__}:{function.__qualname__}"
            if not file_has(inner):
                raise RunnerError(
                    f"{name} is not where it was when it was imported: its file was edited since; reload the "
                    "module (importlib.reload), or start Python afresh"
                )
            return cls._of(function, name, root, os.getcwd(), None)
        script = getattr(sys.modules.get(function.__module__), "__file__", None) or ""
        is_script = function.__module__ == "__main__" and os.path.isfile(script)
        module = Path(script).stem if is_script else function.__module__
        path = os.path.dirname(os.path.abspath(script)) if is_script else os.getcwd()
        name = f"{module}:{function.__qualname__}"
        return cls._of(function, name, path, os.getcwd(), _pickled(function))

    @classmethod
    def _of(
        cls, function: Callable[..., Any], name: str, path: str, folder: str, code: bytes | None
    ) -> "PythonFunction":
        arguments = inspect.signature(function).parameters
        takes_any = any(one.kind is _KINDS.VAR_KEYWORD for one in arguments.values())
        named = {
            key: one
            for key, one in arguments.items()
            if one.kind in (_KINDS.POSITIONAL_OR_KEYWORD, _KINDS.KEYWORD_ONLY)
        }
        if not takes_any and not any(key == "seed" or key.startswith("seed_") for key in named):
            raise RunnerError(f"{name} must take an argument seed; it takes {', '.join(arguments) or 'none'}")
        by_place = [key for key, one in arguments.items() if one.kind is _KINDS.POSITIONAL_ONLY]
        if by_place:
            raise RunnerError(f"{name} takes {by_place[0]} by place only; arguments are given by name")
        return cls(
            name=name,
            path=path,
            folder=folder,
            code=code,
            source=source_of(function),  # type: ignore[arg-type]
            arguments=tuple(key for key in named if key not in RESERVED),
            required=tuple(
                key for key, one in named.items() if key not in RESERVED and one.default is _KINDS.empty
            ),
            takes_any=takes_any,
            takes_folder="folder" in named,
            takes_seed="seed" in named or takes_any,
        )

    def load(self) -> Callable[..., Any]:
        """Return the function; `RunFailedError` if what is imported is not what was planned."""
        if self.path not in sys.path:
            sys.path.insert(0, self.path)
        return _load(self.name, self.path, self.code, self.source.parts)


@lru_cache(maxsize=8)
def _load(name: str, path: str, code: bytes | None, planned: Digests) -> Callable[..., Any]:
    """Load once per process: what a run leaves behind in its module is no change of the function."""
    if code is not None:
        function: Callable[..., Any] = cloudpickle.loads(code)  # from the process that started this one
        return function
    try:
        function = _import(name, path)
    except RunnerError as error:
        raise RunFailedError(str(error)) from error.__cause__
    now, before = dict(source_of(function).parts), dict(planned)  # type: ignore[arg-type]
    for part in sorted({*now, *before}):
        if now.get(part) != before.get(part):
            raise RunFailedError(
                f"{part}, of {name}, is not what it was when the run was planned: give the same command "
                "again, in a new Python; a value that differs between processes belongs into the function",
                part=part,
            )
    return function


def _import(name: str, path: str) -> Callable[..., Any]:
    module_name, colon, qualname = name.partition(":")
    if not (colon and module_name and qualname) or module_name.startswith("."):
        raise RunnerError(f"{name!r} must name a module and a function of it, such as 'package.module:train'")
    if path not in sys.path:
        sys.path.insert(0, path)
    _check_not_another(module_name, path)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise RunnerError(f"{module_name} cannot be imported: {error}") from error
        raise RunnerError(f"there is no module {error.name!r} in {path}, nor installed") from None
    except (Exception, SystemExit) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise RunnerError(f"{module_name} cannot be imported: {type(error).__name__}: {reason}") from error
    _check_not_another(module_name, path)
    value: Any = module
    for part in qualname.split("."):
        if not hasattr(value, part):
            functions = [key for key, one in vars(value).items() if inspect.isfunction(one)]
            raise RunnerError(f"{module_name} has no function {qualname!r}{did_you_mean(part, functions)}")
        value = getattr(value, part)
    _checked(value, name)
    return value  # type: ignore[no-any-return]


def _pickled(function: Callable[..., Any]) -> bytes:
    """A function and all of its module that it reads, as bytes for a process that lacks the module."""
    module = sys.modules.get(function.__module__)
    by_value = module is not None and module.__name__ != "__main__"  # which cloudpickle does by itself
    try:
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        return cloudpickle.dumps(function)  # type: ignore[no-any-return]
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise RunnerError(
            f"{function.__qualname__} cannot be sent to a worker: {reason}; create what it needs within it"
        ) from None
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)


def _check_not_another(module_name: str, path: str) -> None:
    """Refuses a module whose name is taken, in this process, by one of another folder."""
    top = module_name.partition(".")[0]
    loaded = getattr(sys.modules.get(top), "__file__", None)
    spec = PathFinder.find_spec(top, [path])
    origin = None if spec is None else spec.origin
    if loaded and origin and os.path.realpath(loaded) != os.path.realpath(origin):
        raise RunnerError(
            f"a module {top!r} of {os.path.dirname(loaded)} is already loaded, and {path} has one as well: "
            "give one of them another name"
        )


def _checked(value: Any, name: str) -> FunctionType:
    """The function itself, without what decorators have put around it."""
    inner = unwrapped(value)
    if isinstance(inner, FunctionType):
        return inner
    what = "a class" if isinstance(value, type) else f"{type(value).__name__}"
    raise RunnerError(f"{name} is {what}; give a function, written with def")


def _import_root(function: Callable[..., Any]) -> str | None:
    """The folder from which a function can be imported by its name; None if it cannot."""
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if module is None or function.__module__ == "__main__" or not file:
        return None
    value: Any = module
    for part in function.__qualname__.split("."):
        value = getattr(value, part, None)
    if value is not function:
        return None
    depth = function.__module__.count(".") + (Path(file).name == "__init__.py")
    root = str(Path(file).absolute().parents[depth])
    is_there = PathFinder.find_spec(function.__module__.partition(".")[0], [root]) is not None
    return root if is_there else None


_WATCH_SECONDS = 0.5


class FunctionRun(OwnRun):
    """One run of a function: called in this process, watched, and recorded when it has ended well."""

    def __init__(self, runner: "FunctionRunner", item: WorkItem, stop: StopRequest) -> None:
        super().__init__(runner, item, stop)
        self._function = runner.function

    def _run(self) -> dict[str, float]:
        if not self._function.takes_folder:  # it begins afresh, and so does what it logs
            self._forget_attempts()
        try:
            returned = self._called()
            self._check_inputs("when it ended")
            logs = self._read_logged()
            reported = {**logs.values, **_numbers(returned, self._runner.promised)}
            if not reported:
                raise RunFailedError(
                    "it returned nothing: return a dict of numbers, such as {'accuracy': 0.93}"
                )
            return self._leave_record(replace(logs, values=reported))
        except StoppedError:
            raise
        except Exception:
            self._note_failure()
            raise

    def _called(self) -> Any:
        """Return what the function returns; whatever it raises is an `Exception`."""
        known = self._runner.randomness
        arguments: dict[str, Any] = dict(self._parameters.values)
        arguments |= {f"seed_{name}": number for name, number in known.seeds(self._seed).items()}
        if self._function.takes_seed:
            arguments["seed"] = known.run_seed(self._seed)
        if self._function.takes_folder:
            arguments["folder"] = self._work
        output = OutputFile(self._folder.path / "log.txt")

        def watch(over: threading.Event) -> None:
            """Report what the function printed last, and limit its log."""
            with suppress(LeaseLostError, RunFolderError, OSError):  # whoever files the run will see it too
                while not over.wait(_WATCH_SECONDS):
                    self._folder.beat(lambda: self._heartbeat(output.last_line()))
                    output.limit()

        try:
            with ExitStack() as stack:
                stack.enter_context(output)
                stack.enter_context(_environment_with(self._environment()))
                stack.enter_context(_working_in(self._function.folder))
                function = self._function.load()
                stack.enter_context(_limited_threads(self._threads))
                stack.enter_context(in_background(watch))
                returned = self._interruptible(lambda: function(**arguments))
        except Exception:
            if self._stop.number is None:
                raise
        if self._stop.number is not None:
            kept = "; what it left in its folder is kept" if self._function.takes_folder else ""
            raise StoppedError(f"stopped{kept}", self._stop.number)
        return returned

    def _interruptible(self, call: Callable[[], Any]) -> Any:
        """Call; a request to stop ends the call where it is."""
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

    def _environment(self) -> dict[str, str | None]:
        threads = {name: os.environ.get(name, str(self._threads)) for name in THREADS}
        return {**threads, **dict(self._parameters.environment), **self._variables()}


def _numbers(returned: Any, promised: tuple[Metric, ...]) -> dict[str, Any]:
    """Return the numbers that a function returned, by name; those of numpy and torch as floats."""
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
    """Return a number as such; anything else as it is, to be refused by its name."""
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
    """Set environment variables for a while; None removes one."""
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
    """Limit the CPU threads of libraries that are loaded already; others look at the environment."""
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


RUNNER = "function"


@dataclass(frozen=True)
class FunctionRunner(OwnCode):
    """Calls a function with the parameters and the seed as its arguments."""

    function: PythonFunction
    promised: tuple[Metric, ...] = ()
    inputs: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    randomness: Randomness = ONE_SEED
    name: str = RUNNER

    @classmethod
    def of(cls, function: Callable[..., Any], promised: Iterable[Metric] = (), **more: Any) -> Self:
        """Return a runner of a function, which is run in the current folder; `more` are its other fields."""
        return cls(PythonFunction.of(function), tuple(promised), **more)

    @property
    def folder(self) -> str:
        return self.function.folder

    @property
    def origin(self) -> str:
        """Place, name and arguments of the function."""
        return f"{self.folder}:{self.function.name}({', '.join(self.function.arguments)})"

    @property
    def code(self) -> dict[str, Any]:
        return {"function": self.function.name}

    @property
    def recorded_code(self) -> dict[str, Any]:
        source = self.function.source
        objects = {"objects": dict(source.objects)} if source.objects else {}
        return {**self.code, "source": dict(source.parts), "reads": list(source.reads), **objects}

    def full_name(self, name: str) -> str:
        """Return the name of an argument of the function; others are refused."""
        arguments = self.function.arguments
        if name == REPEAT and self.randomness.repeats > 1:
            return name
        if super().full_name(name) not in arguments and not self.function.takes_any:
            takes = ", ".join(("seed", *arguments))
            hint = did_you_mean(name, arguments)
            raise RunnerError(f"{self.function.name} takes no argument {name!r}{hint} (it takes {takes})")
        return name

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Parameters:
        """Return the values with the inputs as they are now; arguments without a default must have one."""
        seeds = [f"seed_{source}" for source in self.randomness.sources]
        lacking = [name for name in seeds if name not in self.function.arguments]
        if lacking and not self.function.takes_any:
            raise RunnerError(f"{self.function.name} takes no {lacking[0]!r}, the seed of that source")
        missing = [name for name in self.function.required if name not in (*values, *seeds)]
        if missing:
            raise RunnerError(
                f"{self.function.name} needs a value for {missing[0]!r}: give it as a factor or a setting"
            )
        return super().parameters(base, values)

    def keys(self, runs: Sequence[tuple[Parameters, int]], data_dir: Path | None) -> list[str]:
        """Return hashes of the function's source, parameters, seed, inputs and environment variables."""
        source = {"source": dict(self.function.source.parts + self.function.source.objects)}
        return [key_of(self.identity(p, seed) | source | {"inputs": dict(p.inputs)}) for p, seed in runs]

    def base_keys(self, runs: Sequence[tuple[Parameters, int]]) -> list[str | None]:
        """Return hashes without source and inputs: the function by its place and its arguments."""
        return [key_of(self.identity(p, seed) | {"origin": self.origin}) for p, seed in runs]

    def notes(self, parameters: Iterable[Parameters]) -> list[str]:
        """Return what the function reads whose changes are not noticed."""
        reads = self.function.source.reads
        if not reads:
            return []
        title = self.function.name.partition(":")[2]
        return [f"{title} also reads {', '.join(reads)}: changes of these are not noticed."]

    @property
    def is_portable(self) -> bool:
        """Whether it is imported by its name: pickled code stays in memory."""
        return self.function.code is None

    def started(self, item: WorkItem, stop: StopRequest) -> FunctionRun:
        return FunctionRun(self, item, stop)
