"""The page and the commands say what the tables say."""

import json
import os
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import seedspread
from seedspread.cli import app
from seedspread.errors import SeedspreadError
from seedspread.evidence.findings import findings
from seedspread.evidence.page import answer, page, write_page
from seedspread.evidence.sources import is_source, sources
from seedspread.evidence.tables import published_runs
from seedspread.paper.answer import paper_ratios
from seedspread.paper.values import published_arm, values
from seedspread.runs.studies import load_studies
from seedspread.stats.scale.planning import power

PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"
WHOLE = [found for found in findings() if found.audit is not None]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all tests of a process: the store is made once."""
    cache = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


def said(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_number_on_the_page_is_the_tables() -> None:
    assert PAGE.read_text() == page(), "write it again: seedspread evidence --write docs/evidence.md"


def test_every_picture_of_the_page_is_there(tmp_path: Path) -> None:
    written = write_page(tmp_path / "evidence.md")
    own = [found for found in WHOLE if not is_source(found.study)]
    assert len(written) == 1 + len(own) + (sources() is not None)
    for picture in written[1:]:
        assert picture.stat().st_size > 0
        assert (PAGE.parent / "evidence" / picture.name).is_file()
        assert f"](evidence/{picture.name})" in PAGE.read_text()


def test_the_verdicts_are_the_audits_of_the_store() -> None:
    told = json.loads(said("evidence", "--json"))
    assert [study["study"] for study in told] == [found.study.name for found in findings()]
    study = next(one for one in told if one["comparisons"])
    audited = json.loads(said("audit", "evidence:", "--study", study["study"], "--json"))
    for ours, theirs in zip(study["comparisons"], audited["comparisons"], strict=True):
        assert ours["ratio"] == pytest.approx(theirs["headline"]["ratio"], rel=1e-6)
        assert ours["p"] == pytest.approx(theirs["headline"]["p"], rel=1e-6)
    shares = [f"{one['floor'] / one['observed']:.0%}" for c in audited["comparisons"] for one in c["floors"]]
    assert shares  # from the packed bits
    assert all(f" | {share} | " in PAGE.read_text() for share in shares)


def test_it_fits_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = said("evidence")
    assert text.startswith(answer())
    assert answer() in PAGE.read_text()
    assert "margin" in text
    assert "not the paper's scale" in text
    command = text.splitlines()[-1].removeprefix("Look closer with: ")
    assert "clamp against subtract" in said(*shlex.split(command)[1:])


def test_the_store_has_every_run_and_every_study_that_has_begun() -> None:
    store = seedspread.evidence_store()
    assert set(store.keys()) == set(published_runs().index)
    assert not store.problems()
    names = {study.name for study in load_studies(store)[0]}
    assert {found.study.name for found in WHOLE} <= names
    assert seedspread.evidence_store().path == store.path


def test_a_link_in_its_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = seedspread.evidence_store().path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    elsewhere = tmp_path / "seedspread" / "evidence" / place.parent.name / place.name
    elsewhere.parent.mkdir(parents=True)
    os.symlink(place, elsewhere)
    with pytest.raises(SeedspreadError, match="is a link"):
        seedspread.evidence_store()


def test_a_report_of_it_is_a_page(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    said("report", "evidence:", "--out", str(out))
    assert "not the paper&#39;s scale" in out.read_text() or "not the paper's scale" in out.read_text()


def test_what_the_prose_quotes_of_the_paper_is_the_papers() -> None:
    prose = " ".join((Path(seedspread.__file__).parent / "evidence" / "prose.toml").read_text().split())
    found, adjusted = paper_ratios()["cifar10"]
    assert found.interval is not None
    assert f"p = {found.p:.3f}; {adjusted:.3f} as one of its four datasets" in page()
    rate = f"{values('car/cifar10 standard')[0]:.0f}"
    whole = f"from {found.interval.low:.1f} to {found.interval.high:.0f}"
    assert f"the paper's estimate is {found.ratio:.1f}, {whole}, at {rate}%" in prose
    assert f"the paper's CIFAR-10 runs ({rate} %)" in prose
    low = f"though not the lower end, {found.interval.low:.1f}."
    assert f"the paper's estimate of {found.ratio:.1f} and most of its interval, {low}" in prose
    hard, easy = (published_arm(name, "clamp").values.mean() for name in ("cifar10", "fashion-mnist"))
    assert f"far below the paper's {hard:.1f} %" in prose
    assert f"far below the paper's {easy:.1f} %" in prose
    assert power(2, (24, 24)) == pytest.approx(1 / 3, abs=0.03)
    assert "With 24 seeds a true ratio of 2 is detected only one time in three" in prose
