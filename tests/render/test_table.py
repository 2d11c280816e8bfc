"""Tables in their forms."""

import csv
import io
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from seedspread.errors import printable
from seedspread.render.table import (
    Column,
    Table,
    numeric_columns,
    to_csv,
    to_latex,
    to_markdown,
    without_empty,
)
from seedspread.render.terminal import Terminal, strip_lines, to_rich
from seedspread.render.web import to_html

TABLE = Table(
    "t",
    "Title",
    (Column("arm"), Column("mean", "here"), Column("sd", "here"), Column("mean", "paper")),
    (("clamp", "78.52", "0.927", "78.5"), ("a & b_c", "-", "< 0.001", "-")),
    "the paper's Table 3",
    "a note",
)


def test_latex_groups_columns_and_escapes_names() -> None:
    text = to_latex(TABLE)
    assert "\\multicolumn{2}{c}{here}" in text
    assert "\\cmidrule(lr){2-3}\\cmidrule(lr){4-4}" in text
    assert "a \\& b\\_c & - & $<$ 0.001 & - \\\\" in text
    assert "\\begin{tabular}{@{}lrrr@{}}" in text
    assert "the paper's Table 3" in text


def test_latex_prints_a_bar_as_a_bar() -> None:
    assert "a\\textbar{}b &" in to_latex(Table("", "t", (Column("x"), Column("y")), (("a|b", "1"),)))


def test_markdown_keeps_groups_and_pipes_apart() -> None:
    table = Table("t", "a|b", (Column("x"), Column("y", "paper")), (("p|q", "<b>"),))
    lines = to_markdown(table).splitlines()
    assert lines[0] == "**a\\|b**"
    assert lines[2:] == ["| x | paper: y |", "| --- | --- |", "| p\\|q | &lt;b&gt; |"]


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
def test_csv_says_what_the_table_says_and_starts_no_formula(rows: list[tuple[str, str]]) -> None:
    table = Table("t", "", (Column("a"), Column("b")), tuple(rows))
    read = list(csv.reader(io.StringIO(to_csv(table), newline="")))[1:]
    for row, found in zip(rows, read, strict=True):
        for cell, text in zip(row, found, strict=True):
            line = printable(cell).replace("\n", " ")
            assert text in (line, f"'{line}", line.replace("−", "-"))
            assert text[:1] not in ("=", "@", "\t")


@pytest.mark.parametrize("cell", ["-1.5", "+3.1 pp", "-", "+2e-3"])
def test_csv_leaves_signed_numbers_alone(cell: str) -> None:
    assert to_csv(Table("t", "", (Column("a"),), ((cell,),))).splitlines()[1] == cell


def test_numbers_below_zero_are_numbers() -> None:
    table = Table("t", "", (Column("a"), Column("mean")), (("x", "−200.88"), ("y", "−1,000 ± 3")))
    assert numeric_columns(table) == [False, True]
    assert to_csv(table).splitlines()[1:] == ["x,-200.88", 'y,"-1,000 ± 3"']


@pytest.mark.parametrize("cell", ["=1+1", "@SUM(A1)", "-2+3", "+cmd|' /C calc'!A0"])
def test_csv_disarms_formulas(cell: str) -> None:
    text = to_csv(Table("t", "", (Column("a"),), ((cell,),)))
    assert list(csv.reader(io.StringIO(text)))[1] == [f"'{cell}"]


def test_columns_know_whether_they_hold_numbers() -> None:
    assert numeric_columns(TABLE) == [False, True, True, True]


def test_a_group_without_a_value_is_left_out() -> None:
    table = Table("t", "", (Column("a"), Column("b", "paper"), Column("c")), (("x", "-", "-"),))
    assert [c.text for c in without_empty(table, only_groups=True).columns] == ["a", "c"]
    assert [c.text for c in without_empty(table).columns] == ["a"]


def test_latex_keeps_a_star_from_the_row_before() -> None:
    star = Table("", "t", (Column("a"),), (("* x",), ("[y]",)))
    text = to_latex(star)
    assert "{}* x" in text
    assert "{}[y]" in text
    assert "\\label" not in text  # nothing refers to it


