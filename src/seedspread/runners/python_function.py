"""A Python function that worker processes can be given: by its name, or as bytes that stay in memory."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType
from typing import Any

import cloudpickle

from seedspread.errors import did_you_mean
from seedspread.runners.command import RESERVED
from seedspread.runners.contract import RunnerError
from seedspread.runners.inputs import Digests
from seedspread.runners.source import Source, file_has, source_of, unwrapped
from seedspread.runs.record import RunFailedError

_KINDS = inspect.Parameter


@dataclass(frozen=True)
class PythonFunction:
    """A function.

    Attributes:
        name: `module:function`, by which it is imported unless it comes as code.
        path: the folder that its imports start from.
        folder: in which it is run, and from which its inputs are named.
        code: of a function that cannot be imported: of a notebook, a script, or within another function.
        source: what it was when it was planned.
        arguments: that it takes, but for the seed and the folder.
        required: those of them that have no default.
        takes_any: whether it takes any other argument as well.
        takes_folder: whether it has an argument `folder`.
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

    @classmethod
    def from_name(cls, name: str, folder: Path) -> "PythonFunction":
        """`package.module:function`, imported as a script in `folder` would; `RunnerError` if that fails."""
        path = os.path.abspath(folder)
        return cls._of(_import(name, path), name, path, path, None)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "PythonFunction":
        """A function that is there: by its name, if it can be imported by that."""
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
        if "seed" not in named and not takes_any:
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
        )

    @property
    def title(self) -> str:
        """Its name without its module."""
        return self.name.partition(":")[2]

    def load(self) -> Callable[..., Any]:
        """The function; `RunFailedError` if what is imported is not what was planned."""
        if self.path not in sys.path:
            sys.path.insert(0, self.path)
        return _load(self.name, self.path, self.code, self.source.parts)


@lru_cache(maxsize=8)
def _load(name: str, path: str, code: bytes | None, planned: Digests) -> Callable[..., Any]:
    """Once in a process: what a run leaves behind in its module is no change of the function."""
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
