"""What a Python function is: its code and the plain values that it reads, known by their content.

Reached from a function are the functions and classes of its own module (or notebook) that it names, through
globals, closures and defaults, and theirs. Code counts as its syntax tree without docstrings: a comment or
another line break changes nothing. Where no source is found its bytecode stands for it, which is another one
in another version of Python. What is reached beyond that, such as modules and objects, is only named.
"""

import ast
import copy
import dis
import hashlib
import inspect
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from seedspread.runners.inputs import Digests


@dataclass(frozen=True)
class Source:
    """What a function is.

    Attributes:
        parts: functions, classes and plain values, by name, with a SHA-256 of each.
        reads: what else it reads, in words: its changes are not noticed.
    """

    parts: Digests
    reads: tuple[str, ...]


def source_of(function: FunctionType) -> Source:
    """All that a function reaches."""
    walk = _Walk(unwrapped(function).__globals__)
    walk.value(function.__qualname__, function)
    parts = {name: _sha256("\n".join(sorted(texts))) for name, texts in walk.parts.items()}
    return Source(tuple(sorted(parts.items())), tuple(sorted(walk.reads)))


class _Walk:
    """A walk along names, from a function on; `home` are the globals of its module."""

    def __init__(self, home: dict[str, Any]) -> None:
        self._home = home
        self._seen: set[int] = set()
        self.parts: dict[str, set[str]] = {}
        self.reads: set[str] = set()

    def value(self, name: str, value: Any) -> None:
        """Takes in whatever a name stands for."""
        functions = [one for one in (value, unwrapped(value)) if self._is_of_home(one)]
        if functions:
            for function in functions:
                self._function(function)
        elif isinstance(value, type) and value.__module__ == self._home.get("__name__"):
            self._class(value)
        elif isinstance(value, ModuleType):
            self._module(value.__name__)
        else:
            try:
                self._add(name, canonical(value))
            except TypeError:
                self._other(name, value)

    def _is_of_home(self, value: Any) -> bool:
        return isinstance(value, FunctionType) and value.__globals__ is self._home

    def _add(self, name: str, text: str) -> None:
        self.parts.setdefault(name, set()).add(text)

    def _other(self, name: str, value: Any) -> None:
        if isinstance(value, type | FunctionType) or inspect.isbuiltin(value):
            self._module(value.__module__ or "", f"{name} of ")
        else:
            self.reads.add(f"{name} ({type(value).__name__})")

    def _module(self, name: str, what: str = "") -> None:
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "seedspread", ""}:
            self.reads.add(f"{what}{name}")

    def _function(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        name = function.__qualname__
        self._add(name, code_text(function.__code__))
        for variable, value in _bound_values(function):
            self.value(f"{name}: {variable}", value)
        for variable in sorted(set(_names(function.__code__, ("LOAD_GLOBAL", "LOAD_NAME")))):
            is_python_own = variable.startswith("__") and variable.endswith("__")  # __file__, __name__
            if variable in self._home and not is_python_own:
                self.value(variable, self._home[variable])
        for module in _names(function.__code__, ("IMPORT_NAME",)):
            self._module(module)

    def _class(self, cls: type) -> None:
        """Its methods, its plain attributes, the names of its fields, and its bases."""
        if id(cls) in self._seen:
            return
        self._seen.add(id(cls))
        name = cls.__qualname__
        fields = sorted(getattr(cls, "__annotations__", {}))
        self._add(name, canonical([*fields, *(base.__qualname__ for base in cls.__bases__)]))
        for base in cls.__bases__:
            if base is not object:
                self.value(base.__qualname__, base)
        for attribute, value in vars(cls).items():
            # Of a classmethod or a staticmethod; of a cached property.
            inner = getattr(value, "__func__", getattr(value, "func", value))
            for one in (inner.fget, inner.fset) if isinstance(inner, property) else (inner,):
                method = unwrapped(one)
                if self._is_of_home(method):
                    # The methods that a dataclass is given follow from its fields.
                    if method.__code__.co_filename != "<string>":
                        self.value(f"{name}.{attribute}", one)
                elif not attribute.startswith("__") and is_plain(one):
                    self._add(f"{name}.{attribute}", canonical(one))


def unwrapped(value: Any) -> Any:
    """A function without what decorators have put around it; anything else as it is."""
    try:
        return inspect.unwrap(value) if callable(value) else value
    except ValueError:  # it claims to wrap itself
        return value


def _bound_values(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables of its closure, as far as they are set, and its defaults."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    positional = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _names(code: CodeType, operations: tuple[str, ...]) -> Iterator[str]:
    """What a function loads or imports, those within it too."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in operations)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant, operations)


def code_text(code: CodeType) -> str:
    """The code of a function as text that does not depend on how it is laid out."""
    found = _definitions(code)
    if len(found) != 1:  # a prompt, two lambdas of a line, a file that was edited since
        return _bytecode_text(code)
    definition = copy.deepcopy(found[0])
    for node in ast.walk(definition):
        _drop_docstring(node)
    return ast.unparse(definition)


def file_has(function: FunctionType) -> bool:
    """Whether its file, if there is one, still has a function where it was when it was imported."""
    code = unwrapped(function).__code__
    return bool(_definitions(code)) or not os.path.exists(code.co_filename)


def _definitions(code: CodeType) -> list[ast.AST]:
    """What in its file, as that is now, a function may have come from."""
    try:
        lines, _ = inspect.findsource(code)
        tree = _parse("".join(lines))
    except (OSError, SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if _is_of(node, code)]


@lru_cache(maxsize=8)
def _parse(text: str) -> ast.Module:
    return ast.parse(text)


def _is_of(node: ast.AST, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        names = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args]]
        same = code.co_name == "<lambda>" and names == list(code.co_varnames[: code.co_argcount])
        return same and node.lineno == code.co_firstlineno
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    return False


def _drop_docstring(node: ast.AST) -> None:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass()]


def _bytecode_text(code: CodeType) -> str:
    constants = [_bytecode_text(c) if isinstance(c, CodeType) else canonical(c) for c in code.co_consts]
    names = [code.co_names, code.co_varnames, code.co_freevars]
    return canonical([code.co_code, constants, *names])


def is_plain(value: Any) -> bool:
    """Whether it is a plain value."""
    try:
        canonical(value)
    except TypeError:
        return False
    return True


def canonical(value: Any, within: tuple[int, ...] = ()) -> str:
    """A plain value as text, whatever the order of its sets and keys; `TypeError` for anything else."""
    if id(value) in within:
        raise TypeError("it contains itself")
    inner = (*within, id(value))
    if value is None or value is ...:
        return repr(value)
    for kind in (bool, int, float, complex, str, bytes):
        if isinstance(value, kind):
            return f"{kind.__name__} {kind.__repr__(value)}"  # numpy's float is one, an enum's text is one
    if isinstance(value, list | tuple):
        kind_name = "list" if isinstance(value, list) else "tuple"
        return f"{kind_name} [{', '.join(canonical(one, inner) for one in value)}]"
    if isinstance(value, set | frozenset):
        return f"set [{', '.join(sorted(canonical(one, inner) for one in value))}]"
    if isinstance(value, dict):
        pairs = sorted(f"{canonical(key, inner)}: {canonical(value[key], inner)}" for key in value)
        return f"dict [{', '.join(pairs)}]"
    raise TypeError(f"{type(value).__name__} is no plain value")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
