"""A Python function as a runner: imported or unpickled in a host process, and called once per run."""

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType
from typing import Any, Self

import cloudpickle

from seedspread.errors import described, did_you_mean
from seedspread.runners.contract import Level, RunnerError
from seedspread.runners.host import COLD, Host
from seedspread.runners.own_code import (
    REPEAT,
    RESERVED,
    THREADS,
    Digests,
    OwnCode,
    OwnRun,
    Parameters,
    signal_name,
)
from seedspread.runners.source import Source, file_has, source_of, unwrapped
from seedspread.runs.folder import PROCESS, RunFailedError, RunFolderError
from seedspread.runs.metrics import Metric
from seedspread.runs.run import key_of
from seedspread.runs.stopping import StoppedError

_KINDS = inspect.Parameter


@dataclass(frozen=True)
class PythonFunction:
    """A function to send to worker processes: by its name, or as pickled code.

    Attributes:
        name: `module:function`, by which it is imported unless it comes as code.
        path: the folder from which its imports start.
        folder: the folder in which it runs, and relative to which its inputs are named.
        code: the pickled function, if it cannot be imported: from a notebook, a script, or within a function.
        source: what its code depended on when the run was planned.
        arguments: names of its arguments, apart from the seed and the folder.
        required: arguments that have no default.
        takes_any: whether it accepts any other argument as well.
        takes_folder: whether it has an argument `folder`.
        takes_seed: whether it has an argument `seed`; one for each source of randomness can replace it.
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
        return cls._of(imported(name, path), name, path, path, None)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "PythonFunction":
        """Describe a function: by its name if it can be imported, else by its code."""
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
        """Return the function; `RunFailedError` if the imported code is not the planned one."""
        if self.path not in sys.path:
            sys.path.insert(0, self.path)
        return _load(self.name, self.path, self.code, self.source.parts)


@lru_cache(maxsize=8)
def _load(name: str, path: str, code: bytes | None, planned: Digests) -> Callable[..., Any]:
    """Load once per process: changes that a run makes to its module are no changes of the function."""
    if code is not None:
        function: Callable[..., Any] = cloudpickle.loads(code)  # from the process that started this one
        return function
    try:
        function = imported(name, path)
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


def imported(name: str, path: str, what: str = "function") -> Any:
    """Import `package.module:name`, as a script in the folder `path` would."""
    module_name, colon, qualname = name.partition(":")
    if not (colon and module_name and qualname) or module_name.startswith("."):
        raise RunnerError(f"{name!r} must name a module and a {what} of it, such as 'package.module:train'")
    if path not in sys.path:
        sys.path.insert(0, path)
    _check_not_another(module_name, path)
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise RunnerError(f"{module_name} cannot be imported: {error}") from error
        raise RunnerError(f"there is no module {error.name!r} in {path}, nor installed") from None
    except (Exception, SystemExit) as error:
        raise RunnerError(f"{module_name} cannot be imported: {described(error)}") from error
    _check_not_another(module_name, path)
    for part in qualname.split("."):
        if not hasattr(value, part):
            known = [key for key, one in vars(value).items() if what != "function" or inspect.isfunction(one)]
            raise RunnerError(f"{module_name} has no {what} {qualname!r}{did_you_mean(part, known)}")
        value = getattr(value, part)
    if what == "function":
        _checked(value, name)
    return value


def _pickled(function: Callable[..., Any]) -> bytes:
    """Pickle a function with what it reads from its module, for a process without that module."""
    module = sys.modules.get(function.__module__)
    by_value = module is not None and module.__name__ != "__main__"  # cloudpickle itself pickles __main__
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
    """Refuse a module if a module of that name from another folder is already loaded."""
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
    """Return the function without its decorators."""
    inner = unwrapped(value)
    if isinstance(inner, FunctionType):
        return inner
    what = "a class" if isinstance(value, type) else f"{type(value).__name__}"
    raise RunnerError(f"{name} is {what}; give a function, written with def")


def _import_root(function: Callable[..., Any]) -> str | None:
    """Return the folder from which a function can be imported by name; None if it cannot."""
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
    return root if PathFinder.find_spec(function.__module__.partition(".")[0], [root]) is not None else None


# The host of this worker's last run, and its settings.
_host: tuple[tuple[Any, ...], Host] | None = None


class FunctionRun(OwnRun):
    """One run of a function: called in its own process, and recorded when it has succeeded."""

    _runner: "FunctionRunner"

    def _run(self) -> dict[str, float]:
        if not self._runner.function.takes_folder:  # it begins afresh, and so does its log
            self._forget_attempts()
        try:
            returned = self._called()
            self._check_inputs("when it ended")
            logs = self._read_logged()
            reported = {**logs.values, **returned}
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

    def _called(self) -> dict[str, Any]:
        ended = self._ended_in_host()
        if self._stop.number is not None and ended.get("stopped"):
            kept = "; what it left in its folder is kept" if self._runner.function.takes_folder else ""
            raise StoppedError(f"stopped{kept}", self._stop.number)
        if "error" in ended:  # a link, or a folder, in the place of its log; or no process could be started
            is_place = str(self._folder.path) in ended["error"]
            advice = ": it cannot be written to, and must be removed" if is_place else ""
            raise RunFolderError(f"{ended['error']}{advice}")
        if not ended["answer"]:
            if ended["signal"] is not None:
                name = signal_name(ended["signal"])
                raise self._with_tail(f"it ended its process by signal {name}", signal=ended["signal"])
            status = ended["exit_status"]
            raise self._with_tail(f"it ended its process with exit status {status}", exit_status=status)
        answer: dict[str, Any] = json.loads(ended["answer"])
        if "errno" in answer:  # the machine's fault, not the run's: the same command tries it again
            raise RunFolderError(answer["failure"]["message"]) from OSError(answer["errno"], "")
        if "failure" in answer:
            raise RunFailedError.of_values(answer["failure"])
        self._device = answer["device"]
        return dict(answer["returned"])

    def _ended_in_host(self) -> dict[str, Any]:
        runner, function, known = self._runner, self._runner.function, self._runner.randomness
        arguments: dict[str, Any] = dict(self._parameters.values)
        arguments |= {f"seed_{name}": number for name, number in known.seeds(self._seed).items()}
        if function.takes_seed:
            arguments["seed"] = known.run_seed(self._seed)
        planned = {**dict.fromkeys(THREADS, str(self._threads)), **dict(self._parameters.environment)}
        order = {
            "arguments": arguments,
            "work": str(self._work) if function.takes_folder else None,
            "folder": function.folder,
            "environment": {**planned, **self._variables()},
            "metric": runner.metrics[0] if len(runner.metrics) == 1 else None,
        }
        for warm in (True, False):
            host = _host_of(function, planned, warm)
            self._end_former(host.process.pid)
            try:
                ended = self._ended(host.process, order)
            except BaseException:
                _close_host()  # the run is lost, or the host itself: end both
                raise
            if ended.get("stopped"):
                _close_host()
            if ended.get("error") != COLD:
                break
        # The host goes on with other runs, so a later attempt at this run must not kill it.
        self._folder.writing(partial((self._folder.path / PROCESS).unlink, missing_ok=True))
        return ended


def _host_of(function: "PythonFunction", environment: Mapping[str, str | None], warm: bool) -> Host:
    """Return this process's host of a function: the last one if it fits.

    A host that is not `warm` (it was found not to be forkable) stays in use.
    """
    global _host  # noqa: PLW0603 - one per process, whatever runs in it
    known = (function, tuple(environment.items()))
    is_same = _host is not None and _host[0] == known and _host[1].process.poll() is None
    if _host is None or not is_same or not warm:
        _close_host()
        _host = known, Host(function, environment, warm=warm)
    return _host[1]


def _close_host() -> None:
    global _host  # noqa: PLW0603 - see above
    if _host is not None:
        _host[1].close()
        _host = None


@dataclass(frozen=True)
class FunctionRunner(OwnCode):
    """Calls a function with the parameters and the seed as its arguments."""

    function: PythonFunction
    name: str = "function"
    run_type = FunctionRun

    @classmethod
    def of(cls, function: Callable[..., Any], promised: Iterable[Metric] = (), **more: Any) -> Self:
        """Return a runner of a function that runs in the current folder; `more` are its other fields."""
        return cls(PythonFunction.of(function), promised=tuple(promised), **more)

    @property
    def folder(self) -> str:
        return self.function.folder

    @property
    def origin(self) -> str:
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
        """Return an argument's name; refuse names that are not arguments of the function."""
        arguments = self.function.arguments
        if name == REPEAT and self.randomness.repeats > 1:
            return name
        if super().full_name(name) not in arguments and not self.function.takes_any:
            takes = ", ".join(("seed", *arguments))
            hint = did_you_mean(name, arguments)
            raise RunnerError(f"{self.function.name} takes no argument {name!r}{hint} (it takes {takes})")
        return name

    def parameters(self, base: str | None, values: Mapping[str, Level]) -> Parameters:
        """Return the values with the current inputs; arguments without a default must have a value."""
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

    @property
    def content(self) -> dict[str, Any]:
        return {"source": dict(self.function.source.parts + self.function.source.objects)}

    def base_keys(self, runs: Sequence[tuple[Parameters, int]]) -> list[str | None]:
        """Return hashes without source and inputs, from the function's location and arguments."""
        return [key_of(self.identity(p, seed) | {"origin": self.origin}) for p, seed in runs]

    def notes(self, parameters: Iterable[Parameters]) -> list[str]:
        """Return what the function reads without changes being noticed."""
        reads = self.function.source.reads
        if not reads:
            return []
        title = self.function.name.partition(":")[2]
        return [f"{title} also reads {', '.join(reads)}: changes of these are not noticed."]

    @property
    def is_portable(self) -> bool:
        """True if it is imported by its name: pickled code stays in memory."""
        return self.function.code is None
