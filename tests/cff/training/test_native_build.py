"""The kernel's library: compiled once, whole or not at all, and only from where nobody else can write."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seedspread.cff.training import native as building
from seedspread.cff.training.native import NativeError, build
from seedspread.cff.training.run import train

from .tiny import needs_native, tiny

# Starts when all do; prints the library and when it was made.
_WORKER = """
import sys
from seedspread.cff.training import native
native._SOURCES, native._HEADERS = (sys.argv[1],), ()
sys.stdin.readline()
built = native.build()
print(built.path, built.path.stat().st_mtime_ns, built.path.stat().st_ino)
"""


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, and nothing remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build.cache_clear()
    yield tmp_path / "seedspread" / "native"
    build.cache_clear()


def small_source(folder: Path) -> Path:
    """A library that takes no time to compile: what is tested here is not what it computes."""
    path = folder / "small.cpp"
    path.write_text('extern "C" int answer() { return 42; }\n')
    return path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(building, "_SOURCES", (str(small_source(tmp_path)),))
    monkeypatch.setattr(building, "_HEADERS", ())


@needs_native
def test_workers_that_start_together_compile_once(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    source = str(small_source(tmp_path))
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment,
        )
        for _ in range(3)
    ]  # fmt: skip
    said = {worker.communicate("go\n")[0].strip() for worker in workers}
    assert len(said) == 1
    assert sorted(path.suffix for path in (tmp_path / "seedspread/native").iterdir()) == [
        ".json",
        ".lock",
        ".so",
    ]


@needs_native
@pytest.mark.usefixtures("quick")
def test_it_is_compiled_once(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build()
    build.cache_clear()
    monkeypatch.setattr(building, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build() == first
    assert first.compiler
    assert "=native" in first.flags
    assert first.path.parent == fresh


@needs_native
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("damage", ["cut", "changed", "no note", "bad note", "writable", "link"])
def test_a_library_that_is_not_as_it_was_made_is_made_again(damage: str, fresh: Path, tmp_path: Path) -> None:
    path = build().path
    whole = path.read_bytes()
    note = path.with_suffix(".json")
    if damage in ("cut", "changed"):
        path.unlink()  # this process has it mapped, and would crash where it ends
    if damage == "cut":
        path.write_bytes(whole[:1000])
    elif damage == "changed":
        path.write_bytes(whole.replace(b"answer", b"danger"))
    elif damage == "no note":
        note.unlink()
    elif damage == "bad note":
        note.write_text("[]")
    elif damage == "writable":
        path.chmod(0o777)
    else:
        (tmp_path / "elsewhere.so").write_bytes(whole)
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere.so")
    build.cache_clear()
    again = build().path
    assert again.read_bytes() == whole
    assert not again.is_symlink()
    assert not again.stat().st_mode & 0o022


@needs_native
@pytest.mark.usefixtures("quick")
def test_other_sources_are_another_library(fresh: Path, tmp_path: Path) -> None:
    first = build().path
    (tmp_path / "small.cpp").write_text('extern "C" int answer() { return 43; }\n')
    build.cache_clear()
    assert build().path != first


def test_without_a_compiler_it_says_what_to_do(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fresh))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(NativeError, match=r"no C\+\+ compiler: install g\+\+ or clang, or train with"):
        build()
    monkeypatch.setenv("CXX", "nothere")
    with pytest.raises(NativeError, match="CXX names nothere, which is not there"):
        build()


def test_a_run_without_a_compiler_leaves_no_folder(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", "nothere")
    with pytest.raises(NativeError, match="install g"):
        train(tiny(runtime__implementation="native"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@needs_native
@pytest.mark.usefixtures("quick")
def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "small.cpp").write_text("this is no C++\n")
    with pytest.raises(
        NativeError, match=r"cannot compile the kernel \(.*small\.cpp.* error: .*\): name another"
    ):
        build()
    assert [path.suffix for path in fresh.iterdir()] == [".lock"]


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# What it does, and what is said of it.
BAD_COMPILERS = {
    "says and writes nothing": ("exit 0", r"\(it wrote nothing\): name another compiler in CXX"),
    "is killed": ("kill -9 $$", r"\(ended by signal 9\): name another compiler"),
    "fails without a word": ("exit 3", r"\(no message\): name another compiler"),
    "writes no library": (
        'while [ $# -gt 1 ]; do [ "$1" = -o ] && echo no > "$2"; shift; done',
        r"cannot be loaded \(.*\): name another folder in XDG_CACHE_HOME or another compiler in CXX",
    ),
}


@pytest.mark.parametrize("kind", BAD_COMPILERS)
def test_a_compiler_that_is_none_is_told_of_in_a_line_and_leaves_nothing(
    kind: str, fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    does, message = BAD_COMPILERS[kind]
    monkeypatch.setenv("CXX", str(script(tmp_path / "my-c++", does)))
    with pytest.raises(NativeError, match=message) as raised:
        build()
    assert "\n" not in str(raised.value)
    assert [path.suffix for path in fresh.iterdir()] == [".lock"]


@needs_native
@pytest.mark.usefixtures("quick")
def test_a_compiler_with_several_names_is_called_by_the_one_that_was_found(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As clang is, which links C++ only where it is called clang++, and whatever ccache stands in for."""
    real = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")
    script(tmp_path / "clang", f'case "$0" in *++) exec {real} "$@";; *) exit 1;; esac')
    (tmp_path / "clang++").symlink_to("clang")
    monkeypatch.setenv("CXX", str(tmp_path / "clang++"))
    assert build().path.parent == fresh


