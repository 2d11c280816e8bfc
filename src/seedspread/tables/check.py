"""Check a table into a `RunTable` that can be audited, or explain in one line what to type instead."""

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.errors import did_you_mean, spoken
from seedspread.runs.levels import group_name, joined_levels, level_name, several, stratum_name
from seedspread.runs.metrics import Better, is_metric_name, is_until, metric_of
from seedspread.tables.columns import (
    FOLDS,
    MOST_PAIRS,
    STRATA,
    Codes,
    Columns,
    RunTable,
    baseline_of,
    coded,
    combined,
    distinguishing,
    find_seed,
    is_aside,
    is_empty,
    is_factor,
    is_filled,
    is_numeric,
    is_step,
    labels,
    levels_in,
    nesting_factor,
    numbers_in,
    numeric,
    plain_name,
    pooled_factor,
    require,
    seed_names,
    single_row_factor,
)
from seedspread.tables.question import SET, Question, TableError, listed, row_numbers
from seedspread.tables.read import FRAME, Source, Table, read_table
from seedspread.tables.shape import is_metric_column, metric_columns, quoted, shaped, wide_stems
from seedspread.tables.summaries import refuse_summaries

_RUN = ["stratum", "group", "block", "seed"]
_MOST_NAMED = 3  # runs, groups or strata in a note
_HUNDRED = 100


def check_table(source: Source, question: Question, better: Better | None = None) -> RunTable:
    """Read a table and check that it can be audited.

    `better` is the direction of the best value; by default its name decides.
    """
    return with_baseline(check_runs(read_table(source, question, better), question, better), question)


def check_runs(
    table: Table, question: Question, better: Better | None = None, pool: bool = False
) -> RunTable:
    """Check the runs of a table that was read; the result has no baseline yet.

    With `pool`, runs at all levels of other columns may count as one sample.
    """
    table, question = shaped(table, question)
    refuse_summaries(table, question)
    columns, seed_notes = _columns_of(table, question)
    check_step_roles(table, question, columns)
    if table.store is not None:  # the store may contain runs of other studies, with other parameters
        table = replace(table, frame=table.frame.dropna(subset=[columns.group, *columns.by]))
        if table.frame.empty:
            raise TableError(f"{table.name} has no rows")
    check_number(table, question)
    of_best = better if question.best == columns.value else None
    table, row_notes = one_row_per_run(table, question, columns, of_best)
    numbers = numbers_in(table.frame[columns.value], columns.value, table.decimal_comma)
    tidy = _tidy(table, columns, numbers.values)
    unit_notes = _check_units(tidy, columns)
    crashed, empty_notes = _without_value(tidy, table, columns)
    has_value = tidy["value"].notna().to_numpy()
    if not has_value.any():
        raise TableError(f"no row of {table.name} has a value in {columns.value!r}")
    tidy, table = tidy.loc[has_value].reset_index(drop=True), replace(table, frame=table.frame.loc[has_value])
    _check_labels(tidy, table, question, columns)
    _check_repeats(tidy, table, question, columns)
    pool_notes = [] if pool else _check_pooled(table, question, columns)
    notes = (*table.notes, *seed_notes, *row_notes, *numbers.notes, *unit_notes, *empty_notes, *pool_notes)
    notes = tuple(map(spoken, (*notes, *_identical_groups(tidy, columns))))
    return RunTable(tidy, columns, table.name, notes, table.store, numbers.per_cent, table.better, crashed)


def in_one_group(table: Table, question: Question, name: str) -> tuple[Table, Question]:
    """Return all rows as one group, if the question names none."""
    if question.group is not None or question.value is None:
        return table, question
    return replace(table, frame=table.frame.assign(**{SET: name})), replace(question, group=SET)


