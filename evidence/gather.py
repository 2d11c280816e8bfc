"""Add the finished runs of a store to the published tables: `python evidence/gather.py STORE`."""

import argparse
import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evidence.plan import published_keys
from evidence.tables import FOLDER, LAYERS, PREDICTIONS, RECORDS, RUNS, RUNS_CSV
from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError
from seedspread.runs.files import RecordError, read_record
from seedspread.runs.folder import CONFIG, PROVENANCE, RESULT, RunFolder
from seedspread.runs.run import full_names, read_run
from seedspread.runs.store import Store

# Fields of a result, beside its metrics and layers.
_RESULT = ("validation_accuracy", "majority_share", "feature_similarity", "positive_pairs", "pair_share")
_VERSIONS = ("seedspread", "torch", "numpy")


def gather(store: Store, keys: Collection[str], folder: Path) -> int:
    """Add the finished runs of a store to the tables in a folder; return the number of new runs.

    Args:
        store: the store of the runs.
        keys: keys of the runs to add.
        folder: the folder of the tables, which are made if they do not exist.
    """
    there = _published(folder)
    wanted = {*keys} & {*store.keys()}
    found = [key for key in sorted(wanted) if store.is_done(key)]
    for key in found:
        if key in there and not same_result(there[key], _text(store.folder(key), RESULT)):
            raise SeedspreadError(f"{key} is published with another result than {store.path} has")
    new = [RunFolder(store.folder(key), key) for key in found if key not in there]
    rows: dict[str, list[Any]] = {
        RUNS: [_row(run) for run in new],
        LAYERS: [_layers(run) for run in new],
        PREDICTIONS: [_predictions(run) for run in new],
        RECORDS: [_record(run) for run in new],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, added in rows.items():
        tables = [one if isinstance(one, pa.Table) else pa.Table.from_pylist([one]) for one in added]
        before = [pq.read_table(folder / name)] if (folder / name).exists() else []
        _write(folder / name, before + tables)
    with replacing(folder / RUNS_CSV) as part:
        pd.read_parquet(folder / RUNS).to_csv(part, index=False)
    return len(new)


def same_result(published: str, now: str) -> bool:
    """Return whether a result has every published value, to the bit; fields added since are ignored."""
    before = json.loads(published)
    known = _as_published(json.loads(now), before)
    return json.dumps(known, sort_keys=True) == json.dumps(before, sort_keys=True)


def _as_published(now: Any, before: Any) -> Any:
    """Leave out fields that the published values do not have."""
    if isinstance(before, dict) and isinstance(now, dict):
        return {name: _as_published(now[name], before[name]) for name in before if name in now}
    if isinstance(before, list) and isinstance(now, list) and len(now) == len(before):
        return [_as_published(*both) for both in zip(now, before, strict=True)]
    return now


def _published(folder: Path) -> dict[str, str]:
    """Return the results in the tables, by key."""
    if not (folder / RECORDS).exists():
        return {}
    table = pq.read_table(folder / RECORDS, columns=["key", RESULT])
    return dict(zip(table["key"].to_pylist(), table[RESULT].to_pylist(), strict=True))


def _write(path: Path, tables: list[pa.Table]) -> None:
    """Write tables as one, sorted so that the file does not depend on the order of its runs."""
    if not tables:
        return
    whole = pa.concat_tables(tables, promote_options="default")
    order = [name for name in ("key", "epoch", "layer") if name in whole.column_names]
    with replacing(path) as part:
        pq.write_table(
            whole.sort_by([(name, "ascending") for name in order]),
            part,
            compression="zstd",
            compression_level=19,
        )


def _record(run: RunFolder) -> dict[str, str]:
    return {"key": run.key} | {name: _text(run.path, name) for name in (CONFIG, PROVENANCE, RESULT)}


def _text(folder: Path, name: str) -> str:
    return (folder / name).read_text()


def _row(run: RunFolder) -> dict[str, Any]:
    found = read_run(run.path)
    if isinstance(found, RecordError):
        raise found
    result, provenance = run.result(), read_record(str(run.path), PROVENANCE)
    native: Mapping[str, str] = provenance.get("native", {})
    layers = {
        f"{name}.{layer['layer']}": math.nan if layer[name] is None else layer[name]
        for name in ("clamp_activation_rate", "gradient_norm")
        for layer in result["layers"]
    }
    over_training = run.history(["layer", "clamp_activation_rate"]).to_pandas()
    means = over_training.groupby("layer")["clamp_activation_rate"].mean()
    return {
        "key": run.key,
        "dataset": found.dataset,
        "seed": found.seed,
        **found.metrics,
        "collapsed": found.collapsed,
        **{name: result[name] for name in _RESULT},
        **layers,
        **{f"mean_clamp_activation_rate.{layer}": float(mean) for layer, mean in means.items()},
        **full_names(found.parameters),
        **{name: provenance["versions"].get(name) for name in _VERSIONS},
        "python": provenance["python"],
        "platform": provenance["platform"],
        "cpu": processor_of(provenance),
        "compiler": native.get("compiler"),
        "flags": native.get("flags"),
        "seconds": run.seconds(),
    }


def processor_of(provenance: Mapping[str, Any]) -> str | None:
    """Return the processor of a run, or of its native kernel's compilation; None if not recorded."""
    native: Mapping[str, str] = provenance.get("native", {})
    return native.get("cpu") or provenance.get("processor") or None


def _layers(run: RunFolder) -> pa.Table:
    history = run.history()
    return history.add_column(0, "key", pa.array([run.key] * history.num_rows))


def _predictions(run: RunFolder) -> dict[str, Any]:
    """Return a row with the test images that a run got right, in their official order, as packed bits."""
    ids, correct = run.correct()
    if not np.array_equal(ids, np.arange(len(ids))):
        raise SeedspreadError(f"{run.path} was not tested on a whole test set")
    histogram = run.predictions("similarity_histogram")["similarity_histogram"]
    return {
        "key": run.key,
        "examples": len(ids),
        "correct": np.packbits(correct).tobytes(),
        "similarity_histogram": histogram.tolist(),
    }


def main() -> None:
    """Add the runs of the published studies from a store."""
    parser = argparse.ArgumentParser(description="Add the finished runs of a store to the published tables.")
    parser.add_argument("store", help="the folder of results")
    store = Store(parser.parse_args().store)
    wanted = published_keys(store)
    print(f"{gather(store, wanted, FOLDER)} runs are new, of {len(wanted)} that the studies name")


if __name__ == "__main__":
    main()
