"""Make the table and answer of docs/local-rules.md: `python evidence/local_rules.py`, after `gather.py`."""

from pathlib import Path

import pandas as pd

from evidence.plan import LOCAL_RULES, study_named
from evidence.tables import FOLDER, published_runs
from seedspread import audit
from seedspread.runs.store import Store
from seedspread.study.plan import Plan

BASELINE = "backpropagation"
NAMES = {
    ("layer_local", "supcon"): "SupCon, layer by layer",
    ("end_to_end", "supcon"): "SupCon, end to end",
    ("layer_local", "goodness"): "goodness",
    ("layer_local", "local_cross_entropy"): "local cross entropy",
    ("cross_entropy", "supcon"): BASELINE,
}
CSV = "local-rules.csv"


def local_rules(folder: Path = FOLDER) -> pd.DataFrame:
    """Return a row per published run of the study: rule, seed, accuracy in percent, key."""
    runs = published_runs(folder)
    keys = [run.key for run in Plan.make(study_named(LOCAL_RULES), Store(folder), folder).runs]
    mine = runs.loc[[key for key in keys if key in runs.index]]
    losses = mine["objective.loss"].fillna("supcon")  # older runs have no such field
    rules = [NAMES[pair] for pair in zip(mine["training.rule"], losses, strict=True)]
    return pd.DataFrame(
        {"rule": rules, "seed": mine["seed"], "accuracy": 100 * mine["accuracy"], "key": mine.index}
    ).reset_index(drop=True)


def main() -> None:
    """Write the runs as a table for `seedspread audit`, and print its answer."""
    table = local_rules()
    table.to_csv(FOLDER / CSV, index=False)
    print(audit(table, value="accuracy", group="rule", baseline=BASELINE, seed="seed"))


if __name__ == "__main__":
    main()