def _columns_of(table: Table, question: Question) -> tuple[Columns, list[str]]:
    value, group, names = question.value, question.group, table.frame.columns
    if group is not None and value not in (None, *names):
        _refuse_as_metric(table, question)
    for name in (value, group, *question.block, *question.by):
        if name is not None:
            require(name, names, table.name)
    if value is None or group is None:
        raise TableError(unnamed(table, question))
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
    return Columns(value, group, None, question.block, seed, question.by, question.paired), notes


def check_step_roles(table: Table, question: Question, columns: Columns) -> None:
    """Refuse checkpoints of a run as runs, unless the column is a parameter of a store or of logged runs.

    A column whose levels never occur twice in a run, such as epochs, passes as well.
    """
    frame, named = table.frame, [*columns.by, *columns.blocks, *([columns.seed] if columns.seed else [])]
    name = next((name for name in named if is_step(name)), None)
    if table.store is not None or table.has_run_rows or not question.steps or name is None:
        return
    others = [other for other in columns.run if other != name]
    if (
        columns.seed not in (None, name)
        and combined(frame, others).max() == combined(frame, columns.run).max()
    ):
        return
    steps = frame[name].map(level_name)
    end = steps.iloc[int(numeric(steps).fillna(-np.inf).argmax())]
    after = replace(
        question,
        by=tuple(other for other in question.by if other != name),
        block=tuple(other for other in question.block if other != name),
        seed="seed" if question.seed == name else question.seed,
        where=(*question.where, f"{quoted(name)} == {end}"),
    )
    settings = "" if columns.seed == name else "add --no-steps if its levels are settings of runs, or "
    raise TableError(
        f"{name} seems to count steps, and checkpoints of one run are not runs of their own; {settings}"
        f"take one of them: {after.typed(table.path)}"
    )


# Words in names of metrics that may be 0.5 in one group and 50 in another without a change of unit.
_UNBOUNDED = set(
    "loss nll ppl perplexity mse rmse mae reward rewards return returns time seconds runtime duration "
    "latency memory energy cost fid elo fps throughput speedup".split()
)
_FACTOR = 50, 200  # ratio of the medians of per cent and shares


def _check_units(tidy: pd.DataFrame, columns: Columns) -> list[str]:
    """Refuse shares in one group and per cent in another; note cases that may be that."""
    is_share = metric_of(columns.value).full_scale is not None
    is_unbounded = not is_share and bool(set(plain_name(columns.value).split("_")) & _UNBOUNDED)
    notes = []
    ends = tidy.groupby(["stratum", "group"], sort=False)["value"].agg(["min", "max", "median"]).reset_index()
    for _, own in ends.groupby("stratum", sort=False):
        shares = own.loc[(own["min"] >= 0) & (own["max"] <= 1) & (own["max"] > own["min"])]
        others = own.loc[(own["min"] > 1) & ((own["max"] <= _HUNDRED) | is_share)]
        if shares.empty or others.empty:
            continue
        a, b = shares.iloc[0], others.iloc[0]
        is_factor = _FACTOR[0] <= b["median"] / max(a["median"], 1 / _HUNDRED) <= _FACTOR[1]
        said = (
            f"{columns.value!r} is {a['min']:.4g} to {a['max']:.4g} in {a['group']!r} and {b['min']:.4g} to "
            f"{b['max']:.4g} in {b['group']!r}"
        )
        if is_share or (is_factor and not is_unbounded):
            raise TableError(f"{said}: shares beside percentages; write all of them in one unit")
        if is_factor:
            notes.append(f"{said}: if these are shares beside percentages, write all of them in one unit.")
    return _few(notes)


def _identical_groups(tidy: pd.DataFrame, columns: Columns) -> list[str]:
    """Note groups of one stratum whose runs have identical values."""
    seen: dict[tuple[object, ...], str] = {}
    notes = []
    for (stratum, name), runs in tidy.groupby(["stratum", "group"], sort=False):
        values = tuple(runs.sort_values(["block", "seed_name"])["value"])
        first = seen.setdefault((stratum, *values), str(name))
        if first != name and len(set(values)) > 1:
            where = f" in {stratum_name(columns.by, runs['stratum'].iloc[0])}" if columns.by else ""
            notes.append(f"{name} and {first} have the same values{where}: one may be a copy of the other.")
    return _few(notes)


