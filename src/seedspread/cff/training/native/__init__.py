"""The kernel's shared library: compiled by the system's compiler when it is first needed, and cached.

Its name in the user's cache is a hash of the sources, the compiler, its environment, the flags and the CPU: a
cached library was compiled for a CPU of this kind by this compiler, and gives the same bits. Needs no torch.
"""

import ctypes
import hashlib
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError
from seedspread.runs.folder import processor

if sys.platform != "win32":
    import fcntl

# The flag that selects this machine's CPU, which has another name on ARM.
_THIS_CPU = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
FLAGS = (
    "-std=c++17", "-O3", _THIS_CPU, "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
    "-fPIC", "-shared", "-pthread",
)  # fmt: skip
_COMPILERS = ("c++", "g++", "clang++")
_SOURCES = ("products.cpp", "layer.cpp", "loss.cpp")
_HEADERS = ("products.h",)
# Environment variables that compilers, linkers and their wrappers read; below, prefixes of more.
_ENVIRONMENT = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "LD_LIBRARY_PATH",
    "LD_PRELOAD", "LD_RUN_PATH", "DEPENDENCIES_OUTPUT", "SOURCE_DATE_EPOCH", "CXX", "CXXFLAGS", "CPPFLAGS",
    "LDFLAGS", "SDKROOT", "MACOSX_DEPLOYMENT_TARGET", "DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES",
)  # fmt: skip
_PREFIXES = ("GCC_", "CLANG_", "CCC_", "CCACHE_")
_SECONDS = 3600  # time limit of a compilation, which takes six seconds on a quiet machine


class NativeError(SeedspreadError):
    """The kernel cannot be built here; the message says what to do."""


@dataclass(frozen=True)
class Built:
    path: Path  # the shared library
    compiler: str  # first line of the compiler's `--version`
    flags: str  # the compiler's arguments
    cpu: str  # the CPU for which it was compiled

    def facts(self) -> dict[str, str]:
        """Return the part of a run's provenance that decides its bits."""
        return {"compiler": self.compiler, "flags": self.flags, "cpu": self.cpu}


@cache
def build() -> Built:
    """Return the kernel for this machine, compiling it unless it is cached."""
    compiler = _compiler()
    folder = _folder()
    path = folder / f"{_library_name(compiler)}.so"
    built = _cached(path)
    if built is None:
        try:
            with _locked(path.with_suffix(".lock")):
                built = _cached(path) or _compile(compiler, path)
        except OSError as error:
            raise NativeError(
                f"{folder} cannot be written ({error.strerror}): name a folder of yours in XDG_CACHE_HOME"
            ) from None
    _check_that_it_loads(path)
    return built


def require_bf16() -> None:
    """Raise if this machine's CPU, for which the kernel is built, cannot multiply in bf16."""
    built = build()
    if not ctypes.CDLL(str(built.path)).seedspread_has_bf16():
        raise NativeError(
            f"this CPU cannot multiply in bf16 (it has no AVX-512 BF16, or {built.compiler} cannot use it): "
            "train with precision = fp32, or with implementation = fast"
        )


def why_not(*, bf16: bool = False) -> str | None:
    """Build the kernel; return why it cannot be built here, or cannot train in this precision, or None."""
    try:
        build()
        if bf16:
            require_bf16()
    except NativeError as error:
        return str(error)
    return None


def _compiler() -> Path:
    if sys.platform == "win32":
        raise NativeError("the native kernel is for Linux and macOS: train with implementation = fast")
    asked = os.environ.get("CXX")
    for name in (asked,) if asked else _COMPILERS:
        if found := shutil.which(name):
            # Some are one program with several names (clang, ccache), whose behavior depends on the name.
            called, itself = Path(found).absolute(), Path(found).resolve()
            return itself if "++" in itself.name else called
    missing = f"CXX names {asked}, which is not there" if asked else "there is no C++ compiler"
    raise NativeError(f"{missing}: install g++ or clang, or train with implementation = fast")


def _library_name(compiler: Path) -> str:
    """Hash everything that the bits depend on; running the compiler would take time at every start."""
    tools = [compiler, *(Path(found) for name in ("as", "ld") if (found := shutil.which(name)))]
    read = {n: v for n, v in os.environ.items() if n in _ENVIRONMENT or n.startswith(_PREFIXES)}
    parts = [(Path(__file__).parent / name).read_bytes() for name in (*_SOURCES, *_HEADERS)]
    parts += [" ".join(FLAGS).encode(), processor().encode()]
    parts += [f"{tool} {tool.stat().st_size} {tool.stat().st_mtime_ns}".encode() for tool in tools]
    parts += [json.dumps(read, sort_keys=True).encode()]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:24]


