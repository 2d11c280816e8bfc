"""Read the published tables in `data/`.

- `runs`: a row per run: key, dataset, seed, parameters, metrics, rates with the final weights, versions.
- `layers`: a row per run, epoch and layer.
- `predictions`: a row per run: the test images it got right, as packed bits, and the final similarities.
- `records`: the original files of each run: config, provenance, result.

All are Parquet; `runs.csv` has the same content as `runs`, for readers without Parquet.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "data"
RUNS, LAYERS, PREDICTIONS, RECORDS = (
    f"{name}.parquet" for name in ("runs", "layers", "predictions", "records")
)
RUNS_CSV = "runs.csv"


@cache
def published_runs(folder: Path = FOLDER) -> pd.DataFrame:
    """Return a row per run, indexed by key."""
    return pd.read_csv(folder / RUNS_CSV, index_col="key")


def correct(keys: Sequence[str], folder: Path = FOLDER) -> NDArray[np.bool_]:
    """Return (runs, images): whether each run got each test image right."""
    rows = {row["key"]: row for row in pq.read_table(folder / PREDICTIONS).to_pylist()}
    bits = [np.frombuffer(rows[key]["correct"], dtype=np.uint8) for key in keys]
    return np.unpackbits(np.stack(bits), axis=1, count=rows[keys[0]]["examples"]).astype(bool)
