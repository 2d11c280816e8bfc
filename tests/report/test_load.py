"""What a report says of stores: whole, partial, damaged, foreign."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.report import fill
from seedspread.analysis.audit import audit
from seedspread.analysis.words import next_steps, noise_lines, title_of, title_of_many
from seedspread.cff.margins import layer_margins
from seedspread.paper.report import OTHER_SCALE
from seedspread.report.extension import ReportData, ReportError
from seedspread.report.layers import RunLayers, read_layers
from seedspread.report.page import Report, write_tables
from seedspread.runs.folder import Failure
from seedspread.runs.store import Store
from seedspread.runs.studies import AuditSpec, save_study
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from seedspread.study.study import store_material
from seedspread.tables.from_store import read_runs
from tests.report.helpers import ODD, change, made_store, material_of, unfinished
from tests.study.here import Here
from tests.study.tiny import tiny_study

FOLDER = ".studies"


def page(folder: Path) -> str:
    return Report(material_of(folder)).page()


def test_the_settings_are_those_of_the_study_and_the_audit_is_the_stores_own(tmp_path: Path) -> None:
    plan = made_store(tmp_path)
    (setting,) = material_of(tmp_path).settings
    assert (setting.published and setting.published.name, setting.groups, setting.blocks) == (
        "cifar10",
        ("clamp", "subtract"),
        (("detach",), ("direct",)),
    )
    assert setting.scale.same is False
    assert OTHER_SCALE in setting.origin
    runs = read_runs(plan.store, plan.recorded(), ["accuracy"])[0]
    table = pd.DataFrame([run.row(["accuracy"]) | dict(run.cell) for run in runs])
    table["accuracy"] *= 100
    table["chance.accuracy"] *= 100
    own = audit(table, "accuracy", "margin_type", "subtract", "stability").comparisons[0]
    (comparison,) = setting.comparisons
    assert comparison.headline == own.headline
    assert comparison.tests == own.tests
    assert comparison.test_set_noise == own.test_set_noise


def test_floors_are_in_the_units_of_the_values(tmp_path: Path) -> None:
    made_store(tmp_path)
    (setting,) = material_of(tmp_path).settings
    floor = setting.comparisons[0].test_set_noise[0]
    seeds = {r.seed: r.value for r in setting.of(floor.group, ("detach",))}
    assert floor.observed == pytest.approx(np.var(list(seeds.values()), ddof=1))


def test_an_unfinished_store_says_what_is_missing(tmp_path: Path) -> None:
    plan = made_store(tmp_path)
    unfinished(plan, 0, 1, 9)
    report = Report(material_of(tmp_path))
    caveats = " ".join(report.caveats)
    assert "3 of 20 runs are not finished; so far there are 7 of clamp and 10 of subtract." in caveats
    runs = next(t for t in report.tables if t.id == "runs")
    assert runs.rows[0][1:] == ("20", "17", "3")


def test_a_store_in_which_nothing_has_ended_gives_a_page(tmp_path: Path) -> None:
    plan = made_store(tmp_path, seeds=2)
    unfinished(plan, *range(8))
    assert "Not enough runs have ended to say" in page(tmp_path)


def test_a_study_without_a_comparison_is_not_one_that_has_not_ended(tmp_path: Path) -> None:
    made_store(tmp_path, seeds=2)
    data = material_of(tmp_path)
    bare = tuple(replace(s, group="", comparisons=(), audit=None) for s in data.settings)
    assert Report(replace(data, settings=bare)).answer == "The study names no comparison"


def test_one_arm_alone_gives_a_page(tmp_path: Path) -> None:
    plan = made_store(tmp_path, seeds=2)
    unfinished(plan, *(i for i, r in enumerate(plan.runs) if dict(r.cell)["margin_type"] == "subtract"))
    report = Report(material_of(tmp_path))
    assert "subtract" in " ".join(report.caveats)
    assert any(c.id.endswith("spread") for c in report.charts)


def test_failed_runs_and_what_they_do_to_the_conclusion(tmp_path: Path) -> None:
    plan = made_store(tmp_path)
    unfinished(plan, 0)
    plan.store.run(plan.runs[0].key).fail(Failure(f"boom {ODD}"))
    report = Report(material_of(tmp_path))
    caveats = " ".join(report.caveats)
    assert "1 of 20 runs were stopped or refused" in caveats
    assert "left out; finished: 9 of clamp and 10 of subtract." in caveats
    plan.store.run(plan.runs[0].key).fail(Failure(f"boom {ODD}", details={"exit_status": 1}))
    report = Report(material_of(tmp_path))
    caveats = " ".join(report.caveats)
    assert "1 of 20 runs ended with an error, counted as failed" in caveats
    assert "those of the others, 9 of clamp and 10 of subtract." in caveats
    assert "boom &lt;script&gt;" in report.page()
    assert ODD not in report.page()


def test_collapsed_runs_make_variance_the_wrong_question(tmp_path: Path) -> None:
    plan = made_store(tmp_path, seeds=5)
    for place in (0, 1, 2, 5, 6, 7):
        change(plan, place, collapsed=True, test_accuracy=0.1)
    report = Report(material_of(tmp_path))
    (c,) = report.data.settings[0].comparisons
    assert c.failures is not None
    assert next_steps([c])[0] in report.advice
    per_seed = next(t for t in report.tables if t.id.endswith("per-seed"))
    assert "10.00 †" in per_seed.rows[0]


@pytest.mark.parametrize("name", ["history.parquet", "predictions.safetensors", "result.json"])
def test_damaged_files_are_named_and_do_not_stop_the_report(tmp_path: Path, name: str) -> None:
    plan = made_store(tmp_path)
    # The last run subtracts: its rate is read from its predictions.
    (plan.store.folder(plan.runs[-1].key) / name).write_bytes(b"not what it was")
    report = Report(material_of(tmp_path))
    assert any(plan.runs[-1].key in line for line in report.caveats), report.caveats
    assert report.page()


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    made_store(tmp_path)
    (tmp_path / FOLDER / "odd.json").write_text('{"name": "x", "cells": [{"runs": {"1": "../../etc"}}]}')
    assert any("odd.json" in line for line in material_of(tmp_path).problems)


def test_names_from_files_are_text_everywhere(tmp_path: Path) -> None:
    made_store(tmp_path, seeds=3, name=ODD)
    text = page(tmp_path)
    assert ODD not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_the_page_is_the_same_twice_and_knows_no_folder(tmp_path: Path) -> None:
    made_store(tmp_path / "store")
    first = page(tmp_path / "store")
    assert first == page(tmp_path / "store")
    assert str(tmp_path) not in first


def test_an_empty_folder_and_a_missing_one_are_one_line_each(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=re.escape(str(tmp_path))):
        material_of(tmp_path)
    with pytest.raises(ReportError, match="not a folder"):
        material_of(tmp_path / "nowhere")


def test_real_runs_have_layers_curves_and_floors(tmp_path: Path) -> None:
    """Trained, not made up: what `train` writes is what the report reads."""
    study = tiny_study(tmp_path, seeds=3, probe__layers="all")
    plan = Plan.make(study, tmp_path / "store")
    run_plan(plan, Here())
    report = Report(material_of(tmp_path / "store"))
    assert not report.data.problems
    made = {chart.id.removeprefix("study-"): chart for chart in report.charts}
    assert made.keys() >= {"spread", "profiles", "rate-over-training", "gradient-over-training"}
    assert [panel.title[:3] for panel in made["profiles"].panels] == ["(a)", "(b)", "(c)"]
    # Runs so small hardly learn: most of them count as failed, and too few are left for a verdict.
    assert "answer" not in made
    (c,) = report.data.settings[0].comparisons
    assert c.test_set_noise
    assert set(noise_lines(c)) <= set(report.sections[0].words)
    for planned in plan.runs:
        folder = Store(tmp_path / "store").folder(planned.key)
        layers = read_layers(folder, tuple(layer_margins(planned.parameters)))
        assert isinstance(layers, RunLayers)
        result = json.loads((folder / "result.json").read_text())
        counted = [layer["clamp_activation_rate"] for layer in result["layers"]]
        if None not in counted:
            assert layers.rate.tolist() == counted
        assert layers.rates.shape == layers.gradients.shape == (3, 3)
        assert np.all((layers.rates >= 0) & (layers.rates <= 1))
        assert list(layers.epochs) == [1, 2, 3]


def test_studies_can_be_named(tmp_path: Path) -> None:
    from tests.study.tiny import study_file  # noqa: PLC0415 - with its file

    path = study_file(tmp_path)
    (tmp_path / "store").mkdir()
    reported = store_material(tmp_path / "store", [str(path)])
    assert [s.study for s in reported.settings] == ["study"]
    assert reported.settings[0].why == "no run is finished yet"


def two(folder: Path, first: str, second: str) -> ReportData:
    """Two studies of the same runs but for the learning rate; the second spreads a thousand times more."""
    made_store(folder, seeds=6, name=first)
    other = made_store(folder, seeds=6, name=second, **{"training": {"learning_rate": 0.1}})
    for place, planned in enumerate(other.runs):
        wide = dict(planned.cell)["margin_type"] == "clamp"
        seed = planned.seed
        change(other, place, test_accuracy=0.4 + (0.04 if wide else 0.0004) * (seed - 3.5 + 0.3 * (seed % 2)))
    return material_of(folder)


def test_names_that_look_alike_in_an_address_keep_their_own_figures_and_files(tmp_path: Path) -> None:
    material = two(tmp_path / "store", "x/y", "x-y")
    report = Report(material)
    for ids in (
        [c.id for c in report.charts],
        [t.id for t in report.tables],
        [s.id for s in report.sections],
    ):
        assert len(set(ids)) == len(ids)
    assert len(write_tables(report, tmp_path / "t")) == len(list((tmp_path / "t").iterdir()))
    assert [s.name for s in material.settings] == ["CIFAR-10 (x-y)", "CIFAR-10 (x/y)"]


def test_a_study_is_not_judged_by_the_adjusted_p_of_another(tmp_path: Path) -> None:
    """Two studies of one dataset are no family of datasets."""
    material = two(tmp_path, "first", "second")
    by_study = {s.study: s.comparisons[0] for s in material.settings}
    assert by_study["second"].p_adjusted == by_study["second"].headline.p
    assert (by_study["second"].p_adjusted or 1) < 0.001
    every = [c for setting in material.settings for c in setting.comparisons]
    assert sorted(c.word for c in every) == ["CAN'T TELL", "YES"]
    assert Report(material).answer == title_of_many(every)


def test_two_comparisons_of_the_same_runs_are_both_shown(tmp_path: Path) -> None:
    plan = made_store(tmp_path, seeds=3)
    other = AuditSpec(group="stability", baseline="direct", block=("margin_type",))
    (recorded,) = plan.recorded()
    save_study(plan.store, replace(recorded, name="other", audit=other))
    assert {s.group for s in material_of(tmp_path).settings} == {"margin_type", "stability"}


def test_the_same_comparison_in_two_studies_is_shown_once_under_both_names(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made_store(tmp_path, seeds=2, name=name)
    assert [s.title for s in material_of(tmp_path).settings] == ["CIFAR-10 (a, b)"]


def test_arms_that_are_the_same_runs_are_not_compared(tmp_path: Path) -> None:
    made_store(tmp_path, seeds=2, training={"rule": "cross_entropy"})
    (setting,) = material_of(tmp_path).settings
    assert (setting.comparisons, setting.published) == ((), None)
    assert "its groups are the same runs" in setting.why
    assert all(profile.would_be for profile in setting.profiles["rate"].values())


def test_one_seed_is_not_enough_to_say(tmp_path: Path) -> None:
    made_store(tmp_path, seeds=1)
    material = material_of(tmp_path)
    (c,) = material.settings[0].comparisons
    assert (c.word, c.p_adjusted) == ("CAN'T TELL", None)
    assert Report(material).answer == title_of(c)


def test_a_run_whose_accuracy_is_no_number_is_named(tmp_path: Path) -> None:
    plan = made_store(tmp_path)
    change(plan, 0, test_accuracy=float("nan"))
    assert any(plan.runs[0].key in line and "is a number" in line for line in material_of(tmp_path).problems)


@pytest.mark.parametrize(
    "values",
    [
        {"layers": []},
        {"probes": [{"repeat": 0, "layer": 3, "test_accuracy": None}]},
        {"positive_pairs": "many"},
    ],
)
def test_odd_results_are_named_and_do_not_stop_the_report(tmp_path: Path, values: dict[str, object]) -> None:
    plan = made_store(tmp_path)
    change(plan, 0, **values)
    report = Report(material_of(tmp_path))
    assert any(plan.runs[0].key in line for line in report.caveats)
    assert report.page()


def test_an_infinite_gradient_is_drawn_around(tmp_path: Path) -> None:
    plan = made_store(tmp_path)
    path = plan.store.folder(plan.runs[0].key) / "result.json"
    layers = json.loads(path.read_text())["layers"]
    layers[0]["gradient_norm"] = float("inf")
    change(plan, 0, layers=layers)
    assert page(tmp_path)


def test_predictions_that_are_all_damaged_are_failed_runs_and_no_error(tmp_path: Path) -> None:
    plan = made_store(tmp_path)
    for planned in plan.runs:
        (plan.store.folder(planned.key) / "predictions.safetensors").write_bytes(b"gone")
    report = Report(material_of(tmp_path))
    assert "Test-set noise" not in report.page()
    assert str(tmp_path) not in report.page()  # problems name files by their place in the store


def test_bands_count_each_seed_once(tmp_path: Path) -> None:
    """Twins of a seed are equal here: counted as runs, the sd would be smaller."""
    made_store(tmp_path)
    (setting,) = material_of(tmp_path).settings
    profile = setting.profiles["rate"]["clamp"]
    rates = np.stack([r.layers.rate for r in setting.of("clamp", ("detach",)) if r.layers is not None])
    assert profile.seeds == 5
    assert profile.sd is not None
    np.testing.assert_allclose(profile.sd, rates.std(axis=0, ddof=1))


def test_the_papers_rows_stand_beside_runs_without_a_stability_factor(tmp_path: Path) -> None:
    """The paper's SVHN runs are `direct`; the shipped study has no such factor."""
    study = StudySpec.from_file("mini/svhn")
    fill(Plan.make(study, tmp_path))
    table = next(t for t in Report(material_of(tmp_path)).tables if t.follows == "the paper's Table 20")
    assert table.rows[1] == ("clamp: paper (different scale)", "97.16", "96.42", "97.11", "96.17", "96.66")
