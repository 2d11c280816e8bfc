"""Tables as they stand in papers and READMEs."""

import io
import sys
from pathlib import Path

import pytest

from seedspread.errors import MissingExtraError
from seedspread.tables.markup import clean, is_markup, tables_in
from seedspread.tables.question import Question
from seedspread.tables.read import read_table
from tests.commands import seedspread_here
from tests.tables.made import check, refused

MARKDOWN = """# Results

| Method | CIFAR-10 | CIFAR-100 ↑ |
|:-------|:--------:|---:|
| SGD    | 95.1 ± 0.2 | 77.0 ± 0.5 |
| **Adam** | **93.2 ± 1.4**† | 75.1 +/- 0.6 |
| Ours[^1] | $95.3_{\\pm 0.9}$ | **77.4 (0.4)** |

[^1]: with a footnote
"""
LATEX = r"""
\begin{tabular}{l@{}cc}
\toprule
\multirow{2}{*}{Data} & \multicolumn{2}{c}{Method~\cite{them}} \\
\cmidrule(lr){2-3}
 & base & \textbf{ours} \\
\midrule
CIFAR & $95.1 \pm 0.2$ & \textbf{93.2 $\pm$ 1.4}$^{\dagger}$ \\ % 5 & 6 \\
\rowcolor{gray} SVHN\_x & 77.0\% & $75.1_{\pm 0.6}$ \\[2pt]
\bottomrule
\end{tabular}
"""


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (r"\textbf{93.2 $\pm$ 1.4}$^{\dagger}$", "93.2 ± 1.4"),
        (r"$28.7_{\pm 4.8}$", "28.7 ± 4.8"),
        (r"$28.7^{\pm 4.8}$", "28.7 ± 4.8"),
        (r"\cellcolor{blue!10}\underline{\textbf{0.5}}", "0.5"),
        (r"28.7{\scriptsize$\pm$4.8}", "28.7 ± 4.8"),
        ("**28.7**", "28.7"),
        ("_28.7_ *", "28.7"),
        ("`my_method_name`", "my_method_name"),
        ("[Ours](http://x)<sup>1</sup>", "Ours"),
        (r"95.1\%", "95.1%"),
        (r"\citep{a}", ""),
        ("−3.1", "−3.1"),
    ],
)
def test_cells_lose_their_markup(cell: str, text: str) -> None:
    assert clean(cell) == text


def test_markdown_and_latex() -> None:
    (table,) = tables_in(MARKDOWN, "t")
    assert list(table.columns) == ["Method", "CIFAR-10", "CIFAR-100"]
    assert table["Method"].tolist() == ["SGD", "Adam", "Ours"]
    assert table.index.tolist() == [5, 6, 7]  # as an editor counts lines
    assert table["CIFAR-10"].tolist() == ["95.1 ± 0.2", "93.2 ± 1.4", "95.3 ± 0.9"]
    (table,) = tables_in(LATEX, "t")
    assert list(table.columns) == ["Data", "Method base", "Method ours"]
    assert table["Data"].tolist() == ["CIFAR", "SVHN_x"]
    assert table["Method ours"].tolist() == ["93.2 ± 1.4", "75.1 ± 0.6"]
    body = "a & 1 & 2 \\\\\nb & 3 & 4 \\\\\n"
    assert tables_in(f"m & x & y \\\\\n{body}", "t")[0].values.tolist() == [["a", "1", "2"], ["b", "3", "4"]]
    assert not is_markup("a,b\n1,2\n")
    assert not is_markup("a|b\n1|2\n3|4\n")


def test_a_column_per_seed_in_a_readme(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(
        "Some text | with a bar.\n\n| method | seed 0 | seed 1 | seed 2 |\n|---|---|---|---|\n"
        "| base | 91.2% | 90.8% | 91.0% |\n| **ours** | **92.2%** | 90.1% | 93.0%* |\n"
    )
    assert refused(path).endswith("--value value --group method --wide auto")
    runs = check(path, "value", "method", wide="auto")
    assert runs.frame["value"].tolist() == [91.2, 90.8, 91.0, 92.2, 90.1, 93.0]
    assert "Table 1 of 2" not in " ".join(runs.notes)


def test_one_of_several_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.md"
    path.write_text(MARKDOWN + "\n\n|a|b|\n|-|-|\n|x|1|\n")
    assert read_table(path, Question()).notes == ("Table 1 of 2 is read; --sheet 2 is the next.",)
    assert list(read_table(path, Question(sheet="2")).frame.columns) == ["a", "b"]
    assert "--sheet 1 to --sheet 2; got '3'" in refused(path, sheet="3")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("|a|b|\n|-|-|\n|1|2|3|\n", "row 3 "),
        ("|a|a|\n|-|-|\n|1|2|\n", "'a'"),
    ],
)
def test_bad_markdown_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.md"
    path.write_text(text)
    assert said in refused(path)


def test_html_is_read_where_pandas_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "t.html"
    rows = "".join(f"<tr><td>{m}</td><td>{s}</td><td>{s + 1}.5</td></tr>" for m in "ab" for s in range(3))
    path.write_text(f"<table><tr><th>m</th><th>seed</th><th>acc</th></tr>{rows}</table>")
    assert check(path, "acc", "m").frame["value"].tolist() == [1.5, 2.5, 3.5] * 2
    path.write_text(path.read_text().replace(".5", ",25"))
    assert check(path, "acc", "m").frame["value"].tolist() == [1.25, 2.25, 3.25] * 2
    head = "<tr><th rowspan=2>m</th><th rowspan=2>seed</th><th colspan=2>acc</th></tr><tr><th>a<th>b</tr>"
    rows = "".join(f"<tr><td><b>{m}</b><td>{s}<td>{s}.5%<td>28.7&plusmn;4.8" for m in "xy" for s in range(3))
    path.write_text(f"<p>Results<table><thead>{head}</thead>{rows}</table><table><tr><td>1<td>2</table>")
    runs = check(path, "acc a", "m")
    assert runs.frame["value"].tolist() == [0.5, 1.5, 2.5] * 2
    assert runs.per_cent
    assert "'acc b'" in refused(path, "acc b", "m")


def test_html_without_its_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seedspread.errors.is_installed", lambda module: module != "lxml")
    (tmp_path / "t.html").write_text("<table><tr><td>1</table>")
    with pytest.raises(MissingExtraError, match=r"needs lxml.*seedspread\[html\]"):
        check(tmp_path / "t.html")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def piped(text: str, *words: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        done = seedspread_here(*words)
        return done.stdout + done.stderr

    assert "6 comparisons from standard input" in piped(MARKDOWN, "audit", "-", "--n", "10")
    rows = "".join(f"{m}\t{s}\t{s + (m == 'b') * s}.5\n" for m in "ab" for s in range(6))
    tabs = "m\tseed\tacc\n" + rows  # as a clipboard has what a spreadsheet shows
    assert piped(tabs, "audit", "-", "--value", "acc", "--group", "m", "--review").startswith("Claim: b 5")
    assert "seedspread audit - --value acc --group m" in piped(tabs, "audit", "-")
    for broken in ("", "junk", '{"a": [1'):
        said = piped(broken, "audit", "-")
        assert said.startswith("error: ")
        assert "standard input" in said
        assert "piped" not in said
