"""Files as they come: encodings, delimiters, decimal commas, per cent signs, JSON, Excel, archives."""

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seedspread.analysis.audit import audit
from seedspread.errors import SeedspreadError, install_command
from seedspread.tables import read
from tests.commands import seedspread_here
from tests.report.helpers import made_store
from tests.tables.made import check, refused, scores

TABLE = scores()[["Model", "Seed", "AUC"]].iloc[:15].round(6)
CSV = TABLE.to_csv(index=False)


def same(source: Path) -> bool:
    """Whether a file holds the table."""
    frame = check(source, "AUC", "Model").frame
    known = check(TABLE, "AUC", "Model").frame
    return frame[["value", "group", "seed_name"]].equals(known[["value", "group", "seed_name"]])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_encodings_and_delimiters_are_sniffed(tmp_path: Path, encoding: str, separator: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(CSV.replace(",", separator).replace("tree", "Bäume").encode(encoding))
    runs = check(path, "AUC", "Model")
    assert list(dict.fromkeys(runs.frame["group"])) == ["Bäume", "net", "mix"]
    assert list(runs.frame["value"]) == pytest.approx(list(TABLE["AUC"]), abs=0)
    assert any("Windows-1252" in note for note in runs.notes) == (encoding == "cp1252")


CELLS = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    values=st.lists(CELLS, min_size=6, max_size=12),
    separator=st.sampled_from(";\t|"),
    blanks=st.booleans(),
    sign=st.booleans(),
)
def test_decimal_commas_and_per_cent_signs(
    tmp_path: Path, values: list[float], separator: str, blanks: bool, sign: bool
) -> None:
    """What a spreadsheet writes in a country of commas is what was in its cells."""
    values = [x if x == 0 or abs(x) > 1e-3 else 0.5 for x in values]
    lines = [separator.join(["g", " v ", "Seed"])]
    for n, value in enumerate(values):
        cell = f"{value:.3f}".replace(".", ",") + (" %" if sign else "")
        lines.append(separator.join(["ab"[n % 2], f" {cell} " if blanks else cell, str(n // 2)]))
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    runs = check(path, "v", "g")
    assert list(runs.frame["value"]) == values
    assert runs.per_cent is sign


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["1,234.5", "2,000"], [1234.5, 2000]),
        (["1.234,5", "2,25"], [1234.5, 2.25]),
        (["1 234", "2 345.5"], [1234, 2345.5]),
        (["1,234,567", "1"], [1234567, 1]),
        (["93.5%", "4 %"], [93.5, 4]),
        (["−1.5", "+2e-3"], [-1.5, 0.002]),
        (["0,123", "0,456"], [0.123, 0.456]),
    ],
)
def test_numbers_are_read_as_people_write_them(cells: list[str], read: list[float]) -> None:
    table = pd.DataFrame({"v": cells * 2, "g": ["a", "a", "b", "b"], "seed": [1, 2, 1, 2]})
    assert list(check(table, "v", "g").frame["value"]) == read * 2


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1,234", "2,345"], "'1,234' in row 2, which may be 1234 or 1.234"),
        (["0,5", "1.5"], "row 2 and"),
        (["5 %", "1.5"], "row 2 and"),
        (["5 ± 1", "1.5"], "row 2: '5 ± 1'"),
        (["1,23,456.0", "1"], "row 2: '1,23,456.0'"),
        (["1_000", "1"], "row 2: '1_000'"),
        (["True", "1"], "row 2: 'True'"),
    ],
)
def test_what_may_be_two_numbers_is_refused_by_its_row(cells: list[str], said: str) -> None:
    table = pd.DataFrame({"v": cells, "g": ["a", "b"], "seed": [1, 1]})
    assert said in refused(table, "v", "g")


def test_per_cent_signs_make_the_unit(tmp_path: Path) -> None:
    """0.5 % of accuracy is not one half."""
    path = tmp_path / "runs.csv"
    rows = [f"{g},{s},{0.1 * s + 0.2:.1f} %" for g in "ab" for s in range(4)]
    path.write_text("\n".join(["g,seed,accuracy", *rows]))
    result = audit(path, "accuracy", "g")
    assert result.metric.unit == "per cent"
    assert result.metric.full_scale == 100


def test_comments_and_blank_lines_keep_the_numbers_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "runs.txt"
    path.write_text("# made by a script\n\n g , seed , v \na,1,1\n\n# half\na,2,2\nb,1,x\nb,2,3\n")
    assert "row 8: 'x'" in refused(path, "v", "g")
    path.write_text(path.read_text().replace("x", "5"))
    assert list(check(path, "v", "g").frame["row"]) == [4, 7, 8, 9]


def test_columns_parted_by_blanks(tmp_path: Path) -> None:
    path = tmp_path / "runs.txt"
    path.write_text(CSV.replace(",", "   "))
    assert same(path)


def test_rows_that_are_longer_than_the_header_are_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("g,seed,v\n" + "a,1,0,5\nb,1,0,6\n" * 2)
    assert "cannot be read" in refused(path, "v", "g")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0\0,", b"word\n" * 9, b"# only this\n\n", b""])
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(content)
    assert "cannot be read as a table" in refused(path, "v", "g")


