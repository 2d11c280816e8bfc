"""One row per run: rows chosen, columns of seeds turned into rows, a metric taken out of a long table."""

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import translate

import pandas as pd

from seedspread.errors import did_you_mean
from seedspread.tables.columns import is_numeric, is_step, plain_name, seed_names
from seedspread.tables.errors import TableError, listed
from seedspread.tables.labels import coded, labels
from seedspread.tables.question import Question
from seedspread.tables.read import Table
from seedspread.tables.where import rows_where

_METRICS = {"metric", "metrics", "measure", "variable", "metric_name", "score_name", "statistic"}
_VALUES = {"value", "values", "score", "scores", "result", "results", "metric_value", "val", "number"}
_SEED_COLUMN = re.compile(
    r"(?P<stem>.*?)(?P<word>seed|run|trial|rep|fold|s)?[ _.\-#]*(?P<number>\d+)", re.IGNORECASE
)


def shaped(table: Table, question: Question) -> tuple[Table, Question]:
    """The table with the rows and columns that are asked for; a wide table's value gets its name."""
    frame = rows_where(table.frame, question.where, table.name)
    if question.metric_column is not None and question.wide is not None:
        raise TableError("give --metric-column or --wide, not both")
    if question.metric_column is not None:
        frame = one_metric(frame, question, table.name)
    if question.wide is not None:
        question = replace(question, value=question.value or "value")
        frame = melted(frame, seed_columns(frame, question, table.name), str(question.value))
    return replace(table, frame=frame), question


def metric_columns(frame: pd.DataFrame, value: str) -> list[str]:
    """Columns of a long table that have `value` among their levels; what is called a metric first."""
    found = [
        name
        for name in frame.columns
        if not is_numeric(frame[name]) and value in set(coded(frame[name].iloc[:10_000])[1])
    ]
    return sorted(found, key=lambda name: plain_name(name) not in _METRICS)


def is_metric_column(name: str) -> bool:
    """Whether a column names metrics, by its own name."""
    return plain_name(name) in _METRICS


def one_metric(frame: pd.DataFrame, question: Question, name: str) -> pd.DataFrame:
    """The rows of a long table that hold the metric `question.value`; its numbers in a column so called."""
    column, value = str(question.metric_column), question.value
    if column not in frame.columns:
        hint = did_you_mean(column, frame.columns)
        raise TableError(f"{name} has no column {column!r}{hint} (it has {listed(frame.columns)})")
    levels = list(coded(frame[column])[1])
    if value is None or value not in levels:
        said = "say which metric with --value" if value is None else f"{column} has no {value!r}"
        raise TableError(f"{said}{did_you_mean(value or '', levels)} ({column} has {listed(levels)})")
    rows = frame.loc[(labels(frame[column]) == value).to_numpy()]
    taken = {column, question.group, question.seed, question.last, *question.block, *question.by}
    seeds = set(seed_names(frame.columns))
    left = [c for c in frame.columns if c not in taken | seeds and not is_step(c) and is_numeric(rows[c])]
    called = [c for c in left if plain_name(c) in _VALUES]
    found = called if len(called) == 1 else left
    if len(found) != 1:
        which = listed(left) or "no column of numbers"
        raise TableError(
            f"which column has the numbers is not clear ({which}); name it with --value, and the metric with "
            f"--where '{column} == {value}'"
        )
    return rows.drop(columns=[column]).rename(columns={found[0]: value})


def seed_columns(frame: pd.DataFrame, question: Question, name: str) -> dict[str, str]:
    """The columns of a wide table that hold a seed each, and the seeds' names."""
    others = {question.group, *question.block, *question.by}
    if question.wide != "auto":
        pattern = re.compile(translate(str(question.wide)))
        found = [c for c in frame.columns if pattern.fullmatch(c) and c not in others]
        if len(found) < 2:
            raise TableError(
                f"--wide {question.wide!r} matches {listed(found) or 'no column'}; it must match one column "
                f"per seed ({name} has {listed(frame.columns)})"
            )
        return dict(zip(found, _numbers_of(found), strict=True))
    stems = wide_stems(frame, others)
    if question.value in stems:
        stems = {str(question.value): stems[str(question.value)]}
    if len(stems) != 1:
        which = f"of {listed(stems)}" if stems else f"of {listed(frame.columns)}"
        raise TableError(
            f"--wide auto finds no one set of columns with a seed each {which}; try --wide 'seed_*'"
        )
    found = next(iter(stems.values()))
    return dict(zip(found, _numbers_of(found), strict=True))


def wide_stems(frame: pd.DataFrame, taken: "set[str | None]") -> dict[str, list[str]]:
    """Columns of numbers that differ in a number at the end, by what stands before it."""
    stems: dict[str, list[str]] = {}
    for name in frame.columns:
        match = _SEED_COLUMN.fullmatch(name)
        if match and name not in taken and is_numeric(frame[name]):
            stems.setdefault(match["stem"].strip(" _.-#"), []).append(name)
    return {stem: names for stem, names in stems.items() if len(names) > 1}


def _numbers_of(names: Sequence[str]) -> list[str]:
    """What differs between the names."""
    numbers = [match[0] if (match := re.search(r"\d+$", name)) else "" for name in names]
    return numbers if len(set(numbers)) == len(names) and all(numbers) else list(names)


def melted(frame: pd.DataFrame, seeds: dict[str, str], value: str) -> pd.DataFrame:
    """One row per run from a table with a column per seed: `seed` and `value` stand for these columns."""
    kept = frame.drop(columns=list(seeds))
    clash = [name for name in ("seed", value) if name in kept.columns]
    if clash:
        raise TableError(
            f"a wide table's runs get a column {clash[0]!r}, which is there already; "
            + ("name the value otherwise with --value" if clash[0] == value else "rename it")
        )
    pieces = []
    for name, seed in seeds.items():
        piece = kept.copy()
        piece["seed"], piece[value] = seed, frame[name]
        pieces.append(piece)
    return pd.concat(pieces).sort_index(kind="stable")
