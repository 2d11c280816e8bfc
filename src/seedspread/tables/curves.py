"""What runs measured over training, a row per run and step: from a store, other tools' logs, or a table."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from seedspread.runs.files import UNREADABLE
from seedspread.runs.folder import RunFolder
from seedspread.runs.store import is_store
from seedspread.tables.columns import combined, distinguishing, find_seed, is_step, require
from seedspread.tables.question import Question, TableError, listed, row_numbers
from seedspread.tables.read import Source, Table, read_table
from seedspread.tables.shape import shaped
from seedspread.tables.sources.collect import curve_name, find_reader, is_source
from seedspread.tables.sources.run import CollectedRun, Place, is_seed, quiet, step_column
from seedspread.tables.sources.run import find_seed as seed_parameter

# The column that names a run of a store, or of another tool.
_RUN = "run"


def curve_table(source: Source, question: Question, step: str | None) -> tuple[Table, Question, str]:
    """Return a row per run and step, what is asked of it with its seed, and the column of the steps.

    Of two rows of one run and step that were logged the later counts: the run was resumed. In a table they
    are two runs, and what tells them apart must be named.
    """
    metric, is_logged = str(question.value), True
    if isinstance(source, str | Path) and not is_store(Path(source)) and is_source(source):
        table = _logged(source, metric)
    else:
        table = read_table(source, question)
        is_logged = table.store is not None
        table = _stored(table, metric, step) if is_logged else table
    table, question = shaped(table, question)
    frame = table.frame
    for name in (metric, *filter(None, (question.group, step, *question.by, *question.block))):
        require(name, frame.columns, table.name)
    step = step or _step(list(frame.columns))
    if step is None:
        raise TableError(
            f"no column of {table.name} counts steps; name it with --step, or log one beside the metric: "
            f"seedspread.log({metric}=..., step=...) (it has {listed(frame.columns)})"
        )
    taken = {metric, step, question.group, *question.by, *question.block}
    seed = question.seed if question.seed in frame.columns else None
    seed = seed or find_seed(frame, [name for name in frame.columns if name not in taken])
    if seed is None:
        there = f"(it has {listed(frame.columns)})"
        raise TableError(f"no column of {table.name} tells runs apart; name it with --seed {there}")
    run = [*question.by, *((question.group,) if question.group else ()), *question.block, seed, step]
    again = pd.Series(combined(frame, run)).duplicated(keep="last").to_numpy()
    others = [name for name in frame.columns if name not in {*run, metric, _RUN, "folder"}]
    apart = distinguishing(frame, run, [n for n in others if not is_seed(n)]) if again.any() else []
    if apart:
        raise TableError(
            f"runs of one {question.group or 'group'} and {seed} differ in {listed(apart)}: show them apart "
            f"(--by {apart[0]}), choose some (--where '{apart[0]} == ...'), or name same-seed runs "
            f"(--block {apart[0]})"
        )
    if again.any() and not is_logged:
        rows = row_numbers(frame.index[again])
        raise TableError(
            f"{rows}: a later row has the same {step} of the same run; if there are several, name what tells "
            "them apart with --group, --by or --block"
        )
    return replace(table, frame=frame.loc[~again]), replace(question, seed=seed), step


def _step(names: list[str]) -> str | None:
    return step_column([dict.fromkeys(names)]) or next((name for name in names if is_step(name)), None)


def _joined(runs: list[dict[str, Any]], parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the steps of all runs with what is known of their run beside them."""
    steps = pd.concat(parts, ignore_index=True)
    about = pd.DataFrame(runs).drop(columns=list(steps.columns), errors="ignore")
    rows = [n for n, part in enumerate(parts) for _ in range(len(part))]
    return pd.concat([steps, about.iloc[rows].reset_index(drop=True)], axis=1)


def _stored(table: Table, metric: str, step: str | None) -> Table:
    """Return what the runs of a store have logged, call by call."""
    runs, parts, others = [], [], dict[str, None]()
    for row in table.frame.dropna(subset=["folder"]).to_dict("records"):
        try:
            history = RunFolder(Path(row["folder"])).history().to_pandas()
        except UNREADABLE:  # it logged nothing
            continue
        others |= dict.fromkeys(history.columns)
        if metric in history.columns:
            rows = history.dropna(subset=[metric])
            of_run = rows["layer"].isna() if "layer" in rows else rows[metric].isna()
            parts.append(rows[of_run] if of_run.any() else rows)  # not what was logged of its layers
            runs.append({str(name): value for name, value in row.items()})
    if not parts:
        there = f" (they logged {listed(others)})" if others else ""
        raise TableError(f"no run of {table.name} logged {metric} over training{there}; log it in the run: "
                         f"seedspread.log({metric}=..., step=...)")  # fmt: skip
    frame = _joined(runs, parts)
    if step is None and _step(list(others)) is None:  # a parameter, such as epochs, is no step
        frame = frame[[name for name in frame.columns if not is_step(name)]]
    return replace(table, frame=frame)


def _logged(source: "str | Path", metric: str) -> Table:
    """Return the curves that another tool has logged; runs without a seed are named by themselves."""
    place = Place.of(source)
    with quiet():
        items = [*find_reader(place)[0].read(place, [metric], True)]
    found = [(run, curve_name(run, metric)) for run in items if isinstance(run, CollectedRun)]
    points = [(run, [p for p in run.curves[name] if p[0] is not None]) for run, name in found if name]
    points = [(run, curve) for run, curve in points if curve]
    if not points:
        others = listed(dict.fromkeys(name for run, _ in found for name in run.curves))
        raise TableError(
            f"no run in {place.source} has {metric} with steps (it has {others or 'no metrics'})"
        )
    parts = [pd.DataFrame(curve, columns=["step", metric]) for _, curve in points]
    frame = _joined([{**run.parameters, _RUN: run.name} for run, _ in points], parts)
    seed = seed_parameter(run.parameters for run, _ in points)
    frame["seed"] = frame[seed if seed is not None else _RUN]
    return Table(frame, place.source, path=place.source)
