"""What the commands say of themselves."""

import re
import shlex
import subprocess
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from seedspread.cli import app
from seedspread.cli.help import EXAMPLES
from seedspread.errors import install_command
from tests.cli.test_cli import seedspread_here

ROOT = Path(__file__).parents[2]


def commands(command: Any = None, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    command = command or get_command(app)
    inner = getattr(command, "commands", None)
    if not inner:
        return {path: command}
    return {where: c for name, one in inner.items() for where, c in commands(one, (*path, name)).items()}


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_has_an_example_and_its_flags_no_type(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"}).output
    assert f"Example: seedspread {' '.join(path)}" in shown
    assert "<bool>" not in shown


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_examples_are_command_lines_that_are_understood(path: tuple[str, ...]) -> None:
    line = EXAMPLES.get(" ".join(path), f"seedspread {' '.join(path)}")
    words = shlex.split(line)[1 + len(path) :]
    commands()[path].make_context(path[-1], words)  # raises for what it does not understand


def test_every_example_is_of_a_command() -> None:
    there = {" ".join(path) for path in commands()}
    assert set(EXAMPLES) <= there


def test_every_option_of_a_campaign_says_for_which_engines_it_is() -> None:
    options = {o.name: o.help for o in commands()["campaign", "run"].params if o.opts[0].startswith("--")}
    about_the_study = {"store", "data_dir", "max_runs", "accept_changed", "json", "backend"}
    for name in set(options) - about_the_study:
        assert re.match(r"((local|ray|slurm)(, )?)+: |All engines: ", options[name]), name


def test_what_to_install_is_what_the_extra_needs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    known = metadata("seedspread").get_all("Provides-Extra") or []  # an older install knows no new ones
    for extra in set(extras) & set(known) - {"dev"}:
        assert set(shlex.split(install_command(extra))[2:]) == set(extras[extra])


@pytest.mark.parametrize("arguments", [("train", "nothere"), ("campaign", "plan", "nothere")])
def test_a_name_that_is_none_is_told_in_a_sentence(arguments: tuple[str, ...]) -> None:
    assert "is named 'nothere'; there are mini/" in seedspread_here(*arguments).stderr
    near = seedspread_here(*arguments[:-1], "quickstrt").stderr
    assert "is named 'quickstrt'; did you mean 'quickstart'? There are mini/" in near


def test_what_make_run_leaves_is_not_tracked() -> None:
    left = ["quickstart/report.html", "store/x", "runs/x", "report.html"]
    asked = ["git", "check-ignore", "--no-index", *left]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    if "not a git repository" in found.stderr:
        pytest.skip("not a checkout")
    assert found.stdout.split() == left
    assert "quickstart" in (ROOT / "Makefile").read_text()


def test_the_study_of_the_quickstart_is_tracked() -> None:
    asked = ["git", "check-ignore", "--no-index", "src/seedspread/studies/quickstart.toml"]
    assert not subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout
