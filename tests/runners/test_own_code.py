"""Files that a run depends on: found again, and compared by their content."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedspread.runners.contract import RunnerError
from seedspread.runners.own_code import digests_of, read_metrics_file
from seedspread.runs.folder import RunFailedError
from tests.runners.programs import attempt_first, failure_of, plan_of


def names(folder: Path, *patterns: str) -> list[str]:
    return [name for name, _ in digests_of(folder, patterns)]


def test_patterns_name_files(tmp_path: Path) -> None:
    for name in (
        "train.py",
        "models/a.py",
        "models/deep/b.py",
        "models/notes.txt",
        "models/__pycache__/a.pyc",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert names(tmp_path, "train.py", "models/**/*.py") == ["models/a.py", "models/deep/b.py", "train.py"]
    assert names(tmp_path, "models/**/*") == ["models/a.py", "models/deep/b.py", "models/notes.txt"]
    assert names(tmp_path / "models", "../train.py", str(tmp_path / "train.py")) == ["../train.py"]


@pytest.mark.parametrize("pattern", ["gone.py", "*.none", "folder", "", "**x", "../*.none"])
def test_a_pattern_that_names_nothing_is_one_line(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunnerError, match="inputs: ") as caught:
        digests_of(tmp_path, [pattern])
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_files_are_known_by_their_content_and_place_only(
    tmp_path_factory: pytest.TempPathFactory, one: bytes, other: bytes
) -> None:
    a, b = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    (a / "x").write_bytes(one)
    (b / "x").write_bytes(other)
    os.utime(b / "x", (0, 0))
    assert (digests_of(a, ["x"]) == digests_of(b, ["*"])) == (one == other)


INPUTS = 'inputs = ["train.py", "data/*"]'


def with_data(folder: Path) -> Path:
    (folder / "data").mkdir()
    (folder / "data" / "a").write_text("a")
    return folder


def test_a_file_that_changes_before_the_run_starts_fails_it_by_name(tmp_path: Path) -> None:
    plan = plan_of(with_data(tmp_path), run=INPUTS)
    (tmp_path / "data" / "a").write_text("b")
    result = attempt_first(plan)
    assert result.outcome == "failed"
    assert "its input data/a has changed since it was planned (when it started)" in result.message
    assert not (plan.store.folder(plan.runs[0].key) / "log.txt").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("open('data/a', 'w').write('b')", "data/a has changed"),
        ("open('data/new', 'w').write('b')", "data/new is new"),
        ("os.remove('data/a'); open('data/b', 'w')", "data/a is gone"),
        ("os.remove('data/a')", "'data/*' names no file"),
    ],
)
def test_a_file_that_changes_while_it_runs_fails_it_by_name(tmp_path: Path, change: str, said: str) -> None:
    message = failure_of(with_data(tmp_path), f"{change}\nreport()", run=INPUTS)
    assert said in message
    assert "(when it ended)" in message


def test_what_python_caches_is_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "thing.py").write_text("")
    plan = plan_of(tmp_path, "import lib.thing\nreport()", run='inputs = ["lib/**/*"]')
    assert attempt_first(plan).outcome == "done"
    assert (tmp_path / "lib" / "__pycache__").exists()


def test_what_lies_in_a_store_is_no_input(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("1")
    before = digests_of(tmp_path, ["**/*.py"])
    (tmp_path / "store" / ".studies").mkdir(parents=True)
    (tmp_path / "store" / "KEY" / "program").mkdir(parents=True)
    (tmp_path / "store" / "KEY" / "program" / "train.py").write_text("a copy")
    assert digests_of(tmp_path, ["**/*.py"]) == before


def test_patterns_may_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "common.py").write_text("1")
    assert [name for name, _ in digests_of(tmp_path / "study", ["../*.py"])] == ["../common.py"]
    assert [name for name, _ in digests_of(tmp_path / "study", [f"{tmp_path}/*.py"])] == ["../common.py"]


def test_a_metric_that_stands_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"accuracy": 0.1, "accuracy": 0.9}')
    with pytest.raises(RunFailedError, match="a name twice"):
        read_metrics_file(tmp_path / "metrics.json")