def _few(notes: list[str]) -> list[str]:
    more = len(notes) - _MOST_NAMED
    return [*notes[:_MOST_NAMED], f"({more:,} more notes of this kind.)"] if more > 0 else notes


def _seed(table: Table, question: Question) -> tuple[str | None, list[str]]:
    """Return the column with the seed, also found by its usual names, and notes on it."""
    frame, seed = table.frame, question.seed
    if seed is None:
        return None, ["No seed: every row counts as an independent run."]
    if seed != "seed":
        require(seed, frame.columns, table.name)
        across = f"{seed} is taken as the seed: the answer is about the spread across {seed}."
        return seed, [across] if plain_name(seed) in STRATA else _fold_notes(seed)
    taken = {question.value, question.group, question.last, question.best, *question.block, *question.by}
    free = [name for name in frame.columns if name not in taken]
    seed = find_seed(frame, free)
    if seed is None:
        return None, ["No seed column: every row counts as an independent run."]
    others = [name for name in seed_names(free) if name != seed and frame[name].nunique() > 1]
    if seed == "seed" and (not others or table.store is not None):
        return seed, []  # a store has one seed; its other columns are parameters of a program
    more = f" ({listed(others, 3)} could be it too: --seed {others[0]})" if others else ""
    notes = [f"The seed column is {seed}{more}."]
    is_plain = plain_name(seed) in ("seed", "seeds") or question.group == SET
    pairs = combined(frame, [seed, str(question.group)])
    if not is_plain and pairs.max() == combined(frame, [seed]).max():
        notes = [f"{seed} names each run by itself: no seed is shared between levels of {question.group}."]
    return seed, notes + _fold_notes(seed)


def _fold_notes(seed: str) -> list[str]:
    if plain_name(seed) not in FOLDS:
        return []
    return [f"{seed} is taken as the seed: folds share training data, so that runs are not independent."]


