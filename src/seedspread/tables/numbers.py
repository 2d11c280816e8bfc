"""Numbers as people write them: per cent signs, decimal commas, thousands; what is ambiguous is refused."""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from seedspread.tables.errors import TableError, row_numbers

EMPTY = {"", "nan", "na", "n/a", "n.a.", "#n/a", "null", "none", "<na>", "-", "--", "—", "–"}
# Beyond this, squares and products of squares leave the range of floating point.
_LARGEST = 1e60
# What may be a number in any way of writing it.
WRITTEN = re.compile(r"[+-−]?(?:[\d.,\s'’]*\d[\d.,]*(?:e[+-]?\d+)?|inf)\s*%?")
_END = r"(?:e[+-]?\d+)?"
_NUMBER = re.compile(rf"[+-]?(?:\d+\.?\d*|\.\d+){_END}", re.IGNORECASE)
_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){_END}", re.IGNORECASE)
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_COMMAS_AND_POINT = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+\.\d*")
_POINTS_AND_COMMA = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+,\d*")
_GAPS = re.compile(r"(?<=\d)[\u00a0\u202f '’](?=\d{3}(?!\d))")


@dataclass(frozen=True)
class Numbers:
    """A column's numbers: `values`, NaN where a cell is empty; whether they had per cent signs; notes."""

    values: "pd.Series[float]"
    per_cent: bool = False
    notes: tuple[str, ...] = ()


def is_empty(value: object) -> bool:
    """Whether a cell holds nothing, in any of the usual spellings."""
    return value is None or value is pd.NA or str(value).strip().lower() in EMPTY


def is_filled(column: "pd.Series[Any]") -> "pd.Series[bool]":
    """Which cells hold anything."""
    filled = numeric(column).notna().to_numpy(copy=True)
    filled[~filled] = ~column[~filled].map(is_empty).to_numpy(bool)
    return pd.Series(filled, index=column.index)


def numeric(column: "pd.Series[Any]") -> "pd.Series[float]":
    """Numbers as programs write them; NaN for all else."""
    return pd.to_numeric(column, errors="coerce").astype(float)


def numbers_in(column: "pd.Series[Any]", name: str, decimal_comma: bool = False) -> Numbers:
    """The numbers of a column, whose index counts its rows; what is neither a number nor empty is an error.

    Args:
        column: of text or numbers.
        name: for the messages.
        decimal_comma: whether `1,234` is 1.234 if nothing else tells: the table has another delimiter.
    """
    rows, column = column.index, column.reset_index(drop=True)  # a wide table's rows hold several runs
    found = Numbers(numeric(column).replace([np.inf, -np.inf], np.nan))
    left = found.values.isna() & is_filled(column)
    if left.any():
        found = _as_written(column, found.values, left, name, decimal_comma, rows)
    largest = found.values.abs().max()
    if largest > _LARGEST or 0 < largest < 1 / _LARGEST:
        raise TableError(f"{name!r} reaches {largest:g}; change its unit: squares of it cannot be computed")
    return replace(found, values=found.values.set_axis(rows))


def _as_written(
    column: "pd.Series[Any]",
    plain: "pd.Series[float]",
    left: "pd.Series[bool]",
    name: str,
    decimal_comma: bool,
    rows: "pd.Index[Any]",
) -> Numbers:
    """The same with the cells in `left`, which are no numbers as they stand, read as people write them."""
    text = column[left].astype(str).str.strip().str.replace("−", "-", regex=False)
    signed = text.str.endswith("%")
    unsigned = np.sort(np.r_[text.index[~signed], np.flatnonzero(plain.notna())])
    if signed.any() and len(unsigned):
        raise TableError(
            f"{name!r} has a per cent sign in {row_numbers(rows[text.index[signed]])} and none in "
            f"{row_numbers(rows[unsigned])}; write all of them in one unit"
        )
    text = text.str.removesuffix("%").str.strip().str.replace(_GAPS, "", regex=True)
    has_points = bool(column[plain.notna()].astype(str).str.contains(".", regex=False).any())
    commas = text.str.contains(",", regex=False)
    text[commas], note = _without_commas(text[commas], has_points, name, decimal_comma, rows)
    bad = ~text.str.fullmatch(_NUMBER)
    if bad.any():
        _refuse(column[bad.index[bad]], name, rows)
    values = plain.copy()
    values[left] = text.astype(float)
    notes = (f"{name} has per cent signs: it is in per cent.",) if signed.any() else ()
    return Numbers(values, bool(signed.any()), (*notes, *note))


def _without_commas(
    text: "pd.Series[str]", has_points: bool, name: str, decimal_comma: bool, rows: "pd.Index[Any]"
) -> tuple["pd.Series[str]", tuple[str, ...]]:
    """Cells with commas as a program would write them, once it is clear what a comma means in the column."""
    if text.empty:
        return text, ()
    groups = text.str.fullmatch(_GROUPS)  # 1,234 may be either
    decimals = (text.str.fullmatch(_COMMA) & ~groups) | text.str.fullmatch(_POINTS_AND_COMMA)
    thousands = text.str.fullmatch(_COMMAS_AND_POINT) | (groups & (text.str.count(",") > 1))
    if not (groups | decimals | thousands).all():
        return text, ()  # some are no numbers in any way
    if decimals.any() and (thousands.any() or has_points):
        raise TableError(
            f"{name!r} has a decimal comma in {row_numbers(rows[text.index[decimals]])} and decimal points "
            "elsewhere; write all numbers in one way"
        )
    if thousands.any() or has_points:
        return text.str.replace(",", "", regex=False), (f"Commas in {name} part thousands.",)
    if decimals.any() or decimal_comma:
        plain = text.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        return plain, (f"{name} is written with decimal commas.",)
    row, cell = rows[text.index[0]], text.iloc[0]
    raise TableError(
        f"{name!r} has {cell!r} in row {row}, which may be {cell.replace(',', '')} or "
        f"{cell.replace(',', '.')}; write it without the comma"
    )


def _refuse(cells: "pd.Series[Any]", name: str, rows: "pd.Index[Any]") -> None:
    some = zip(rows[cells.index[:3]], cells, strict=False)
    examples = ", ".join(f"row {row}: {cell!r}" for row, cell in some)
    more = f" and {len(cells) - 3:,} more" if len(cells) > 3 else ""
    raise TableError(f"{name!r} must hold finite numbers; {examples}{more}")
