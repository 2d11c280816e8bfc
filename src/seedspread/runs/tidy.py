"""Runs as tidy DataFrames, each field once: a row per run, or per run, layer and epoch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from seedspread.runs.files import UNREADABLE
from seedspread.runs.folder import RunFolder
from seedspread.runs.table import RunFields

# What a run has beside parameters and metrics; `dataset` may be a parameter as well.
_ABOUT = ("seed", "collapsed", "majority", "folder")
# Streams have the names of other things (`order`, `augment`); `name` or `layers` alone says little.
_WHOLE = ("seeds.", "probe.", "data.name")
_SEED = "seeds.run"
_LAYERS = ("layer", "epoch", "loss", "clamp_activation_rate", "gradient_norm", "positive_pairs")


def tidy_table(runs: Sequence[RunFields], cells: Sequence[Mapping[str, Any]] = ()) -> pd.DataFrame:
    """One row per run: parameters that vary, seed, metrics, then what is the same in all runs.

    A parameter has the last part of its name where no other has it, else its full one.

    Args:
        runs: finished ones.
        cells: of each run its factors, under the names that its study gives them.
    """
    cells = cells or [{}] * len(runs)
    factors = dict.fromkeys(name for cell in cells for name in cell)
    metrics = dict.fromkeys(name for run in runs for name in (*run.metrics, *run.chance))
    metrics.pop("chance.accuracy", None)  # which is `majority`
    names = _names(runs, set(factors), {*metrics, *_ABOUT})
    rows = [
        {"dataset": run.dataset}
        | {name: run.parameters[whole] for whole, name in names.items() if whole in run.parameters}
        | {**run.metrics, **run.chance, **run.about, **cell}
        for run, cell in zip(runs, cells, strict=True)
    ]
    parameters = [*factors, "dataset", *names.values()]
    vary = [name for name in parameters if _varies([row.get(name) for row in rows])]
    columns = [*vary, "seed", *metrics, "collapsed", "majority", *parameters, "folder"]
    table = pd.DataFrame(rows, columns=list(dict.fromkeys(columns)))
    unsaid = [c for c in ("dataset", "majority") if rows and not any(map(_is_said, table[c]))]
    return table.drop(columns=unsaid)


def layer_table(runs: Sequence[RunFields]) -> pd.DataFrame:
    """One row per run, layer and epoch: parameters that vary, seed, what was recorded, the run's folder.

    Layers are counted from 0, epochs from 1. The clamp activation rate is NaN where nothing is clamped. A run
    whose history has no layers, or cannot be read, has no rows.
    """
    table = tidy_table(runs)
    vary = list(table.columns[: list(table.columns).index("seed")])  # which come before it
    about = [*vary, "seed", "folder"]
    parts = [
        _history(Path(row["folder"])).assign(**{str(name): row[name] for name in about})
        for row in table[about].to_dict("records")
    ]
    parts = [part for part in parts if len(part)]
    columns = [*vary, "seed", *_LAYERS, "folder"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _history(folder: Path) -> pd.DataFrame:
    """What a run recorded of its layers, epoch by epoch."""
    try:
        frame: pd.DataFrame = RunFolder(folder).history(_LAYERS).to_pandas()
    except UNREADABLE:
        return pd.DataFrame()
    if not {"layer", "epoch"} <= set(frame.columns):  # a program's own history
        return pd.DataFrame()
    return frame.assign(epoch=frame["epoch"] + 1)


def _names(runs: Sequence[RunFields], factors: set[str], taken: set[str]) -> dict[str, str]:
    """The column of each parameter, by its full name."""
    whole = dict.fromkeys(name for run in runs for name in run.parameters)
    ends = Counter(name.rpartition(".")[2] for name in whole)
    has_streams = sum(name.startswith("seeds.") for name in whole) > 1
    if not has_streams and all(run.parameters.get(_SEED) == run.about["seed"] for run in runs):
        whole.pop(_SEED, None)
    names = {}
    for name in whole:
        end = name.rpartition(".")[2]
        is_clear = ends[end] == 1 and end not in taken and not name.startswith(_WHOLE)
        names[name] = end if name not in factors and is_clear else name
    return names


def _varies(values: list[Any]) -> bool:
    """Whether a parameter has several levels; levels of one parameter may be of several types."""
    return len({repr(value) for value in values}) > 1


def _is_said(value: Any) -> bool:
    return bool(value != "" and value == value)  # noqa: PLR0124 - NaN is not equal to itself
