"""Tables that nobody has seen: every run is counted once, or the table is refused in a line."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedspread import audit, components
from seedspread.errors import SeedspreadError, in_terminal
from seedspread.runs.levels import level_name
from seedspread.tables.question import TableError
from tests.tables.made import check

NAMES = st.sampled_from(
    "method seed accuracy run step epoch epochs dataset fold loss value metric top1 seed_1 x_std n time "
    "collapsed folder level_0 Unnamed:_0 0 größe a.b".split()
)
LEVELS = (
    st.text("abc é±-", max_size=3)
    | st.integers(-2, 3)
    | st.sampled_from([1.0, 1, True, False, None, float("nan"), pd.NA, pd.NaT, "1", "nan", "0.5"])
)
NUMBERS = st.floats(-3, 3) | st.integers(0, 100) | st.sampled_from([None, "0.5", "12 %", "", pd.NA, True])
# A column of some type from codes 0, 1, ..., each another level of it.
MADE: dict[str, Callable[[Any], Any]] = {
    "datetime": lambda codes: pd.Timestamp("2024-01-01") + pd.to_timedelta(codes, unit="D"),
    "zoned": lambda codes: pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(codes, unit="D"),
    "period": lambda codes: pd.period_range("2024-01", periods=max(codes) + 1, freq="M")[codes],
    "timedelta": lambda codes: pd.to_timedelta(codes, unit="h"),
    "interval": lambda codes: pd.interval_range(0, max(codes) + 1)[codes],
    "int": lambda codes: pd.array(codes, dtype="Int64"),
    "arrow": lambda codes: pd.array([f"l{code}" for code in codes], dtype="string[pyarrow]"),
}


def typed(cells: list[Any], kind: str) -> "pd.Series[Any]":
    if kind in MADE:
        return pd.Series(MADE[kind](pd.factorize(pd.Series([repr(cell) for cell in cells]))[0]))
    if kind == "string":
        return pd.Series([None if cell is None else str(cell) for cell in cells], dtype="string")
    return pd.Series(cells, dtype=object).astype("category" if kind == "category" else object)


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """A table whose first column has numbers; others have any levels, of any type, some in the index."""
    rows = draw(st.integers(2, 16))
    names = draw(st.lists(NAMES, min_size=2, max_size=5, unique=True))
    clean = st.floats(-3, 3) if draw(st.integers(0, 3)) else NUMBERS
    columns = {names[0]: pd.Series(draw(st.lists(clean, min_size=rows, max_size=rows)), dtype=object)}
    for name in names[1:]:
        levels = LEVELS if draw(st.booleans()) else st.integers(0, draw(st.integers(1, 8)))
        cells = draw(st.lists(levels, min_size=rows, max_size=rows))
        columns[name] = typed(cells, draw(st.sampled_from(["object", "category", "string", *MADE])))
    frame = pd.DataFrame(columns)
    if draw(st.booleans()):
        frame = frame.sample(frac=1, random_state=0)
    index = draw(st.lists(st.sampled_from(names[1:]), max_size=2, unique=True))
    return frame.set_index(index) if index else frame


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.reset_index() if frame.index.names[0] else frame


def asked_of(frame: pd.DataFrame, data: st.DataObject) -> dict[str, Any]:
    names = [*flat(frame).columns]
    others = [name for name in names if name != frame.columns[0]]
    asked: dict[str, Any] = {"value": frame.columns[0], "group": data.draw(st.sampled_from(others))}
    asked |= {"seed": None} if data.draw(st.booleans()) else {}
    asked |= {"paired": False} if data.draw(st.booleans()) else {}
    return asked | ({"by": data.draw(st.sampled_from(names))} if data.draw(st.booleans()) else {})


def number(cell: Any) -> float:
    """The number in a cell, as one reads it; NaN if there is none."""
    text = "" if cell is None or cell is pd.NA else str(float(cell) if isinstance(cell, bool) else cell)
    return float(text.removesuffix("%").strip() or "nan")


def level(cell: Any) -> str:
    return "" if pd.isna(cell) else level_name(cell)


def values_by_group(table: pd.DataFrame) -> list[list[float]]:
    return sorted(sorted(own) for _, own in table.groupby("group")["value"])


def refused(error: SeedspreadError) -> None:
    """In one line; in Python it names arguments, not options."""
    assert "\n" not in str(error)
    assert in_terminal.get() or not re.search(r"(?<![\w-])--[a-z]", str(error))


@settings(max_examples=100)
@given(frame=frames(), data=st.data())
def test_every_value_is_a_run_of_its_group_or_the_table_is_refused(
    frame: pd.DataFrame, data: st.DataObject
) -> None:
    asked = asked_of(frame, data)
    try:
        runs = check(frame, asked.pop("value"), asked.pop("group"), **asked)
    except TableError as error:
        refused(error)
        return
    every = flat(frame)
    groups = every[runs.columns.group].astype(object).map(level)
    table = pd.DataFrame({"group": groups, "value": every[runs.columns.value].map(number)}).dropna()
    assert values_by_group(runs.frame) == values_by_group(table)


@settings(max_examples=30)
@given(frame=frames(), data=st.data())
def test_an_audit_of_any_frame_counts_its_runs_or_refuses_it(
    frame: pd.DataFrame, data: st.DataObject
) -> None:
    in_terminal.set(False)
    asked = asked_of(frame, data)
    try:
        result = audit(frame, **asked)
    except SeedspreadError as error:
        refused(error)
        return
    runs = check(frame, asked.pop("value"), asked.pop("group"), **asked)
    sizes = runs.frame.groupby(["stratum", "group"]).size()
    for c in result.comparisons:
        for side in c.pooled:
            every = sizes[c.stratum, side.group]
            assert side.n == every or (side.n < every and c.failures is not None)


@pytest.mark.parametrize("kind", ["category", "string", *MADE])
def test_a_parquet_file_has_the_groups_of_its_frame(tmp_path: Path, kind: str) -> None:
    groups = typed(["a"] * 4 + ["b"] * 4, kind)
    seeds = typed([0, 1, 2, 3] * 2, "category")
    frame = pd.DataFrame({"method": groups, "seed": seeds, "accuracy": [n / 7 for n in range(8)]})
    frame.to_parquet(tmp_path / "t.parquet")
    read, own = (check(source, "accuracy", "method").frame for source in (tmp_path / "t.parquet", frame))
    assert list(read["group"]) == list(own["group"])
    assert read["group"].nunique() == 2
    assert values_by_group(read) == values_by_group(own)


@settings(max_examples=30)
@given(frame=frames(), data=st.data())
def test_components_of_any_frame(frame: pd.DataFrame, data: st.DataObject) -> None:
    asked = asked_of(frame, data)
    with contextlib.suppress(SeedspreadError):
        found = components(frame, asked["value"], asked["group"], by=asked.get("by"))
        assert found.rows == sum(number(cell) == number(cell) for cell in frame[asked["value"]])
