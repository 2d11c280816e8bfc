"""The store: what it says of runs, and what it makes of foreign and damaged files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from seedspread.cff.runner import CffRunner
from seedspread.cff.training.run import train
from seedspread.runs.folder import Failure
from seedspread.runs.lease import StalenessTracker
from seedspread.runs.store import Store, StoreError
from seedspread.study.display import tidy_runs
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.worker import attempt
from tests.study.here import Here
from tests.study.tiny import items, results, tiny_study


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    report = run_plan(Plan.make(tiny_study(folder, seeds=2), folder / "store"), Here())
    assert len(report.done) == 4
    return folder


def test_a_finished_run_has_its_result_and_no_lease_that_holds(filled: Path) -> None:
    store = Store(filled / "store")
    assert store.counts()["done"] + store.counts()["collapsed"] == 4
    for key in store.keys():  # noqa: SIM118 - a store is not a dict
        names = {p.name for p in store.folder(key).iterdir() if not p.name.startswith("lease")}
        assert names == {
            "config.toml",
            "history.parquet",
            "model.safetensors",
            "predictions.safetensors",
            "provenance.json",
            "result.json",
            "training.safetensors",
        }


def test_the_table_has_factors_as_columns(filled: Path) -> None:
    study = tiny_study(filled, seeds=2)
    table = tidy_runs(Plan.make(study, filled / "store"))
    assert list(table["margin_type"]) == ["clamp", "clamp", "subtract", "subtract"]
    assert list(table["seed"]) == [0, 1, 0, 1]
    assert set(table["study"]) == {"study"}
    assert len(Store(filled / "store").table()) == 4


def test_states(filled: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    plan = Plan.make(tiny_study(tmp_path, seeds=2), store)
    keys = list(plan.distinct)
    assert {s.state for s in plan.states().values()} == {"waiting"}
    lease = store.claim(keys[0], StalenessTracker())
    assert lease is not None
    store.folder(keys[1]).mkdir()
    store.run(keys[1]).fail(Failure("first\nlast line"))
    store.folder(keys[2]).mkdir()
    (store.folder(keys[2]) / "run.json").write_text("{}")
    states = plan.states()
    assert [states[k].state for k in keys] == ["running", "failed", "interrupted", "waiting"]
    assert states[keys[1]].message == "last line"


def test_damaged_and_foreign_files_are_named_and_stop_nothing(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "store", tmp_path / "store")
    store = Store(tmp_path / "store")
    broken, *rest = store.keys()
    (store.folder(broken) / "result.json").write_text("{ half")
    (store.path / "notes.txt").write_text("mine")
    (store.path / "photos").mkdir()
    assert len(store.table()) == len(rest)
    problems = "\n".join(store.problems())
    assert len(store.problems()) == 3
    for name in (broken, "notes.txt", "photos"):
        assert name in problems
    assert store.state(broken).state == "failed"


def test_a_damaged_result_is_computed_again_when_asked(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled / "store", tmp_path / "store")
    store = Store(tmp_path / "store")
    plan = Plan.make(tiny_study(filled, seeds=2), store)
    broken = next(iter(plan.distinct))
    (store.folder(broken) / "result.json").write_text("{ half")
    assert list(run_plan(plan, Here()).failed) == [broken]
    assert not run_plan(plan, Here(), retry_failed=True).failed
    assert results(store.path) == results(filled / "store")


def test_stores_are_merged_by_copying(filled: Path, tmp_path: Path) -> None:
    """Half of the runs here, half there; the copy knows them all, and carries no lease over."""
    study = tiny_study(filled, seeds=2)
    here, there = tmp_path / "here", tmp_path / "there"
    keys = sorted(results(filled / "store"))
    for key in keys:
        shutil.copytree(filled / "store" / key, (here if key < keys[2] else there) / key)
    running = Store(there).claim("0" * 20, StalenessTracker())
    assert running is not None
    shutil.copytree(there, here, dirs_exist_ok=True)
    assert not Plan.make(study, here).missing()
    assert Store(here).claim("0" * 20, StalenessTracker()) is not None
    assert results(here) == results(filled / "store")


def test_a_run_that_is_done_is_not_done_again(filled: Path) -> None:
    store = Store(filled / "store")
    plan = Plan.make(tiny_study(filled, seeds=2), store)
    item = items(plan)[0]
    key = item.key
    before = (store.folder(key) / "result.json").stat().st_mtime_ns
    assert attempt(item).outcome == "done"
    assert (store.folder(key) / "result.json").stat().st_mtime_ns == before
    report = run_plan(plan, Here())
    assert (report.total, report.left) == (0, 0)


def test_results_are_those_of_the_runs_alone(filled: Path, tmp_path: Path) -> None:
    plan = Plan.make(tiny_study(filled, seeds=2), Store(filled / "store"))
    key, run = next(iter(plan.distinct.items()))
    alone = train(CffRunner().seeded(run.parameters, run.seed), tmp_path / "alone")
    assert alone.key == key
    stored = json.loads((filled / "store" / key / "result.json").read_text())
    assert stored == json.loads((tmp_path / "alone" / "result.json").read_text())


def test_a_store_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        run_plan(Plan.make(tiny_study(tmp_path, seeds=1), tmp_path / "file"), Here())


def test_another_run_than_planned_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The data changed after the plan was made, so that the key is another."""
    store = Store(tmp_path / "store")
    item = items(Plan.make(tiny_study(tmp_path, seeds=1), store))[0]
    other = "0" * len(item.key)
    ended = attempt(replace(item, run=replace(item.run, key=other, folder=str(store.folder(other)))))
    assert ended.outcome == "failed"
    assert "not the run that was planned" in ended.message
    assert not store.is_done(other)
