"""The page and the commands say what the tables say."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence.findings import findings
from evidence.page import PAGE, answer, page, show
from evidence.plan import SOURCES
from evidence.sources import is_source, sources
from evidence.verdicts import verdict_rows
from seedspread.analysis.judgement import word_of
from seedspread.cli import app
from seedspread.paper.check import paper_ratios
from seedspread.paper.values import published_group, values
from seedspread.stats.planning import Design, detectable, power

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
def test_every_number_on_the_page_is_the_tables() -> None:
    assert PAGE.read_text() == page(), "write it again: python evidence/page.py"


def test_every_picture_of_the_page_is_there() -> None:
    own = [found.study.name for found in findings() if found.audit is not None and not is_source(found.study)]
    for name in (*own, *([SOURCES] if sources() is not None else [])):
        assert (PAGE.parent / "evidence" / f"{name}.png").is_file()
        assert f"](evidence/{name}.png)" in PAGE.read_text()


def test_the_audit_that_the_page_shows_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command line, as it is printed, on the table as it is published."""
    monkeypatch.chdir(ROOT)
    lines = PAGE.read_text().replace("\\\n", " ").splitlines()
    (command,) = (line for line in lines if line.startswith("seedspread audit "))
    words = [*shlex.split(command)[1:], "--json"]
    audited = json.loads(CliRunner().invoke(app, words, catch_exceptions=False).stdout)
    (found,) = (one for one in findings() if one.name == "fashion-mnist")
    assert found.audit is not None
    for ours, theirs in zip(found.audit.comparisons, audited["comparisons"], strict=True):
        assert (ours.group, ours.baseline) == (theirs["group"], theirs["baseline"])
        assert ours.headline.ratio == pytest.approx(theirs["headline"]["ratio"], rel=1e-6)
        assert ours.headline.p == pytest.approx(theirs["headline"]["p"], rel=1e-6)


def test_it_fits_a_screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show()
    text = capsys.readouterr().out
    assert text.startswith(answer())
    assert answer() in PAGE.read_text()
    assert "margin" in text
    assert "not the paper's scale" in text


@pytest.mark.soak
@pytest.mark.parametrize("script", ["page.py", "gather.py", "check.py"])
def test_it_is_a_script(script: str) -> None:
    asked = [sys.executable, str(ROOT / "evidence" / script), "--help"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {script}")


@pytest.mark.soak
def test_what_the_prose_quotes_of_the_paper_is_the_papers() -> None:
    prose = " ".join((ROOT / "evidence" / "prose.toml").read_text().split())
    found, adjusted = paper_ratios()["cifar10"]
    assert found.interval is not None
    assert found.p is not None
    assert adjusted is not None
    text = " ".join(page().split())
    only, one_of_four = word_of(found.p), word_of(adjusted)
    assert (only, one_of_four) == ("YES", "MAYBE")
    assert f"show it if CIFAR-10 was the only question (p = {found.p:.3f})" in text
    assert f"suggest it as one of four datasets (p = {adjusted:.3f};" in text
    rate = f"{values('car/cifar10 standard')[0]:.0f}%"
    ends = (f"{found.interval.low:.1f}", f"{found.interval.high:.0f}")
    assert f"Its ratio is {found.ratio:.1f} ({ends[0]} to {ends[1]}), with {rate} of the pairs cut" in prose
    assert f"the paper's CIFAR-10 runs ({rate})" in prose
    hard, easy = (published_group(name, "clamp").values.mean() for name in ("cifar10", "fashion-mnist"))
    assert f"far below the paper's {hard:.1f}%" in prose
    assert f"far below the paper's {easy:.1f}%" in prose
    assert detectable((24, 24)) == pytest.approx(3.6, abs=0.1)
    assert "a comparison of 24 seeds reliably detects only ratios above about 3.6" in text
    among_all = Design(alpha=0.05 / len(verdict_rows()))
    assert detectable((24, 24), design=among_all) == pytest.approx(5.5, abs=0.05)
    assert f"among the {len(verdict_rows())} of the table, only those above about 5.5" in text
    assert f"detects a ratio of 3.3 with power {power(3.3, (24, 24)):.2f}, and 3.6 with 0.8" in prose
    assert power(2, (24, 24)) == pytest.approx(1 / 3, abs=0.03)
    assert "With 24 seeds a true ratio of 2 is detected only one time in three" in prose
