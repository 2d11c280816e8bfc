"""User code that a config names as `package.module:Name`: models, losses, margins, data. Needs no torch.

It is imported like a study's function: beside the study file, from the working directory, or installed. Like
a function's, its code is part of a run's key.
"""

import os
from functools import partial
from types import FunctionType
from typing import Any

from seedspread.errors import described
from seedspread.runners.contract import RunnerError
from seedspread.runners.function import imported
from seedspread.runners.source import Source, content_digest, is_of_others, source_of, unwrapped
from seedspread.runs.run import key_of


def load_named(name: str, folder: str | None = None) -> Any:
    """Import the class, function or object of a dotted name; `RunnerError` if that fails."""
    return imported(name, os.path.abspath(folder or os.getcwd()), "name")


def build_named(name: str, kind: type, what: str, *arguments: Any, **options: Any) -> Any:
    """Call the class or function of a dotted name; `RunnerError` unless it returns an object of `kind`."""
    value = load_named(name)
    if callable(value) and not isinstance(value, kind):
        try:
            value = value(*arguments, **options)
        except Exception as error:
            raise RunnerError(f"{name} cannot be called: {described(error)}") from error
    if not isinstance(value, kind):
        raise RunnerError(f"{name} gives {type(value).__name__}; it must give {what}")
    return value


def source_named(name: str) -> Source:
    """Return the code that a dotted name depends on."""
    return source_of(_code_of(load_named(name)))


def digest_of(value: Any) -> str:
    """Identify an object by its code, or that of its class, and by its content.

    Classes of installed packages and of this one count by name: other versions of them give the same run.
    """
    code = _code_of(value)
    # A module's submodules have code of their own.
    inner = {type(one) for one in value.modules()} if hasattr(value, "modules") else set[type]()
    digests: list[Any] = []
    for one in sorted({code, *inner}, key=lambda one: (one.__qualname__, one.__module__)):
        if is_of_others(one.__module__):
            digests.append(f"{one.__module__}:{one.__qualname__}")
        else:
            source = source_of(one)
            digests.append(dict(source.parts + source.objects))
    if code is value:
        return key_of({"code": digests})
    content = content_digest(value)
    if content is None:
        raise RunnerError(
            f"{type(value).__name__} cannot be identified by its content; give functions a name, not lambda"
        )
    return key_of({"code": digests, "content": content})


def _code_of(value: Any) -> Any:
    """Return the function or class whose code defines an object's behavior."""
    inner = unwrapped(value.func if isinstance(value, partial) else value)
    return inner if isinstance(inner, FunctionType | type) else type(inner)
