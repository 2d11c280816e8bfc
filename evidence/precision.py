"""Make the table on bf16 of docs/performance.md: `python evidence/precision.py`, after `gather.py`."""

from pathlib import Path

import pandas as pd

from evidence.plan import PRECISION, study_named
from evidence.tables import FOLDER, published_runs
from seedspread import audit
from seedspread.runs.store import Store
from seedspread.study.plan import Plan

CSV = "precision.csv"


def precisions(folder: Path = FOLDER) -> pd.DataFrame:
    """Return a row per run of the study: number format, margin, seed, accuracy in percent, key."""
    plan = Plan.make(study_named(PRECISION), Store(folder), folder)
    accuracy = 100 * published_runs(folder)["accuracy"]
    rows = [
        dict(run.cell) | {"seed": run.seed, "accuracy": accuracy[run.key], "key": run.key}
        for run in plan.runs
    ]
    return pd.DataFrame(rows)


def main() -> None:
    """Write the runs as a table for `seedspread audit`, and print its answer."""
    table = precisions()
    table.to_csv(FOLDER / CSV, index=False)
    print(audit(table, "accuracy", "precision", "fp32", by="margin_type"))


if __name__ == "__main__":
    main()
