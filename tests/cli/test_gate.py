"""`seedspread gate`: exit codes, forms, and the example."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import seedspread_here

ROOT = Path(__file__).parents[2]
HISTORY = str(ROOT / "examples" / "gate" / "history.csv")


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, values in (
        ("same", (0.838, 0.841, 0.835)),
        ("worse", (0.81, 0.80, 0.82)),
        ("text", ("a", "b")),
    ):
        Path(f"{name}.csv").write_text(
            "\n".join(["seed,accuracy", *(f"{k},{v}" for k, v in enumerate(values))])
        )
    Path("empty.csv").write_text("")
    Path("crashed.csv").write_text("seed,accuracy\n1,\n")


@pytest.mark.parametrize(
    ("new", "code"),
    [((), 0), (("same.csv",), 0), (("worse.csv",), 1), (("same.csv", "--margin", "0.0001"), 3)],
)
def test_the_exit_code_is_the_verdict(new: tuple[str, ...], code: int) -> None:
    done = seedspread_here("gate", HISTORY, *new, "--value", "accuracy")
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.split()[0] == {0: "PASS" if new else "BOUND", 1: "FAIL", 3: "CAN'T"}[code]


@pytest.mark.parametrize(
    "words",
    [
        (HISTORY, "nowhere.csv", "--value", "accuracy"),
        ("nowhere.csv", "worse.csv", "--value", "accuracy"),
        (HISTORY, "worse.csv", "--value", "acuracy"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--group", "test"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--where", "oops"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--alpha", "5"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--alpha", "five"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--nonsense"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--format", "pdf"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--plot", "fig.gif"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--plot", "worse.csv/fig.png"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--items", "0"),
        (HISTORY, "worse.csv", "--value", "accuracy", "--study", "s", "--seed", "nope"),
        (HISTORY, "worse.csv", "--value", "date"),
        (HISTORY, "worse.csv"),
        (HISTORY, "text.csv", "--value", "accuracy"),
        (HISTORY, "empty.csv", "--value", "accuracy"),
        (HISTORY, "crashed.csv", "--value", "accuracy"),
        (),
    ],
)  # fmt: skip
def test_no_error_has_the_exit_code_of_a_regression(words: tuple[str, ...]) -> None:
    done = seedspread_here("gate", *words)
    assert done.returncode == 2
    assert "rror" in done.stderr


def test_an_error_that_nobody_expects_and_a_closed_pipe_exit_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (RuntimeError("boom"), BrokenPipeError(32, "Broken pipe")):
        with monkeypatch.context() as patched:
            patched.setattr(
                "seedspread.cli.analyze.say_result", lambda *_, e=error, **__: (_ for _ in ()).throw(e)
            )
            assert seedspread_here("gate", HISTORY, "worse.csv", "--value", "accuracy").returncode == 2


def test_a_table_for_a_pull_request_and_json() -> None:
    done = seedspread_here("gate", HISTORY, "worse.csv", "--value", "accuracy", "--format", "markdown")
    assert done.stdout.startswith("**Gate: FAIL**\n\n| verdict | metric |")
    assert "| FAIL | accuracy | 0.8100" in done.stdout
    done = seedspread_here("gate", HISTORY, "worse.csv", "--value", "accuracy", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"], found["passed"]) == (1, "FAIL", False)
    assert found["gates"][0]["p"]["mean"] < 0.001
    done = seedspread_here("gate", HISTORY, "worse.csv", "--value", "accuracy", "--format", "latex")
    assert (done.returncode, "\\toprule" in done.stdout) == (1, True)


def test_the_example_passes_and_fails_with_worse_runs(tmp_path: Path) -> None:
    code = (ROOT / "examples" / "gate" / "test_accuracy.py").read_text()
    (tmp_path / "history.csv").write_text(Path(HISTORY).read_text())
    for text, ended in ((code, 0), (code.replace("return 0.838", "return 0.80"), 1)):
        (tmp_path / "test_accuracy.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_accuracy.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == ended, done.stdout
    assert "FAIL        accuracy: " in done.stdout
