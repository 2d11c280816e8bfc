"""Scale, answers, and what stands beside the paper's values."""

from pathlib import Path

import pandas as pd
import pytest

from seedspread.analysis.words import asides, next_steps, title_of, two
from seedspread.cff.presets import read_config
from seedspread.paper.report import OTHER_SCALE, paper_setting, scale_of
from seedspread.paper.values import printed, published_table
from seedspread.report.load import load_table
from seedspread.report.page import Report
from tests.report.helpers import made_store, material_of, unfinished


@pytest.mark.parametrize(
    ("preset", "setting"),
    [("paper/cifar10", "cifar10"), ("mini/cifar100", "cifar100"), ("paper/svhn-medium", "svhn-medium"),
     ("mini/svhn-hard", "svhn-hard"), ("paper/svhn-easy", "svhn"), ("quickstart", "fashion-mnist")],
)  # fmt: skip
def test_runs_are_of_the_papers_settings_by_their_config(preset: str, setting: str) -> None:
    assert paper_setting(read_config(preset)) == setting


def test_margins_decide_between_standard_and_low() -> None:
    assert paper_setting(read_config("paper/cifar10", ["objective.margin_first=0.2"])) == "cifar10-low"
    assert paper_setting(read_config("paper/cifar10", ["objective.margin_first=0.3"])) is None


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("seeds.run=5", True), ("objective.margin_type=subtract", True), ("probe.layers=all", True),
        ("runtime.threads=2", True), ("training.epochs=599", False), ("model.dim=64", False),
        ("data.limit_per_class=100", False), ("objective.temperature=0.5", False),
        ("runtime.precision=bf16", False), ("objective.reduction=sum", False),
        ("data.validation_fraction=0.5", False), ("data.augment=fashion-mnist", False),
    ],
)  # fmt: skip
def test_only_what_the_paper_ran_is_the_papers_scale(change: str, same: bool) -> None:
    config = read_config("paper/cifar10", [change])
    assert scale_of(config, "cifar10", partial=False).same is same
    assert scale_of(config, "cifar10", partial=True).same is False


def test_another_way_of_training_is_no_setting_of_the_paper() -> None:
    assert paper_setting(read_config("paper/cifar10", ["training.rule=end_to_end"])) is None


def test_mini_is_never_passed_off_as_the_papers_scale(tmp_path: Path) -> None:
    made_store(tmp_path)
    report = Report(material_of(tmp_path))
    for table in report.tables:
        assert not any(column.group == "paper (same scale)" for column in table.columns)
    factorial = next(t for t in report.tables if t.follows == "the paper's Table 3")
    assert factorial.columns[-1].group == "paper (different scale)"
    assert factorial.rows[0][-4:] == ("7", "78.52", "0.927", "0.8590")
    per_seed = next(t for t in report.tables if t.follows == "the paper's Table 16")
    assert per_seed.rows[1][0] == "clamp, detach: paper (different scale)"
    assert per_seed.rows[1][1:5] == ("78.49", "78.27", "78.43", "76.96")
    assert 1 in per_seed.muted
    for chart in report.charts:
        assert OTHER_SCALE in chart.scale


def test_printed_numbers_are_the_papers() -> None:
    both = ("cifar10/clamp", "cifar10/subtract")
    assert printed(6, both, "ratio") == "5.90"
    assert printed(23, ("cifar10/clamp",), "shapiro_w") == "0.9513"
    assert printed(9, ("batch", "classes/svhn"), "expected_pairs") == "~30500"
    assert printed(99, both, "ratio") == "-"


def test_anyones_table_gets_a_page(tmp_path: Path) -> None:
    table = published_table()
    path = tmp_path / "runs.csv"
    table[table["setting"].isin(["cifar10", "cifar100"])].to_csv(path, index=False)
    material = load_table(path, "accuracy", "margin_type", "subtract", ["stability"], "seed", "setting")
    report = Report(material)
    assert [s.title for s in material.settings] == ["cifar10", "cifar100"]
    assert material.settings[0].comparisons[0].headline.raw_ratio == pytest.approx(8.2155, abs=1e-4)
    assert "answer" in {c.id for c in report.charts}
    said = " ".join(report.sections[0].words)
    beside = asides(material.settings[0].comparisons[0])
    assert {"Means", "Power", "Caution"} <= {label for label, _ in beside}
    assert all(f"{label}: {line}" in said for label, line in beside)
    assert {t.follows for t in report.tables} == {""}
    assert "runs.csv" in report.page()


def test_a_clear_difference_is_said_first(tmp_path: Path) -> None:
    path = tmp_path / "clear.csv"
    values = [50, 41, 62, 55, 38, 59, 47, 66, 44, 53]
    rows = [("a", i, v) for i, v in enumerate(values)] + [
        ("b", i, 50 + (v - 50) / 40) for i, v in enumerate(values)
    ]
    pd.DataFrame(rows, columns=["arm", "seed", "score"]).to_csv(path, index=False)
    material = load_table(path, "score", "arm", "b", None, "seed", None)
    report = Report(material)
    (c,) = material.settings[0].comparisons
    assert (c.word, c.group, two(c.headline.ratio)) == ("YES", "a", "1,600")
    assert report.answer == title_of(c)
    assert report.advice[0] == next_steps([c])[0]


def test_a_study_is_let_go_on_while_runs_are_to_come(tmp_path: Path) -> None:
    plan = made_store(tmp_path, seeds=2)
    unfinished(plan, *range(8))
    assert Report(material_of(tmp_path)).advice[0].startswith("Let the study go on")
