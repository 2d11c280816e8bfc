"""The kernel's library: compiled once, whole or not at all, and only from where nobody else can write."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seedspread.training.native import build as building
from seedspread.training.native.build import NativeError, build

from .tiny import needs_native

# Starts when all do; prints the library and when it was made.
_WORKER = """
import sys
from seedspread.training.native.build import build
sys.stdin.readline()
built = build()
print(built.path, built.path.stat().st_mtime_ns, built.path.stat().st_ino)
"""


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, and nothing remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    build.cache_clear()
    yield tmp_path / "seedspread" / "native"
    build.cache_clear()


def quick(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A library that takes no time to compile: what is tested here is not what it computes."""
    (folder / "small.cpp").write_text('extern "C" int answer() { return 42; }\n')
    monkeypatch.setattr(building, "_SOURCES", (str(folder / "small.cpp"),))
    monkeypatch.setattr(building, "_HEADERS", ())


@needs_native
def test_workers_that_start_together_compile_once(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment,
        )
        for _ in range(10)
    ]  # fmt: skip
    said = {worker.communicate("go\n")[0].strip() for worker in workers}
    assert len(said) == 1
    assert sorted(path.suffix for path in (tmp_path / "seedspread/native").iterdir()) == [
        ".json",
        ".lock",
        ".so",
    ]


@needs_native
def test_it_is_compiled_once(fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quick(monkeypatch, tmp_path)
    first = build()
    build.cache_clear()
    monkeypatch.setattr(building, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build() == first
    assert first.compiler
    assert "=native" in first.flags
    assert first.path.parent == fresh


@needs_native
@pytest.mark.parametrize("damage", ["cut", "changed", "no note", "bad note", "writable", "link"])
def test_a_library_that_is_not_as_it_was_made_is_made_again(
    damage: str, fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quick(monkeypatch, tmp_path)
    path = build().path
    whole = path.read_bytes()
    note = path.with_suffix(".json")
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
def test_other_sources_are_another_library(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quick(monkeypatch, tmp_path)
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


@needs_native
def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    quick(monkeypatch, tmp_path)
    (tmp_path / "small.cpp").write_text("this is no C++\n")
    with pytest.raises(NativeError, match=r"cannot compile the kernel .*small\.cpp"):
        build()
    assert [path.suffix for path in fresh.iterdir()] == [".lock"]


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
