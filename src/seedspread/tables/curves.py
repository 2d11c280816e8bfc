"""Learning curves: of each run the row with its last step, or its best value."""

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.runs.metrics import metric_of
from seedspread.tables.columns import Columns, is_step, pooled
from seedspread.tables.errors import TableError, row_numbers
from seedspread.tables.labels import Codes, combined
from seedspread.tables.numbers import is_filled, numbers_in
from seedspread.tables.propose import added, told_apart, typed
from seedspread.tables.question import Question
from seedspread.tables.read import Table
from seedspread.tables.roles import require


def one_row_per_run(
    table: Table, question: Question, columns: Columns, better: str | None
) -> tuple[Table, list[str]]:
    """The table with one row per run, if that is asked for; and what was taken.

    `better` is the direction of the best; None: what the column's name tells.
    """
    column, frame = question.last or question.best, table.frame
    if column is None:
        return table, []
    _check_options(table, question, columns, column)
    notes = _check_steps(table, question, columns, column)
    numbers = np.asarray(numbers_in(frame[column], column, table.decimal_comma).values, float)
    direction = "higher" if question.last else better or metric_of(column).better
    runs, filled = combined(frame, columns.run), is_filled(frame[columns.value]).to_numpy()
    rows = _chosen(runs, numbers, filled, direction, ties=question.last is not None)
    which = "largest" if question.last else direction.replace("er", "est")
    taken = f"{rows.sum():,} of {len(frame):,} rows"
    said = f"Of each run the row with the {which} {column} is taken: {taken}."
    ends = numbers[rows]
    if question.last and ends.min() < ends.max():
        notes.append(f"Not all runs end at the same {column}: at {ends.min():g} to {ends.max():g}.")
    return replace(table, frame=frame.loc[rows]), [said, *notes]


def _check_options(table: Table, question: Question, columns: Columns, column: str) -> None:
    option = "--last" if question.last else "--best"
    if question.last and question.best:
        raise TableError("give --last or --best, not both")
    require(column, table)
    if column in columns.run:
        raise TableError(f"{option} {column}: this column tells runs apart; name one such as the step")
    if columns.seed is None:
        raise TableError(f"{option} takes a row of each run, and no column is the seed; name it with --seed")


def _check_steps(table: Table, question: Question, columns: Columns, column: str) -> list[str]:
    """Rows of several tasks, say, must not pass for steps of one run; steps that stand twice are noted."""
    frame = table.frame
    others = [name for name in frame.columns if name not in {*columns.run, columns.value, column}]
    within = pooled(frame, columns.run, [name for name in others if not is_step(name)])
    points = combined(frame, [*columns.run, column])
    repeated = question.last is not None and points.max() + 1 < len(frame)
    after = told_apart(table, question, columns) if within is not None or repeated else question
    if within is not None and after == question:
        after = replace(question, by=(*question.by, within))
    if after != question:
        why = f"rows of one run have the same {column}" if repeated else f"one run has every {within}"
        raise TableError(f"{why}: {added(question, after, frame)}{typed(table, question, after)}")
    if not repeated:
        return []
    twice = frame.index[pd.Series(points).duplicated(keep=False).to_numpy()]
    many = f"{len(twice):,} rows share their run and {column} with another ({row_numbers(twice)})"
    return [f"{many}: these runs may have been logged twice."]


def _chosen(
    runs: Codes,
    numbers: NDArray[np.float64],
    is_filled: NDArray[np.bool_],
    better: str = "higher",
    ties: bool = False,
) -> NDArray[np.bool_]:
    """(rows,) in each run the row where `numbers` are highest, or lowest; the first of `ties`, or all.

    Rows that are not filled are passed over, unless a run has no other: it has no value then.
    """
    order = np.nan_to_num(numbers if better == "higher" else -numbers, nan=-np.inf)
    order = np.where(is_filled, order, -np.inf)
    best = np.full(runs.max() + 1, -np.inf)
    np.maximum.at(best, runs, order)
    found = np.asarray(order == best[runs])
    again = pd.Series(runs[found]).duplicated().to_numpy()
    # Of a run without any value one row stands for it.
    found[found] = ~(again & (not ties or np.isneginf(best[runs[found]])))
    return found