def one_row_per_run(
    table: Table, question: Question, columns: Columns, better: str | None
) -> tuple[Table, list[str]]:
    """Keep the row with the last step, or the best value, of each run, if that is asked for.

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
    order = np.where(filled, order, -np.inf)
    rows = _best_rows(combined(frame, columns.run), order, question.last is not None)
    which = "largest" if question.last else direction.replace("er", "est")
    taken = f"{rows.sum():,} of {len(frame):,} rows"
    ends = numbers[rows]
    strata = combined(frame, columns.by)[rows]
    latest = pd.Series(ends).groupby(strata).transform("max").to_numpy()
    early = frame.index[rows][ends < latest]
    if question.last and len(early):
        at = f"{latest[0]:.15g}"
        out = f"; --where '{quoted(column)} == {at}' leaves them out" if np.ptp(latest) == 0 else ""
        many = f"{len(early):,} of {rows.sum():,} runs end before the last {column} of others"
        notes.append(f"{many} ({row_numbers(early)}), and may have crashed{out}.")
    notes.insert(0, f"Each run's row with the {which} {column} is used: {taken}.")
    return replace(table, frame=frame.loc[rows]), notes


def _check_steps(table: Table, question: Question, columns: Columns, column: str) -> list[str]:
    """Refuse rows that are not steps of one run, such as several tasks; note steps that occur twice."""
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
    """Return (rows,) bool: each run's row with the highest `order`, the first one or with `ties` all of them.

    A run without a value, whose `order` is -inf in all rows, keeps one row.
    """
    found = np.asarray(order == pd.Series(order).groupby(runs).transform("max").to_numpy())
    again = pd.Series(runs[found]).duplicated().to_numpy()
    found[found] = ~(again & (not ties or np.isneginf(order[found])))
    return found


def _tidy(table: Table, columns: Columns, values: "pd.Series[float]") -> pd.DataFrame:
    frame = table.frame
    rows = frame.index.to_numpy()
    codes, names = coded(frame[columns.seed]) if columns.seed else (np.arange(len(frame)), rows.astype(str))
    texts = names[codes].astype(object)
    if columns.seed and not columns.paired:
        codes = combined(frame, [columns.seed, columns.group])
    failed = labels(frame["collapsed"]).map(_truth) if "collapsed" in frame.columns else False
    # Runs of a store have a folder, and the score of a constant guess.
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
        "seed_name": texts,
        "stratum": levels_in(frame, columns.by),
        "failed": failed,
        "row": rows,
        **stored,
    }
    return pd.DataFrame(tidy, index=frame.index).reset_index(drop=True)


def _truth(label: str) -> bool:
    if label.lower() in {"true", "1", "yes", "false", "0", "no", ""}:
        return label.lower() in {"true", "1", "yes"}
    raise TableError(f"the column 'collapsed' must hold true or false; got {label!r}")


def _without_value(tidy: pd.DataFrame, table: Table, columns: Columns) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of runs that crashed, and notes on all rows without a value; blank lines are not runs.

    A run crashed if none of its rows has a value. A store's run without a value either failed or finished
    without being asked for it.
    """
    empty = tidy["value"].isna()
    cells = table.frame.loc[empty.to_numpy(), [*columns.run]]
    blank = cells.index[cells.map(is_empty).all(axis=1)]
    without = tidy.loc[empty & ~tidy["row"].isin(blank)]
    again = pd.MultiIndex.from_frame(without[_RUN]).isin(pd.MultiIndex.from_frame(tidy.loc[~empty, _RUN]))
    is_crashed = ~again & (without["failed"].to_numpy(bool) if table.store is not None else True)
    crashed, notes = without.loc[is_crashed], []
    compared = crashed.loc[crashed["stratum"].isin(set(tidy.loc[~empty, "stratum"]))]
    ended = "that ended with an error" if table.store else "without a value"
    told = (f"{ended} counts as failed", f"{ended} count as failed")
    if is_until(columns.value):
        told = (f"never reached {columns.value}",) * 2
    for rows, one, more in (
        (compared, *told),
        (without.loc[~is_crashed], "without a value was left out", "without a value were left out"),
    ):
        if len(rows):
            what = f"1 run {one}" if len(rows) == 1 else f"{len(rows):,} runs {more}"
            notes.append(f"{what} ({_named(rows, table, columns)}).")
    return crashed, notes


def _named(rows: pd.DataFrame, table: Table, columns: Columns) -> str:
    """Name rows by their numbers; those of a store, which have no visible numbers, by cell and seed."""
    if table.store is None:
        return row_numbers(rows["row"])
    names = []
    for row in rows.head(_MOST_NAMED).to_dict("records"):
        stratum, block = stratum_name(columns.by, row["stratum"]), joined_levels(row["block"])
        cell = filter(None, (stratum, group_name(columns.group, row["group"]), block))
        names.append(f"{', '.join(cell)}, seed {row['seed_name']}")
    return "; ".join([*names, *["..."] * (len(rows) > _MOST_NAMED)])


def _check_labels(tidy: pd.DataFrame, table: Table, question: Question, columns: Columns) -> None:
    by = ", ".join(columns.by)
    for column, name in (("group", columns.group), ("seed_name", columns.seed), ("stratum", by)):
        empty = tidy[column].isin(["", ("",)])
        if name and empty.any():
            rows = row_numbers(tidy.loc[empty, "row"])
            after = replace(question, where=(*question.where, f'{quoted(name)} != ""'))
            drop = "or drop the row" if ", " in name else f"or drop the row: {after.typed(table.path)}"
            raise TableError(f"column {name!r} is empty in {rows}; fill it in, {drop}")


