"""`--where`, `--metric-column` and `--wide`: select rows, or turn columns of seeds into rows."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.errors import did_you_mean, short
from seedspread.runs.metrics import is_metric_name
from seedspread.tables.columns import (
    NUMBER,
    coded,
    is_numeric,
    is_step,
    labels,
    numeric,
    plain_name,
    require,
    seed_names,
)
from seedspread.tables.question import Question, TableError, listed
from seedspread.tables.read import Table

_TOKENS = re.compile(r"""\s*("[^"]*"|'[^']*'|`[^`]*`|==|!=|<=|>=|=|<|>|\(|\)|,|[^\s"'`=!<>(),]+)""")
_SIGNS = ("==", "!=", "<=", ">=", "=", "<", ">")
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_EXAMPLE = "write --where 'step == 4000', with ==, !=, <, <=, >, >= or in (a, b), joined by and"


@dataclass(frozen=True)
class Condition:
    """A column, an operator, and the levels that its cells are compared with."""

    column: str
    sign: str
    levels: tuple[str, ...]

    def of(self, column: "pd.Series[Any]") -> NDArray[np.bool_]:
        """Return (rows,) whether the cells of the column meet it."""
        if self.sign in _ORDER:
            level, numbers = self.levels[0], numeric(column)
            if not NUMBER.fullmatch(level) or numbers.isna().all():
                which = f"column {self.column!r}" if NUMBER.fullmatch(level) else repr(level)
                raise TableError(f"--where: {self.sign} compares numbers, and {which} is none; use == or in")
            return np.asarray(_ORDER[self.sign](numbers.to_numpy(), float(level)))
        # 4e6 and 4000000 are the same number, just as 1 and 1.0 are the same level.
        given = {float(level) for level in self.levels if NUMBER.fullmatch(level)}
        texts = set(labels(pd.Series(self.levels)))
        met = labels(column).isin(texts).to_numpy() | numeric(column).isin(given).to_numpy()
        return np.asarray(~met if self.sign in ("!=", "not in") else met)


def quoted(name: str) -> str:
    """Return a column or level as written in a condition: in backquotes unless it is one plain word."""
    is_word = re.fullmatch(r"[^\s\"'`=!<>(),]+", name) and name not in ("in", "and", "not")
    return name if is_word else f"`{name}`"


def rows_where(frame: pd.DataFrame, wheres: Sequence[str], name: str) -> pd.DataFrame:
    """Return the rows that meet every condition; `name` is the table's name in messages."""
    for where in wheres:
        for condition in conditions(where):
            require(condition.column, frame.columns, f"--where: {name}")
            column = frame[condition.column]
            _check_levels(condition, column, where)
            met = condition.of(column)
            if not met.any():
                levels = listed(dict.fromkeys(labels(column)), 8)
                raise TableError(f"no row has {where!r}; {condition.column} has {levels}")
            frame = frame.loc[met]
    return frame


def _check_levels(condition: Condition, column: "pd.Series[Any]", where: str) -> None:
    """Refuse a level that the column lacks if it has others: it is probably mistyped."""
    if condition.sign in _ORDER or condition.sign == "==":
        return
    for level in condition.levels:
        if condition.sign == "!=" and NUMBER.fullmatch(level):
            continue
        if not Condition(condition.column, "==", (level,)).of(column).any():
            levels = list(dict.fromkeys(labels(column)))
            hint = f"{did_you_mean(level, levels)} (it has {listed(levels, 8)})"
            raise TableError(f"--where {short(where)}: {condition.column} has no {level!r}{hint}")


def conditions(where: str) -> list[Condition]:
    """Parse a text such as `a == 1 and b in (x, y)` without evaluating it; all conditions must be true."""
    tokens, place = [], 0
    while place < len(where.rstrip()):
        match = _TOKENS.match(where, place)
        if match is None or match.end() == place:
            rest = where[place:].strip()[:20]
            raise TableError(f"--where {short(where)}: cannot read {rest!r}; {_EXAMPLE}")
        tokens.append(match[1])
        place = match.end()
    if any(token.lower() == "or" for token in tokens):
        raise TableError(
            f"--where {short(where)}: or is not known; use in (a, b), or one --where for each and"
        )
    return [_condition(part, where) for part in _split(tokens, "and")]


def _condition(tokens: list[str], where: str) -> Condition:
    at = next((n for n, token in enumerate(tokens) if token.lower() in (*_SIGNS, "in", "not")), 0)
    column, rest = _joined(tokens[:at]), tokens[at + 1 :]
    typed = tokens[at].lower() if tokens else ""
    sign = {"=": "==", "not": "not in"}.get(typed, typed)
    if sign == "not in":
        rest = rest[1:] if rest and rest[0].lower() == "in" else []
    if not column or not rest:
        raise TableError(f"--where {short(where)} is no condition; {_EXAMPLE}")
    if sign not in ("in", "not in"):
        if any(token in (*_SIGNS, "(", ")", ",") for token in rest):
            raise TableError(f"--where {short(where)}: quote what has signs in it; {_EXAMPLE}")
        return Condition(column, sign, (_joined(rest),))
    if not (rest[0] == "(" and rest[-1] == ")" and len(rest) > 2):
        raise TableError(f"--where {short(where)}: {sign} needs brackets, as in task {sign} (a, b)")
    return Condition(column, sign, tuple(_joined(level) for level in _split(rest[1:-1], ",") if level))


