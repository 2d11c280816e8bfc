"""The published numbers as tables, in `data/`: what each holds, and how it is read.

- `runs`: a row per run: key, dataset, seed, parameters, metrics, rates of the final weights, versions.
- `layers`: a row per run, epoch and layer.
- `predictions`: of each run which test images it got right, as packed bits, and the final similarities.
- `records`: the files of each run as they were written: config, provenance, result.

All are Parquet; `runs.csv` holds the first again, for those who have no Parquet.
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
    """A row per run, by key."""
    return pd.read_csv(folder / RUNS_CSV, index_col="key")


def correct(keys: Sequence[str], folder: Path = FOLDER) -> NDArray[np.bool_]:
    """(runs, images) which of the test images each of these runs got right."""
    rows = {row["key"]: row for row in pq.read_table(folder / PREDICTIONS).to_pylist()}
    bits = [np.frombuffer(rows[key]["correct"], dtype=np.uint8) for key in keys]
    return np.unpackbits(np.stack(bits), axis=1, count=rows[keys[0]]["examples"]).astype(bool)
