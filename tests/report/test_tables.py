"""The tables that a paper prints first, and the short list of files."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from seedspread.render.chart import Chart
from seedspread.report.exhibits import ratios_table
from seedspread.report.extension import ReportData
from seedspread.report.load import load_table
from seedspread.report.page import Report, write_figures, write_tables
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


def test_one_setting_is_shown_by_cell_and_failed_runs_are_marked(tmp_path: Path) -> None:
    change(made_store(tmp_path, seeds=3), 0, collapsed=True, test_accuracy=0.1)
    runs = next(t for t in Report(material_of(tmp_path)).tables if t.id.endswith("per-seed"))
    assert runs.rows[0][1].endswith(" †")
    assert not runs.rows[0][2].endswith(" †")
    assert runs.note.startswith("† collapsed")


def test_every_comparison_is_a_line_of_the_ratios(tmp_path: Path) -> None:
    material = own_table(tmp_path, 2)
    table = ratios_table(material)
    assert table is not None
    assert [row[1] for row in table.rows] == ["a vs b", "c vs b"] * 2
    assert table.rows[0][6] == "5"
    runs = [r.value for r in material.settings[0].of("a")]
    mean, sd = (float(part) for part in table.rows[0][7].split(" ± "))
    assert mean == pytest.approx(np.mean(runs), abs=0.01)
    assert sd == pytest.approx(np.std(runs, ddof=1), rel=0.1)


def test_every_table_and_figure_is_a_file(tmp_path: Path) -> None:
    report = Report(own_table(tmp_path, 2))
    written = {p.name for p in write_tables(report, tmp_path / "tables")}
    assert written == {f"{table.id}.{ending}" for table in report.tables for ending in ("tex", "csv")}
    drawn = {p.name for p in write_figures(report, tmp_path / "figures", lambda _: None)}
    assert drawn == {"captions.md"} | {f"{c.id}.{ending}" for c in report.charts for ending in ("pdf", "png")}
    assert "Data: from t.csv" in (tmp_path / "figures" / "captions.md").read_text().replace("\\", "")


def test_parameters_of_all_settings_stand_in_one_table(tmp_path: Path) -> None:
    made_store(tmp_path, seeds=2)
    rows = {row[0]: row[1:] for row in Report(material_of(tmp_path)).tables[-1].rows}
    assert rows["objective.margin_type"] == ("clamp | subtract", "clamp")
    assert rows["training.epochs"][1] == "600"


def test_no_two_tables_have_the_same_title(tmp_path: Path) -> None:
    titles = [table.title for table in Report(own_table(tmp_path, 2, baseline=None)).tables]
    assert len(set(titles)) == len(titles)
    assert "Spread, c vs b: data = d1" in titles


def test_without_a_baseline_all_levels_are_compared(tmp_path: Path) -> None:
    report = Report(own_table(tmp_path, 1, baseline=None))
    assert [row[0] for row in report.tables[0].rows] == ["b vs a", "c vs a", "c vs b"]
    assert report.page()


def test_groups_of_one_setting_are_shown_run_by_run_numbers_in_their_order(tmp_path: Path) -> None:
    """On the first screen, the baseline among them, and once in the table of means."""
    rng = np.random.default_rng(0)
    rows = [(rng.normal(0, 1 + rate), rate, seed) for rate in (10, 1, 0.1) for seed in range(6)]
    path = tmp_path / "rates.csv"
    pd.DataFrame(rows, columns=["loss", "lr", "seed"]).to_csv(path, index=False)
    report = Report(load_table(path, "loss", "lr", "1", None, "seed", None))
    runs, ratios = report.first
    assert isinstance(runs, Chart)
    names = ["lr = 0.1", "lr = 1", "lr = 10"]
    assert [name for _, name in runs.panels[0].x.ticks] == names
    assert ratios.id == "ratios"
    means = next(table for table in report.tables if table.title.startswith("Means and sds"))
    assert [row[0] for row in means.rows] == ["0.1", "1", "10"]  # in a column headed lr
    words = report.sections[0].words
    assert sum("Power: " in line for line in words) == 1
