"""What the commands say of themselves."""

import re
import shlex
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from seedspread.cli import EXAMPLES, PANELS, app
from seedspread.cli.options import EngineOptions, TableOptions
from seedspread.errors import did_you_mean
from seedspread.study.study import EXECUTORS
from tests.commands import seedspread_here

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
    assert shown.count("Example: ") == 1
    assert "<bool>" not in shown


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_examples_are_command_lines_that_are_understood(path: tuple[str, ...]) -> None:
    line = EXAMPLES.get(" ".join(path), f"seedspread {' '.join(path)}")
    words = shlex.split(line)[1 + len(path) :]
    commands()[path].make_context(path[-1], words)  # raises for what it does not understand


def test_the_help_lists_every_command_in_a_panel() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    panels = dict(re.findall(r"╭─ (\w+) ─+╮\n(.*?)╰─", shown, re.DOTALL))
    listed = {name: re.findall(r"^│ ([a-z][\w-]*)", text, re.MULTILINE) for name, text in panels.items()}
    assert listed == {
        "Options": [],
        "Analyze": "audit check compare gate components curves seeds collect".split(),
        "Run": ["plan", "run", "status", "report", "serve", "docs"],
        "Paper": ["quickstart", "train", "diagnose", "verify-paper", "data"],
    }


@pytest.mark.parametrize("name", ["audit", "compare", "report"])
def test_commands_that_read_a_table_have_every_table_option(name: str) -> None:
    there = {param.name: param for param in commands()[name,].params}
    for field in fields(TableOptions):
        assert there[field.name].default == field.default
        assert there[field.name].help
    assert "asked" not in there


def test_every_example_is_of_a_command() -> None:
    there = {" ".join(path) for path in commands()}
    assert set(EXAMPLES) <= there


@pytest.mark.parametrize("name", PANELS)
def test_every_option_stands_in_a_panel(name: str) -> None:
    command = commands()[name,]
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).output
    there = {param.name for param in command.params if param.param_type_name == "option"}
    assert there <= {option for options in PANELS[name].values() for option in options.split()}
    panels = re.findall(r"╭─ (\w+) ─", shown)
    assert panels == ["Arguments", *(panel for panel in PANELS[name] if panel in panels)]
    assert "<str>" not in shown.partition("─╯")[2]


def test_an_option_of_some_engines_only_says_which() -> None:
    takers = {
        field.name: [name for name, made in EXECUTORS.items() if field.name in made.__dataclass_fields__]
        for field in fields(EngineOptions)
    }
    helps = {param.name: param.help for param in commands()["run",].params}
    for name, engines in takers.items():
        if engines and len(engines) < len(EXECUTORS):
            assert helps[name].startswith(f"{', '.join(engines)}: ")
    assert {*EXECUTORS} <= {*re.findall(r"\w+", helps["backend"])}


NEAR = did_you_mean("quickstrt", ["quickstart"])


@pytest.mark.parametrize(
    ("command", "unknown", "near"),
    [
        ("train", "; there are mini/", f"{NEAR} There are mini/"),
        ("plan", "; give a .toml file (shipped are mini/", f"{NEAR} (shipped are mini/"),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_there_are(command: str, unknown: str, near: str) -> None:
    assert f"is named 'nothere'{unknown}" in seedspread_here(command, "nothere").stderr
    assert f"is named 'quickstrt'{near}" in seedspread_here(command, "quickstrt").stderr


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


def test_an_option_with_one_value_is_given_once(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("g,h,v\na,x,1\nb,y,2\n")
    done = seedspread_here("audit", str(table), "--value", "v", "--group", "g", "--group", "h")
    assert (done.returncode, done.stderr) == (
        2,
        "error: --group is given twice, and takes one value; leave out one of them\n",
    )
    done = seedspread_here("audit", str(table), "--value", "v", "--group", "g", "--by", "h", "--by", "h")
    assert "given twice" not in done.stderr
    assert "given twice" not in seedspread_here("seeds", "--ratio", "3", "--json", "--json").stderr


@pytest.mark.parametrize("command", ["audit", "report"])
def test_wide_alone_finds_the_columns(command: str, tmp_path: Path) -> None:
    table = tmp_path / "wide.csv"
    table.write_text("model,seed_1,seed_2,seed_3\na,1,2,4\nb,3,1,2\n")
    asked = ("--value", "accuracy", "--group", "model", "--wide")
    out = ("--out", str(tmp_path / "r.html")) if command == "report" else ()
    alone, named = (seedspread_here(command, str(table), *out, *asked, *word) for word in ((), ("auto",)))
    assert alone.returncode == 0, alone.stderr
    assert alone.stdout == named.stdout