def _check_repeats(tidy: pd.DataFrame, table: Table, question: Question, columns: Columns) -> None:
    """Refuse two rows of one run; name the column that distinguishes them, and the command with it."""
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
    if question.command == "gate":
        raise TableError(
            f"{where} are both {described}: one row per run; --no-seed: every row is a run of its own"
        )
    instead = advice(table, question, told_apart(table, question, columns)) or (
        "If another column tells them apart, name it with --block (same-seed runs) or --by (audited apart); "
        "--no-seed says that every row is a run of its own"
    )
    raise TableError(f"{where} are both {described}: one row per run. {instead}")


def _check_pooled(table: Table, question: Question, columns: Columns) -> list[str]:
    """Refuse to count levels of a dataset or a task as seeds."""
    if table.store is not None:
        return []
    frame, cell = table.frame, (*columns.by, columns.group, *columns.blocks)
    others = [name for name in frame.columns if name not in {*columns.run, columns.value}]
    if nesting := nesting_factor(frame, columns.group, others):
        said = f"Each {columns.group} has one {nesting}, and is compared with those of others"
        return [f"{said}; --by {quote(nesting)} compares within each."]
    name = pooled_factor(frame, cell, others)
    if name is None:
        return _check_single_rows(table, question, columns, cell, others)
    levels = f"{name} has {frame[name].nunique():,} levels in each {columns.group}"
    if question.seed is None and not is_step(name):
        return [f"{levels}, which are pooled; --by {quote(name)} audits them apart."]
    if is_step(name) and columns.seed is None:
        raise TableError(
            f"{levels}: rows are steps of runs; name the column that tells runs apart with --seed"
        )
    is_group = question.group == SET
    after = replace(question, **({"group": name} if is_group else {"by": (*question.by, name)}))
    option = "group" if is_group else "by"
    raise TableError(
        f"{levels}, which would be pooled as if they were seeds; use --{option} {quote(name)} "
        f"(audited apart) or --block {quote(name)} (same-seed runs): {after.typed(table.path)}"
    )


def _check_single_rows(
    table: Table, question: Question, columns: Columns, cell: Sequence[str], others: Sequence[str]
) -> list[str]:
    """Refuse to count datasets, of which each group has one row, as seeds."""
    frame = table.frame
    recurs = columns.seed is not None and frame[columns.seed].nunique() < len(frame)
    free = [name for name in others if not seed_names([name])]
    name = None if recurs else single_row_factor(frame, cell, free)
    if name is None:
        return []
    if question.seed is None:
        return [f"Each {columns.group} has one row per {name}: the answer is about the spread across {name}."]
    per = " and ".join((*((columns.group,) if columns.group != SET else ()), name))
    raise TableError(
        f"{table.name} has one row per {per} and no seed column. Add a row per seed; or, if {name} is the "
        f"seed or you ask about the spread across it: {replace(question, seed=name).typed(table.path)}"
    )


def check_same_seed(table: Table, question: Question, columns: Columns) -> None:
    """Refuse rows of several datasets, or steps, as repeats of a seed; a counter of repeats may be meant."""
    frame, run = table.frame, [name for name in columns.run if name != columns.value]
    others = [name for name in frame.columns if name not in {*run, question.value} and not seed_names([name])]
    runs = combined(frame, run).max()
    varying = [name for name in others if combined(frame, [*run, name]).max() > runs]
    steps = [name for name in varying if is_step(name)]
    texts = [n for n in varying if is_factor(frame[n]) and not is_numeric(frame[n]) and not is_aside(n)]
    others = [name for name in others if not is_step(name) and not _counts_up(frame, name)]
    name = single_row_factor(frame, run, others) or pooled_factor(frame, run, others)
    name = name or next(iter([*steps, *texts]), None)
    if table.store is not None or name is None:
        return
    after = told_apart(table, question, columns) if question.group and not is_step(name) else question
    if after == question:
        after = replace(question, **({"last": name} if is_step(name) else {"by": (*question.by, name)}))
    which = f"the {'steps' if is_step(name) else 'levels'} of {name} would pass for runs that repeat a seed"
    raise TableError(f"{which}; {advice(table, question, after)}")


