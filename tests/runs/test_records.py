"""Records that cannot be edited or swapped unnoticed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from seedspread.runs.files import FORMAT, RecordError
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
    assert "result.json is not what the run wrote: it was edited or swapped" in str(read_run(path))
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
        with pytest.raises(RecordError, match="it was edited or swapped"):
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