@needs_native
def test_a_cache_that_cannot_be_written_is_told_of_in_a_line(fresh: Path) -> None:
    fresh.mkdir(parents=True, mode=0o700)
    (fresh / f"{building._library_name(building._compiler())}.lock").mkdir()  # stops root as well
    with pytest.raises(NativeError, match=r"cannot be written \(.*\): name a folder of yours in XDG_CACHE"):
        build()


@needs_native
@pytest.mark.parametrize("how", ["link", "open", "file"])
def test_a_cache_that_others_can_write_to_is_refused(how: str, fresh: Path, tmp_path: Path) -> None:
    fresh.parent.mkdir()
    if how == "link":
        (tmp_path / "other").mkdir()
        fresh.symlink_to(tmp_path / "other")
    elif how == "open":
        fresh.mkdir()
        fresh.chmod(0o777)
    else:
        fresh.write_text("")
    with pytest.raises(NativeError, match="XDG_CACHE_HOME"):
        build()


@needs_native
@pytest.mark.parametrize("mode", [0o777, 0o707])
@pytest.mark.parametrize("above", ["seedspread", "."])
def test_a_cache_below_a_folder_that_others_can_write_to_is_refused(
    mode: int, above: str, fresh: Path, tmp_path: Path
) -> None:
    fresh.mkdir(parents=True, mode=0o700)
    (tmp_path / above).chmod(mode)
    with pytest.raises(
        NativeError, match=f"others may write to {(tmp_path / above).resolve()}, and so replace"
    ):
        build()
    (tmp_path / above).chmod(mode | 0o1000)  # as /tmp is
    building._folder()


@needs_native
def test_a_cache_behind_a_link_is_refused_if_others_can_write_to_where_it_leads(
    monkeypatch: pytest.MonkeyPatch, fresh: Path, tmp_path: Path
) -> None:
    (tmp_path / "open" / "mine").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open" / "mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    with pytest.raises(NativeError, match=f"others may write to {tmp_path / 'open'}, and so replace"):
        build()


@needs_native
@pytest.mark.parametrize(
    "name",
    "CPATH CPLUS_INCLUDE_PATH C_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH COMPILER_PATH GCC_EXEC_PREFIX "
    "CXXFLAGS LD_PRELOAD CCC_OVERRIDE_OPTIONS SDKROOT".split(),
)
def test_what_the_compiler_reads_from_the_environment_makes_another_library(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    compiler = building._compiler()
    monkeypatch.delenv(name, raising=False)
    before = building._library_name(compiler)
    monkeypatch.setenv(name, "/somewhere")
    assert building._library_name(compiler) != before
    monkeypatch.setenv("UNRELATED", "1")
    monkeypatch.delenv(name)
    assert building._library_name(compiler) == before


@needs_native
def test_headers_in_the_environment_are_compiled_in(
    monkeypatch: pytest.MonkeyPatch, fresh: Path, tmp_path: Path
) -> None:
    answers = {}
    for value in (1, 2):
        folder = tmp_path / str(value)
        folder.mkdir()
        (folder / "number.h").write_text(f"#define NUMBER {value}\n")
        (tmp_path / "small.cpp").write_text(
            '#include <number.h>\nextern "C" int answer() { return NUMBER; }\n'
        )
        monkeypatch.setattr(building, "_SOURCES", (str(tmp_path / "small.cpp"),))
        monkeypatch.setattr(building, "_HEADERS", ())
        monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(folder))
        build.cache_clear()
        answers[value] = ctypes.CDLL(str(build().path)).answer()
    assert answers == {1: 1, 2: 2}
