"""Finished runs of a store as rows, and as tidy DataFrames: one per run, or per run, layer and epoch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seedspread.errors import SeedspreadError
from seedspread.runs.files import UNREADABLE, NewerFormatError, RecordError, read_record
from seedspread.runs.folder import CONFIG, PROVENANCE, RESULT, RunFolder
from seedspread.runs.run import Run, full_names, read_run

if TYPE_CHECKING:
    import pandas as pd


class RunsError(SeedspreadError):
    """A stored run cannot be used."""


def is_store(folder: Path) -> bool:
    """Whether any finished run lies in `folder`; other tools call their files `result.json` too."""
    return any(map(_is_ours, _finished(folder)))


def store_of(folders: Iterable[str]) -> Path | None:
    """The store that holds all these folders of finished runs; None if there is none, or several."""
    store = None
    for folder in map(Path, folders):
        if store is None and (folder / RESULT).exists() and _is_ours(folder):
            store = folder.parent
        if folder.parent != store:
            return None
    return store


def _is_ours(run: Path) -> bool:
    return any((run / name).exists() for name in (PROVENANCE, CONFIG))


def has_begun(folder: Path) -> bool:
    """Whether any run of this package lies right in `folder`, finished or not."""
    runs = (run for run in folder.glob("*/") if (run / CONFIG).exists())
    return any(marks or is_running for marks, is_running in (RunFolder(run).marks() for run in runs))


def _finished(folder: Path) -> Any:
    # One level down and no deeper: what a run's own program keeps in its folder is no run.
    return (path.parent for path in folder.glob(f"*/{RESULT}") if not path.parent.is_symlink())


def finished_runs(folder: Path, metrics: Sequence[str] = ()) -> tuple[list[Run], list[str]]:
    """The finished runs that can be read, and a line on each that cannot."""
    found = [read_run(path, metrics) for path in sorted(_finished(folder))]
    runs = [one for one in found if not isinstance(one, str)]
    return runs, [one for one in found if isinstance(one, str)]


def is_collapsed(folder: Path) -> bool | str:
    """Whether a finished run is flagged as collapsed, or what is wrong with its files.

    Raises `NewerFormatError` for a result that is whole, and newer than this program.
    """
    try:
        collapsed = bool(read_record(str(folder), RESULT)["collapsed"])
        return RunFolder(folder).damage() or collapsed
    except NewerFormatError:
        raise
    except UNREADABLE as error:
        return f"{folder} is not a readable run: {error}"


def correct_predictions(folders: list[str]) -> NDArray[np.bool_] | None:
    """(runs, N) which test examples each run got right; None unless all can be read and saw the same ones."""
    found, ids = [], None
    for folder in folders:
        try:
            own, correct = RunFolder(Path(folder)).correct()
            if ids is not None and not np.array_equal(ids, own):
                return None
            ids = own
            found.append(correct)
        except (RecordError, IndexError, ValueError):
            return None  # none, or damaged: no floor can be had from these runs
    return np.stack(found) if found else None


# What a run has beside parameters and metrics; `dataset` may be a parameter as well.
_ABOUT = ("seed", "collapsed", "majority", "folder")
# Sources of randomness have the names of other things (`order`, `augment`); `name` alone says little.
_WHOLE = ("seeds.", "probe.", "data.name")
_SEED = "seeds.run"
_LAYERS = ("layer", "epoch", "loss", "clamp_activation_rate", "gradient_norm", "positive_pairs")


def tidy_table(runs: Sequence[Run], metrics: Sequence[str] = ()) -> "pd.DataFrame":
    """One row per run: parameters that vary, seed, metrics, then what is the same in all runs.

    Factors have the names that their study gives them. Any other parameter has the last part of its name
    where no other has it, else its full one.

    Args:
        runs: finished ones.
        metrics: for which what chance scores stands beside.
    """
    import pandas as pd  # noqa: PLC0415 - slow, and no worker needs it

    chance = [run.chance_columns([name for name in metrics if name != "accuracy"]) for run in runs]
    parameters = [full_names(run.parameters) for run in runs]
    factors = dict.fromkeys(factor for run in runs for factor, _ in run.cell)
    columns = dict.fromkeys(
        name for run, scores in zip(runs, chance, strict=True) for name in (*run.metrics, *scores)
    )
    names = _names(runs, parameters, set(factors), {*columns, *_ABOUT})
    rows = [
        {"dataset": run.dataset}
        | {name: own[whole] for whole, name in names.items() if whole in own}
        | {**run.metrics, **scores, "seed": run.seed, "collapsed": run.collapsed, "majority": run.majority}
        | {"folder": run.folder, **dict(run.cell)}
        for run, own, scores in zip(runs, parameters, chance, strict=True)
    ]
    described = [*factors, "dataset", *names.values()]
    vary = [name for name in described if _varies([row.get(name) for row in rows])]
    order = [*vary, "seed", *columns, "collapsed", "majority", *described, "folder"]
    table = pd.DataFrame(rows, columns=list(dict.fromkeys(order)))
    unsaid = [c for c in ("dataset", "majority") if rows and not any(map(_is_said, table[c]))]
    return table.drop(columns=unsaid)


def layer_table(runs: Sequence[Run]) -> "pd.DataFrame":
    """One row per run, layer and epoch: parameters that vary, seed, what was recorded, the run's folder.

    Layers are counted from 0, epochs from 1. The clamp activation rate is NaN where nothing is clamped. A run
    whose history has no layers, or cannot be read, has no rows.
    """
    import pandas as pd  # noqa: PLC0415 - slow, and no worker needs it

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


def _history(folder: Path) -> "pd.DataFrame":
    """What a run recorded of its layers, epoch by epoch."""
    import pandas as pd  # noqa: PLC0415 - slow, and no worker needs it

    try:
        frame: pd.DataFrame = RunFolder(folder).history(_LAYERS).to_pandas()
    except UNREADABLE:
        return pd.DataFrame()
    if not {"layer", "epoch"} <= set(frame.columns):  # a program's own history
        return pd.DataFrame()
    return frame.assign(epoch=frame["epoch"] + 1)


def _names(
    runs: Sequence[Run], parameters: Sequence[Mapping[str, Any]], factors: set[str], taken: set[str]
) -> dict[str, str]:
    """The column of each parameter, by its full name."""
    whole = dict.fromkeys(name for own in parameters for name in own)
    ends = Counter(name.rpartition(".")[2] for name in whole)
    sources = sum(name.startswith("seeds.") for name in whole)  # of randomness, each with its seed
    if sources <= 1 and all(own.get(_SEED) == run.seed for own, run in zip(parameters, runs, strict=True)):
        whole.pop(_SEED, None)
    names = {}
    for name in whole:
        end = name.rpartition(".")[2]
        is_clear = ends[end] == 1 and end not in taken and not name.startswith(_WHOLE)
        names[name] = end if name not in factors and is_clear else name
    return names


def _varies(values: list[Any]) -> bool:
    """Whether a parameter has several levels, which may be of several types."""
    return len({repr(value) for value in values}) > 1


def _is_said(value: Any) -> bool:
    return bool(value != "" and value == value)  # noqa: PLR0124 - NaN is not equal to itself