def _counts_up(frame: pd.DataFrame, name: str) -> bool:
    levels = numeric(frame[name]).dropna().unique()
    return len(levels) > 0 and set(levels) in ({*range(len(levels))}, {*range(1, len(levels) + 1)})


def with_baseline(runs: RunTable, question: Question) -> RunTable:
    """Set the baseline: the named one, one of two levels, or none if all levels are compared."""
    columns = runs.columns
    groups = [str(name) for name in coded(runs.frame["group"])[1]]
    crashed = runs.crashed.groupby("group", sort=False)
    lost = {str(name): list(own.get("row", ())) for name, own in crashed if name not in groups}
    if question.baseline is not None:
        baseline = level_name(question.baseline)
        if baseline in lost:
            raise TableError(
                f"no run with {columns.group} = {baseline!r} has a value ({row_numbers(lost[baseline])})"
            )
        if baseline not in groups:
            levels = listed(groups, 8) or "no values"
            raise TableError(
                f"no run has {columns.group} = {baseline!r}{did_you_mean(baseline, groups)} "
                f"({columns.group} has {levels})"
            )
    if len(groups) < 2:
        only = f"every run has {columns.group} = {groups[0]!r}" if groups else f"{runs.source} has no rows"
        if groups and lost:
            without = ", ".join(f"{name!r} has none ({row_numbers(rows)})" for name, rows in lost.items())
            only = f"of the levels of {columns.group}, only {groups[0]!r} has values: {without}"
        raise TableError(f"{only}; a comparison needs two levels")
    _check_strata(runs, question)
    told = [f"{name} has no value ({row_numbers(rows)}), and is not compared." for name, rows in lost.items()]
    empty = [one for one in dict.fromkeys(runs.crashed["stratum"]) if one not in set(runs.frame["stratum"])]
    if empty:
        where = listed([stratum_name(columns.by, one) for one in empty], _MOST_NAMED)
        told.append(f"{where}: no run has a value of {columns.value}, so it is not compared.")
    runs = replace(runs, notes=(*runs.notes, *told, *missing_seeds(runs)))
    if question.baseline is not None:
        return replace(runs, columns=replace(columns, baseline=baseline))
    if len(groups) == 2:
        baseline, other = sorted(groups, key=lambda name: name != baseline_of(groups))
        note = spoken(f"Baseline: {baseline} (swap with --baseline {quote(other)}).")
        columns = replace(columns, baseline=baseline)
    else:
        note = (
            f"No baseline was given, so all {len(groups)} levels of {columns.group} are compared in pairs, "
            "later ones in the table over earlier ones."
        )
    return replace(runs, columns=columns, notes=(*runs.notes, note))


def _check_strata(runs: RunTable, question: Question) -> None:
    """Refuse `by` if no stratum has two groups: the groups' levels are then nested in those of `by`."""
    columns, baseline = runs.columns, question.baseline
    if not columns.by:
        return
    groups = runs.frame.groupby("stratum", sort=False)["group"].agg(set)
    if any(len(own) > 1 and (baseline is None or level_name(baseline) in own) for own in groups):
        return
    by = " and ".join(columns.by)
    has_others = baseline and groups.map(len).max() > 1
    versus = f"{level_name(baseline)!r} and another level" if has_others else "two levels"
    after = replace(question, group=columns.by[-1], by=columns.by[:-1], baseline=None)
    typed = after.typed(None if runs.source == FRAME else runs.source)
    raise TableError(
        f"no {by} has {versus} of {columns.group}, so that nothing can be compared within it; leave out "
        f"--by, or compare the levels of {columns.by[-1]}: {typed}"
    )


