"""Records that cannot be edited or swapped unnoticed, and the index of a large store."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from seedspread.runs import index
from seedspread.runs.files import FORMAT, RecordError
from seedspread.runs.index import INDEX
from seedspread.runs.run import Run, read_run
from seedspread.runs.store import Store


def finished(store: Store, number: int, accuracy: float = 0.75, **provenance: object) -> Path:
    """A run whose predictions get three of four examples right."""
    key = f"{number:020x}"
    folder = store.run(key)
    folder.open("", resume=False)
    logits = np.eye(4, dtype=np.float32)[[0, 1, 2, 2]]
    folder.keep_predictions({"ids": np.arange(4), "labels": np.arange(4), "logits": logits[None]})
    metrics = {"accuracy": accuracy}
    result = {"format": FORMAT, "runner": "mine", "key": key, "metrics": metrics, "collapsed": False}
    folder.finish(result, {"runner": "mine", "seed": number, "config": {}, **provenance})
    return folder.path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_result_that_was_edited_is_refused_by_everyone_who_reads_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = finished(store, 1)
    assert isinstance(read_run(path), Run)
    edit(path / "result.json", "0.75", "0.99")
    assert "result.json is not what the run has left: it was edited, or swapped" in str(read_run(path))
    assert store.state(path.name).state == "failed"
    assert len(store.table()) == 0
    assert len(store.problems()) == 1


@pytest.mark.parametrize("name", ["result.json", "predictions.safetensors"])
def test_what_is_swapped_between_two_runs_is_noticed(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path)
    first, second = finished(store, 1), finished(store, 2)
    (second / name).write_bytes(b"x" + (second / name).read_bytes()[1:])  # another run's, as it were
    shutil.copy(second / name, first / name)
    assert store.verified(first.name)
    if name == "predictions.safetensors":
        with pytest.raises(RecordError, match="it was edited, or swapped"):
            store.run(first.name).predictions("logits")


def test_a_run_that_is_copied_to_another_key_is_not_that_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = finished(store, 1)
    shutil.copytree(path, tmp_path / f"{2:020x}")
    assert "is that of run 00000000000000000001: it was copied or swapped" in store.verified(f"{2:020x}")
    assert store.verified(path.name) == ""


def test_an_accuracy_is_that_of_the_predictions(tmp_path: Path) -> None:
    store = Store(tmp_path)
    percent, other = finished(store, 1, 75.0), finished(store, 2, 0.8)
    assert store.verified(percent.name) == ""
    assert store.verified(other.name).endswith("its accuracy is 0.8, and that of its predictions 0.75")


def test_records_from_before_digests_are_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = finished(store, 1)
    provenance = json.loads((path / "provenance.json").read_text())
    del provenance["digests"]
    (path / "provenance.json").write_text(json.dumps(provenance))
    edit(path / "result.json", "0.75", "0.99")
    assert isinstance(read_run(path), Run)


def test_an_index_follows_the_folders_and_can_be_deleted_or_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_FEW", 2)
    store = Store(tmp_path)
    paths = [finished(store, number, base_key=f"b{number}") for number in range(3)]
    keys = [path.name for path in paths]
    before = store.states(keys)
    assert (tmp_path / INDEX).exists()
    monkeypatch.setattr(index, "read_run", lambda _: pytest.fail("it was read once more"))
    assert store.states(keys) == before
    assert store.finished_by_base_key() == {f"b{number}": key for number, key in enumerate(keys)}
    monkeypatch.undo()
    monkeypatch.setattr(index, "_FEW", 2)
    edit(paths[0] / "result.json", "0.75", "0.25")
    (paths[1] / "result.json").unlink()
    assert [state.state for state in store.states(keys).values()] == ["failed", "waiting", "done"]
    for damaged in (b"", b"{", b'{"version": 1, "runs": {"a": 3}}', b'{"version": 0, "runs": {}}', b"[]"):
        (tmp_path / INDEX).write_bytes(damaged)
        assert [state.state for state in store.states(keys).values()] == ["failed", "waiting", "done"]
    os.unlink(tmp_path / INDEX)
    assert [state.state for state in store.states(keys).values()] == ["failed", "waiting", "done"]


def test_a_small_store_has_no_index(tmp_path: Path) -> None:
    path = finished(Store(tmp_path), 1)
    Store(tmp_path).states([path.name])
    assert not (tmp_path / INDEX).exists()


def test_a_problem_that_passes_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_FEW", 0)
    path = finished(Store(tmp_path), 1)
    with monkeypatch.context() as patch:
        patch.setattr(index, "read_run", lambda _: "Stale file handle")
        assert Store(tmp_path).states([path.name])[path.name].state == "failed"
    assert Store(tmp_path).states([path.name])[path.name].state == "done"
    content = json.loads((tmp_path / INDEX).read_text())
    content["runs"][path.name][3] = ["no key"]
    (tmp_path / INDEX).write_text(json.dumps(content))
    assert Store(tmp_path).finished_by_base_key() == {}
