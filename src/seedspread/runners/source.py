"""The dependencies of a Python function: its code, and the plain values that it reads.

A function reaches the functions and classes of its own module (or notebook) that it names, through
globals, closures, defaults and lists, and what these reach. Code counts as its syntax tree without
docstrings, so comments and line breaks do not matter. If no source is found, the bytecode is used, which
differs between versions of Python. Objects count by their content, if it can be determined: arrays,
data frames, and whatever pickle decomposes into such. Anything further, such as the user's other modules
and open files, is only named.
"""

import ast
import copy
import dis
import hashlib
import inspect
import linecache
import os
import sys
from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from enum import Enum
from functools import lru_cache, singledispatchmethod
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

from seedspread.runners.own_code import Digests

_CONTAINERS = (list, tuple, set, frozenset, dict)
_SLOTS = (GetSetDescriptorType, MemberDescriptorType, type(vars(namedtuple("Pair", "one"))["one"]))
# Functions that read variables without naming them.
_LOOK_UPS = ("globals", "eval", "exec")


@dataclass(frozen=True)
class Source:
    """The dependencies of a function.

    Attributes:
        parts: functions, classes and plain values, by name, with a SHA-256 of each.
        reads: descriptions of what else it reads; changes of these are not noticed.
        objects: likewise for arrays and other objects, which another process may create differently.
    """

    parts: Digests
    reads: tuple[str, ...]
    objects: Digests = ()


def source_of(function: FunctionType | type) -> Source:
    """Return everything that a function, or a class, depends on."""
    is_class = isinstance(function, type)
    walk = _Walk(vars(sys.modules[function.__module__]) if is_class else unwrapped(function).__globals__)
    walk.value(function.__qualname__, function)
    return Source(_digests(walk.parts), tuple(sorted(walk.reads)), _digests(walk.objects))


def is_of_others(module: str) -> bool:
    """Return whether a module is Python's, an installed package's or this one's: its name identifies it."""
    top = module.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    is_installed = "site-packages" in file or "dist-packages" in file
    return is_installed or top in {*sys.stdlib_module_names, "seedspread"}


def _digests(texts: dict[str, set[str]]) -> Digests:
    whole = {name: "\n".join(sorted(some)).encode(errors="surrogatepass") for name, some in texts.items()}
    return tuple(sorted((name, hashlib.sha256(text).hexdigest()) for name, text in whole.items()))


