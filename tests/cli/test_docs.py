"""`seedspread docs`: the documentation that is installed with the package."""

import ast
import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import seedspread
from seedspread import pages
from seedspread.cli import app
from seedspread.errors import did_you_mean
from tests.commands import literals, seedspread_here

ROOT = Path(__file__).parents[2]
SOURCE = Path(seedspread.__file__).parent


def shown(*words: str) -> str:
    done = CliRunner().invoke(app, ["docs", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_page_tutorial_and_example_is_listed_with_its_title() -> None:
    lines = {line.split()[0]: line for line in shown().splitlines() if line}
    written = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert written | {"start", "examples/forests.py", "examples/pytorch_program/study.toml"} <= set(lines)
    assert lines["statistics"].endswith("The statistics of spread")
    assert lines["tutorials/is-my-change-real"].endswith("Is my change real?")


@pytest.mark.parametrize("name", pages.pages())
def test_a_pipe_gets_a_page_as_it_is_written(name: str) -> None:
    path = pages.pages()[name]
    if path.suffix != ".ipynb":
        assert shown(name) == path.read_text()
    else:
        text = shown(name)
        assert text.startswith("# ")
        assert "```python\n" in text
        assert "```text\n" in text
        assert "<div" not in text


def test_a_page_may_be_named_as_a_checkout_has_it() -> None:
    assert shown("docs/statistics.md") == shown("statistics.md") == shown("statistics")
    assert shown("docs/tutorials/is-my-change-real.ipynb") == shown("tutorials/is-my-change-real")


def test_a_page_that_is_none_is_one_line_with_the_nearest() -> None:
    done = seedspread_here("docs", "statstics")
    assert (done.returncode, done.stdout) == (2, "")
    near = did_you_mean("statstics", ["statistics"])
    assert done.stderr == f"error: there is no page 'statstics'{near}\n"
    far = seedspread_here("docs", "../../etc/passwd").stderr
    assert far == "error: there is no page '../../etc/passwd'; see which there are: seedspread docs\n"


def read_to_the_end(descriptor: int) -> str:
    """What a program wrote into a terminal; its end is an error there."""
    content = b""
    with contextlib.suppress(OSError):
        while part := os.read(descriptor, 4096):
            content += part
    return content.decode()


def test_a_terminal_gets_it_formatted_through_a_pager() -> None:
    here, there = pty.openpty()
    command = [sys.executable, "-c", "from seedspread.cli import main; main()", "docs", "figures"]
    environment = os.environ | {"PAGER": "cat", "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(command, stdout=there, env=environment) as program:
        os.close(there)
        text = read_to_the_end(here)
    os.close(here)
    assert program.returncode == 0
    assert "Make a figure for a paper" in text
    assert "# Make" not in text  # a heading, no longer Markdown


def test_who_reads_the_first_line_only_gets_no_traceback() -> None:
    command = [sys.executable, "-c", "from seedspread.cli import main; main()", "docs", "statistics"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.read(10)
        program.stdout.close()
        assert program.stderr.read() == b""


def test_the_examples_are_written_into_a_new_folder(tmp_path: Path) -> None:
    assert shown("--examples", str(tmp_path / "mine")) == f"examples: {tmp_path / 'mine'}\n"
    for name, path in pages.examples().items():
        assert (tmp_path / "mine" / name).read_bytes() == path.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    again = seedspread_here("docs", "--examples", str(tmp_path / "mine"))
    assert again.stderr.endswith("mine is there already; name a folder that is not\n")
    nowhere = seedspread_here("docs", "--examples", str(tmp_path / "no" / "where"))
    assert nowhere.stderr.endswith("where cannot be written: No such file or directory\n")


def test_every_page_that_the_program_names_is_there() -> None:
    """Where it prints one; comments and docstrings are for those who have the checkout."""
    there, named = pages.pages(), []
    for path in SOURCE.rglob("*.py"):
        for text in literals(ast.parse(path.read_text())):
            place = path.relative_to(SOURCE).as_posix()
            if place != "pages.py":  # a page that lies in docs/ itself
                assert not re.search(r"\b(docs|examples)/[\w-]+\.\w+", text), f"{path}: {text}"
            named += re.findall(r"seedspread docs ([a-z][\w/-]*)", text)
    assert "statistics" in named
    assert set(named) <= set(there)


def test_a_wheel_has_the_pages_and_the_examples(tmp_path: Path) -> None:
    """As the package is laid out in one: inside itself, without a checkout around it."""
    package = tmp_path / "seedspread"
    package.mkdir()
    for name in ("pages.py", "errors.py"):
        shutil.copy(SOURCE / name, package / name)
    (package / "__init__.py").touch()
    shutil.copytree(ROOT / "docs", package / "docs")
    shutil.copytree(ROOT / "examples", package / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", package / "docs" / "README.md")
    code = "from seedspread.pages import pages; print(*pages())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == list(pages.pages())
