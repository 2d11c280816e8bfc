"""A fault at each call of a small study that writes: nothing is lost or wrong, the same command resumes."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from seedspread.errors import SeedspreadError
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from tests.study.dice import dice_study
from tests.study.here import Here

WRITES = ("replace", "fsync", "link", "unlink", "mkdir", "write", "utime", "truncate")
FAULTS = (errno.ENOSPC, errno.EIO, errno.EINVAL)


class Faults:
    """Counts calls that write, and lets one of them fail."""

    def __init__(self, number: int, code: int) -> None:
        self.count, self.number, self.code = 0, number, code

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self.number:
                raise OSError(self.code, os.strerror(self.code), str(args[0]))
            return function(*args, **options)

        return called


@contextmanager
def faults(number: int, code: int) -> Iterator[Faults]:
    """The functions of `os` that write, and the opening and writing of files by `pathlib`."""
    shim = Faults(number, code)
    with pytest.MonkeyPatch.context() as patch:
        for name in WRITES:
            patch.setattr(os, name, shim(getattr(os, name)))
        for name in ("write_bytes", "write_text", "touch"):
            patch.setattr(Path, name, shim(getattr(Path, name)))
        yield shim


def scores(store: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in store.glob("*/result.json")}


def study_with(store: Path, number: int = 0, code: int = 0) -> int:
    """Run a small study; return how many calls have written."""
    plan = Plan.make(dice_study(seeds=2), store)
    with faults(number, code) as shim:
        try:
            told = list(run_plan(plan, Here()).failed.values())
        except SeedspreadError as error:
            told = [str(error)]
    assert not any("\n" in line for line in told)
    return shim.count


def check(folder: Path, numbers: range, codes: tuple[int, ...]) -> None:
    study_with(folder / "undisturbed")
    known = scores(folder / "undisturbed")
    assert len(known) == 4
    for code in codes:
        for number in numbers:
            store = folder / f"{code}-{number}"
            study_with(store, number, code)
            some = scores(store)
            assert some.items() <= known.items(), f"{errno.errorcode[code]} at call {number}: wrong"
            study_with(store)
            assert scores(store) == known, f"{errno.errorcode[code]} at call {number}: not resumed"
            left = [path for path in store.glob("*/.*") if not path.name.startswith(".lease")]
            assert not left, f"{errno.errorcode[code]} at call {number} left {left}"


def test_a_fault_at_some_calls(tmp_path: Path) -> None:
    calls = study_with(tmp_path / "counted")
    assert calls > 50
    check(tmp_path, range(1, calls + 1, 17), FAULTS[:1])
    check(tmp_path / "later", range(9, calls + 1, 29), FAULTS[1:])


@pytest.mark.soak
def test_a_fault_at_every_call(tmp_path: Path) -> None:
    check(tmp_path, range(1, study_with(tmp_path / "counted") + 1), FAULTS)
