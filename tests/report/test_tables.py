"""The tables that a paper prints first, and the short list of files."""

import csv
from pathlib import Path

import numpy as np
import pytest

from seedspread.report.extension import ReportData
from seedspread.report.load import load_table
from seedspread.report.page import Report, write_figures, write_tables
from seedspread.report.tables import means_tables, ratios_table
from tests.report.helpers import change, made_store, material_of


def own_table(folder: Path, datasets: int, baseline: str | None = "b") -> ReportData:
    rng = np.random.default_rng(0)
    path = folder / "t.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("loss", "arm", "data", "seed"))
        for data in range(datasets):
            for arm in ("a", "b", "c"):
                writer.writerows((rng.normal(data, 0.1), arm, f"d{data}", seed) for seed in range(5))
    return load_table(path, "loss", "arm", baseline, None, "seed", "data")


def test_methods_by_datasets_as_a_paper_prints_them(tmp_path: Path) -> None:
    material = own_table(tmp_path, 3)
    (table,) = means_tables(material)
    assert [c.text for c in table.columns] == ["arm", *(s.name for s in material.settings)]
    assert [row[0] for row in table.rows] == ["a", "c", "b"]
    runs = [r.value for r in material.settings[1].of("a")]
    mean, sd = (float(part) for part in table.rows[0][2].split(" ± "))
    assert mean == pytest.approx(np.mean(runs), abs=0.01)
    assert sd == pytest.approx(np.std(runs, ddof=1), rel=0.1)
    assert table.note == "5 runs per mean; lower is better"


def test_many_datasets_are_rows(tmp_path: Path) -> None:
    (table,) = means_tables(own_table(tmp_path, 9))
    assert [c.text for c in table.columns] == ["setting", "a", "c", "b"]
    assert len(table.rows) == 9


def test_one_setting_is_shown_by_cell_and_failed_runs_are_marked(tmp_path: Path) -> None:
    change(made_store(tmp_path, seeds=3), 0, collapsed=True, test_accuracy=0.1)
    (table,) = means_tables(material_of(tmp_path))
    assert [c.text for c in table.columns] == ["margin_type", "detach", "direct"]
    assert table.rows[0][1].endswith(" †")
    assert not table.rows[1][1].endswith(" †")
    assert "† with runs that failed" in table.note


def test_every_comparison_is_a_line_of_the_ratios(tmp_path: Path) -> None:
    material = own_table(tmp_path, 2)
    table = ratios_table(material)
    assert table is not None
    assert [row[1] for row in table.rows] == ["a / b", "c / b"] * 2
    assert table.rows[0][2] == "5"


def test_means_come_first_on_the_page_and_among_the_files(tmp_path: Path) -> None:
    report = Report(own_table(tmp_path, 2))
    assert report.tables[0].id == "means"
    page = report.page()
    assert page.index('id="means"') < page.index("<figure", page.index('id="means"') + 1)
    assert page.index('id="means"') == page.index('id="', page.index("<figure"))


def test_few_files_unless_all_are_asked_for(tmp_path: Path) -> None:
    report = Report(own_table(tmp_path, 2))
    few = write_tables(report, tmp_path / "few")
    everything = write_tables(report, tmp_path / "all", everything=True)
    assert {p.name for p in few} == {f"{n}.{e}" for n in ("means", "ratios") for e in ("tex", "csv")}
    assert {p.name for p in few} < {p.name for p in everything}
    assert {p.suffix for p in everything} == {".tex", ".csv", ".md"}
    drawn = {p.name for p in write_figures(report, tmp_path / "figures", lambda _: None)}
    assert {"answer.pdf", "answer.png", "captions.md"} < drawn
    assert not any(name.endswith(".svg") for name in drawn)
    assert "Data: from t.csv" in (tmp_path / "figures" / "captions.md").read_text().replace("\\", "")


def test_without_a_baseline_all_levels_are_compared(tmp_path: Path) -> None:
    report = Report(own_table(tmp_path, 1, baseline=None))
    assert report.ratios is not None
    assert [row[0] for row in report.ratios.rows] == ["b / a", "c / a", "c / b"]
    assert [row[0] for row in report.tables[0].rows] == ["a", "b", "c"]
    assert report.page()