def _folder() -> Path:
    """Return the cache folder; raise if others may write there, since its content is executed."""
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home, as in some containers
        raise NativeError("there is no home folder: name a folder of yours in XDG_CACHE_HOME") from None
    folder = home.absolute() / "seedspread" / "native"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = folder.lstat()
    except OSError as error:
        raise NativeError(
            f"{folder} cannot be made ({error.strerror}): name a folder of yours in XDG_CACHE_HOME"
        ) from None
    if not _is_mine(about, stat.S_ISDIR):
        raise NativeError(
            f"{folder} is a link, or others may write there: remove it, or name a folder of yours in "
            "XDG_CACHE_HOME"
        )
    for parent in (*folder.parents, *folder.resolve().parents):  # whoever can write there can replace it
        if _is_open(parent.stat()):
            raise NativeError(
                f"others may write to {parent}, and so replace what is in {folder}: name a folder of yours "
                "in XDG_CACHE_HOME"
            )
    return folder


def _is_mine(about: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    open_to_others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_kind(about.st_mode) and about.st_uid == os.getuid() and not open_to_others


def _is_open(about: os.stat_result) -> bool:
    """Return whether someone other than the user and root can rename what is in a folder."""
    if about.st_mode & stat.S_ISVTX:  # as in /tmp: users can rename only their own files
        return False
    foreign_group = about.st_gid not in (0, os.getuid())  # a user's own group has the user's number
    return bool(about.st_mode & stat.S_IWOTH or (about.st_mode & stat.S_IWGRP and foreign_group))


def _cached(path: Path) -> Built | None:
    """Return a cached library with its description; None if it is absent or damaged."""
    note = path.with_suffix(".json")
    try:
        if not (_is_mine(path.lstat(), stat.S_ISREG) and _is_mine(note.lstat(), stat.S_ISREG)):
            return None
        known = json.loads(note.read_text())
        whole = known.pop("sha256") == hashlib.sha256(path.read_bytes()).hexdigest()
        return Built(path, **known) if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _compile(compiler: Path, path: Path) -> Built:
    here = Path(__file__).parent
    version = (_ask(compiler, "--version").splitlines() or [compiler.name])[0]
    built = Built(path, version, " ".join(FLAGS), processor())
    with replacing(path) as part:
        _ask(compiler, *FLAGS, "-o", str(part), *(str(here / name) for name in _SOURCES))
        if not part.exists():
            raise _cannot_compile(compiler, "it wrote nothing")
        part.chmod(0o700)
        _check_that_it_loads(part)
        digest = hashlib.sha256(part.read_bytes()).hexdigest()
    known = built.facts() | {"sha256": digest}
    with replacing(path.with_suffix(".json")) as part:
        part.touch(mode=0o600)
        part.write_text(json.dumps(known, indent=1) + "\n")
    return built


def _ask(compiler: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own compiler, on our own sources
            [str(compiler), *arguments], capture_output=True, text=True, errors="replace", timeout=_SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _cannot_compile(compiler, f"not in {_SECONDS} s") from None
    except OSError as error:
        raise _cannot_compile(compiler, str(error.strerror)) from None
    if done.returncode < 0:
        raise _cannot_compile(compiler, f"ended by signal {-done.returncode}")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        first = next((line for line in lines if "error" in line), lines[0])
        raise _cannot_compile(compiler, first.strip())
    return done.stdout


def _cannot_compile(compiler: Path, why: str) -> NativeError:
    return NativeError(
        f"{compiler} cannot compile the kernel ({why}): name another compiler in CXX, or train with "
        "implementation = fast"
    )


def _check_that_it_loads(path: Path) -> None:
    """Load the library: some file systems allow no execution, and compilers can be incomplete."""
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        raise NativeError(
            f"the kernel was compiled and cannot be loaded ({error}): name another folder in XDG_CACHE_HOME "
            "or another compiler in CXX, or train with implementation = fast"
        ) from None


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """Hold a lock, so that workers that start together compile once."""
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # without locks, each worker compiles for itself
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
