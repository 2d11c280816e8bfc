"""A store's runs in MLflow: all that is known of them, once, and back again."""

import json
from pathlib import Path

import pytest

from seedspread import collect
from seedspread.runs.files import FORMAT
from seedspread.runs.folder import Failure, RunFolder
from seedspread.runs.store import Store
from seedspread.runs.studies import RecordedCell, RecordedStudy, save_study
from seedspread.tables.sources.files import quiet
from seedspread.tables.sources.mlflow import connect, export, pages
from tests.commands import seedspread_here
from tests.report.helpers import made_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "store"
    made_store(folder, seeds=2)
    return folder


def test_what_is_exported_comes_back(store: Path, tmp_path: Path) -> None:
    uri = (tmp_path / "mlruns").as_uri()
    done = export(store, uri)
    table = collect(store, "accuracy").table
    assert (done.exported, done.there, done.unread) == (len(table), 0, ())
    back = collect(tmp_path / "mlruns", "accuracy").table
    assert back.set_index("run")["accuracy"].to_dict() == table.set_index("run")["accuracy"].to_dict()
    assert sorted(back["seed"]) == sorted(table["seed"])
    with quiet():
        client = connect(uri)
    number = client.get_experiment_by_name("store").experiment_id  # type: ignore[union-attr]
    for run in pages(client.search_runs, experiment_ids=[number]):
        assert run.data.tags["seedspread.key"] == run.info.run_name
        history = Store(store).run(run.info.run_name).history(["epoch", "layer", "loss"]).to_pylist()
        curve = client.get_metric_history(run.info.run_id, "history.loss.layer0")
        assert [point.value for point in curve] == [row["loss"] for row in history if row["layer"] == 0]


def test_a_run_is_exported_once(store: Path, tmp_path: Path) -> None:
    uri = (tmp_path / "mlruns").as_uri()
    first = json.loads(seedspread_here("collect", str(store), "--mlflow", uri, "--json").stdout)
    assert first["exported"] > 0
    with quiet():
        client = connect(uri)
        number = client.get_experiment_by_name("store").experiment_id  # type: ignore[union-attr]
        runs = list(pages(client.search_runs, experiment_ids=[number]))
        client.update_run(runs[0].info.run_id, status="RUNNING")  # as an export that was killed leaves it
    again = seedspread_here("collect", str(store), "--mlflow", uri)
    assert again.returncode == 0, again.stderr
    assert f"1 run; there before: {len(runs) - 1}" in again.stdout
    assert len(collect(tmp_path / "mlruns", "accuracy").table) == len(runs)


def test_a_store_is_a_source_too(tmp_path: Path) -> None:
    for seed in (1, 2):
        folder = RunFolder(tmp_path / f"k{seed}", f"k{seed}")
        folder.open("sides = 6", resume=False)
        result = {
            "format": FORMAT,
            "runner": "dice",
            "key": folder.key,
            "metrics": {"score": seed},
            "collapsed": False,
        }
        if seed == 1:
            folder.finish(result, {"runner": "dice", "seed": seed, "config": {"sides": 6}})
        else:
            folder.fail(Failure("the die fell off the table"))
    got = collect(tmp_path, "score", all_parameters=True)
    assert got.kind == "store"
    assert got.table[["run", "seed", "sides", "score"]].values.tolist() == [["k1", 1, 6, 1.0]]
    assert [(one.name, one.reason) for one in got.unread] == [
        ("k2", "its state is failed: the die fell off the table")
    ]


def finished(store: Path, key: str, ended: str, base_key: str | None = None) -> None:
    folder = RunFolder(store / key, key)
    folder.open("sides = 6", resume=False)
    result = {"format": FORMAT, "runner": "dice", "key": key, "metrics": {"score": 1}, "collapsed": False}
    provenance = {"runner": "dice", "seed": 1, "config": {"sides": 6}, "ended": ended}
    folder.finish(result, provenance | ({"base_key": base_key} if base_key else {}))


def test_of_equal_runs_the_one_that_ended_last_is_kept(tmp_path: Path) -> None:
    finished(tmp_path, "k1", "2026-02-02T00:00:00+00:00")
    finished(tmp_path, "k2", "2026-01-01T00:00:00+00:00")
    got = collect(tmp_path, "score")
    assert list(got.table["run"]) == ["k1"]
    assert [(one.name, one.reason) for one in got.unread] == [
        ("k2", "its parameters and its seed are those of k1, a later run")
    ]


def test_stale_runs_are_left_out_of_the_table_and_of_what_is_exported(tmp_path: Path) -> None:
    store = tmp_path / "store"
    finished(store, "k1", "2026-01-01T00:00:00+00:00", "base")
    finished(store, "k2", "2026-02-02T00:00:00+00:00", "base")
    cell = RecordedCell({"sides": 6}, {"sides": 6}, {1: "k1"})
    save_study(Store(store), RecordedStudy("study", "", "", None, "dice", (cell,)))
    stale = [("k2", "made before its inputs changed")]
    got = collect(store, "score")
    assert list(got.table["run"]) == ["k1"]
    assert [(one.name, one.reason) for one in got.unread] == stale
    done = export(store, (tmp_path / "mlruns").as_uri())
    assert (done.exported, [(one.name, one.reason) for one in done.unread]) == (1, stale)
