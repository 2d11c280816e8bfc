"""The benchmarks as scripts: what they say of themselves, and what the documentation says of them."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from benchmarks.script import app_of

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(p.stem for p in (ROOT / "benchmarks").glob("*.py") if "__main__" in p.read_text())
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def app(name: str) -> typer.Typer:
    return app_of(importlib.import_module(f"benchmarks.{name}").run)


def start(*words: str) -> subprocess.CompletedProcess[str]:
    """As it is started in a checkout, whose root an editable install has on its path."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_explains_itself(name: str) -> None:
    done = CliRunner().invoke(app(name), ["--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "--" in done.output.replace("--help", "")
    assert "<bool>" not in done.output


def test_a_script_is_started_and_refuses_in_one_line() -> None:
    done = start("benchmarks/growth.py", "--plot", "growth.gif")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --plot growth.gif ")
    assert done.stderr.count("\n") == 1


def test_every_script_in_a_text_can_be_given() -> None:
    """With its options, as a page has it."""
    named = set()
    for page in PAGES:
        for name, arguments in re.findall(r"`python benchmarks/(\w+)\.py( [^`]*)?`", page.read_text()):
            command: Any = typer.main.get_command(app(name))
            command.make_context(name, shlex.split(arguments))  # raises at what it does not know
            named.add(name)
    assert named == set(SCRIPTS)