class _Walk:
    """A walk along names, starting from a function; `home` is the dict of its module's globals."""

    def __init__(self, home: dict[str, Any]) -> None:
        self._home = home
        self._seen: set[int] = set()
        self.parts: dict[str, set[str]] = {}
        self.objects: dict[str, set[str]] = {}
        self.reads: set[str] = set()

    def value(self, name: str, value: Any) -> None:
        functions = [one for one in (value, unwrapped(value)) if self._is_of_home(one)]
        self._registered(name, value)
        if functions:
            for function in functions:
                self._function(function)
        elif self._is_class_of_home(value):
            self._class(value)
        elif isinstance(value, ModuleType):
            self._module(value.__name__)
        elif is_plain(value) or isinstance(value, _CONTAINERS):
            self._add(name, self._text(name, value))
        else:
            self._other(name, value)

    def _text(self, name: str, value: Any) -> str:
        """Return a value as text; functions in lists and the like by their code, others by their type."""
        function = unwrapped(value)
        if is_plain(value):
            return canonical(value)
        if isinstance(value, _CONTAINERS) and id(value) not in self._seen:
            self._seen.add(id(value))
            items = value.items() if isinstance(value, dict) else value
            texts = [self._text(name, item) for item in items]
            kind = type(value).__name__
            return f"{kind} [{', '.join(texts if isinstance(value, list | tuple) else sorted(texts))}]"
        if not isinstance(value, _CONTAINERS):
            self.value(name, value)
        if self._is_of_home(function):
            return code_text(function.__code__)
        return getattr(value, "__qualname__", type(value).__qualname__)

    def _registered(self, name: str, value: Any) -> None:
        """Add the functions registered with a function of `singledispatch`."""
        function = value.dispatcher if isinstance(value, singledispatchmethod) else value
        registry = getattr(function, "registry", None) if isinstance(function, FunctionType) else None
        if isinstance(registry, MappingProxyType):
            self.reads.add(f"what is registered with {name}")
            for kind, implementation in registry.items():
                self.value(f"{name} of {kind.__qualname__}", implementation)

    def _is_class_of_home(self, value: Any) -> bool:
        return isinstance(value, type) and value.__module__ == self._home.get("__name__")

    def _is_of_home(self, value: Any) -> bool:
        return isinstance(value, FunctionType) and value.__globals__ is self._home

    def _add(self, name: str, text: str) -> None:
        self.parts.setdefault(name, set()).add(text)

    def _other(self, name: str, value: Any) -> None:
        if isinstance(value, type | FunctionType) or inspect.isbuiltin(value):
            self._module(value.__module__ or "", f"{name} of ")
        else:
            digest = content_digest(value)
            if digest is None:
                self.reads.add(f"{name} ({type(value).__name__})")
            else:
                self.objects.setdefault(name, set()).add(digest)
            if self._is_class_of_home(type(value)):
                self._class(type(value))

    def _module(self, name: str, what: str = "") -> None:
        if name and not is_of_others(name):
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
            is_python_own = variable.startswith("__") and variable.endswith("__")  # such as __file__
            if variable in self._home and not is_python_own:
                self.value(variable, self._home[variable])
            elif variable in _LOOK_UPS:
                self.reads.add(f"what {name} looks up by {variable}()")
        for module in _names(function.__code__, ("IMPORT_NAME",)):
            self._module(module)

    def _class(self, cls: type) -> None:
        """Add a class: its source, attributes, names of fields, bases and metaclass."""
        if id(cls) in self._seen:
            return
        self._seen.add(id(cls))
        name = cls.__qualname__
        fields = sorted(getattr(cls, "__annotations__", {}))
        self._add(name, canonical([*fields, *(base.__qualname__ for base in cls.__bases__)]))
        for text in self._class_texts(cls):
            self._add(name, text)
        for base in (*cls.__bases__, type(cls)):
            if base not in (object, type):
                self.value(base.__qualname__, base)
        for field in getattr(cls, "__dataclass_fields__", {}).values():
            if field.default_factory is not MISSING:
                self.value(f"{name}.{field.name}", field.default_factory)
        for attribute, value in vars(cls).items():
            self._attribute(cls, attribute, value)

    def _attribute(self, cls: type, attribute: str, value: Any) -> None:
        name = f"{cls.__qualname__}.{attribute}"
        if isinstance(value, Enum):
            self.value(name, value.value)
            return
        self._registered(name, value)
        # The function in a classmethod or a staticmethod, or in a cached property.
        inner = getattr(value, "__func__", getattr(value, "func", value))
        for one in (inner.fget, inner.fset, inner.fdel) if isinstance(inner, property) else (inner,):
            method = unwrapped(one)
            if self._is_of_home(method):
                # Generated methods of a dataclass follow from its fields.
                if method.__code__.co_filename != "<string>":
                    self.value(name, one)
                continue
            # Attributes that Python itself adds to an enum or an abstract class.
            is_pythons = attribute == "_abc_impl" or (issubclass(cls, Enum) and attribute.startswith("_"))
            if not (attribute.startswith("__") or isinstance(one, _SLOTS) or is_pythons):
                self.value(name, one)

    def _class_texts(self, cls: type) -> list[str]:
        """Return every definition of the class's name in its file; none if no source is found."""
        own = {one.__code__.co_filename for one in vars(cls).values() if self._is_of_home(one)} - {"<string>"}
        home = {one.__code__.co_filename for one in self._home.values() if self._is_of_home(one)}
        found = []
        for file in sorted(own or home):
            try:
                tree = _parse("".join(linecache.getlines(file)))
            except (SyntaxError, ValueError):
                continue
            found += [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        return [_definition_text(node) for node in found if node.name == cls.__name__]


def unwrapped(value: Any) -> Any:
    """Return a function without its decorators; anything else unchanged."""
    try:
        return inspect.unwrap(value) if callable(value) else value
    except ValueError:  # it claims to wrap itself
        return value


def _bound_values(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables of its closure that are set, and its defaults."""
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
    """Yield the names that a function, and functions within it, load or import."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in operations)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant, operations)


def code_text(code: CodeType) -> str:
    """Return the code of a function as text that does not depend on its layout."""
    found = _definitions(code)  # none for a prompt, two lambdas on a line, or a file edited since
    return _definition_text(found[0]) if len(found) == 1 else _bytecode_text(code)


def _definition_text(definition: ast.AST) -> str:
    definition = copy.deepcopy(definition)
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    for node in ast.walk(definition):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(definition)


def file_has(function: FunctionType) -> bool:
    """Return whether the function's file, if any, still contains it where it was when imported."""
    code = unwrapped(function).__code__
    return bool(_definitions(code)) or not os.path.exists(code.co_filename)


def _definitions(code: CodeType) -> list[ast.AST]:
    """Return the definitions in its current file that a function may come from."""
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


def _bytecode_text(code: CodeType) -> str:
    constants = [_bytecode_text(c) if isinstance(c, CodeType) else canonical(c) for c in code.co_consts]
    names = [code.co_names, code.co_varnames, code.co_freevars]
    return canonical([code.co_code, constants, *names])


def is_plain(value: Any) -> bool:
    try:
        canonical(value)
    except TypeError:
        return False
    return True


def canonical(value: Any, within: tuple[int, ...] = ()) -> str:
    """Return a plain value as text, independent of the order of sets and keys; else raise `TypeError`."""
    if id(value) in within:
        raise TypeError("it contains itself")
    inner = (*within, id(value))
    if value is None or value is ...:
        return repr(value)
    for kind in (bool, int, float, complex, str, bytes):
        if isinstance(value, kind):
            return f"{kind.__name__} {kind.__repr__(value)}"  # numpy's float is a float
    if isinstance(value, list | tuple):
        kind_name = "list" if isinstance(value, list) else "tuple"
        return f"{kind_name} [{', '.join(canonical(one, inner) for one in value)}]"
    if isinstance(value, set | frozenset):
        return f"set [{', '.join(sorted(canonical(one, inner) for one in value))}]"
    if isinstance(value, dict):
        pairs = sorted(f"{canonical(key, inner)}: {canonical(value[key], inner)}" for key in value)
        return f"dict [{', '.join(pairs)}]"
    raise TypeError(f"{type(value).__name__} is no plain value")


# Limits of an object: hashing a larger one would take too long.
_MOST_BYTES, _MOST_PARTS = 2**30, 10**6


class _OpaqueError(Exception):
    """An object whose content cannot be hashed."""


def content_digest(value: Any) -> str | None:
    """Return a hash of an object's content, the same in every process; None if that is impossible.

    An object is decomposed as pickle would do it, and never called or written anywhere. Sets and keys have no
    order, and parts that share content count separately.
    """
    content = _Content()
    try:
        content.add(value)
    except Exception:  # a stranger's class may raise anything when it is decomposed
        return None
    return content.hash.hexdigest()


class _Content:
    """The content of an object, as input of a hash."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._bytes = self._parts = 0
        self._within: list[int] = []

    def add(self, value: Any) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise _OpaqueError
        if is_plain(value):
            self._text(canonical(value))
            return
        if id(value) in self._within:  # it contains itself
            self._text(f"above {len(self._within) - self._within.index(id(value))}")
            return
        self._within.append(id(value))
        self._text(f"{type(value).__module__}.{type(value).__qualname__}")
        self._inside(value)
        self._within.pop()

    def _inside(self, value: Any) -> None:
        numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
        if isinstance(value, set | frozenset | dict):
            self._unordered(value.items() if isinstance(value, dict) else value)
        elif isinstance(value, list | tuple):
            self._all(value)
        elif isinstance(value, type | FunctionType) or inspect.isbuiltin(value):
            if "<" in value.__qualname__:  # without an importable name, no content is identifiable
                raise _OpaqueError
            self._text(f"{value.__module__}.{value.__qualname__}")
        elif numpy is not None and isinstance(value, numpy.ndarray):
            self._array(value, numpy)
        elif pandas is not None and isinstance(value, pandas.DataFrame):
            self._all([list(map(str, value.dtypes)), value.columns.tolist(), value.index.to_numpy()])
            self._all([value.iloc[:, place].to_numpy() for place in range(value.shape[1])])
        elif pandas is not None and isinstance(value, pandas.Series | pandas.Index):
            self._all([str(value.dtype), value.name, value.to_numpy()])
        elif type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
            self._all([str(value.dtype), value.detach().cpu().numpy()])
        else:
            reduced = value.__reduce_ex__(4)  # the callable and arguments that pickle would use
            for part in [] if isinstance(reduced, str) else reduced:
                self.add(list(part) if isinstance(part, Iterator) else part)
            if isinstance(reduced, str):
                self._text(reduced)

    def _array(self, array: Any, numpy: Any) -> None:
        self._all([str(array.dtype.descr), array.shape])
        if array.dtype.hasobject:
            self._all(array.ravel().tolist())
            return
        self._bytes += array.nbytes
        if self._bytes > _MOST_BYTES:
            raise _OpaqueError
        self.hash.update(numpy.ascontiguousarray(array).view(numpy.uint8).data if array.size else b"")

    def _unordered(self, items: Iterable[Any]) -> None:
        digests = []
        for item in items:
            one = _Content()
            one._within, one._parts, one._bytes = [*self._within], self._parts, self._bytes
            one.add(item)
            digests.append(one.hash.hexdigest())
            self._parts, self._bytes = one._parts, one._bytes
        self._text(" ".join(sorted(digests)))

    def _all(self, values: Sequence[Any]) -> None:
        self._text(f"{len(values)}:")
        for value in values:
            self.add(value)

    def _text(self, text: str) -> None:
        encoded = text.encode(errors="surrogatepass")
        self.hash.update(f"{len(encoded)} ".encode() + encoded)
