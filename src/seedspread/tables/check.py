"""From a table as it came to runs that can be audited, or a line that says what to type."""

from dataclasses import replace

import numpy as np
import pandas as pd

from seedspread.errors import did_you_mean
from seedspread.runs.levels import arm_name, level_name, stratum_name
from seedspread.runs.metrics import Better
from seedspread.tables.columns import Columns, baseline_of, is_step, pooled
from seedspread.tables.crashed import part_crashed
from seedspread.tables.curves import one_row_per_run
from seedspread.tables.errors import TableError, listed, row_numbers
from seedspread.tables.labels import coded, combined, joined, labels
from seedspread.tables.numbers import is_empty, numbers_in
from seedspread.tables.propose import added, told_apart, typed
from seedspread.tables.question import SET, Question
from seedspread.tables.read import Source, Table, read_table
from seedspread.tables.roles import columns_of
from seedspread.tables.run_table import MOST_PAIRS, RunTable
from seedspread.tables.shape import shaped

# Runs of a store that a note names.
_NAMED = 3


def check_table(
    source: Source,
    question: Question,
    better: Better | None = None,
    pool: bool = False,
) -> RunTable:
    """Reads a table and checks that it can be audited.

    Args:
        source: a file, a folder of runs, a DataFrame, whatever `collect` reads, or what it has read.
        question: which column is what, and how one row per run is had.
        better: which direction of the value is the best one; by default what its name tells.
        pool: whether runs at all levels of other columns may count as one sample.
    """
    return with_baseline(check_runs(read_table(source, question, better), question, better, pool), question)


def check_runs(
    table: Table, question: Question, better: Better | None = None, pool: bool = False
) -> RunTable:
    """The runs of a table that was read, before it is known with which level the others are compared."""
    table, question = shaped(table, question)
    columns, found = columns_of(table, question)
    if table.store is not None:  # runs of other studies, which have other parameters, may lie beside
        table = replace(table, frame=table.frame.dropna(subset=[columns.group, *columns.by]))
        if table.frame.empty:
            raise TableError(f"{table.name} has no rows")
    _check_number(table, question, columns)
    of_best = better if question.best == columns.value else None
    table, taken = one_row_per_run(table, question, columns, of_best)
    numbers = numbers_in(table.frame[columns.value], columns.value, table.decimal_comma)
    tidy = _tidy(table, columns, numbers.values)
    has_value = tidy["value"].notna().to_numpy()
    crashed, dropped = _without_value(tidy, table, columns)
    tidy, table = tidy.loc[has_value].reset_index(drop=True), replace(table, frame=table.frame.loc[has_value])
    _check_labels(tidy, columns)
    _check_repeats(tidy, table, question, columns)
    told = [] if pool else _check_pooled(table, question, columns)
    notes = (*table.notes, *found, *taken, *numbers.notes, *dropped, *told)
    return RunTable(tidy, columns, table.name, notes, table.store, numbers.per_cent, table.better, crashed)


def _tidy(table: Table, columns: Columns, values: "pd.Series[float]") -> pd.DataFrame:
    frame = table.frame
    rows = frame.index.to_numpy()
    codes, names = coded(frame[columns.seed]) if columns.seed else (np.arange(len(frame)), rows.astype(str))
    failed = labels(frame["collapsed"]).map(_truth) if "collapsed" in frame.columns else False
    # A store tells more of a run than a CSV does: where it lies, and what a guess would score.
    source = {"folder": "folder"} | ({"chance": "majority"} if columns.value == "accuracy" else {})
    if f"chance.{columns.value}" in frame.columns:
        source["chance"] = f"chance.{columns.value}"
    stored = {
        name: frame[column] for name, column in source.items() if table.store and column in frame.columns
    }
    tidy = {
        "value": values,
        "group": labels(frame[columns.group]),
        "block": joined(frame, columns.blocks),
        "seed": codes,
        "seed_name": names[codes].astype(object),
        "stratum": joined(frame, columns.by),
        "failed": failed,
        "row": rows,
        **stored,
    }
    return pd.DataFrame(tidy, index=frame.index).reset_index(drop=True)


def _truth(label: str) -> bool:
    if label.lower() in {"true", "1", "yes"}:
        return True
    if label.lower() in {"false", "0", "no", ""}:
        return False
    raise TableError(f"the column 'collapsed' must hold true or false; got {label!r}")


def _without_value(tidy: pd.DataFrame, table: Table, columns: Columns) -> tuple[pd.DataFrame, list[str]]:
    """The rows of runs that crashed, and what is said of rows without a value; blank lines are no runs."""
    cells = table.frame.loc[tidy["value"].isna().to_numpy(), [*columns.run]]
    blank = cells.index[cells.map(is_empty).all(axis=1)]
    _, crashed, others = part_crashed(tidy.loc[~tidy["row"].isin(blank)], table.store is not None)
    ended = "that ended with an error" if table.store else "without a value"
    said = (
        (crashed, f"{ended} counts as failed", f"{ended} count as failed"),
        (others, "without a value was left out", "without a value were left out"),
    )
    return crashed, [
        f"{len(rows):,} run{'s' * many} {(one, several)[many]} ({_named(rows, table, columns)})."
        for rows, one, several in said
        for many in [len(rows) > 1]
        if len(rows)
    ]


