"""How the command line ends: one line and status 2 for an error, `--debug` for its traceback."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import seedspread
from tests.commands import seedspread_here

HINT = "; run again with --debug to see where"


Failing = Callable[[BaseException], None]


@pytest.fixture(autouse=True)
def _without_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEEDSPREAD_DEBUG", raising=False)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Makes `seedspread seeds --n 7` raise an error."""

    def failing_with(error: BaseException) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("seedspread.analysis.seeds.seed_budget", fail)

    return failing_with


def test_python_m_seedspread_is_the_command() -> None:
    command = [sys.executable, "-m", "seedspread"]
    shown = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"seedspread {seedspread.__version__}\n"
    wrong = subprocess.run([*command, "audit", "no.csv"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_python_m_seedspread_starts_workers(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('{\"a\": 1}')")
    (tmp_path / "study.toml").write_text(
        'seeds = 2\nfactors.x = [1, 2]\nmetrics.a = {}\nrun.command = "{python} train.py {x} {seed}"\n'
    )
    command = [sys.executable, "-m", "seedspread", "run", "study.toml", "--workers", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert len(list((tmp_path / "store").glob("*/result.json"))) == 4


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("two\nlines"), "unexpected ZeroDivisionError: two lines;"),
        (AssertionError(), "unexpected AssertionError"),
        (OSError("no number"), "unexpected OSError: no number"),
        (EOFError("the file ends too early"), "unexpected EOFError: the file ends too early"),
        (KeyError("x" * 9999), "unexpected KeyError: 'xxx"),
    ],
)
def test_no_kind_of_error_is_hidden(failing: Failing, error: Exception, said: str) -> None:
    failing(error)
    done = seedspread_here("seeds", "--n", "7")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.endswith(f"{HINT}\n")
    assert done.stderr.count("\n") == 1


def test_what_the_system_says_of_a_file_is_one_line(failing: Failing) -> None:
    failing(PermissionError(13, "Permission denied", "a.csv"))
    done = seedspread_here("seeds", "--n", "7")
    assert (done.returncode, done.stderr) == (2, "error: a.csv: Permission denied\n")


def test_an_interruption_is_no_error(failing: Failing) -> None:
    failing(KeyboardInterrupt())
    done = seedspread_here("seeds", "--n", "7")
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize(
    "words",
    [
        ("--debug", "audit", "no.csv"),
        ("audit", "--debug", "no.csv"),
        ("audit", "no.csv", "--debug"),
        ("data", "--debug", "check", "cifra10"),
    ],
)
def test_debug_shows_the_traceback_before_the_line(words: tuple[str, ...]) -> None:
    plain = seedspread_here(*(word for word in words if word != "--debug"))
    assert plain.stderr.count("\n") == 1
    done = seedspread_here(*words)
    assert done.returncode == plain.returncode == 2
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith(f"\n{plain.stderr}")
    assert plain.stderr == seedspread_here(*(word for word in words if word != "--debug")).stderr


def test_the_environment_can_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEDSPREAD_DEBUG", "1")
    assert "Traceback" in seedspread_here("audit", "no.csv").stderr
    monkeypatch.setenv("SEEDSPREAD_DEBUG", "0")
    assert "Traceback" not in seedspread_here("audit", "no.csv").stderr


def test_debug_shows_what_an_error_took_the_place_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        try:
            raise ValueError("the cause")
        except ValueError:
            raise seedspread.errors.SeedspreadError("the message") from None

    monkeypatch.setattr("seedspread.analysis.seeds.seed_budget", fail)
    done = seedspread_here("seeds", "--n", "7", "--debug")
    assert "ValueError: the cause" in done.stderr
    assert done.stderr.endswith("\nerror: the message\n")


def test_a_bug_is_shown_where_it_is(failing: Failing) -> None:
    failing(ZeroDivisionError("division"))
    done = seedspread_here("seeds", "--n", "7", "--debug")
    assert ", in fail\n" in done.stderr
    assert done.stderr.endswith("\nerror: unexpected ZeroDivisionError: division\n")


def test_a_file_may_be_called_debug() -> None:
    assert "error: --debug " in seedspread_here("audit", "--", "--debug").stderr
