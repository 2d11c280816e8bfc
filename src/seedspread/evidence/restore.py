"""From the published tables back to a store of runs, with all but the logits and weights."""

import os
import secrets
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seedspread.errors import SeedspreadError, reason
from seedspread.evidence.studies import evidence_plan
from seedspread.evidence.tables import FOLDER, LAYERS, PREDICTIONS, RECORDS, digest, published_runs
from seedspread.runs.folder import RunFolder
from seedspread.runs.record import CONFIG, PROVENANCE, RESULT
from seedspread.runs.store import Store
from seedspread.runs.studies import save_study


def evidence_store() -> Store:
    """The published runs as a store in the user's cache, made when it is first asked for.

    Its runs have what theirs had but for the logits: of these there is which images were classified rightly.
    """
    # The last name is how pages and sentences call it.
    place = platformdirs.user_cache_path("seedspread") / "evidence" / digest() / "evidence"
    if place.is_symlink():
        raise SeedspreadError(f"{place} is a link: remove it")
    if not place.is_dir():
        try:
            _make(place)
        except OSError as error:
            raise SeedspreadError(
                f"{place} cannot be written ({reason(error)}): name a folder of yours in XDG_CACHE_HOME"
            ) from None
    return Store(place)


def _make(place: Path) -> None:
    """Whole or not at all: it is made beside its place."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}-{secrets.token_hex(8)}")
    try:
        store, keys = Store(beside), set(published_runs().index)
        restore(store, keys)
        for study in evidence_plan(store).recorded():
            if all(keys & set(cell.runs.values()) for cell in study.cells):
                save_study(store, study)
        os.rename(beside, place)
    except OSError:
        if not place.is_dir():  # another has made it meanwhile
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def restore(store: Store, keys: Collection[str], folder: Path = FOLDER) -> int:
    """Writes published runs into a store, which then has them as done; returns how many.

    Args:
        store: where to; what is there already stays as it is.
        keys: of the runs that are wanted.
        folder: of the tables.
    """
    published = published_runs(folder).index
    wanted = [key for key in keys if key in published and not store.folder(key).exists()]
    if not wanted:
        return 0
    store.check()
    chosen = pa.array(wanted)
    records, layers, predictions = (
        table.filter(pc.is_in(table["key"], chosen))
        for table in (pq.read_table(folder / name) for name in (RECORDS, LAYERS, PREDICTIONS))
    )
    predicted = {row["key"]: row for row in predictions.to_pylist()}
    for record in records.to_pylist():
        key = record["key"]
        run = RunFolder(store.folder(key), key)
        run.check_place()
        run.path.mkdir()
        run.keep_history(layers.filter(pc.equal(layers["key"], key)).drop_columns(["key"]))
        run.keep_predictions(_arrays(predicted[key]))
        for name in (CONFIG, PROVENANCE, RESULT):  # the result last: with it the run is done
            run.write(name, record[name].encode())
    return len(wanted)


def _arrays(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "ids": np.arange(row["examples"]),
        "correct": np.frombuffer(row["correct"], dtype=np.uint8),
        "similarity_histogram": np.array(row["similarity_histogram"], dtype=np.int64),
    }
