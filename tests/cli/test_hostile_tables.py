"""Hostile files: each ends in a true answer or in one line, never in a traceback or a silent mistake."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import seedspread_here

SEEDS = range(6)
VALUES = {("a", s): 0.5 + s / 100 for s in SEEDS} | {("b", s): 0.6 + s * s / 300 for s in SEEDS}
MEANS = {"a": 0.525, "b": 0.6 + 55 / 1800}  # of six seeds


def table(
    write: Callable[[float], str] = repr,
    separator: str = ",",
    seed: Callable[[int], str] = str,
    head: str = "method,seed,accuracy",
) -> str:
    rows = [f"{m},{seed(s)},{{}}".replace(",", separator).format(write(v)) for (m, s), v in VALUES.items()]
    return "\n".join([head.replace(",", separator), *rows, ""])


def changed(old: str, new: str) -> str:
    assert old in table()
    return table().replace(old, new)


def wide() -> list[dict[str, object]]:
    return [{"method": m, "seed": s, "accuracy": v} for (m, s), v in VALUES.items()]


PLAIN = table()
MARKDOWN = "\n".join(
    [
        "| method | seed | accuracy |",
        "|:--|--:|--:|",
        *(f"| **{m}** | {s} | `{v!r}`† |" for (m, s), v in VALUES.items()),
    ]
)
LATEX = r"\begin{tabular}{lrr} \toprule method & seed & accuracy \\ \midrule" + "\n"
LATEX += "\n".join(rf"\textbf{{{m}}} & {s} & ${v!r}$ \\" for (m, s), v in VALUES.items())
HTML = "<table><tr><th>method</th><th>seed</th><th>accuracy</th></tr>" + "".join(
    f"<tr><td><b>{m}</b></td><td>{s}</td><td>{v!r}</td></tr>" for (m, s), v in VALUES.items()
)

# The content of a file, and what is true of it: it reads as the table above.
READ: dict[str, str | bytes] = {
    "BOM.csv": PLAIN.encode("utf-8-sig"),
    "UTF-16.csv": PLAIN.encode("utf-16"),
    "CRLF.csv": PLAIN.replace("\n", "\r\n"),
    "CR.csv": PLAIN.replace("\n", "\r"),
    "Latin-1.csv": PLAIN.replace("method", "méthode").encode("latin-1"),
    "tabs.csv": table(separator="\t"),
    "semicolons and commas.csv": table(lambda v: repr(v).replace(".", ","), ";"),
    "bars.csv": table(separator="|"),
    "blanks.txt": table(separator="   "),
    "comments.csv": "# made by hand\n\n" + PLAIN + "# the end\n",
    "quotes.csv": table(lambda v: f'"{v!r}"'),
    "blanks around.csv": table(lambda v: f"  {v!r}\t"),
    "no-break blanks.csv": table(lambda v: f"\u00a0{v!r}\u00a0"),
    "empty columns.csv": PLAIN.replace("\n", ",,\n").replace("accuracy,,", "accuracy,note,x"),
    "exponents.csv": table(lambda v: f"{v:.17e}"),
    "plus signs.csv": table(lambda v: f"+{v!r}"),
    "seeds as floats.csv": table(seed=lambda s: f"{s}.0"),
    "negative seeds.csv": table(seed=lambda s: str(-s - 1)),
    "gigantic seeds.csv": table(seed=lambda s: str(10**40 + s)),
    "seeds as words.csv": table(seed=lambda s: f"seed-{s}"),
    "dates as seeds.csv": table(seed=lambda s: f"2024-01-0{s + 1}"),
    "a date per run.csv": PLAIN.replace("\n", ",2024-01-01 10:00\n").replace(
        "accuracy,2024-01-01 10:00", "accuracy,date"
    ),
    "a group called None.csv": changed("a,", "None,"),
    "a group called NaN.csv": changed("b,", "NaN,"),
    "per cent.csv": table(lambda v: f"{100 * v!r}%"),
    "upper case.CSV": PLAIN.upper().replace("E-", "e-"),
    "packed.csv.gz": gzip.compress(PLAIN.encode()),
    "table.md": "# Results\n\n" + MARKDOWN + "\n\nAs said.",
    "table.tex": LATEX + "\n\\bottomrule \\end{tabular}",
    "unbalanced.tex": LATEX,  # without its end
    "unbalanced.html": HTML,
    "records.json": json.dumps(wide()),
    "lines.jsonl": "\n".join(map(json.dumps, wide())),
    "columns.json": json.dumps({k: [row[k] for row in wide()] for k in wide()[0]}),
    "nested.json": json.dumps([{"config": {k: r[k] for k in ("method", "seed")}, **r} for r in wide()]),
    "a huge cell.csv": changed("accuracy\n", f"accuracy,{'x' * 2**20}\n"),
}  # fmt: skip
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "binary.csv": (bytes(range(256)) * 20, "binary data"),
    "NUL.csv": (PLAIN.replace("0.51", "0.\x0051"), "binary data"),
    "empty.csv": ("", "has no text"),
    "blank.csv": (" \n\n\t\n", "has no text"),
    "header.csv": ("method,seed,accuracy\n", "has no rows"),
    "one column.csv": ("accuracy\n0.5\n0.6\n", "one column only"),
    "duplicates.csv": (PLAIN.replace("seed,", "accuracy,"), "two columns called 'accuracy'"),
    "ragged.csv": (changed("a,3,0.53\n", "a,3,0.53,9\n"), "Expected 3 fields in line 5, saw 4"),
    "too large.csv": (changed("0.53", "1e400"), "row 5: '1e400'"),
    "gigantic.csv": (changed("0.53", "9" * 400), "row 5: '999"),
    "gigantic.json": (json.dumps(wide()).replace("0.53", "9" * 400), ": 999"),
    "huge.csv": (changed("0.53", "1e70"), "change its unit"),
    "inf.csv": (changed("0.53", "-Infinity"), "row 5: '-Infinity'"),
    "formula.csv": (changed("0.53", "=B2+1"), "row 5: '=B2+1'"),
    "words.csv": (changed("0.53", "about 0.5"), "row 5: 'about 0.5'"),
    "two decimal signs.csv": (table(separator=";").replace("0.53", "0,53"), "decimal comma in row 5"),
    "thousands.csv": (table(lambda v: f'"{1000 * v:1.0f},000"'), "may be 500000 or 500.000"),
    "per cent once.csv": (changed("0.53", "53%"), "percent sign in row 5"),
    "fractions.csv": (changed("0.53", "53/100"), "row 5: '53/100'"),
    "twice.csv": (PLAIN + "b,5,0.7\n", "b, seed 5"),
    "no seed.csv": (changed("a,3,", "a,,"), "'seed' is empty in row 5"),
    "no group.csv": (changed("a,3,", ",3,"), "'method' is empty in row 5"),
    "one group.csv": (PLAIN.replace("b,", "a,1"), "method = 'a'"),
    "mean and sd.csv": (table(lambda v: f"{v!r} ± 0.1"), "holds means and sds"),
    "empty.md": ("| method | seed | accuracy |\n|---|---|---|\n", "no table with rows"),
    "no table.md": ("Just prose.\n", "no table"),
    "long row.md": (MARKDOWN + "\n| c | 1 | 2 | 3 |", "more cells than the header"),
    "broken.json": ('[{"method": "a", "seed": 1', "broken.json"),
    "deep.json": ("[" * 100_000, "deep.json"),
    "broken.xlsx": (b"PK\x03\x04 no archive", "no Excel file"),
    "old.xls": (b"\xd0\xcf\x11\xe0", "old Excel format"),
    "broken.parquet": (b"PAR1 nothing PAR1", ": Parquet file size is 17 bytes"),
    "broken.csv.gz": (gzip.compress(PLAIN.encode())[:-9], ": Compressed file ended"),
}  # fmt: skip
# Values that are read, with a run that is counted as failed.
MISSING = [*"", "nan", "NaN", "N/A", "null", "-", "—", "#N/A", "None", "n.a.", "<NA>"]


def audited(path: Path, content: str | bytes, *options: str) -> tuple[int, str, str]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    head = "méthode" if path.name.startswith("Latin") else "method"
    names = [head, "accuracy"]
    names = [name.upper() for name in names] if path.suffix == ".CSV" else names
    done = seedspread_here("audit", str(path), "--group", names[0], "--value", names[1], *options)
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", READ)
def test_a_strange_file_is_read_truly(tmp_path: Path, name: str) -> None:
    code, out, err = audited(tmp_path / name, READ[name], "--json")
    assert code == 0, err
    (comparison,) = json.loads(out)["comparisons"]
    unit = 100 if name.startswith("per cent") else 1
    for side, mean in zip(comparison["pooled"], (MEANS["b"], MEANS["a"]), strict=True):
        assert side["n"] == len(SEEDS)
        assert side["mean"] == pytest.approx(unit * mean, rel=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, said = REFUSED[name]
    code, out, err = audited(tmp_path / name, content)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert len(err) < 2200


@pytest.mark.parametrize("cell", MISSING)
def test_a_run_without_a_value_counts_as_failed(tmp_path: Path, cell: str) -> None:
    code, out, _ = audited(tmp_path / "t.csv", changed("a,3,0.53", f"a,3,{cell}"), "--json")
    assert code == 0
    found = json.loads(out)
    assert [side["n"] for side in found["comparisons"][0]["pooled"]] == [6, 5]
    assert found["comparisons"][0]["failures"]["crashed"] == [0, 1]
    assert any("(row 5)" in note for note in found["notes"])


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_a_name_of_300_characters_is_printed(tmp_path: Path, form: str) -> None:
    path, long = tmp_path / "t.csv", "n" * 300
    path.write_text(PLAIN.replace("a,", f"{long},").replace("method", "m" * 300))
    done = seedspread_here(
        "audit",
        str(path),
        "--group",
        "m" * 300,
        "--value",
        "accuracy",
        "--format",
        form,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert long in "".join(done.stdout.split())


def test_a_column_that_is_not_there_is_named_though_others_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(PLAIN)
    done = seedspread_here("audit", str(path), "--by", "nope")
    assert done.stderr.startswith("error: ")
    assert "'nope'" in done.stderr
    assert "'seed'" not in done.stderr
