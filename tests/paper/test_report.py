"""The report of the paper's own numbers."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from seedspread.render.table import Table
from seedspread.report.page import Report

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
load_published = import_module("paper_report").load_published


@pytest.fixture(scope="module")
def report() -> Report:
    return Report(load_published())


def by_number(report: Report) -> dict[int | None, Table]:
    return {int(table.follows.split()[-1]): table for table in reversed(report.tables) if table.follows}


def test_every_table_and_both_figures_of_the_paper_are_there(report: Report) -> None:
    assert {t.follows for t in report.tables} >= {f"the paper's Table {n}" for n in range(2, 24)}
    assert {c.follows for c in report.charts} >= {f"the paper's Figure {n}" for n in (1, 2)}


def test_what_is_computed_is_what_the_paper_prints(report: Report) -> None:
    """Tables 3, 5, 10, 13, 14: mean, sd and variance stand first computed, then printed."""
    for number in (3, 5, 10, 13, 14):
        for row in by_number(report)[number].rows:
            for computed, printed in zip(row[-8:-4], row[-4:], strict=True):
                assert float(computed) == pytest.approx(float(printed), abs=0.00051), (number, row)


def test_numbers_that_do_not_follow_are_marked(report: Report) -> None:
    """The paper's Table 4 prints one-way tests under the name of two-way ones."""
    rows = by_number(report)[4].rows
    assert rows[0] == ("Levene", "0.018", "0.742", "0.166", "0.061 ✗", "0.824 ✗", "0.058 ✗")
    assert all(cell.endswith("✗") for cell in rows[1][4:])
    assert by_number(report)[15].rows[1][-5:] == ("26.8", "37.57 ✗", "17.23 ✗", "2.18", "elevated")


def test_printed_values_of_the_diagnostic_tables(report: Report) -> None:
    tables = by_number(report)
    assert tables[7].rows[0] == ("0", "0.40 / 0.20", "60.7%", "40.3%", "33.6%", "33.7%")
    assert tables[7].rows[7][-2:] == ("0.0%", "0.2%")
    assert tables[8].rows[0] == ("L0", "0.40", "0.400 ± 0.028", "1.614 ± 0.045", "4.04×", "4.0×")
    assert tables[11].rows[7][1:] == ("32.3%", "8.7%", "-23.6 pp", "-23.6 pp")
    assert tables[11].rows[8] == ("mean, all layers", "47.5%", "19.7%", "-", "-27.8 pp")
    assert [row[-1] for row in tables[12].rows] == ["0.58×", "0.73×", "1.09×", "1.60×"]
    assert tables[18].rows[3][1:] == ("49.6%", "78.3%", "+28.7 pp", "+28.7 pp")
    assert tables[18].rows[4] == ("mean, all layers", "47.5%", "70.6%", "-", "+23.1 pp")
    assert tables[15].rows[2][-1] == "extreme"
    assert tables[16].rows[1] == (
        "clamp, direct",
        "78.07",
        "77.91",
        "79.42",
        "76.23",
        "79.24",
        "78.79",
        "79.45",
    )


def test_the_verdicts_are_those_of_verify_paper(report: Report) -> None:
    tables = {t.id: [row[0] for row in t.rows] for t in report.tables if t.id.startswith("verdicts")}
    assert tables == {
        "verdicts": ["differs"] * 32 + ["not derivable"] * 8,
        "verdicts-hold": ["reproduces"] * 221,
    }
    section = next(s for s in report.sections if s.id == "paper-check")
    assert "261 claims were checked: 221 reproduce, 32 differ, 8 cannot" in section.words[0]


def without_plotly(page: str) -> str:
    """plotly.js may be packed otherwise elsewhere."""
    return re.sub(r'(id="plotly">)[^<]*', r"\1", page)


def test_the_page_in_the_docs_is_what_the_tool_writes(report: Report) -> None:
    path = ROOT / "docs" / "paper-report.html"
    assert path.stat().st_size < 6_000_000
    made = without_plotly(report.page())
    assert without_plotly(path.read_text()) == made, "regenerate it: python tools/paper_report.py"
