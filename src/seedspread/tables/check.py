"""Check a table into a `RunTable` that can be audited, or say in one line what to type."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.errors import did_you_mean
from seedspread.runs.levels import arm_name, joined_levels, level_name, stratum_name
from seedspread.runs.metrics import Better, metric_of
from seedspread.tables.columns import (
    FOLDS,
    Codes,
    Columns,
    baseline_of,
    coded,
    combined,
    find_seed,
    is_empty,
    is_filled,
    is_step,
    labels,
    levels_in,
    numbers_in,
    plain_name,
    pooled_factor,
    require,
    seed_names,
)
from seedspread.tables.propose import advice, told_apart, unnamed, without_value
from seedspread.tables.question import SET, Question, TableError, listed, row_numbers
from seedspread.tables.read import Source, Table, read_table
from seedspread.tables.run_table import MOST_PAIRS, RunTable
from seedspread.tables.shape import shaped

_RUN = ["stratum", "group", "block", "seed"]
# Runs of a store that a note names; levels of a column that is suggested as the group.
_MOST_NAMED, _MOST_LEVELS = 3, 12


def check_table(
    source: Source, question: Question, better: Better | None = None, pool: bool = False
) -> RunTable:
    """Read a table and check that it can be audited.

    Args:
        source: a file, a folder of runs, a DataFrame, whatever `collect` reads, or what it has read.
        question: which column is what, and the row selection.
        better: which direction of the value is the best one; by default its name decides.
        pool: whether runs at all levels of other columns may count as one sample.
    """
    return with_baseline(check_runs(read_table(source, question, better), question, better, pool), question)


def check_runs(
    table: Table, question: Question, better: Better | None = None, pool: bool = False
) -> RunTable:
    """Return the runs of a table that was read, without a baseline yet."""
    table, question = shaped(table, question)
    columns, seed_notes = _columns_of(table, question)
    if table.store is not None:  # the store may have runs of other studies, with other parameters
        table = replace(table, frame=table.frame.dropna(subset=[columns.group, *columns.by]))
        if table.frame.empty:
            raise TableError(f"{table.name} has no rows")
    _check_number(table, question, columns)
    of_best = better if question.best == columns.value else None
    table, row_notes = _one_row_per_run(table, question, columns, of_best)
    numbers = numbers_in(table.frame[columns.value], columns.value, table.decimal_comma)
    tidy = _tidy(table, columns, numbers.values)
    crashed, empty_notes = _without_value(tidy, table, columns)
    has_value = tidy["value"].notna().to_numpy()
    tidy, table = tidy.loc[has_value].reset_index(drop=True), replace(table, frame=table.frame.loc[has_value])
    _check_labels(tidy, columns)
    _check_repeats(tidy, table, question, columns)
    pool_notes = [] if pool else _check_pooled(table, question, columns)
    notes = (*table.notes, *seed_notes, *row_notes, *numbers.notes, *empty_notes, *pool_notes)
    return RunTable(tidy, columns, table.name, notes, table.store, numbers.per_cent, table.better, crashed)


def _columns_of(table: Table, question: Question) -> tuple[Columns, list[str]]:
    """Return which column is what, and notes on the seed."""
    value, group, names = question.value, question.group, table.frame.columns
    if value is None or group is None:
        for name in (value, group):
            if name is not None:
                require(name, names, table.name)
        raise TableError(unnamed(table, question))
    if value not in names and (instead := without_value(table, question)):
        raise TableError(instead)
    for name in (value, group, *question.block, *question.by):
        require(name, names, table.name)
    seed, notes = _seed(table, question)
    roles = [
        ("--value", value), ("--group", group), *(("--block", name) for name in question.block),
        *([("--seed", seed)] if seed else []), *(("--by", name) for name in question.by),
    ]  # fmt: skip
    for _, column in roles:
        options = [option for option, name in roles if name == column]
        if len(options) > 1:
            raise TableError(
                f"each column can have one role only: {column!r} is {' and '.join(options)}; "
                f"leave out one of them"
            )
    return Columns(value, group, None, question.block, seed, question.by), notes


def _seed(table: Table, question: Question) -> tuple[str | None, list[str]]:
    """Return the column with the seed, which `seed` finds by its other names too, and notes on it."""
    if question.seed is None:
        return None, ["No seed: every row counts as an independent run."]
    frame = table.frame
    if question.seed != "seed":
        require(question.seed, frame.columns, table.name)
        return question.seed, _fold_notes(question.seed)
    taken = {question.value, question.group, question.last, question.best, *question.block, *question.by}
    free = [name for name in frame.columns if name not in taken]
    seed = find_seed(frame, free)
    if seed is None:
        return None, ["No seed column: every row counts as an independent run."]
    others = [name for name in seed_names(free) if name != seed and frame[name].nunique() > 1]
    if seed == "seed" and (not others or table.store is not None):
        return seed, []  # a store has one seed; its other columns are parameters of a program
    more = f" ({listed(others, 3)} could be it too: --seed {others[0]})" if others else ""
    notes = [f"The seed is {seed}{more}."]
    is_plain = plain_name(seed) in ("seed", "seeds") or question.group == SET
    pairs = combined(frame, [seed, str(question.group)])
    if not is_plain and pairs.max() == combined(frame, [seed]).max():
        notes = [f"{seed} names each run by itself: no seed is shared between levels of {question.group}."]
    return seed, notes + _fold_notes(seed)


def _fold_notes(seed: str) -> list[str]:
    if plain_name(seed) not in FOLDS:
        return []
    return [f"{seed} is taken as the seed: folds share training data, so that runs are not independent."]


def _one_row_per_run(
    table: Table, question: Question, columns: Columns, better: str | None
) -> tuple[Table, list[str]]:
    """Take the row of each run with its last step or best value, if that is asked for.

    `better` is the direction of the best; by default the column's name decides.
    """
    column, frame = question.last or question.best, table.frame
    if column is None:
        return table, []
    option = "--last" if question.last else "--best"
    if question.last and question.best:
        raise TableError("give --last or --best, not both")
    require(column, frame.columns, table.name)
    if column in columns.run:
        raise TableError(f"{option} {column}: this column tells runs apart; name one such as the step")
    if columns.seed is None:
        raise TableError(f"{option} takes a row of each run, and no column is the seed; name it with --seed")
    notes = _check_steps(table, question, columns, column)
    numbers = np.asarray(numbers_in(frame[column], column, table.decimal_comma).values, float)
    direction = "higher" if question.last else better or metric_of(column).better
    filled = is_filled(frame[columns.value]).to_numpy()
    order = np.nan_to_num(numbers if direction == "higher" else -numbers, nan=-np.inf)
    rows = _best_rows(
        combined(frame, columns.run), np.where(filled, order, -np.inf), question.last is not None
    )
    which = "largest" if question.last else direction.replace("er", "est")
    taken = f"{rows.sum():,} of {len(frame):,} rows"
    ends = numbers[rows]
    if question.last and ends.min() < ends.max():
        notes.append(f"Not all runs end at the same {column}: at {ends.min():g} to {ends.max():g}.")
    return replace(table, frame=frame.loc[rows]), [
        f"Of each run the row with the {which} {column} is taken: {taken}.",
        *notes,
    ]


def _check_steps(table: Table, question: Question, columns: Columns, column: str) -> list[str]:
    """Refuse rows of several tasks, say, as steps of one run; note steps that occur twice."""
    frame = table.frame
    others = [name for name in frame.columns if name not in {*columns.run, columns.value, column}]
    within = pooled_factor(frame, columns.run, [name for name in others if not is_step(name)])
    points = combined(frame, [*columns.run, column])
    repeated = question.last is not None and points.max() + 1 < len(frame)
    after = told_apart(table, question, columns) if within is not None or repeated else question
    if within is not None and after == question:
        after = replace(question, by=(*question.by, within))
    if after != question:
        why = f"rows of one run have the same {column}" if repeated else f"one run has every {within}"
        raise TableError(f"{why}: {advice(table, question, after)}")
    if not repeated:
        return []
    twice = frame.index[pd.Series(points).duplicated(keep=False).to_numpy()]
    many = f"{len(twice):,} rows share their run and {column} with another ({row_numbers(twice)})"
    return [f"{many}: these runs may have been logged twice."]


def _best_rows(runs: Codes, order: NDArray[np.float64], ties: bool) -> NDArray[np.bool_]:
    """Return (rows,) whether a row has the highest `order` of its run; of `ties` all rows, or the first.

    A run without a value, whose `order` is -inf in all rows, keeps one row.
    """
    best = np.full(runs.max() + 1, -np.inf)
    np.maximum.at(best, runs, order)
    found = np.asarray(order == best[runs])
    again = pd.Series(runs[found]).duplicated().to_numpy()
    found[found] = ~(again & (not ties or np.isneginf(best[runs[found]])))
    return found


def _tidy(table: Table, columns: Columns, values: "pd.Series[float]") -> pd.DataFrame:
    frame = table.frame
    rows = frame.index.to_numpy()
    codes, names = coded(frame[columns.seed]) if columns.seed else (np.arange(len(frame)), rows.astype(str))
    failed = labels(frame["collapsed"]).map(_truth) if "collapsed" in frame.columns else False
    # Runs of a store have a folder, and the score of a guess.
    source = {"folder": "folder"} | ({"chance": "majority"} if columns.value == "accuracy" else {})
    if f"chance.{columns.value}" in frame.columns:
        source["chance"] = f"chance.{columns.value}"
    stored = {
        name: frame[column] for name, column in source.items() if table.store and column in frame.columns
    }
    tidy = {
        "value": values,
        "group": labels(frame[columns.group]),
        "block": levels_in(frame, columns.blocks),
        "seed": codes,
        "seed_name": names[codes].astype(object),
        "stratum": levels_in(frame, columns.by),
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
    """Return the rows of runs that crashed, and notes on all rows without a value; blank lines are no runs.

    A run has crashed if no row has its value. A store's run without one has either failed, or is finished,
    and its study did not ask for the value.
    """
    empty = tidy["value"].isna()
    cells = table.frame.loc[empty.to_numpy(), [*columns.run]]
    blank = cells.index[cells.map(is_empty).all(axis=1)]
    without = tidy.loc[empty & ~tidy["row"].isin(blank)]
    again = pd.MultiIndex.from_frame(without[_RUN]).isin(pd.MultiIndex.from_frame(tidy.loc[~empty, _RUN]))
    is_crashed = ~again & (without["failed"].to_numpy(bool) if table.store is not None else True)
    crashed, notes = without.loc[is_crashed], []
    ended = "that ended with an error" if table.store else "without a value"
    for rows, one, several in (
        (crashed, f"{ended} counts as failed", f"{ended} count as failed"),
        (without.loc[~is_crashed], "without a value was left out", "without a value were left out"),
    ):
        if len(rows):
            what = f"1 run {one}" if len(rows) == 1 else f"{len(rows):,} runs {several}"
            notes.append(f"{what} ({_named(rows, table, columns)}).")
    return crashed, notes


def _named(rows: pd.DataFrame, table: Table, columns: Columns) -> str:
    """Name rows by their numbers; those of a store, which nobody has seen, by cell and seed."""
    if table.store is None:
        return row_numbers(rows["row"])
    names = []
    for row in rows.head(_MOST_NAMED).to_dict("records"):
        stratum, block = stratum_name(columns.by, row["stratum"]), joined_levels(row["block"])
        cell = filter(None, (stratum, arm_name(columns.group, row["group"]), block))
        names.append(f"{', '.join(cell)}, seed {row['seed_name']}")
    return "; ".join([*names, *["..."] * (len(rows) > _MOST_NAMED)])


def _check_labels(tidy: pd.DataFrame, columns: Columns) -> None:
    by = ", ".join(columns.by)
    for column, name in (("group", columns.group), ("seed_name", columns.seed), ("stratum", by)):
        empty = tidy[column].isin(["", ("",)])
        if name and empty.any():
            raise TableError(
                f"column {name!r} is empty in {row_numbers(tidy.loc[empty, 'row'])}; fill it in, or drop "
                "the row"
            )


def _check_repeats(tidy: pd.DataFrame, table: Table, question: Question, columns: Columns) -> None:
    """Refuse two rows of one run; say which column distinguishes them, and the command with it."""
    same = tidy.loc[tidy.duplicated(_RUN, keep=False)]
    if columns.seed is None or same.empty:
        return
    runs = list(same[_RUN].itertuples(index=False, name=None))
    rows = same.loc[[run == runs[0] for run in runs], "row"].iloc[:2]
    stratum, group, block, _ = runs[0]
    run = (joined_levels(stratum), group, joined_levels(block), f"{columns.seed} {same['seed_name'].iloc[0]}")
    described = ", ".join(part for part in run if part)
    first, second = rows
    where = f"two cells of row {first}" if first == second else f"rows {first} and {second}"
    instead = advice(table, question, told_apart(table, question, columns)) or (
        "If another column tells them apart, name it with --block (twins of a seed) or --by (audited apart); "
        "--no-seed says that every row is a run of its own"
    )
    raise TableError(f"{where} are both {described}: one row per run. {instead}")


def _check_pooled(table: Table, question: Question, columns: Columns) -> list[str]:
    """Refuse levels of a dataset or a task as seeds."""
    if table.store is not None:
        return []
    frame, cell = table.frame, (*columns.by, columns.group, *columns.blocks)
    others = [name for name in frame.columns if name not in {*columns.run, columns.value}]
    name = pooled_factor(frame, cell, others)
    if name is None:
        return []
    levels = f"{name} has {frame[name].nunique():,} levels in each {columns.group}"
    if question.seed is None:
        return [f"{levels}, which are pooled; --by {name} audits them apart."]
    if is_step(name) and columns.seed is None:
        raise TableError(
            f"{levels}: rows are steps of runs; name the column that tells runs apart with --seed"
        )
    is_group = question.group == SET
    after = replace(question, **({"group": name} if is_group else {"by": (*question.by, name)}))
    option = "group" if is_group else "by"
    raise TableError(
        f"{levels}, which would be pooled as if they were seeds; use --{option} {name} "
        f"(audited apart) or --block {name} (twins of a seed): {after.typed(table.path)}"
    )


def with_baseline(runs: RunTable, question: Question) -> RunTable:
    """Set the baseline: as named, one of two levels, or none if all levels are compared with each other."""
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
    """Refuse more comparisons of all levels with all others than anyone can read, before any work."""
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


def suggest_audit(table: pd.DataFrame, value: str, columns: Sequence[str]) -> list[str] | None:
    """Return the options of an audit that compares one of `columns`, words before numbers; None if none can.

    Others of them become blocks, as many as it takes to distinguish the runs of a seed.
    """
    own = [name for name in columns if not table[name].isna().any() and not _repeats_seed(table, name)]
    counts = {name: table[name].value_counts() for name in own}
    fit = [name for name in own if 2 <= len(counts[name]) <= _MOST_LEVELS and counts[name].min() >= 2]
    fit.sort(key=lambda name: (pd.api.types.is_numeric_dtype(table[name]), len(counts[name])))
    for group in fit:
        baseline = str(table[group].mode().iloc[0])
        blocks = _blocks(table, group, own)
        try:
            check_table(table, Question(value, group, baseline, tuple(blocks)))
        except TableError:
            continue
        options = ["--value", value, "--group", group, "--baseline", baseline]
        return options + [word for name in blocks for word in ("--block", name)]
    return None


def _repeats_seed(table: pd.DataFrame, name: str) -> bool:
    """Return whether a column has one value per seed and one seed per value, as a second seed has."""
    if "seed" not in table.columns:
        return False
    pairs = table[["seed", name]].drop_duplicates()
    return len(pairs) == table["seed"].nunique() == table[name].nunique()


def _blocks(table: pd.DataFrame, group: str, columns: Sequence[str]) -> list[str]:
    """Return the columns that distinguish runs of one seed and group, if there are such runs."""
    if "seed" not in table.columns:
        return []
    keys, blocks = [group, "seed"], []
    apart = len(table[keys].drop_duplicates())
    for name in columns:
        more = len(table[[*keys, name]].drop_duplicates())
        if name != group and more > apart:
            blocks.append(name)
            keys, apart = [*keys, name], more
    return blocks
