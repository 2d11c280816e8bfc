"""Conditions on rows: `step == 4000 and task in (a, b)`. A language of its own; nothing is evaluated."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.errors import did_you_mean, short
from seedspread.tables.errors import TableError, listed
from seedspread.tables.labels import labels
from seedspread.tables.numbers import numeric

_TOKENS = re.compile(
    r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*'|`[^`]*`)|(?P<sign>==|!=|<=|>=|=|<|>|\(|\)|,)|(?P<word>[^\s"'`=!<>(),]+))"""
)
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_EXAMPLE = "write --where 'step == 4000', with ==, !=, <, <=, >, >= or in (a, b), joined by and"


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str

    def says(self, *words: str) -> bool:
        return self.kind != "quoted" and self.text.lower() in words


@dataclass(frozen=True)
class Condition:
    """A column, an operator, and the levels with which its cells are compared."""

    column: str
    sign: str
    levels: tuple[str, ...]

    def of(self, column: "pd.Series[Any]") -> NDArray[np.bool_]:
        """(rows,) whether the cells of the column meet it."""
        if self.sign in _ORDER:
            return self._ordered(column)
        # 4e6 and 4000000 are one number, as 1 and 1.0 are one level.
        numbers = {float(level) for level in self.levels if _is_number(level)}
        texts = set(labels(pd.Series(self.levels)))
        met = labels(column).isin(texts).to_numpy() | numeric(column).isin(numbers).to_numpy()
        return np.asarray(~met if self.sign in ("!=", "not in") else met)

    def _ordered(self, column: "pd.Series[Any]") -> NDArray[np.bool_]:
        numbers = numeric(column)
        if not _is_number(self.levels[0]) or numbers.isna().all():
            which = repr(self.levels[0]) if not _is_number(self.levels[0]) else f"column {self.column!r}"
            raise TableError(f"--where: {self.sign} compares numbers, and {which} is none; use == or in")
        return np.asarray(_ORDER[self.sign](numbers.to_numpy(), float(self.levels[0])))


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.IGNORECASE))


def rows_where(frame: pd.DataFrame, wheres: Sequence[str], name: str) -> pd.DataFrame:
    """The rows that meet every condition; `name` is that of the table, for the messages."""
    for where in wheres:
        for condition in conditions(where):
            if condition.column not in frame.columns:
                hint = did_you_mean(condition.column, frame.columns)
                there = f"it has {listed(frame.columns)}"
                raise TableError(f"--where: {name} has no column {condition.column!r}{hint} ({there})")
            column = frame[condition.column]
            met = condition.of(column)
            if not met.any():
                levels = listed(dict.fromkeys(labels(column)), 8)
                raise TableError(f"no row has {where!r}; {condition.column} has {levels}")
            frame = frame.loc[met]
    return frame


def conditions(where: str) -> list[Condition]:
    """A text such as `a == 1 and b in (x, y)` as its conditions; all must be true."""
    tokens = _tokens(where)
    if any(token.says("or") for token in tokens):
        raise TableError(
            f"--where {short(where)}: or is not known; use in (a, b), or one --where for each and"
        )
    parts: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += token.says("(") - token.says(")")
        if token.says("and") and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [_condition(part, where) for part in parts]


def _tokens(where: str) -> list[_Token]:
    tokens, place = [], 0
    while place < len(where.rstrip()):
        match = _TOKENS.match(where, place)
        if match is None or match.end() == place:
            raise TableError(
                f"--where {short(where)}: cannot read {where[place:].strip()[:20]!r}; {_EXAMPLE}"
            )
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match[kind][1:-1] if kind == "quoted" else match[kind]))
        place = match.end()
    return tokens


def _condition(tokens: list[_Token], where: str) -> Condition:
    """From the column's words, a sign, and a level or several in brackets."""
    signs = ("==", "!=", "<=", ">=", "=", "<", ">", "in", "not")
    at = next((n for n, token in enumerate(tokens) if token.says(*signs)), 0)
    column, rest = _joined(tokens[:at]), tokens[at + 1 :]
    sign = (
        {"=": "==", "not": "not in"}.get(tokens[at].text.lower(), tokens[at].text.lower()) if tokens else ""
    )
    if sign == "not in":
        rest = rest[1:] if rest and rest[0].says("in") else []
    if not column or not rest:
        raise TableError(f"--where {short(where)} is no condition; {_EXAMPLE}")
    if sign not in ("in", "not in"):
        if any(token.kind == "sign" for token in rest):
            raise TableError(f"--where {short(where)}: quote what has signs in it; {_EXAMPLE}")
        return Condition(column, sign, (_joined(rest),))
    if not (rest[0].says("(") and rest[-1].says(")") and len(rest) > 2):
        raise TableError(f"--where {short(where)}: {sign} needs brackets, as in task {sign} (a, b)")
    return Condition(column, sign, _levels(rest[1:-1]))


def _joined(tokens: list[_Token]) -> str:
    return " ".join(token.text for token in tokens)


def _levels(tokens: list[_Token]) -> tuple[str, ...]:
    levels: list[list[_Token]] = [[]]
    for token in tokens:
        if token.says(","):
            levels.append([])
        else:
            levels[-1].append(token)
    return tuple(_joined(level) for level in levels if level)
