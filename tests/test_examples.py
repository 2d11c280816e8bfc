"""The examples and what the README shows, really run."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from torch import nn
from typer.testing import CliRunner

from seedspread import Study
from seedspread.cli import app
from seedspread.runs.store import Store
from tests.study.processes import COMMAND, wait_for

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text()
FORESTS = {"random forest": RandomForestClassifier, "extra trees": ExtraTreesClassifier}
ONE_THREAD = {"OMP_NUM_THREADS": "1"} | os.environ


def blocks(language: str, text: str = README) -> list[str]:
    """The code of a page in a language; "" for commands."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def commands(text: str) -> list[str]:
    """The commands of a page, each on one line, without a prompt."""
    lines = [line for block in blocks("", text) for line in block.replace("\\\n", " ").splitlines()]
    lines = [line.removeprefix("$ ") for line in lines]
    return [line for line in lines if line.startswith("seedspread ")]


def python(*words: object, folder: Path) -> str:
    """What a script prints."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder, env=ONE_THREAD, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


# Functions


def score(seed: int, forest: str, trees: int) -> float:
    """The body of a plain loop over seeds: the accuracy of a forest on the digits."""
    images, labels = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=0.5, random_state=0)
    model = FORESTS[forest](n_estimators=trees, random_state=seed).fit(x_train, y_train)
    return float(model.score(x_test, y_test))


def by_run(table: pd.DataFrame) -> dict[tuple[str, int], float]:
    """The accuracy by forest and seed."""
    rows = zip(table["forest"], table["seed"], table["accuracy"], strict=True)
    return {(forest, int(seed)): value for forest, seed, value in rows}


def test_forests_of_a_study_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    code = (EXAMPLES / "forests.py").read_text()
    (tmp_path / "forests.py").write_text(code.replace("seeds=20", "seeds=4").replace("50}", "10}"))
    printed = python("forests.py", tmp_path / "out", folder=tmp_path)
    assert "extra trees vs random forest" in printed
    assert (tmp_path / "out" / "report.html").exists()
    assert by_run(Store(tmp_path / "out" / "runs").table()) == {
        (forest, seed): score(seed, forest, 10) for forest in FORESTS for seed in range(1, 5)
    }


@pytest.mark.soak
def test_forests_of_a_study_are_those_of_ictonyx(tmp_path: Path) -> None:
    """It draws a run's seed from the study's; the same seeds give the same accuracies here."""
    images, labels = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=0.5, random_state=0)
    options: dict[str, Any] = {"test_split": 0.0, "X_val": x_test, "y_val": y_test, "n_estimators": 10}
    theirs: dict[tuple[str, int], float] = {}
    with warnings.catch_warnings(action="ignore"):  # of pandas, which are ictonyx's to heed
        import ictonyx  # noqa: PLC0415 - slow, and for this only

        for name, forest in FORESTS.items():
            found = ictonyx.variability_study(
                forest, (x_train, y_train), runs=20, seed=1, verbose=False, **options
            )
            accuracies = found.get_metric_values("val_accuracy")
            theirs |= {(name, s): a for s, a in zip(found.run_seeds, accuracies, strict=True)}
    study = Study(
        score,
        factors={"forest": list(FORESTS)},
        settings={"trees": 10},
        seeds=found.run_seeds,
        metrics=["accuracy"],
    )
    assert by_run(study.run(tmp_path, progress=False).table) == theirs
    assert {(f, s): score(s, f, 10) for f, s in theirs} == theirs


def test_the_function_of_the_readme_runs(tmp_path: Path) -> None:
    code = next(block for block in blocks("python") if "Study" in block)
    (tmp_path / "mine.py").write_text(code.replace("seeds=20", "seeds=3"))
    assert "entropy vs gini" in python("mine.py", folder=tmp_path)
    assert len(Store(tmp_path / "runs").table()) == 6
    assert (tmp_path / "report.html").exists()


# Programs


def test_the_program_of_the_page_is_the_example() -> None:
    shown = blocks("toml", page("programs"))[0].replace('"python ', '"{python} ')
    assert tomllib.loads(shown) == tomllib.loads((EXAMPLES / "pytorch_program" / "study.toml").read_text())


@pytest.mark.soak
def test_the_program_is_killed_and_resumed_to_the_same_metrics(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "pytorch_program", tmp_path, dirs_exist_ok=True)
    study = tmp_path / "study.toml"
    text = study.read_text().replace("seeds = 10", "seeds = 1").replace("epochs = 20", "epochs = 40")
    study.write_text(text)
    store, command = tmp_path / "store", [*COMMAND, "study.toml", "--workers", "1"]

    def in_the_middle() -> list[Path]:
        """The log of the run that is at work, when another one is finished."""
        logs = {path: path.read_text() for path in store.glob("*/log.txt")}
        done = {path for path, text in logs.items() if "val_acc" in text}
        return [path for path, text in logs.items() if done and path not in done and "epoch 3 of" in text]

    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL)
    wait_for(in_the_middle, 300)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    killed = in_the_middle()[0]
    assert not (killed.parent / "result.json").exists()
    finished = {path: path.stat().st_mtime_ns for path in store.glob("*/result.json")}
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)

    assert len(Store(store).table()) == 2
    assert len(finished) == 1
    assert all(path.stat().st_mtime_ns == when for path, when in finished.items())
    assert re.findall(r"resumed after epoch \d", killed.read_text())
    row = Store(store).table().set_index("folder").loc[str(killed.parent)]
    words = ["--seed", row["seed"], "--smoothing", row["smoothing"], "--epochs", 40, "--out", "alone"]
    printed = python("train.py", *words, folder=tmp_path)
    assert "resumed" not in printed
    assert printed.splitlines()[-1] == killed.read_text().splitlines()[-1]
    assert f'"val_acc": {row["val_acc"]}' in printed


# Results that are there, and the paper's parts


def in_folder(command: str) -> str:
    """What a command prints in the current folder."""
    done = CliRunner().invoke(app, shlex.split(command, comments=True)[1:])
    assert done.exit_code == 0, done.output
    return done.output


COMMANDS = commands(README)


@pytest.mark.soak
def test_mlflow_runs_are_audited_as_they_lie_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = python(EXAMPLES / "mlflow_audit.py", tmp_path, folder=tmp_path)
    assert "sgd vs adam" in printed
    monkeypatch.chdir(tmp_path)
    audited, collected = (
        in_folder(command) for command in commands(page("collect")) if "mlflow.db" in command
    )
    assert "sgd vs adam" in audited
    assert "16 runs " in collected
    assert list(pd.read_csv("table.csv")["step"]) == [8] * 16


@pytest.mark.soak
def test_the_layer_local_loop_runs(tmp_path: Path) -> None:
    code = (EXAMPLES / "layer_local_loop.py").read_text()
    assert "EPOCHS, BATCH, DEPTH = 8, 128, 3" in code
    (tmp_path / "loop.py").write_text(code.replace("= 8, 128, 3", "= 1, 128, 2"))
    printed = " ".join(python("loop.py", folder=tmp_path).split())
    assert "clamp: clamp activation rate by layer and epoch" in printed
    assert "subtract: rate if clamped by layer and epoch" in printed


def test_the_loop_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = next(block for block in blocks("python", page("monitor")) if "SupConLoss" in block)
    model = nn.Linear(4, 8)
    yours = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loader": [(torch.randn(16, 4), torch.arange(16) % 4) for _ in range(3)],
    }
    exec(code, yours)  # noqa: S102 - our own file
    assert "[" in capsys.readouterr().out


@pytest.mark.soak
def test_a_contact_sheet_shows_originals_and_views(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "augmented_views.py"), "fashion-mnist-sample", "svhn-hard"]
    subprocess.run([*command, "sheet.png"], cwd=tmp_path, env=ONE_THREAD, check=True)
    sheet = np.array(Image.open(tmp_path / "sheet.png").convert("RGB"))
    assert min(sheet.shape[:2]) > 600
    assert len(np.unique(sheet.reshape(-1, 3), axis=0)) > 100


# The README


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_understood(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    called: Any = typer.main.get_command(app)
    while hasattr(called, "commands"):
        called = called.commands[words.pop(0)]
    called.make_context("seedspread", words)  # raises at what it does not know


def test_a_quick_command_of_the_readme_runs() -> None:
    (command,) = [command for command in COMMANDS if command.startswith("seedspread seeds")]
    assert in_folder(command)
