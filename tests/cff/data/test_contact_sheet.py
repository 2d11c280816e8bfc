"""The contact sheet and the `data` commands, as a user runs them."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seedspread.cff.config import PIPELINES, DataConfig
from seedspread.cff.data.augment import contact_sheet
from seedspread.cff.data.dataset import load
from seedspread.errors import DataError
from tests.commands import seedspread_command, seedspread_here


def test_a_sheet_shows_originals_and_views(tmp_path: Path) -> None:
    out = tmp_path / "sheet.png"
    contact_sheet(load(DataConfig()), PIPELINES["svhn-hard"], "svhn-hard", out)
    sheet = np.array(Image.open(out).convert("RGB"))
    assert sheet.shape[0] > 600
    assert sheet.shape[1] > 600
    assert len(np.unique(sheet.reshape(-1, 3), axis=0)) > 100
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.png"]


def test_a_sheet_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    dataset = load(DataConfig())
    with pytest.raises(DataError, match="cannot write"):
        contact_sheet(dataset, (), "none", tmp_path / "missing" / "sheet.png")
    with pytest.raises(DataError, match=r"name a \.png"):
        contact_sheet(dataset, (), "none", tmp_path / "sheet.txt")


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
        (["data", "show", "cifra10"], "did you mean 'cifar10'"),
        (["data", "show", "--augment", "svhn-hrad"], "did you mean 'svhn-hard'"),
        (["data", "show", "cifar10", "--data-dir", "/nonexistent"], "seedspread data fetch cifar10"),
        (["data", "show", "--out", "/nonexistent/sheet.png"], "cannot write"),
        (["data", "fetch", "imagenet"], "must be one of"),
        (["data", "show", "--augment", ""], "must be one of"),
        (["data", "list", "--data-dir", "~no-such-user/x"], "data folder"),
        (["data", "list", "--data-dir", "x" * 5000], "cannot look into"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    done = seedspread_here(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert message in done.stderr
