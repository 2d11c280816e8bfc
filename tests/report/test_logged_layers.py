"""What anyone's code logs of its layers: in the store's table, in the report's figures; and its device."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import seedspread
from seedspread import Store, Study
from seedspread.analysis.curves import curves
from seedspread.analysis.words import devices_note
from seedspread.report.layers import RunLayers, read_layers
from seedspread.report.page import Report
from seedspread.study.study import StudyRuns, store_material


def training(seed: int, clip: float) -> dict[str, float]:
    """Logs three layers over four epochs, and claims to have used a GPU if it clips all."""
    if clip == 1:
        flags = SimpleNamespace(version=lambda: 91002, deterministic=False, benchmark=True)
        sys.modules["torch"] = SimpleNamespace(  # type: ignore[assignment]
            cuda=SimpleNamespace(is_initialized=lambda: True, get_device_name=lambda: "NVIDIA A100"),
            version=SimpleNamespace(cuda="12.8"),
            backends=SimpleNamespace(cudnn=flags),
            are_deterministic_algorithms_enabled=lambda: False,
            set_num_threads=lambda count: None,
        )
    for epoch in range(1, 5):
        for layer in range(3):
            seedspread.log(
                layer=layer, rate=clip / (epoch + layer), gradient_norm=seed * epoch + layer, epoch=epoch
            )
        seedspread.log(layer=2, loss=7.0, epoch=epoch)
        seedspread.log(loss=1 / epoch, epoch=epoch)
    return {"score": clip + seed}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> StudyRuns:
    audit = {"group": "clip", "baseline": 0.5, "value": "score"}
    study = Study(training, factors={"clip": [0.5, 1.0]}, seeds=2, audit=audit)
    return study.run(tmp_path_factory.mktemp("store"), workers=1, progress=False)


def folders(runs: StudyRuns) -> dict[tuple[float, int], Path]:
    rows = runs.table.to_dict("records")
    return {(row["clip"], row["seed"]): Path(row["folder"]) for row in rows}


def test_the_stores_table_has_what_was_logged(runs: StudyRuns) -> None:
    layers = Store(runs.plan.store.path).layers()
    assert len(layers) == 4 * 3 * 4
    for row in layers.to_dict("records"):
        assert row["clamp_activation_rate"] == pytest.approx(row["clip"] / (row["epoch"] + row["layer"]))
        assert row["gradient_norm"] == row["seed"] * row["epoch"] + row["layer"]
        assert (row["loss"] == 7.0) == (row["layer"] == 2)
    assert layers["rate_if_clamped"].isna().all()


def test_figures_are_made_of_it(runs: StudyRuns) -> None:
    found = read_layers(folders(runs)[1.0, 2])
    assert isinstance(found, RunLayers)
    assert found.rate.tolist() == pytest.approx([1 / 4, 1 / 5, 1 / 6])
    assert found.gradient.tolist() == [8, 9, 10]
    assert list(found.epochs) == [1, 2, 3, 4]
    assert found.gradients.tolist() == [[2 * epoch + layer for layer in range(3)] for epoch in range(1, 5)]
    report = Report(store_material(runs.plan.store.path))
    assert not report.data.problems
    made = {chart.id.removeprefix("training-") for chart in report.charts}
    assert made >= {"profiles", "rate-over-training", "gradient-over-training"}
    profiles = next(chart for chart in report.charts if chart.id == "training-profiles")
    names = {mark.name for panel in profiles.panels for mark in panel.marks}
    assert not any("if clamped" in name for name in names)  # it is what the code says that it cut


def test_metrics_and_curves_are_those_of_the_whole_run(runs: StudyRuns) -> None:
    for (clip, seed), folder in folders(runs).items():
        result = json.loads((folder / "result.json").read_text())
        assert result["metrics"] == {"score": clip + seed, "loss": 0.25, "epoch": 4}
        assert result["layers"] == [0, 1, 2]
    found = curves(runs.plan.store.path, "loss", "clip")
    assert found.frame["mean"].tolist() == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4] * 2)


def test_a_function_that_starts_cuda_has_its_gpu_in_the_provenance(runs: StudyRuns) -> None:
    for (clip, _), folder in folders(runs).items():
        facts: dict[str, Any] = json.loads((folder / "provenance.json").read_text())
        expected = ("cuda", "NVIDIA A100", "12.8", 91002) if clip == 1 else (None,) * 4
        assert tuple(facts.get(name) for name in ("device", "gpu", "cuda", "cudnn")) == expected
        assert "A100" not in (folder / "result.json").read_text()


def test_an_audit_and_a_report_of_unlike_devices_say_so(runs: StudyRuns) -> None:
    (note,) = devices_note({"": 2, "NVIDIA A100": 2})
    assert note in runs.audit().notes
    assert note in Report(store_material(runs.plan.store.path)).data.notes