def _joined(tokens: list[str]) -> str:
    """Return words joined by spaces, without their quotation marks."""
    return " ".join(token[1:-1] if token[0] in "\"'`" else token for token in tokens)


def _split(tokens: list[str], word: str) -> list[list[str]]:
    """Split at a word that is neither quoted nor in brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for one in tokens:
        depth += (one == "(") - (one == ")")
        if one.lower() == word and depth == 0:
            parts.append([])
        else:
            parts[-1].append(one)
    return parts


_METRICS = {"metric", "metrics", "measure", "variable", "metric_name", "score_name", "statistic"}
_VALUES = {"value", "values", "score", "scores", "result", "results", "metric_value", "val", "number"}
_SEED_COLUMN = re.compile(
    r"(?P<stem>.*?)(?P<word>seed|run|trial|rep|fold|s)?[ _.\-#]*(?P<number>\d+)", re.IGNORECASE
)


def shaped(table: Table, question: Question) -> tuple[Table, Question]:
    """Return the table with the selected rows and columns; in a wide table, the value gets its name."""
    frame = rows_where(table.frame, question.where, table.name)
    if question.metric_column is not None and question.wide is not None:
        raise TableError("give --metric-column or --wide, not both")
    if question.metric_column is not None:
        frame = _one_metric(frame, question, table.name)
    if question.wide is not None:
        question = replace(question, value=question.value or "value")
        frame = _melted(frame, _seed_columns(frame, question, table.name), str(question.value))
    return replace(table, frame=frame), question


def metric_columns(frame: pd.DataFrame, value: str) -> list[str]:
    """Return columns of a long table that have `value` as a level; those with a usual name first."""
    found = [
        name
        for name in frame.columns
        if not is_numeric(frame[name]) and value in set(coded(frame[name].iloc[:10_000])[1])
    ]
    return sorted(found, key=lambda name: plain_name(name) not in _METRICS)


def is_metric_column(name: str) -> bool:
    return plain_name(name) in _METRICS


def _one_metric(frame: pd.DataFrame, question: Question, name: str) -> pd.DataFrame:
    """Return a long table's rows for the metric `question.value`, its numbers in a column of that name."""
    column, value = str(question.metric_column), question.value
    require(column, frame.columns, name)
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


def _seed_columns(frame: pd.DataFrame, question: Question, name: str) -> dict[str, str]:
    """Return the columns of a wide table that contain one seed each, and the seeds' names."""
    others = {question.group, *question.block, *question.by}
    if question.wide != "auto":
        pattern = re.compile(translate(str(question.wide)))
        found = [c for c in frame.columns if pattern.fullmatch(c) and c not in others]
        if len(found) < 2:
            raise TableError(
                f"--wide {question.wide!r} matches {listed(found) or 'no column'}; it must match one column "
                f"per seed ({name} has {listed(frame.columns)})"
            )
    else:
        stems = wide_stems(frame, others)
        if len(stems) != 1 and question.value not in stems:
            sets = [f"--wide '{names[0].rstrip('0123456789')}*'" for names in stems.values()]
            there = f"columns with a seed each (it has {listed(frame.columns)})"
            which = f"several sets of {there}; choose one: {' or '.join(sets)}"
            raise TableError(f"{name} has {which if sets else f'no {there}; leave out --wide'}")
        found = stems[str(question.value)] if question.value in stems else next(iter(stems.values()))
    numbers = [match[0] if (match := re.search(r"\d+$", name)) else "" for name in found]
    are_names = len(set(numbers)) == len(found) and all(numbers)
    return dict(zip(found, numbers if are_names else found, strict=True))


def wide_stems(frame: pd.DataFrame, taken: "set[str | None]") -> dict[str, list[str]]:
    """Return columns of numbers whose names differ in a number at the end, by the part before it.

    Without a word such as seed, the numbers must be consecutive: top1 and top5 are two metrics.
    """
    stems: dict[str, dict[str, int]] = {}
    sure = set()
    for name in frame.columns:
        match = _SEED_COLUMN.fullmatch(name)
        if match and name not in taken and is_numeric(frame[name]):
            stem = match["stem"].strip(" _.-#")
            stems.setdefault(stem, {})[name] = int(match["number"])
            sure |= {stem} if match["word"] else set()
    return {
        stem: list(names)
        for stem, names in stems.items()
        if len(names) > 1
        and (stem in sure or max(names.values()) - min(names.values()) == len(names) - 1)
        and not any(is_metric_name(name) and not is_metric_name(stem) for name in names)
    }


def _melted(frame: pd.DataFrame, seeds: dict[str, str], value: str) -> pd.DataFrame:
    """Return one row per run of a table with a column per seed: `seed` and `value` replace these columns."""
    kept = frame.drop(columns=list(seeds))
    clash = [name for name in ("seed", value) if name in kept.columns]
    if clash:
        raise TableError(
            f"a wide table's runs get a column {clash[0]!r}, which is there already; "
            + ("name the value otherwise with --value" if clash[0] == value else "rename it")
        )
    pieces = [kept.assign(seed=seed).assign(**{value: frame[name]}) for name, seed in seeds.items()]
    return pd.concat(pieces).sort_index(kind="stable")