WIDE = tuple(f"column number {k}" for k in range(40))
SENTENCE = "a sentence that is rather longer than a column of a paper and so has to be broken into lines"
TABLES = {
    "narrow": TABLE,
    "long": Table("l", "t", (Column("a"),), (("x",),) * 100),
    "wide": Table("w", "t", tuple(map(Column, ("", *WIDE))), (("row", *(["78.52 ± 0.93"] * 40)),) * 3),
    "sentences": Table("s", "t", tuple(map(Column, "abcd")), (("x", "1.5", SENTENCE * 9, SENTENCE),) * 30),
    "group": Table("g", "t", (Column("a"), Column("b", SENTENCE), Column("c", SENTENCE)), (("x", "1", "2"),)),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_latex_needs_booktabs_only_and_every_cell_stands_in_it(table: Table) -> None:
    text = to_latex(table)
    assert "longtable" not in text
    assert "resizebox" not in text
    for cell in {cell for row in table.rows for cell in row} - {"a & b_c", "-", "< 0.001"}:
        assert cell.replace("±", "$\\pm$") in text
    assert text.count("\\label") == 1


def test_latex_tables_that_are_larger_than_a_page_are_continued() -> None:
    assert to_latex(TABLES["long"]).count("(continued).") == 2
    assert to_latex(TABLES["sentences"]).count("(continued).") > 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("table", [TABLES[name] for name in ("narrow", "long", "sentences")])
def test_latex_compiles_and_nothing_sticks_out(table: Table, tmp_path: Path) -> None:
    head = "\\documentclass[twocolumn]{article}\\usepackage{booktabs}\\textwidth 6.75in\\columnsep .25in"
    (tmp_path / "t.tex").write_text(f"{head}\\begin{{document}}x {to_latex(table)}\\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False
    )
    if "booktabs.sty' not found" in done.stdout:
        pytest.skip("needs booktabs")
    assert done.returncode == 0, done.stdout
    assert "Overfull \\hbox" not in done.stdout, done.stdout
    assert "Float too large" not in done.stdout, done.stdout


def test_html_escapes_names_and_knows_groups() -> None:
    text = to_html(Table("t", "<b>", (Column("x"), Column("y", "a & b")), (("<script>", "1.5"),)))
    assert "<script>" not in text
    assert '<th scope="row" class="whole">&lt;script&gt;</th><td class="n edge">1.5</td>' in text
    assert '<th colspan="1" scope="colgroup" class="named">a &amp; b</th>' in text
    assert '<tr class="groups"><td colspan="1"></td>' in text  # no heading without words


def test_html_breaks_no_short_text_and_gives_a_long_one_room() -> None:
    """On a phone `margin = 0.3` is not one word wide; a table can be pushed sideways."""
    heads = (Column("margin"), Column("why"), Column("ratio over margin = 0.1"))
    text = to_html(Table("t", "", heads, (("margin = 0.3", SENTENCE, "1.5"),)))
    assert '<th scope="row" class="whole">margin = 0.3</th><td class="wide">' in text
    assert '<th scope="col" class="whole">' in text
    assert '<th scope="col" class="n broken">' in text


def test_a_terminal_without_room_for_names_has_them_above_their_numbers() -> None:
    heads = tuple(map(Column, ("test", "p", "ratio of variances", "interval", "assumptions")))
    row = ("a test with a rather long name", "0.765", "0.76", "[0.114, 5.57]", "not testable")
    table = Table("", "Spread", heads, (row, ("another", "-", "1.5", "[0.1, 12.25]", "met")))

    def lines(width: int) -> list[str]:
        console = Terminal(file=io.StringIO(), width=width)
        console.print(to_rich(table))
        assert isinstance(console.file, io.StringIO)
        return [line.rstrip() for line in console.file.getvalue().splitlines()]

    assert lines(58) == [
        "Spread",
        "",
        "           ratio of",
        "      p   variances        interval   assumptions",
        "  ────────────────────────────────────────────────",
        "a test with a rather long name",
        "  0.765        0.76   [0.114, 5.57]   not testable",
        "another",
        "      -         1.5    [0.1, 12.25]   met",
        "",
    ]
    assert lines(30)[2:6] == [
        "a test with a rather long name",
        "  p: 0.765",
        "  ratio of variances: 0.76",
        "  interval: [0.114, 5.57]",
    ]


def test_a_terminal_gets_numbers_to_the_right_and_no_empty_column() -> None:
    table = Table(
        "t", "[red]title", (Column("arm"), Column("n"), Column("")), (("a", "7", ""), ("b", "10", "-"))
    )
    console = Console(file=io.StringIO(), width=40, color_system=None)
    console.print(to_rich(table))
    assert isinstance(console.file, io.StringIO)
    lines = [line.strip() for line in console.file.getvalue().splitlines()]
    assert lines[0] == "[red]title"
    assert [line for line in lines if line[:1] in ("a", "b")] == ["arm    n", "a      7", "b     10"]


def test_a_title_is_broken_at_the_terminals_width_and_not_the_tables() -> None:
    title = "Does the learning rate change the spread?"
    table = Table("t", title, (Column("lr"), Column("runs")), (("0.1", "5"),))
    console = Console(file=io.StringIO(), width=60, color_system=None)
    console.print(to_rich(table))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[0].rstrip() == title


WORDS = ("shown", "open", "shown to be small")
AUDITED = Table(
    "t",
    "ratios",
    tuple(map(Column, ("comparison", "arm", "baseline", "ratio", "95% interval", "p (Holm)", "difference"))),
    tuple(
        (f"FOREST_COVER: variant {k} against baseline", "0.9426 ± 0.0025", "0.9460 ± 0.0023", "1.24",
         "[0.0125, 12.3]", "0.029", WORDS[k])
        for k in range(3)
    ),
)  # fmt: skip


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_terminal_of_any_width_gets_every_number_whole(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(to_rich(AUDITED))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    for cell in ("0.9426 ± 0.0025", "1.24", "[0.0125, 12.3]", "0.029"):
        assert text.count(cell) >= 3, (width, text)
    assert all(len(line) <= width for line in text.splitlines())
    assert (text.count("comparison") == 1) == (width >= 120)  # a table with headings, or a paragraph per row


def test_strips_of_wide_and_long_names_are_aligned_and_fit() -> None:
    first, second, _ = strip_lines([("基準", [0.0, 1.0]), ("long", [0.0, 1.0])], 40)
    assert cell_len(first.partition("|")[0]) == cell_len(second.partition("|")[0])
    lines = strip_lines([("a_name_of_more_than_half_a_line", [0.0, 1.0]), ("b", [0.0, 1.0])], 40)
    assert lines[::2] == ["a_name_of_more_than_half_a_line", "b", lines[4]]
    assert {len(line) for line in lines[1::2]} == {40}


def test_values_on_a_line_are_counted_where_they_fall_together() -> None:
    first, second, axis = strip_lines([("a", [0.0, 1.0]), ("long", [0.0, 0.0, 1.0])], 67)
    assert first == f"a    |•{' ' * 58}•|"
    assert second == f"long |2{' ' * 58}•|"
    assert axis.split() == ["0", "1"]