def _named(rows: pd.DataFrame, table: Table, columns: Columns) -> str:
    """By their numbers; of a store, whose rows nobody has seen, by cell and seed."""
    if table.store is None:
        return row_numbers(rows["row"])
    few = rows.head(_NAMED).to_dict("records")
    parts = [
        (stratum_name(columns.by, r["stratum"]), arm_name(columns.group, r["group"]), r["block"]) for r in few
    ]
    names = (
        f"{', '.join(filter(None, part))}, seed {r['seed_name']}" for part, r in zip(parts, few, strict=True)
    )
    return "; ".join([*names, *["..."] * (len(rows) > _NAMED)])


def _check_labels(tidy: pd.DataFrame, columns: Columns) -> None:
    by = ", ".join(columns.by)
    for column, name in (("group", columns.group), ("seed_name", columns.seed), ("stratum", by)):
        empty = tidy[column] == ""
        if name and empty.any():
            raise TableError(
                f"column {name!r} is empty in {row_numbers(tidy.loc[empty, 'row'])}; fill it in, or drop "
                "the row"
            )


def _check_repeats(tidy: pd.DataFrame, table: Table, question: Question, columns: Columns) -> None:
    """One row per run; else what tells the rows apart, and the command with it."""
    if columns.seed is None:
        return
    keys = ["stratum", "group", "block", "seed"]
    same = tidy.duplicated(keys, keep=False)
    if not same.any():
        return
    first = tidy.loc[same].iloc[0]
    rows = tidy.loc[same & (tidy[keys] == first[keys]).all(axis=1), "row"].iloc[:2]
    run = (first["stratum"], first["group"], first["block"], f"{columns.seed} {first['seed_name']}")
    described = ", ".join(part for part in run if part)
    after = told_apart(table, question, columns)
    said = added(question, after, table.frame) or (
        "If another column tells them apart, name it with --block (twins of a seed) or --by (audited apart); "
        "--no-seed says that every row is a run of its own"
    )
    where = (
        f"rows {rows.iloc[0]} and {rows.iloc[1]}"
        if rows.nunique() > 1
        else f"two cells of row {rows.iloc[0]}"
    )
    raise TableError(f"{where} are both {described}: one row per run. {said}{typed(table, question, after)}")


def _check_pooled(table: Table, question: Question, columns: Columns) -> list[str]:
    """Levels of a dataset or a task must not pass for seeds."""
    if table.store is not None:
        return []
    frame, cell = table.frame, (*columns.by, columns.group, *columns.blocks)
    others = [name for name in frame.columns if name not in {*columns.run, columns.value}]
    name = pooled(frame, cell, others)
    if name is None:
        return []
    levels = f"{name} has {frame[name].nunique():,} levels in each {columns.group}"
    if question.seed is None:
        return [f"{levels}, which are pooled; --by {name} audits them apart."]
    if is_step(name) and columns.seed is None:
        raise TableError(
            f"{levels}: rows are steps of runs; name the column that tells runs apart with --seed"
        )
    is_arm = question.group == SET
    after = replace(question, **({"group": name} if is_arm else {"by": (*question.by, name)}))
    raise TableError(
        f"{levels}, which would be pooled as if they were seeds; use --{'group' if is_arm else 'by'} {name} "
        f"(audited apart) or --block {name} (twins of a seed): {after.typed(table.path)}"
    )


def with_baseline(runs: RunTable, question: Question) -> RunTable:
    """The baseline: as named, one of two levels, or none: then all levels are compared with each other."""
    columns = runs.columns
    groups = [str(name) for name in coded(runs.frame["group"])[1]]
    if question.baseline is not None:
        baseline = level_name(question.baseline)
        if baseline not in groups:
            levels = listed(groups, 8) or "no values"
            raise TableError(
                f"no run has {columns.group} = {baseline!r}{did_you_mean(baseline, groups)} "
                f"({columns.group} has {levels})"
            )
    if len(groups) < 2:
        only = f"every run has {columns.group} = {groups[0]!r}" if groups else f"{runs.source} has no rows"
        raise TableError(f"{only}; a comparison needs two levels")
    if question.baseline is not None:
        return replace(runs, columns=replace(columns, baseline=baseline))
    if len(groups) == 2:
        baseline, other = sorted(groups, key=lambda name: name != baseline_of(groups))
        note = f"Baseline: {baseline} (swap with --baseline {other})."
        columns = replace(columns, baseline=baseline)
    else:
        note = (
            f"No baseline is named: all {len(groups)} levels of {columns.group} are compared with each "
            "other, later ones in the table over earlier ones."
        )
    return replace(runs, columns=columns, notes=(*runs.notes, note))


def _check_number(table: Table, question: Question, columns: Columns) -> None:
    """Refuses more comparisons of all levels with all others than anyone can read, before any work."""
    codes, groups = coded(table.frame[columns.group])
    if question.baseline is not None or len(groups) < 3:
        return
    cells = np.unique(combined(table.frame, columns.by) * len(groups) + codes) // len(groups)
    sizes = np.bincount(cells)
    pairs = int((sizes * (sizes - 1) // 2).sum())
    if pairs > MOST_PAIRS:
        after = replace(question, baseline=str(groups[0]))
        raise TableError(
            f"{columns.group} has {len(groups):,} levels, {pairs:,} comparisons of all with all, and at most "
            f"{MOST_PAIRS:,} are made; name the level to compare with: {after.typed(table.path)}"
        )
