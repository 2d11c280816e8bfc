"""`seedspread components`, as a user without torch runs it."""

import json
from pathlib import Path

from benchmarks.report import fill
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from tests.commands import seedspread_here
from tests.report.helpers import AUDIT, depth, written

OPTIONS = ("--value", "accuracy", "--group", "margin_type", "--block", "stability", "--baseline", "subtract")


def test_the_answer_comes_first(paper_csv: str) -> None:
    done = seedspread_here("components", paper_csv, *OPTIONS, "--test-size", "10000")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2].startswith("clamp vs subtract: ")
    assert len(done.stdout.splitlines()) < 40


def test_other_forms_and_mistakes(paper_csv: str, tmp_path: Path) -> None:
    fields = json.loads(seedspread_here("components", paper_csv, *OPTIONS, "--json").stdout)
    assert fields["strata"][0]["groups"][0]["components"][0]["key"] == "seed"
    assert "\\toprule" in seedspread_here("components", paper_csv, *OPTIONS, "--format", "latex").stdout
    markdown = seedspread_here("components", paper_csv, *OPTIONS, "--format", "markdown").stdout
    assert "| component |" in markdown
    for arguments, said in (
        ((paper_csv,), "--value"),
        ((paper_csv, "--value", "acc"), "'accuracy'"),
        ((paper_csv, "--value", "accuracy", "--format", "word"), "--format"),
        ((str(tmp_path / "no.csv"), "--value", "x"), "no.csv"),
        ((str(tmp_path / "no"),), str(tmp_path / "no")),
        ((paper_csv, "--study", "x"), "--study"),
    ):
        done = seedspread_here("components", *arguments)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_study_of_a_store_alone(tmp_path: Path) -> None:
    """And a run that several studies of a collection name counts once."""
    factors = '[factors]\nmargin_type = ["clamp", "subtract"]\nstability = ["detach", "direct"]\n'
    twins = [written(tmp_path, name, factors, AUDIT + 'block = "stability"\n') for name in ("one", "two")]
    both = tmp_path / "both.toml"
    both.write_text(f'title = "both"\ninclude = ["{twins[0]}", "{twins[1]}"]\n{AUDIT}block = "stability"\n')
    store = tmp_path / "store"
    for study in (depth(tmp_path), both):
        fill(Plan.make(StudySpec.from_file(study), store))
    done = seedspread_here("components", str(store))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--study" in done.stderr
    for name in (str(twins[0]), str(both)):
        done = seedspread_here("components", str(store), "--study", name, "--json")
        assert json.loads(done.stdout)["rows"] == 20, done.stderr
    text = seedspread_here("components", str(store), "--study", "multi3").stdout
    assert "depth = 8" in text
