"""Tables from files and folders, and what is said of bad ones."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from seedspread.analysis.audit import audit
from seedspread.tables import check
from seedspread.tables.columns import RunTable
from seedspread.tables.question import Question, TableError

CSV = "margin_type,stability,seed,accuracy\n" + "".join(
    f"{m},{s},{k},{v + k * (1.5 if m == 'clamp' else 0.5) * (-1) ** k}\n"
    for m, v in (("clamp", 78), ("subtract", 79))
    for s in ("detach", "direct")
    for k in range(4)
)


def write(tmp_path: Path, text: str, name: str = "runs.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def check_table(
    path: "Path | pd.DataFrame",
    value: str,
    group: str,
    baseline: str | None = None,
    block: str | None = None,
    seed: str | None = "seed",
) -> RunTable:
    return check.check_table(path, Question.of(value, group, baseline, block, seed))


def refused(path: "Path | pd.DataFrame", **options: Any) -> str:
    columns: dict[str, Any] = {
        "value": "accuracy",
        "group": "margin_type",
        "baseline": "subtract",
        "block": "stability",
    }
    with pytest.raises(TableError) as caught:
        check_table(path, **(columns | options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_csv_tsv_parquet_and_frames_are_one_table(tmp_path: Path) -> None:
    csv = write(tmp_path, CSV)
    frame = pd.read_csv(csv)
    frame.to_parquet(tmp_path / "runs.parquet")
    sources: list[Path | pd.DataFrame] = [
        csv,
        write(tmp_path, CSV.replace(",", "\t"), "runs.tsv"),
        tmp_path / "runs.parquet",
        frame,
    ]
    runs = [audit(s, "accuracy", "margin_type", "subtract", "stability").comparisons for s in sources]
    assert runs[0] == runs[1] == runs[2] == runs[3]


def test_wrong_columns_get_suggestions(tmp_path: Path) -> None:
    path = write(tmp_path, CSV)
    assert "'accuracy'" in refused(path, value="acuracy")
    assert "'margin_type'" in refused(path, group="margin")
    assert "'subtract'" in refused(path, baseline="substract")
    assert "has no column 'run'" in refused(path, seed="run")
    assert "one role only: 'margin_type' is --group and --block" in refused(path, block="margin_type")


def test_cells_that_are_no_numbers_are_named_by_row(tmp_path: Path) -> None:
    lines = CSV.splitlines()
    lines[3] = "clamp,detach,2,seventy"
    lines[5] = "clamp,direct,0,inf"
    message = refused(write(tmp_path, "\n".join(lines)))
    assert "row 4: 'seventy'" in message
    assert "row 6: 'inf'" in message


def test_runs_without_a_value_are_left_out_and_named(tmp_path: Path) -> None:
    lines = CSV.splitlines()
    lines[3] = "clamp,detach,2,"
    runs = check_table(write(tmp_path, "\n".join(lines)), "accuracy", "margin_type", "subtract", "stability")
    assert len(runs.frame) == 15
    assert "row 4" in runs.notes[0]


def test_two_rows_for_one_run_are_refused(tmp_path: Path) -> None:
    message = refused(write(tmp_path, CSV + "clamp,detach,2,80\n"))
    assert "rows 4 and 18 are both clamp, detach, seed 2" in message
    forgotten = write(tmp_path, CSV)
    with pytest.raises(TableError, match="--block"):
        check_table(forgotten, "accuracy", "margin_type", "subtract")


def test_files_that_are_no_tables_are_refused_in_a_line(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none.csv")
    assert "empty.csv" in refused(write(tmp_path, "", "empty.csv"))
    assert "a.parquet" in refused(write(tmp_path, "not parquet", "a.parquet"))
    assert "no finished run" in refused(tmp_path)
    binary = tmp_path / "b.csv"
    binary.write_bytes(b"\xff\xfe\x00\x01\n\xff")
    assert "b.csv" in refused(binary)


def test_one_group_is_not_a_comparison() -> None:
    frame = pd.DataFrame({"accuracy": [1.0, 2], "margin_type": "subtract", "stability": "a", "seed": [1, 2]})
    assert "a comparison needs two levels" in refused(frame)


def test_levels_are_compared_as_text() -> None:
    """A seed read as 1.0 is the seed 1; a numeric group can be named on a command line."""
    depth, seed = [1.0, 1, 1, 2, 2, 2], [1.0, 2, 3, 1, 2, 3]
    frame = pd.DataFrame({"value": [1.0, 2, 3, 5, 4, 9], "depth": depth, "seed": seed})
    runs = audit(frame, "value", "depth", "1")
    assert runs.comparisons[0].group == "2"
    assert runs.values[0].seeds == ("1", "2", "3")


def test_without_a_seed_column_every_row_is_a_seed() -> None:
    frame = pd.DataFrame({"value": [1.0, 2, 3, 5, 4, 9], "group": ["a"] * 3 + ["b"] * 3})
    runs = audit(frame, "value", "group", "a")
    assert "every row counts" in runs.notes[0]
    assert runs.comparisons[0].test("pitman_morgan").p is None  # no seed is in both groups


def test_odd_files_are_read_as_an_editor_shows_them(tmp_path: Path) -> None:
    """Blank lines keep their numbers; 1.0 is the seed 1; a group may be called None."""
    path = write(tmp_path, "g,seed,v\nNone,1,1\n\nNone,2.0,3\nNone,3,5\nb,1.0,2\nb,2,2.5\nb,3,x\n")
    with pytest.raises(TableError, match="row 8: 'x'"):
        check_table(path, "v", "g", "None")
    path.write_text(path.read_text().replace("x", "2.2"))
    runs = check_table(path, "v", "g", "None")
    seeds = list(runs.frame["seed"])
    assert seeds[:3] == seeds[3:]
    assert len(set(seeds)) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g,seed,v\na,1,1\na,2,2\n,1,3\nb,2,4\n", "'g' .* row 4"),
        ("g,seed,v\na,1,1\na,,2\nb,1,3\nb,2,4\n", "'seed' .* row 3"),
        ("g,seed,v\na,1,1e200\na,2,2\nb,1,3\nb,2,4\n", "1e\\+200"),
        ("g,seed,v,collapsed\na,1,1,maybe\na,2,2,no\nb,1,3,no\nb,2,4,no\n", "true or false"),
        ("g,seed,v,v\na,1,1,1\nb,1,3,1\n", "'v'"),
        ("g,seed,v\n", "no rows"),
    ],
)
def test_gaps_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(TableError, match=message):
        check_table(path, "v", "g", "a")


def test_frames_with_odd_column_names() -> None:
    frame = pd.DataFrame([[1.0, "a"], [2.0, "a"], [3.0, "b"], [5.0, "b"]])
    assert len(check_table(frame, "0", "1", "a", seed=None).frame) == 4
    doubled = pd.concat([frame, frame], axis=1)
    with pytest.raises(TableError, match="two columns"):
        check_table(doubled, "0", "1", "a", seed=None)


def test_a_collapsed_flag_may_be_a_float() -> None:
    frame = pd.DataFrame(
        {"v": [1.0, 2, 3, 4], "g": list("aabb"), "seed": [1, 2, 1, 2], "collapsed": [1.0, 0, None, 0]}
    )
    assert list(check_table(frame, "v", "g", "a").frame["failed"]) == [True, False, False, False]
