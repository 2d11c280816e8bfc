"""The `data` commands, as a user runs them."""

import json
from pathlib import Path

import pytest

from tests.commands import seedspread_command, seedspread_here


def test_data_list_and_check(tmp_path: Path) -> None:
    listed = seedspread_command("data", "list", "--data-dir", str(tmp_path), "--json")
    datasets = {entry["name"]: entry for entry in json.loads(listed.stdout)}
    assert datasets["fashion-mnist-sample"]["found"] == 4
    assert datasets["cifar10"]["found"] == 0
    plain = seedspread_here("data", "list", "--data-dir", str(tmp_path)).stdout
    assert "seedspread data fetch cifar10" in plain
    checked = seedspread_here("data", "check", "fashion-mnist-sample", "--json")
    assert checked.returncode == 0
    assert json.loads(checked.stdout)[0]["state"] == "whole"
    wrong = seedspread_here("data", "check", "cifar10", "--data-dir", str(tmp_path))
    assert wrong.returncode == 1
    assert "is not in" in wrong.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "check", "cifra10"], "'cifar10'"),
        (["data", "fetch", "imagenet"], "must be one of"),
        (["data", "list", "--data-dir", "~no-such-user/x"], "data folder"),
        (["data", "list", "--data-dir", "x" * 5000], "cannot look into"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    done = seedspread_here(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert message in done.stderr
