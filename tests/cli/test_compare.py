"""`seedspread compare`: stores, studies and tables beside each other, in every form, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.report import fill
from seedspread import Store, compare
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from seedspread.study.store_questions import recorded_question
from seedspread.tables.sources.collect import Collected
from tests.analysis.made import NEW, OLD
from tests.commands import seedspread_here
from tests.report.helpers import AUDIT, MARGINS, written

ARMS = ("--value", "score", "--group", "arm", "--baseline", "a")


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    for name, table in (("old", OLD), ("new", NEW)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return [str(tmp_path / "old.csv"), str(tmp_path / "new.csv")]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    study = written(tmp_path, "margins", MARGINS, AUDIT + 'by = "margin_first"\n')
    fill(Plan.make(StudySpec.from_file(study), tmp_path / "runs"))
    return tmp_path / "runs"


def refused(*arguments: str) -> str:
    done = seedspread_here("compare", *arguments)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_both_answers_come_first(tables: list[str], tmp_path: Path) -> None:
    plot = tmp_path / "a.png"
    done = seedspread_here("compare", *tables, *ARMS, "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    questions = [line for line in done.stdout.splitlines() if "?" in line]
    assert len(questions) == 2
    assert done.stdout.splitlines()[2] == questions[0]
    assert len(done.stdout.splitlines()) < 40
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_other_forms(tables: list[str]) -> None:
    found = json.loads(seedspread_here("compare", *tables, *ARMS, "--json").stdout)
    assert found["answer"]
    assert found["names"] == ["old", "new"]
    assert found["agreements"][0]["answers"][0]["source"] == "old"
    assert found["spread"]["baseline"] == "old"
    assert seedspread_here("compare", *tables, *ARMS, "--format", "latex").stdout.count("toprule") == 2
    assert "| --- |" in seedspread_here("compare", *tables, *ARMS, "--format", "markdown").stdout


def test_a_store_beside_a_published_table(store: Path, tmp_path: Path) -> None:
    """The store's study says what is asked; its shares and the table's per cent are brought together."""
    recorded = recorded_question(str(store), None, None, None, ())
    assert recorded is not None
    rows = recorded.table[["margin_type", "margin_first", "seed", "accuracy"]]
    table = tmp_path / "published.csv"
    rows.assign(accuracy=100 * rows["accuracy"] + 1).to_csv(table, index=False)
    found = json.loads(seedspread_here("compare", str(store), str(table), "--json").stdout)
    assert found["names"] == ["runs", "published"]
    assert (found["group"], found["baseline"]) == ("margin_type", "subtract")
    ratios = [c["headline"]["raw_ratio"] for c in found["spread"]["comparisons"]]
    assert ratios == pytest.approx([1.0] * 9)
    assert len(found["agreements"]) == 6
    same = compare(Store(store), table).agreements[0]
    assert same.headline.ratio == found["agreements"][0]["headline"]["ratio"]


def test_a_table_without_what_the_study_is_compared_by(store: Path, tables: list[str]) -> None:
    said = refused(str(store), tables[0])
    for word in ("old.csv", "'margin_type'", "arm, seed, score", "--group"):
        assert word in said


def test_the_sets_must_be_two(tables: list[str], store: Path) -> None:
    assert "two" in refused(tables[0])
    assert "twice" in refused(tables[0], tables[0], *ARMS)
    dotted = str(Path(tables[0]).parent / "." / ".." / Path(tables[0]).parent.name / "old.csv")
    assert "twice" in refused(tables[0], dotted, *ARMS)
    assert "nothere.csv" in refused(tables[0], "nothere.csv", *ARMS)
    assert "2 times" in refused(str(store), tables[0], "--study", "margins", "--study", "x")
    assert "--study" in refused(*tables, *ARMS, "--study", "margins")


def test_studies_that_ask_different_questions_are_not_compared(store: Path, tmp_path: Path) -> None:
    asked = AUDIT.replace("accuracy", "nll") + 'value = "nll"\nby = "margin_first"\n'
    other = written(tmp_path, "nll", MARGINS, asked)
    fill(Plan.make(StudySpec.from_file(other), tmp_path / "other"))
    assert "different questions" in refused(str(store), str(tmp_path / "other"))


def test_files_of_one_name_are_told_apart_by_their_folders(tables: list[str], tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    NEW.to_csv(tmp_path / "sub" / "old.csv", index=False)
    found = compare(tables[0], tmp_path / "sub" / "old.csv", value="score", group="arm")
    assert found.names == (f"{tmp_path.name}/old.csv", "sub/old.csv")
    assert compare(OLD, tables[1], value="score", group="arm").names == ("A", "new")


def test_directions_and_units_that_differ_are_named(tables: list[str], tmp_path: Path) -> None:
    old = Collected(OLD, (), (), "a.db", "optuna", "Optuna", "seed", (), (), None, "lower")
    new = replace(old, table=NEW, declared="higher")
    with pytest.raises(Exception, match="lower in A and higher in B"):
        compare(old, new, value="score", group="arm")
    compare(old, new, value="score", group="arm", better="lower")
