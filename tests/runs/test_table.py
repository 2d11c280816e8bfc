"""Finished runs as a table, and the sampling floor from their predictions."""

import json
import re
from pathlib import Path

import pytest

from seedspread.analysis.audit import audit
from seedspread.cff.training.run import train
from seedspread.runs.store import RunsError, Store, correct_predictions
from seedspread.study.loop import run_plan
from seedspread.tables.from_store import all_runs
from tests.cff.training.tiny import tiny
from tests.runners.programs import plan_of
from tests.study.here import Here


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    for margin_type in ("clamp", "subtract"):
        for seed in range(3):
            config = tiny(objective__margin_type=margin_type, seeds__run=seed)
            train(config, folder / f"{margin_type}-{seed}")
    return folder


def test_a_folder_of_runs_is_a_table(store: Path) -> None:
    rows = all_runs(Store(store))[0]
    assert len(rows) == 6
    assert set(rows["margin_type"]) == {"clamp", "subtract"}
    assert set(rows["seed"]) == {0, 1, 2}
    result = json.loads((store / "clamp-1" / "result.json").read_text())
    row = rows[(rows["margin_type"] == "clamp") & (rows["seed"] == 1)].iloc[0]
    assert row["accuracy"] == result["test_accuracy"]
    assert row["objective.stability"] == row["stability"] == "detach"


def test_stored_predictions_give_the_accuracies_back(store: Path) -> None:
    rows = all_runs(Store(store))[0]
    correct = correct_predictions(list(rows["folder"]))
    assert correct is not None
    assert list(correct.mean(axis=1)) == pytest.approx(list(rows["accuracy"]))


def test_the_audit_of_a_store_has_the_sampling_floor(store: Path) -> None:
    c = audit(store, "accuracy", "margin_type", "subtract").comparisons[0]
    assert [f.group for f in c.test_set_noise] == ["clamp", "subtract"]
    assert not any(f.is_bound for f in c.test_set_noise)
    assert all(f.remaining is not None for f in c.test_set_noise)


def test_a_damaged_run_is_named(store: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "result.json").write_text("{}")
    (broken / "config.toml").write_text("")
    with pytest.raises(RunsError, match="broken"):
        all_runs(Store(tmp_path))[0]


def test_a_result_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, seeds=2)
    run_plan(plan, Here())
    first, second = (plan.store.folder(run.key) / "result.json" for run in plan.runs[:2])
    first.write_bytes(second.read_bytes())
    with pytest.raises(RunsError, match=plan.runs[1].key):
        all_runs(plan.store)


@pytest.mark.parametrize("value", ["true", '"0.99"', "{}"])
def test_what_is_no_number_is_no_metric(tmp_path: Path, value: str) -> None:
    plan = plan_of(tmp_path)
    run_plan(plan, Here())
    path = plan.store.folder(plan.runs[0].key) / "result.json"
    path.write_text(re.sub(r'"accuracy": 0\.[0-9]+(?=\n  })', f'"accuracy": {value}', path.read_text()))
    with pytest.raises(RunsError, match="as accuracy, which is not a number"):
        all_runs(plan.store)
