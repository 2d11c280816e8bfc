"""What a config names of user code, `package.module:Name`: models, losses, margins, data. Needs no torch.

It is imported as a study's function is: beside the study file, or from the working directory, or installed.
Its code is part of a run's key as a function's is.
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


def named(name: str, folder: str | None = None) -> Any:
    """Return what a dotted name stands for; `RunnerError` says in one line why there is no such thing."""
    return imported(name, os.path.abspath(folder or os.getcwd()), "name")


def made(name: str, kind: type, what: str, *arguments: Any, **options: Any) -> Any:
    """Call what a dotted name stands for; `RunnerError` unless that gives an object of the right kind."""
    value = named(name)
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
    return source_of(_code_of(named(name)))


def digest_of(value: Any) -> str:
    """Identify an object by the code of its class, or of it itself, and by its content.

    Classes of installed packages and of this one count by name: other versions of them give the same run.
    """
    code = _code_of(value)
    # The modules that a module contains have code too.
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
    """Return the function or the class whose code decides what an object does."""
    inner = unwrapped(value.func if isinstance(value, partial) else value)
    return inner if isinstance(inner, FunctionType | type) else type(inner)
