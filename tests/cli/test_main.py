"""How the command line ends: one line and status 2 for an error, `--debug` for its traceback; old names."""

import subprocess
import sys
from pathlib import Path

import pytest

import seedspread
from tests.commands import seedspread_here

HINT = "; run again with --debug to see where"


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where unforeseen errors are logged; without the wish to see them."""
    monkeypatch.delenv("SEEDSPREAD_DEBUG", raising=False)
    monkeypatch.setattr("platformdirs.user_log_path", lambda *_, **__: tmp_path / "logs")
    return tmp_path / "logs" / "errors.log"


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Makes `seedspread seeds --n 7` raise it."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("seedspread.analysis.seeds.seed_budget", fail)


@pytest.mark.parametrize("name", ["plan", "run", "status"])
@pytest.mark.parametrize("rest", [(), ("study.toml", "--store", "x"), ("--help",)])
def test_an_old_command_is_answered_with_its_new_name(name: str, rest: tuple[str, ...]) -> None:
    done = seedspread_here("campaign", name, *rest)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: seedspread campaign {name} is now seedspread {name}\n"


@pytest.mark.parametrize("rest", [(), ("--help",), ("rnu",)])
def test_the_old_group_is_answered_with_its_three_commands(rest: tuple[str, ...]) -> None:
    done = seedspread_here("campaign", *rest)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith("is now seedspread plan, seedspread run and seedspread status\n")


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
    assert done.stdout == "4 of 4 runs are done (4 of them now), in store\n"


def test_an_unexpected_error_is_one_line_that_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    failing(monkeypatch, ZeroDivisionError("two\nlines"))
    done = seedspread_here("seeds", "--n", "7")
    said = f"error: unexpected ZeroDivisionError: two lines; its traceback is in {log}{HINT}\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert (
        f" seedspread {seedspread.__version__} seeds\nTraceback (most recent call last):\n" in log.read_text()
    )
    assert log.read_text().endswith(", in fail\n    raise error\nZeroDivisionError: two\nlines\n\n")


@pytest.mark.parametrize(
    ("command", "lower"),
    [
        (("status", "study.toml", "--store", "store"), "seedspread.study.plan.Plan.states"),
        (("audit", "store", "--group", "x", "--value", "a"), "seedspread.tables.read.all_runs"),
        (("compare", "store", "other.csv", "--value", "a"), "seedspread.tables.read.all_runs"),
        (("report", "store"), "seedspread.report.load.load_studies"),
    ],
)
def test_an_unforeseen_error_of_a_store_is_logged_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Path, command: tuple[str, ...], lower: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('{\"a\": 1}')")
    Path("other.csv").write_text("x,seed,a\n1,0,1\n2,0,1\n")
    Path("study.toml").write_text(
        'seeds = 1\nfactors.x = [1, 2]\nmetrics.a = {}\nrun.command = "{python} train.py {x} {seed}"\n'
    )
    assert seedspread_here("run", "study.toml").returncode == 0
    before = seedspread_here("status", "study.toml", "--store", "store").stdout

    def overflow(*_: object, **__: object) -> None:
        overflow()

    with monkeypatch.context() as patched:
        patched.setattr(lower, overflow)
        done = seedspread_here(*command)
    own = Path("store", ".errors.log")
    assert done.stderr.startswith("error: unexpected RecursionError: maximum recursion depth exceeded")
    assert done.stderr.endswith(f"; its traceback is in {own}{HINT}\n")
    assert done.stderr.count("\n") == 1
    assert "RecursionError" in own.read_text()
    assert not log.exists()
    assert seedspread_here("status", "study.toml", "--store", "store").stdout == before


def test_the_log_of_errors_is_bounded_and_follows_no_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Path
) -> None:
    failing(monkeypatch, KeyError("x" * 200_000))
    for _ in range(30):
        seedspread_here("seeds", "--n", "7")
    assert log.stat().st_size < 1.2e6
    log.unlink()
    log.symlink_to(tmp_path / "elsewhere")
    done = seedspread_here("seeds", "--n", "7")
    assert "traceback" not in done.stderr
    assert done.stderr.endswith(f"{HINT}\n")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AssertionError(), "unexpected AssertionError"),
        (OSError("no number"), "unexpected OSError: no number"),
        (EOFError("the file ends too early"), "unexpected EOFError: the file ends too early"),
        (KeyError("x" * 9999), "unexpected KeyError: 'xxx"),
    ],
)
def test_no_kind_of_error_is_hidden(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    failing(monkeypatch, error)
    done = seedspread_here("seeds", "--n", "7")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.endswith(f"{HINT}\n")
    assert done.stderr.count("\n") == 1


def test_what_the_system_says_of_a_file_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, PermissionError(13, "Permission denied", "a.csv"))
    done = seedspread_here("seeds", "--n", "7")
    assert (done.returncode, done.stderr) == (2, "error: a.csv: Permission denied\n")


def test_an_interruption_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyboardInterrupt())
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


def test_a_bug_is_shown_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ZeroDivisionError("division"))
    done = seedspread_here("seeds", "--n", "7", "--debug")
    assert ", in fail\n" in done.stderr
    assert done.stderr.endswith("\nerror: unexpected ZeroDivisionError: division\n")


def test_a_file_may_be_called_debug() -> None:
    assert "error: --debug does not exist" in seedspread_here("audit", "--", "--debug").stderr
