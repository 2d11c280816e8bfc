"""A folder of finished runs as a table, read without torch: result.json, config.toml, stored predictions."""

import json
import os
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import SafetensorError
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
    A run that cannot be read is an error here; `runs_and_problems` goes on.
    """
    table, problems = runs_and_problems(folder)
    if problems:
        raise RunsError(f"{problems[0]}; move it away and try again")
    return table


def runs_and_problems(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """The finished runs that can be read, and a line on each that cannot."""
    found = [read_run(path.parent) for path in sorted(_results(folder))]
    rows = [one for one in found if isinstance(one, dict)]
    return pd.DataFrame(rows), [one for one in found if isinstance(one, str)]


def read_run(folder: Path) -> dict[str, Any] | str:
    """A finished run as a row, or what is wrong with it."""
    where = str(folder)
    try:
        result = _json(where, "result.json")
        return _named(run_config(where)) | {
            "accuracy": float(result["test_accuracy"]),
            "dataset": str(result["dataset"]),
            "collapsed": bool(result["collapsed"]),
            "majority": float(result["majority_share"]),
            "folder": where,
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{where} is not a readable run: {error}"


def _json(folder: str, name: str) -> dict[str, Any]:
    # Plain strings and bytes: with ten thousand runs, paths and decoding would be most of the time.
    with open(os.path.join(folder, name), "rb") as file:
        found: dict[str, Any] = json.loads(file.read())
        return found


def run_config(folder: str) -> dict[str, Any]:
    """From provenance.json, which reads much faster than config.toml and says the same."""
    try:
        config: dict[str, Any] = _json(folder, "provenance.json")["config"]
        return config
    except FileNotFoundError:
        return tomllib.loads((Path(folder) / "config.toml").read_text())


def is_collapsed(folder: Path) -> bool | str:
    """Whether a finished run is flagged as collapsed, or what is wrong with its result."""
    try:
        return bool(_json(str(folder), "result.json")["collapsed"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{folder} is not a readable run: {error}"


def _named(config: dict[str, Any]) -> dict[str, Any]:
    full = {
        f"{part}.{field}": value if isinstance(value, str | int | float | bool) else json.dumps(value)
        for part, fields in config.items()
        for field, value in fields.items()
        if value is not None
    }
    short = {name: full[whole] for name, whole in _short_names(tuple(full))}
    return full | short | {"seed": config.get("seeds", {}).get("run", 0)}


@cache
def _short_names(full: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The last part of each name that no other shares, and the whole name; the same for most runs."""
    counts = Counter(name.split(".")[1] for name in full)
    return tuple((name.split(".")[1], name) for name in full if counts[name.split(".")[1]] == 1)


def correct_predictions(folders: list[str]) -> NDArray[np.bool_] | None:
    """(runs, N) which test examples each run got right; None unless all can be read and saw the same ones."""
    found, ids = [], None
    for folder in folders:
        path = Path(folder) / "predictions.safetensors"
        if not path.exists():
            return None
        try:
            stored = load_file(path)
            if ids is not None and not np.array_equal(ids, stored["ids"]):
                return None
            ids = stored["ids"]
            found.append(stored["logits"][0].argmax(axis=1) == stored["labels"])
        except (OSError, SafetensorError, KeyError, IndexError, ValueError):
            return None  # damaged: no floor can be had from these runs
    return np.stack(found) if found else None