def missing_seeds(runs: RunTable) -> list[str]:
    columns = runs.columns
    if columns.seed is None or not columns.paired:
        return []
    every = pd.concat([runs.frame, runs.crashed]) if len(runs.crashed) else runs.frame
    lacking: dict[tuple[str, str], list[str]] = {}
    for _, own in every.groupby("stratum", sort=False):
        seeds = own.groupby("group", sort=False)["seed_name"].agg(set)
        for group, names in seeds.items():
            others = set().union(*seeds.drop(group))
            if others & names and others - names:
                missing = listed([seed for seed in dict.fromkeys(own["seed_name"]) if seed not in names], 8)
                where = stratum_name(columns.by, own["stratum"].iloc[0])
                lacking.setdefault((str(group), missing), []).append(where)
    return _few([
        f"{group} has no run with {columns.seed} {missing}, unlike another group"
        + (f" (in {listed(strata, _MOST_NAMED)})." if columns.by else ".")
        for (group, missing), strata in lacking.items()
    ])  # fmt: skip


def check_number(table: Table, question: Question) -> None:
    """Refuse more pairwise comparisons than anyone can read, before any work."""
    group = str(question.group)
    codes, groups = coded(table.frame[group])
    if question.baseline is not None or len(groups) < 3:
        return
    cells = np.unique(combined(table.frame, question.by) * len(groups) + codes) // len(groups)
    sizes = np.bincount(cells)
    pairs = int((sizes * (sizes - 1) // 2).sum())
    if pairs > MOST_PAIRS:
        after = replace(question, baseline=str(groups[0]))
        raise TableError(
            f"{group} has {len(groups):,} levels, {pairs:,} comparisons of all with all, and at most "
            f"{MOST_PAIRS:,} are made; name the level to compare with: {after.typed(table.path)}"
        )


# What to type instead: suggest a question that the table can answer

_VALUES = set("value score result reward return returns performance metric".split())
_GROUPS = set(
    "method methods model models algorithm algo agent optimizer optimiser arm group condition variant "
    "treatment system approach learner classifier architecture config setting name".split()
)
_MOST_LEVELS = 50


def unnamed(table: Table, question: Question) -> str:
    """Describe which of value and group must be named, the candidates, and the whole command."""
    what = {"value": "the column with the results", "group": "the column whose levels are compared"}
    lacking = [f"{what[name]} with --{name}" for name in what if getattr(question, name) is None]
    there = f"{table.name} has {listed(table.frame.columns)}"
    found = proposal(table, question)
    typed = "" if found is None else f": {found.typed(table.path)}"
    return f"name {' and '.join(lacking)} ({there}){typed}"


def proposal(table: Table, question: Question) -> Question | None:
    """Return the question with the missing columns, chosen by their names and levels; None if none fit."""
    frame = table.frame
    taken = {*question.block, *question.by, question.last, question.best, question.metric_column}
    free = [name for name in frame.columns if name not in taken]
    groups = groups_in(frame, [name for name in free if name != question.value])
    group = question.group or next(iter(groups), None)
    if group is None:
        return None
    seeds = set(seed_names(free))
    results = [n for n in free if n != group and n not in seeds and is_numeric(frame[n]) and not is_step(n)]
    results = [n for n in results if not n.startswith("Unnamed:")]
    wide = {} if question.value else wide_stems(frame, {question.group})
    if wide and {*results} <= {name for names in wide.values() for name in names}:
        return replace(question, group=group, value=next(iter(wide)) or "value", wide="auto")
    results.sort(key=lambda n: (not is_metric_name(n), plain_name(n) not in _VALUES, _counts_up(frame, n)))
    value = question.value or next(iter(results), None)
    if value is None:
        return None
    found = replace(question, value=value, group=group)
    if value not in frame.columns or question.last or question.best:
        return found
    seed = find_seed(frame, [n for n in free if n not in (value, group)]) if question.seed else None
    found = told_apart(table, found, Columns(value, group, None, question.block, seed, question.by))
    nesting = nesting_factor(frame, str(found.group), [name for name in free if name not in found.by])
    return replace(found, by=(*found.by, nesting)) if nesting else found


def groups_in(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return candidates for the group, best first: by name, words before numbers, then few levels."""
    seeds = set(seed_names(names))
    fit = [
        name
        for name in names
        if name not in seeds
        and not is_step(name)
        and not is_metric_column(name)
        and 2 <= frame[name].nunique() <= _MOST_LEVELS
        and (is_factor(frame[name]) or (len(frame) < 2 * _MOST_LEVELS and not is_numeric(frame[name])))
    ]
    return sorted(fit, key=lambda name: _rank_as_group(frame, name))


def _rank_as_group(frame: pd.DataFrame, name: str) -> tuple[bool, bool, bool, bool, int]:
    plain = plain_name(name)
    levels, is_number = frame[name].nunique(), is_numeric(frame[name])
    return is_aside(name), plain not in _GROUPS, is_number, plain in STRATA, levels


def _refuse_as_metric(table: Table, question: Question) -> None:
    """Suggest a command if the value is not a column but a metric of a long or a wide table."""
    frame, value = table.frame, str(question.value)
    if named := metric_columns(frame, value):
        after = replace(question, metric_column=named[0])
        said = f"{value!r} is no column, but a level of {named[0]}; use --metric-column {named[0]}"
    elif value in (stems := wide_stems(frame, {question.group})) or list(stems) == [""]:
        after = replace(question, wide="auto")
        said = f"{value!r} is no column; if there is a column for each seed, use --wide auto"
    else:
        return
    raise TableError(f"{said}: {after.typed(table.path)}")


def told_apart(table: Table, question: Question, columns: Columns) -> Question:
    """Add to the question what else distinguishes rows of one run: `by`, `last`, a metric's column."""
    frame = table.frame
    others = [name for name in frame.columns if name not in {*columns.run, columns.value}]
    if question.last is not None or question.best is not None:
        others = [name for name in others if not is_step(name)]
    run = [*columns.run, question.last] if question.last in frame.columns else columns.run
    for name in distinguishing(frame, [name for name in run if name is not None], others):
        if is_step(name):
            question = replace(question, last=name)
        elif is_metric_column(name):
            question = replace(question, metric_column=name, value=str(coded(frame[name])[1][0]))
        elif seed_names([name]) and (columns.seed is None or frame[columns.seed].nunique() == 1):
            question = replace(question, seed=name)
        elif seed_names([name]):
            question = replace(question, block=(*question.block, name))
        elif (
            question.group != SET
            and question.group in frame.columns
            and frame.groupby(name)[str(question.group)].nunique().max() == 1
        ):
            question = replace(question, group=name, baseline=None)  # each level belongs to one group
        else:
            question = replace(question, by=(*question.by, name))
    if question.group in others and (nesting := nesting_factor(frame, str(question.group), others)):
        question = replace(question, by=(*question.by, nesting))
    new = [name for name in question.by if name not in columns.by]
    if question.group != SET or not new:
        return question
    # If sets of runs are compared, one of the columns names their groups.
    group = min(new, key=lambda name: _rank_as_group(frame, name))
    return replace(question, group=group, by=tuple(name for name in question.by if name != group))


_ADVICE = {
    "group": "has {levels}; use --group {0}",
    "by": "has {levels}; use --by {0} (audited apart) or --block {0} (same-seed runs)",
    "block": "has {levels}; use --block {0} (same-seed runs)",
    "last": "counts steps; use --last {0}, --best or --where (--by {0} and --no-steps if it is a setting)",
    "metric_column": "names metrics; use --metric-column {0}",
    "seed": "may be the seed; use --seed {0}",
}


def advice(table: Table, before: Question, after: Question) -> str:
    """Describe what `after` has that `before` lacks, and the command: `Dataset has 8 levels; use --by`."""
    if after == before:
        return ""
    parts = []
    for option, said in _ADVICE.items():
        told = several(getattr(before, option))
        for name in (n for n in several(getattr(after, option)) if n not in told):
            levels = f"{table.frame[name].nunique():,} levels"
            parts.append(f"{name} {said.format(quote(name), levels=levels)}")
    return f"{'; '.join(parts)}: {after.typed(table.path)}"
