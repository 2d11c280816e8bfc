"""A folder of finished runs as a table, read without torch: result.json, config.toml, stored predictions."""

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors.numpy import load_file

from seedspread.errors import SeedspreadError


class RunsError(SeedspreadError):
    """A stored run cannot be used."""


def is_store(folder: Path) -> bool:
    """Whether any finished run lies in `folder`."""
    return next(_results(folder), None) is not None


def _results(folder: Path) -> Any:
    return folder.glob("**/result.json")


def runs_table(folder: Path) -> pd.DataFrame:
    """One row per finished run: accuracy, seed, dataset, collapsed, majority, folder, and its config.

    Config fields have their full names (`objective.margin_type`) and, where clear, the last part alone.
    """
    rows = []
    for path in sorted(_results(folder)):
        try:
            result = json.loads(path.read_text())
            config = tomllib.loads((path.parent / "config.toml").read_text())
            row = {
                "accuracy": float(result["test_accuracy"]),
                "dataset": result["dataset"],
                "collapsed": bool(result["collapsed"]),
                "majority": float(result["majority_share"]),
                "folder": str(path.parent),
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunsError(
                f"{path.parent} is not a readable run: {error}; move it away and try again"
            ) from None
        rows.append(_named(config) | row)
    return pd.DataFrame(rows)


def _named(config: dict[str, Any]) -> dict[str, Any]:
    full = {
        f"{part}.{field}": value if isinstance(value, str | int | float | bool) else json.dumps(value)
        for part, fields in config.items()
        for field, value in fields.items()
    }
    counts = Counter(name.split(".")[1] for name in full)
    short = {name.split(".")[1]: value for name, value in full.items() if counts[name.split(".")[1]] == 1}
    return full | short | {"seed": config.get("seeds", {}).get("run", 0)}


def correct_predictions(folders: list[str]) -> NDArray[np.bool_] | None:
    """(runs, N) which test examples each run got right; None unless all predicted the same examples."""
    found, ids = [], None
    for folder in folders:
        path = Path(folder) / "predictions.safetensors"
        if not path.exists():
            return None
        stored = load_file(path)
        if ids is not None and not np.array_equal(ids, stored["ids"]):
            return None
        ids = stored["ids"]
        found.append(stored["logits"][0].argmax(axis=1) == stored["labels"])
    return np.stack(found) if found else None
