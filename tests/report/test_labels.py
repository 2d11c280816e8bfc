"""Settings are named by what differs; the paper's values stand beside runs of its own question only."""

import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from seedspread.analysis.audit import audit
from seedspread.analysis.charts import audit_chart
from seedspread.analysis.components import components
from seedspread.analysis.words import title_of_many
from seedspread.cff.presets import read_config
from seedspread.paper.report import paper_setting
from seedspread.render.chart import Chart
from seedspread.report.extension import ReportError, origins
from seedspread.report.load import load_store, load_table
from seedspread.report.page import Report
from seedspread.runs.levels import group_name, setting_name, stratum_name
from tests.report.helpers import AUDIT, MARGINS, depth, filled, numeric_table, written


def test_strata_are_named_by_their_factor_everywhere(tmp_path: Path) -> None:
    material = filled(tmp_path, depth(tmp_path))
    names = ["depth = 2", "depth = 4", "depth = 8"]
    assert [s.name for s in material.settings] == names
    assert [s.title for s in material.settings] == names
    assert [s.id for s in material.settings] == [f"multi3-depth-{n}" for n in (2, 4, 8)]
    report = Report(material)
    assert "multi3)-2" not in report.page()
    shown = [name.split("\n")[0] for _, name in report.charts[0].panels[0].y.ticks]
    assert shown == names
    assert material.settings[0].comparisons[0].title == "depth = 2: clamp vs subtract"


def test_the_papers_values_stand_beside_its_own_labels_and_depth_only(tmp_path: Path) -> None:
    material = filled(tmp_path, depth(tmp_path))
    assert [s.published and s.published.name for s in material.settings] == [None, None, "cifar10"]
    factors = '[factors]\nmargin_type = ["clamp", "subtract"]\nlabels = ["fine", "coarse"]\n'
    labels = written(tmp_path, "labels", factors, AUDIT + 'by = "labels"\n', "mini/cifar100")
    other = tmp_path / "other"
    fine, coarse = filled(other, labels).settings
    assert (fine.name, fine.published and fine.published.name) == ("labels = fine", "cifar100")
    assert (coarse.name, coarse.published) == ("labels = coarse", None)
    assert origins([coarse]).endswith("not a setting of the paper)")
    tables = {t.title: t for t in Report(load_store(other / "store")).tables}
    assert not any("coarse" in title for title in tables if title.startswith("Each group"))
    assert any("paper" in c.group for c in tables["Each group: labels = fine"].columns)


@pytest.mark.parametrize(
    "change",
    ["data.labels=coarse", "objective.margin_first=0.3", "objective.margin_schedule=parabolic",
     "data.augment=fashion-mnist", "training.rule=end_to_end"],
)  # fmt: skip
def test_another_question_is_no_setting_of_the_paper(change: str) -> None:
    assert paper_setting(read_config("paper/cifar100")) == "cifar100"
    assert paper_setting(read_config("paper/cifar100", [change])) is None


def test_another_block_than_the_papers_is_another_question(tmp_path: Path) -> None:
    factors = '[factors]\nmargin_type = ["clamp", "subtract"]\ndepth = [4, 8]\n'
    (setting,) = filled(tmp_path, written(tmp_path, "b", factors, AUDIT + 'block = "depth"\n')).settings
    assert setting.published is None


def test_every_question_has_a_figure_of_its_own_whose_rows_name_the_baseline(tmp_path: Path) -> None:
    rule = '[factors]\nrule = ["layer_local", "end_to_end"]\n'
    audit = '[audit]\ngroup = "rule"\nbaseline = "end_to_end"\n'
    studies = [depth(tmp_path), written(tmp_path, "rules", rule, audit)]
    report = Report(filled(tmp_path, *studies))
    pictures = [chart for chart in report.charts if chart.id.startswith("answer")]
    axes = {chart.id: chart.panels[0].x.title for chart in pictures}
    assert list(axes.values()) == [
        "Variance ratio, clamp over subtract",
        "Variance ratio, layer_local over end_to_end",
    ]
    assert len(set(axes)) == 2
    for chart, groups in zip(pictures, ("clamp over subtract", "layer_local over end_to_end"), strict=True):
        assert all(groups in name for _, name in chart.panels[0].y.ticks)


def test_each_group_has_its_average_over_settings(tmp_path: Path) -> None:
    factors = '[factors]\nmargin_type = ["clamp", "soft_clamp", "subtract"]\ndepth = [2, 4]\n'
    study = written(tmp_path, "margins", factors, AUDIT + 'by = "depth"\n')
    (averages,) = (t for t in Report(filled(tmp_path, study)).tables if t.id == "averages")
    assert [row[0] for row in averages.rows] == ["clamp vs subtract", "soft_clamp vs subtract"]


