"""The published numbers as tables, in the package: what each holds, and how it is read.

- `runs`: a row per run: key, dataset, seed, parameters, metrics, rates of the final weights, versions.
- `layers`: a row per run, epoch and layer.
- `predictions`: of each run which test images it got right, as packed bits, and the final similarities.
- `records`: the files of each run as they were written: config, provenance, result.

All are Parquet; `runs.csv` holds the first again, and is read where there is no Parquet.
"""

import hashlib
from functools import cache
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent / "data"
RUNS, LAYERS, PREDICTIONS, RECORDS = (
    f"{name}.parquet" for name in ("runs", "layers", "predictions", "records")
)
RUNS_CSV = "runs.csv"


@cache
def published_runs(folder: Path = FOLDER) -> pd.DataFrame:
    """A row per run, by key."""
    return pd.read_csv(folder / RUNS_CSV, index_col="key")


@cache
def digest(folder: Path = FOLDER) -> str:
    """Stands for all that is published."""
    whole = hashlib.sha256()
    for name in (RUNS, LAYERS, PREDICTIONS, RECORDS):
        whole.update((folder / name).read_bytes())
    return whole.hexdigest()[:16]