def test_packed_text_and_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode()))
    assert same(path)
    path.write_bytes(gzip.compress(CSV.encode() + b"net,1,0.5\n" * 500_000))
    monkeypatch.setattr(read, "MOST_BYTES", 1 << 20)
    assert "GiB of text" in refused(path, "AUC", "Model")
    path.write_bytes(gzip.compress(CSV.encode())[:60])
    assert "cannot be read" in refused(path, "AUC", "Model")
    path.write_bytes(b"no archive")
    assert "cannot be read" in refused(path, "AUC", "Model")


def test_a_parquet_file_that_unfolds_without_end_is_refused(tmp_path: Path) -> None:
    rows = 50_000_001
    path = tmp_path / "runs.parquet"
    column = pa.nulls(rows, pa.int8())
    pq.write_table(pa.table(dict.fromkeys("abcd", column)), path)
    assert path.stat().st_size < 1 << 20
    assert "cells are read" in refused(path, "a", "b")


RECORDS = json.loads(TABLE.to_json(orient="records"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("runs.json", json.dumps(RECORDS)),
        ("runs.json", TABLE.to_json(orient="columns")),
        ("runs.json", json.dumps({name: list(TABLE[name]) for name in TABLE})),
        ("runs.jsonl", "\n".join(map(json.dumps, RECORDS))),
    ],
)
def test_json_tables(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert same(path)


def test_logs_in_json_are_still_collected(tmp_path: Path) -> None:
    rows = [
        {"run": f"{g}{s}", "step": n, "opt": g, "seed": s, "acc": s / 9 + n}
        for g in "ab"
        for s in range(3)
        for n in range(2)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    collected = check(path, "acc", "opt", at="best")
    assert any(" 6 runs " in note for note in collected.notes)
    chosen = check(path, "acc", "opt", last="step")
    assert list(chosen.frame["value"]) == list(collected.frame["value"]) == [n / 9 + 1 for n in range(3)] * 2
    history = tmp_path / "history.json"
    history.write_text(json.dumps({"loss": [1.0, 2], "acc": [0.5, 0.6]}))
    assert "'opt'" in refused(history, "acc", "opt")


def test_excel(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "runs.xlsx"
    with pd.ExcelWriter(path) as book:
        TABLE.to_excel(book, sheet_name="main", index=False, startrow=2)
        TABLE.assign(AUC=0.5).to_excel(book, sheet_name="old", index=False)
    runs = check(path, "AUC", "Model")
    assert list(runs.frame["value"]) == pytest.approx(list(TABLE["AUC"]))
    assert list(runs.frame["row"][:2]) == [4, 5]
    assert "The sheet is main; there is old too (--sheet)." in runs.notes
    assert set(check(path, "AUC", "Model", sheet="old").frame["value"]) == {0.5}
    assert "'main'" in refused(path, "AUC", "Model", sheet="mani")
    assert "--sheet is for Excel" in refused(tmp_path / "runs.csv", "AUC", "Model", sheet="main")


STRINGS = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"


@pytest.mark.parametrize(
    ("part", "piece", "pieces", "said"),
    [
        ("sharedStrings", b"<si><t>aaaa</t></si>" * 1000, 1100, "4,000,000 tags of XML"),
        ("sharedStrings", b"<r/>" * 1000, 4100, "4,000,000 tags of XML"),
        ("sharedStrings", b"x" * (1 << 20), 9, "unpacks to 9 MiB; up to 8 MiB"),
        ("theme/theme1", b"<x/>" * 1000, 4100, "4,000,000 tags of XML"),
    ],
)
def test_a_small_excel_file_that_unfolds_without_end_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, piece: bytes, pieces: int, said: str
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    TABLE.to_excel(tmp_path / "whole.xlsx", index=False)
    path = tmp_path / "runs.xlsx"
    with zipfile.ZipFile(tmp_path / "whole.xlsx") as whole, zipfile.ZipFile(path, "w", 8) as made:
        for name in set(whole.namelist()) - {f"xl/{part}.xml"}:
            override = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{STRINGS}"/></Types>'
            made.writestr(name, whole.read(name).replace(b"</Types>", override.encode()))
        with made.open(f"xl/{part}.xml", "w") as file:
            file.write(b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">')
            for _ in range(pieces):
                file.write(piece)
            file.write(b"</sst>")
    assert path.stat().st_size < 1 << 20
    monkeypatch.setattr(openpyxl, "load_workbook", None)
    if "8 MiB" in said:
        monkeypatch.setattr(read, "_MOST_SHEET_BYTES", 8 << 20)
    assert said in refused(path, "AUC", "Model")


def test_excel_without_its_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seedspread.errors.is_installed", lambda module: module != "openpyxl")
    path = tmp_path / "runs.xlsx"
    path.write_bytes(b"")
    done = seedspread_here("audit", str(path), "--value", "v", "--group", "g")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert install_command("excel") in done.stderr


def test_a_folder_with_a_store_in_it_is_told_from_a_store(tmp_path: Path) -> None:
    made_store(tmp_path / "here" / "store", seeds=2)
    said = refused(tmp_path / "here", "accuracy", "margin_type")
    assert str(tmp_path / "here" / "store") in said


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(st.binary(max_size=200) | st.text(alphabet="g,;\t|\n\"'# 0.5%-ab\r\ufeffé\0", max_size=80))
def test_any_file_is_read_or_refused_in_a_line(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SeedspreadError) as caught:
        check(path, "v", "g")
    assert "\n" not in str(caught.value)
