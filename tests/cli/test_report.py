"""`seedspread report` and `serve`, as a user without torch runs them."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from seedspread import audit
from seedspread.analysis.words import title_of
from seedspread.cli import main
from tests.commands import PAPER, seedspread_here, without_torch
from tests.report.helpers import made_store


def test_a_store_without_torch(tmp_path: Path) -> None:
    made_store(tmp_path / "store", seeds=2)
    out = tmp_path / "new folder" / "report.html"
    done = without_torch(
        "report", str(tmp_path / "store"), "--out", str(out), "--tables", str(tmp_path / "t")
    )
    assert done.returncode == 0, done.stderr
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "page: " in done.stdout
    names = {path.suffix for path in (tmp_path / "t").iterdir()}
    assert names == {".tex", ".csv"}


def test_a_table_with_pictures_and_json(paper_csv: str, tmp_path: Path) -> None:
    out, pictures = tmp_path / "r.html", tmp_path / "p"
    (c,) = audit(paper_csv, "accuracy", "margin_type", "subtract", "stability").comparisons
    done = seedspread_here(
        "report",
        paper_csv,
        *PAPER,
        "--baseline",
        "subtract",
        "--out",
        str(out),
        "--figures",
        str(pictures),
        "--json",
    )
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values["answer"] == title_of(c)
    assert {Path(p).name for p in values["figures"]} == {p.name for p in pictures.iterdir()}
    assert {p.suffix for p in pictures.iterdir()} == {".pdf", ".png", ".md"}


SCORES = ("table.csv", "--value", "score", "--group", "arm")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a store or a table"),
        (("nowhere",), "not a folder"),
        ((".",), "no record"),
        ((".", "--study", "quickstat"), "'quickstart'"),
        (("table.csv", "--out", "page.pdf"), "must end in .html"),
        ((*SCORES, "--out", "file/page.html"), "cannot be written"),
        ((*SCORES, "--figures", "file"), "cannot be written"),
        (("file",), "file"),
        (("table.csv",), "--value"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    (tmp_path / "file").write_text("no table")
    (tmp_path / "table.csv").write_text("score,arm,seed\n1,a,1\n2,b,1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["seedspread", "report", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.strip().splitlines()) == 1, told


def test_serve_says_where_answers_and_stops(tmp_path: Path) -> None:
    made_store(tmp_path, seeds=2)
    code = "from seedspread.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", str(tmp_path), "--port", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            address = re.match(r"(http://127\.0\.0\.1:\d+/)", server.stdout.readline())
            assert address
            with urllib.request.urlopen(address[1], timeout=30) as answer:  # noqa: S310 - ours
                assert b"bench" in answer.read()
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=30) == 0
        finally:
            server.kill()
