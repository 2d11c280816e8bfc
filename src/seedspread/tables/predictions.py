"""What runs predicted for each test example: from a store, samples of lm-eval, or a table of items."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.runs.folder import RunFolder
from seedspread.runs.store import is_store
from seedspread.tables.check import check_runs, with_baseline
from seedspread.tables.columns import coded, combined, find_seed, plain_name, require
from seedspread.tables.question import Question, TableError, listed
from seedspread.tables.read import Source, Table, read_table
from seedspread.tables.run_table import RunTable
from seedspread.tables.shape import shaped
from seedspread.tables.sources.logs import item_outcomes
from seedspread.tables.sources.run import SAMPLES, from_name, stem_of

_ITEMS = "item item_id example example_id doc_id sample sample_id question_id image idx index id".split()
_PREDICTIONS = "prediction predictions predicted pred preds answer response output correct".split()
# The value of a run in a table of items.
_VALUE = "accuracy"


# The names of N examples, and (runs, N) codes of what was predicted for them.
Predictions = tuple[NDArray[Any], NDArray[Any]]
# Reads the predictions of runs, by what `RunTable.predictions` has for them.
ReadPredictions = Callable[[Sequence[str]], Predictions]


def predictions_in(
    source: Source, question: Question, item: str | None
) -> tuple[RunTable, ReadPredictions, str]:
    """Return the runs of a source, what reads their predictions, and what these are."""
    is_folder = isinstance(source, str | Path) and Path(source).is_dir()
    if is_folder and question.value is None and is_store(Path(str(source))):
        question = replace(question, value=_VALUE)
    table, what = read_table(source, question), "predictions"
    read: ReadPredictions = stored
    if table.store is not None:
        question = replace(question, value=question.value or _VALUE)
    elif table.has_run_rows:
        if SAMPLES not in table.frame.columns:
            raise TableError(
                f"{table.name} has no predictions; churn takes a store, samples of lm-evaluation-harness "
                "(log_samples), or a table with one row per run and item"
            )
        read, what = partial(_logged, str(question.value)), "outcomes (right or wrong)"
    else:
        table, question, read = _item_runs(*shaped(table, question), item)
    return with_baseline(check_runs(table, question), question), read, what


def stored(folders: Sequence[str]) -> Predictions:
    """Read what runs of a store predicted, in the order of the examples' ids."""
    ids, classes = np.empty(0), list[NDArray[Any]]()
    for folder in map(Path, folders):
        if not RunFolder(folder).has_predictions:
            raise TableError(
                f"run {folder.name} kept no predictions; report them in the run with "
                "seedspread.log_predictions(ids, labels, logits)"
            )
        kept = RunFolder(folder).predictions("logits", "ids")
        order = np.argsort(kept["ids"], kind="stable")
        ids = ids if classes else kept["ids"][order]
        if not np.array_equal(ids, kept["ids"][order]):
            raise TableError(
                f"run {folder.name} was tested on other examples than run {Path(folders[0]).name}: churn "
                "needs one test set; name what differs with --by"
            )
        classes.append(kept["logits"][0].argmax(axis=1)[order])
    return ids, np.stack(classes)


def _logged(metric: str, paths: Sequence[str]) -> Predictions:
    """Read which items logged runs got right."""
    right = item_outcomes(paths, metric)
    if right is None:
        raise TableError(
            f"the samples of {metric} are not right or wrong answers to the same items, which churn needs"
        )
    return np.arange(right.shape[1]), right


def _item_runs(table: Table, question: Question, item: str | None) -> tuple[Table, Question, ReadPredictions]:
    """Return a row per run of a table of items, what is asked of it, and what reads the predictions."""
    names, group = list(table.frame.columns), question.group
    item = item or _named(names, _ITEMS)
    taken = {item, group, question.value, *question.block, *question.by}
    seed = question.seed if question.seed in names else None
    seed = seed or find_seed(table.frame, [name for name in names if name not in taken])
    value = question.value or _named(names, _PREDICTIONS)
    if seed is None and item is not None:
        group, seed, value = group or "group", "seed", "prediction"
        table = _runs_as_rows(table, group, item)
    for name, does, option in (
        (item, "names the test example", "--item"), (value, "has the predictions", "--value"),
        (group, "is compared", "--group"), (seed, "tells runs apart", "--seed"),
    ):  # fmt: skip
        if name is None:
            there = f"(it has {listed(names)})"
            raise TableError(f"which column of {table.name} {does}? Name it with {option} {there}")
        require(name, table.frame.columns, table.name)
    frame, design = table.frame, [*question.by, str(group), *question.block, str(seed)]
    of_run, (of_item, ids) = combined(frame, design), coded(frame[item])
    cells, levels = coded(frame[value])
    if len(levels) > max(len(frame) // 2, 2):
        raise TableError(f"{value!r} has {len(levels):,} different values: churn is about classes")
    codes = np.full((of_run.max() + 1, len(ids)), -1, np.int32)
    codes[of_run, of_item] = cells
    if len(frame) > np.sum(codes >= 0):
        again = pd.Series(of_run * len(ids) + of_item).duplicated().to_numpy()
        raise TableError(
            f"row {frame.index[again][0]} has a run and {item} that an earlier row has: one row per run and "
            "item; if another column tells them apart, name it with --by or --block"
        )
    runs = frame.loc[~pd.Series(of_run).duplicated().to_numpy(), design]
    runs = runs.assign(**{_VALUE: np.zeros(len(runs)), SAMPLES: np.arange(len(runs)).astype(str)})

    def read(numbers: Sequence[str]) -> Predictions:
        rows = np.array([int(number) for number in numbers])
        seen = (codes[rows] >= 0).any(axis=0)
        own = codes[np.ix_(rows, seen)]
        if (own < 0).any():
            run, example = np.argwhere(own < 0)[0]
            named = ", ".join(f"{name} {runs[name].iloc[rows[run]]}" for name in design)
            raise TableError(
                f"{named} has no {item} {ids[seen][example]}, which others have: churn needs one test set"
            )
        return ids[seen], own

    asked = replace(question, value=_VALUE, group=group, seed=seed, where=(), wide=None)
    return replace(table, frame=runs, has_run_rows=True), asked, read


def _named(names: Sequence[str], known: Sequence[str]) -> str | None:
    return next((name for one in known for name in names if plain_name(name) == one), None)


def _runs_as_rows(table: Table, group: str, item: str) -> Table:
    """Return a table with a column per run, called `adam-seed1` or `model=adam,seed=1`, row by row."""
    frame = table.frame
    told = {name: from_name(name) for name in frame.columns if name != item}
    pieces = [
        frame[[item]].assign(prediction=frame[name], **({group: stem_of(name)} | own))
        for name, own in told.items()
        if "seed" in own
    ]
    if len(pieces) < 2:
        raise TableError(
            f"no column of {table.name} tells runs apart: name it with --seed, or call the columns of runs "
            f"adam-seed1, adam-seed2 (it has {listed(frame.columns)})"
        )
    return replace(table, frame=pd.concat(pieces))
