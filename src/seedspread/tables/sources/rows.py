"""Rows over steps, as logs have them, into curves; and rows of several runs apart."""

from collections.abc import Mapping, Sequence
from typing import Any

from seedspread.tables.sources.parameters import flat, is_seed, may_be_parameter, number
from seedspread.tables.sources.run import CollectedRun, Curve, SourceError

Row = Mapping[str, Any]
# The surest first: an epoch is a step where nothing finer is logged.
_STEPS = ("step", "_step", "global_step", "trainer/global_step", "iteration", "iter", "epoch")
_RUNS = ("run_id", "run id", "run", "run_name", "run name", "name", "id")


def column(rows: Sequence[Row], names: Sequence[str]) -> str | None:
    """The first of these names that any row has, whatever its case."""
    have = {key.lower(): key for row in rows[:1000] for key in row if isinstance(key, str)}
    return next((have[name] for name in names if name in have), None)


def step_column(rows: Sequence[Row]) -> str | None:
    """The column that counts steps."""
    return column(rows, _STEPS)


def one_run(name: str, rows: Sequence[Row], parameters: Mapping[str, Any]) -> CollectedRun:
    """A run from its rows over steps; what does not change over them is a parameter too."""
    rows = [flat(row) for row in rows]
    step = step_column(rows)
    curves: dict[str, Curve] = {}
    for row in rows:
        here = number(row.get(step)) if step else None
        for key, cell in row.items():
            value = number(cell)
            if key != step and value is not None:
                curves.setdefault(key, []).append((here, value))
    return CollectedRun(name, {**_constants(rows, step), **parameters}, curves)


def _constants(rows: Sequence[Row], step: str | None) -> dict[str, Any]:
    """Columns with one value in all rows, but for numbers that a metric's name stands over."""
    found: dict[str, Any] = {}
    for key, value in rows[0].items() if rows else ():
        if key == step or key.lower() in _STEPS or value == "" or not may_be_parameter(key, value):
            continue
        if all(row.get(key) == value for row in rows):
            found[key] = value
    return found


def runs_apart(rows: Sequence[Row], name: str) -> list[tuple[str, list[Row]]]:
    """Rows of one or more runs, by the column that names a run, or by the seed.

    Without a column that counts steps every row is a run.
    """
    step = step_column(rows)
    if step is None:
        named = column(rows, _RUNS)
        return [
            (str(row.get(named) or f"{name} #{n}") if named else f"{name} #{n}", [row])
            for n, row in enumerate(rows, 1)
        ]
    by = column(rows, _RUNS) or next((key for key in rows[0] if is_seed(key)), None)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row.get(by, "")) if by else "", []).append(row)
    for rest in groups.values():
        _check_steps(rest, step, by)
    if len(groups) == 1:
        return [(name, list(rows))]
    return [(f"{by}={key}" if by and is_seed(by) else key, rest) for key, rest in groups.items()]


def _check_steps(rows: Sequence[Row], step: str, by: str | None) -> None:
    """Two rows may share a step if they log different things; many that do not are several runs."""
    seen: set[tuple[Any, str]] = set()
    repeats = 0
    for row in rows:
        here = {
            (row.get(step), key)
            for key, value in row.items()
            if key not in (step, by) and number(value) is not None
        }
        repeats += bool(here) and here <= seen
        seen |= here
    if repeats > len(rows) / 3:
        raise SourceError(
            f"several rows share a {step} and no column tells their runs apart; add a column 'run'"
        )
