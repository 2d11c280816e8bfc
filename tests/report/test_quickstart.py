"""The quickstart with a tiny study in place of its own, and the study that it ships."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from seedspread.campaign.study import Study
from seedspread.report import quickstart as module
from tests.campaign.tiny import study_file


def test_it_trains_audits_writes_a_report_and_says_what_it_can_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NAME", str(study_file(tmp_path, seeds=3)))
    console = Console(file=io.StringIO(), width=100)
    result = module.quickstart(tmp_path / "store", 2, console)
    assert result.rows == 6
    assert isinstance(console.file, io.StringIO)
    said = " ".join(console.file.getvalue().split())
    for words in ("clamp against subtract", "What this can show", "What it cannot show", "What to run next"):
        assert words in said
    page = (tmp_path / "store" / "report.html").read_text()
    assert "not the paper" in page
    assert str(tmp_path) not in page  # a page travels: it knows nobody's folders
    again = module.quickstart(tmp_path / "store", 2, Console(file=io.StringIO()))
    assert again.comparisons == result.comparisons


def test_its_study_has_ten_seeds_or_more_in_one_mode_on_the_embedded_sample() -> None:
    study = Study.from_file("quickstart")
    assert {r.config.data.name for r in study.runs} == {"fashion-mnist-sample"}
    assert {r.config.objective.stability for r in study.runs} == {"detach"}
    assert len({r.seed for r in study.runs}) >= 10
