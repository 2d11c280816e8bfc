"""The command line, run as a user runs it."""

import re

import pytest

import seedspread
from tests.commands import seedspread_command, seedspread_here


def test_both_ways_of_running_it_say_the_same() -> None:
    for arguments in (["data", "show", "cifra10"], ["data", "lost"], ["seeds", "--n", "7"]):
        one, other = seedspread_command(*arguments), seedspread_here(*arguments)
        assert one.stdout + one.stderr
        assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)


def test_version_and_help() -> None:
    assert seedspread_command("--version").stdout.strip() == f"seedspread {seedspread.__version__}"
    shown = seedspread_command("--help")
    assert shown.returncode == 0
    assert "audit" in shown.stdout


def test_the_list_of_datasets_is_in_columns() -> None:
    lines = seedspread_here("data", "list").stdout.splitlines()
    width = max(len(line.split()[0]) for line in lines)
    assert all(line[width] == " " and line[width + 1] != " " for line in lines)


@pytest.mark.parametrize(
    "arguments", [["--versoin"], ["data", "lost"], ["train", "quickstart", "--seed", "x"]]
)
def test_a_mistyped_command_is_explained_without_a_traceback(arguments: list[str]) -> None:
    done = seedspread_here(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert re.fullmatch(r"error: .* \(see seedspread.* --help\)\n", done.stderr)
