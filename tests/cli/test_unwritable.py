"""Where nothing can be written, the system's own reason is given, in one line, and no guess."""

import os
from pathlib import Path

import pytest

from seedspread.cff.presets import to_toml
from seedspread.errors import reason
from tests.cff.training.tiny import tiny
from tests.commands import seedspread_here

TABLE = ("paper.csv", "--value", "accuracy", "--group", "margin_type", "--block", "stability")
COMMANDS = [
    ("train", "tiny.toml", "--out", "{}/run"),
    ("audit", *TABLE, "--plot", "{}/a.png"),
    ("report", *TABLE, "--out", "{}/page.html"),
    ("report", *TABLE, "--tables", "{}/tables"),
    ("report", *TABLE, "--figures", "{}/figures"),
    ("run", "quickstart", "--store", "{}/store"),
    ("quickstart", "--store", "{}/store"),
]


@pytest.fixture(autouse=True)
def here(paper_csv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.toml").write_text(to_toml(tiny()))
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "locked").mkdir(mode=0o500)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("arguments", COMMANDS)
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("file", "Not a directory"),
        pytest.param(
            "locked",
            "Permission denied",
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may write"),
        ),
    ],
)
def test_the_reason_is_the_systems(arguments: tuple[str, ...], place: str, said: str) -> None:
    done = seedspread_here(*(argument.format(place) for argument in arguments))
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert said in last
    assert "full" not in last


def test_an_error_without_a_number_has_a_reason_too() -> None:
    assert reason(PermissionError(13, "Permission denied", "x")) == "Permission denied"
    assert reason(OSError("Couldn't deserialize thrift")) == "Couldn't deserialize thrift"
    assert reason(TimeoutError()) == "TimeoutError"