def test_the_page_says_which_runs_serve_several_levels(tmp_path: Path) -> None:
    study = written(tmp_path, "margins", MARGINS, AUDIT + 'by = "margin_first"\n')
    material = filled(tmp_path, study)
    shared = "5 runs of margin_type = subtract serve margin_first = 0.2, 0.4 and 0.8 alike"
    assert any(note.startswith(shared) for note in material.notes)
    assert shared in Report(material).page()


def test_a_store_without_a_record_is_reported_on_by_its_study(tmp_path: Path) -> None:
    filled(tmp_path, depth(tmp_path))
    shutil.rmtree(tmp_path / "store" / ".studies")
    with pytest.raises(ReportError, match="holds no record of a study; name its study with --study"):
        load_store(tmp_path / "store")


def test_two_studies_of_one_label_are_told_apart_by_their_names(tmp_path: Path) -> None:
    other = depth(tmp_path).read_text().replace("seeds = 5", "seeds = [6, 7, 8, 9, 10]")
    (tmp_path / "again.toml").write_text(other)
    material = filled(tmp_path, depth(tmp_path), tmp_path / "again.toml")
    assert {s.name for s in material.settings} >= {"depth = 2 (multi3)", "depth = 2 (again)"}


def test_a_table_is_named_so_too_and_the_paper_is_not_mentioned(tmp_path: Path) -> None:
    rows = [f"{a},{d},{b},{s},{0.5 + 0.01 * ((s * (d + 3) + ord(a[0])) % 7)}"
            for a in ("new", "old") for d in (2, 4) for b in ("x", "y") for s in range(5)]  # fmt: skip
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(["arm,depth,twin,seed,accuracy", *rows]))
    report = Report(load_table(path, "accuracy", "arm", "old", ["twin"], "seed", "depth"))
    assert [s.name for s in report.data.settings] == ["depth = 2", "depth = 4"]
    assert "as the paper" not in report.page()


def test_levels_as_names() -> None:
    assert setting_name([("depth", 2), ("labels", "fine")]) == "depth = 2, labels = fine"
    assert setting_name([("dataset", "CIFAR-10")]) == "CIFAR-10"
    assert setting_name([("task", 3)]) == "task = 3"
    assert stratum_name(["a", "b"], ("1", "x")) == "a = 1, b = x"
    assert [group_name("lr", "0.1"), group_name("arm", "new"), group_name("ema", "true")] == [
        "lr = 0.1",
        "new",
        "ema = true",
    ]


def test_many_open_comparisons_are_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"arm": arm, "task": task, "seed": s, "accuracy": rng.normal(0, 50 if arm + task == "at0" else 1)}
        for arm in "abc" for task in ("t0", "t1", "t2", "t3") for s in range(8)
    ]  # fmt: skip
    path = tmp_path / "runs.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    report = Report(load_table(path, "accuracy", "arm", None, [], "seed", "task"))
    every = [c for setting in report.data.settings for c in setting.comparisons]
    assert Counter(c.word for c in every) == {"YES": 2, "CAN'T TELL": 10}
    assert report.answer == title_of_many(every)
    assert report.about == "accuracy by arm | 12 comparisons, 96 runs"


BARE = re.compile(r"(?<!margin = )0\.(1713|2917|4719)(?!\d)|(?<!batch = )(3201|6403)(?!\d)")


def told(chart: Chart) -> list[str]:
    """Every text of a figure."""
    panels = [
        text
        for p in chart.panels
        for text in (
            p.title, p.x.title, p.y.title,
            # beside its factor's name a level stands alone
            *(f"{axis.title} = {name}" for axis in (p.x, p.y) for _, name in axis.ticks),
            *(text for mark in p.marks for text in (mark.name, *mark.labels)),
        )
    ]  # fmt: skip
    return [chart.title, chart.caption, chart.alt, *panels]


def test_numeric_arms_and_blocks_stand_nowhere_bare(tmp_path: Path) -> None:
    path = numeric_table(tmp_path)
    texts = told(audit_chart(audit(path, "accuracy", "margin", "0.1713", "batch")))
    material = load_table(path, "accuracy", "margin", "0.1713", ["batch"], "seed", None)
    report = Report(material)
    for c in report.charts:
        texts += told(c)
    for table in report.tables:
        heads = [column.whole for column in table.columns]
        # below its factor's name a level stands alone
        texts += heads + [
            cell for row in table.rows for head, cell in zip(heads, row, strict=True) if head != "margin"
        ]
    bare = [text[max(m.start() - 30, 0) : m.end() + 10] for text in texts for m in BARE.finditer(text)]
    assert bare == []


def test_components_name_numeric_arms_and_strata(tmp_path: Path) -> None:
    text = components(numeric_table(tmp_path), "accuracy", "margin", seed="seed", by="batch").to_text()
    assert BARE.search(text) is None
    assert "batch = 3201" in text
