"""A store of this package's runs as a source."""

from pathlib import Path

from seedspread import collect
from seedspread.runs.files import FORMAT
from seedspread.runs.folder import Failure, RunFolder
from seedspread.runs.store import Store
from seedspread.runs.studies import RecordedCell, RecordedStudy, save_study


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


def test_stale_runs_are_left_out_of_the_table(tmp_path: Path) -> None:
    store = tmp_path / "store"
    finished(store, "k1", "2026-01-01T00:00:00+00:00", "base")
    finished(store, "k2", "2026-02-02T00:00:00+00:00", "base")
    cell = RecordedCell({"sides": 6}, {"sides": 6}, {1: "k1"})
    save_study(Store(store), RecordedStudy("study", "", "", None, "dice", (cell,)))
    got = collect(store, "score")
    assert list(got.table["run"]) == ["k1"]
    assert [(one.name, one.reason) for one in got.unread] == [("k2", "made before its inputs changed")]
