"""`seedspread train` and `seedspread diagnose`, as a user runs them."""

import json
import re
from pathlib import Path

import pytest

from seedspread import train
from seedspread.cff.diagnosis import diagnose
from seedspread.cff.presets import to_toml
from tests.cff.training.tiny import tiny
from tests.commands import seedspread_command, seedspread_here


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    train(tiny(), folder)
    return folder


def test_train_shows_its_progress_and_its_result(tmp_path: Path, finished: Path) -> None:
    config = tmp_path / "tiny.toml"
    config.write_text(to_toml(tiny()))
    done = seedspread_command("train", str(config), "--out", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((finished / "result.json").read_text())
    assert re.search(r"encoder 3/3 .* images/s  loss \S+ \S+ \S+  clamped \S+% ", done.stderr)
    assert "probe 4/4" in done.stderr
    again = seedspread_here("train", str(config), "--out", str(tmp_path / "run"))
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
    known = seedspread_here("train", str(config), "--out", str(tmp_path / "run"), "--resume")
    assert "test accuracy" in known.stdout


def test_diagnose_prints_the_layers_and_the_advice(finished: Path, tmp_path: Path) -> None:
    shown = seedspread_command("diagnose", str(finished))
    assert shown.returncode == 0
    assert "test accuracy" in shown.stdout.splitlines()[0]
    assert "  TRY BOTH    Train with margin_type='clamp' and with 'subtract'" in shown.stdout
    assert "clamped" in shown.stdout
    values = json.loads(seedspread_here("diagnose", str(finished), "--json").stdout)
    assert len(values["rates"]) == 3
    nothing = seedspread_here("diagnose", str(tmp_path))
    assert nothing.returncode == 2
    assert str(tmp_path) in nothing.stderr


def test_a_subtraction_runs_if_clamped_rates_follow_from_its_histogram(tmp_path: Path) -> None:
    for name, margin in (("standard", 0.4), ("low", 0.2)):
        train(tiny(objective__margin_type="subtract", objective__margin_first=margin), tmp_path / name)
    standard, low = diagnose(tmp_path / "standard"), diagnose(tmp_path / "low")
    assert standard.if_clamped
    assert standard.rates[0] >= low.rates[0]
    assert standard.rates[2] == low.rates[2]  # both schedules end at 0.1
