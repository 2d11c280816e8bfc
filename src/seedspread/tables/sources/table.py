"""From runs to a table: one row per run; name, seed, parameters, step and metrics as columns."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from seedspread.errors import did_you_mean
from seedspread.tables.sources.parameters import STEM, find_seed, is_seed
from seedspread.tables.sources.point import At
from seedspread.tables.sources.run import Better, CollectedRun, SourceError, Unread

_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d+)?([eE][-+]?\d{1,2})?|-?\.\d+")


@dataclass(frozen=True)
class Row:
    """A run with its results."""

    run: CollectedRun
    step: float | None
    values: Mapping[str, float]


def rows_of(
    runs: Sequence[CollectedRun], metrics: Sequence[str], at: At, better: Better
) -> tuple[list[Row], list[Unread]]:
    """Each run with its values; the step of the first metric's best is where the others are taken."""
    rows, unread = [], []
    for run in runs:
        row = _row(run, metrics, at, better)
        if isinstance(row, Row):
            rows.append(row)
        else:
            unread.append(Unread(run.name, row))
    return rows, unread


def _row(run: CollectedRun, metrics: Sequence[str], at: At, better: Better) -> Row | str:
    first = curve_name(run, metrics[0])
    if first is None:
        return f"it has no {metrics[0]}"
    point = at.choose(run.curves[first], better)
    if isinstance(point, str):
        return f"{metrics[0]}: {point}"
    values = {metrics[0]: point.value}
    rest = at if at.word != "best" or point.step is None else At("step", point.step)
    for metric in metrics[1:]:
        name = curve_name(run, metric)
        curve = run.curves[name] if name else []
        # A value without a step is the whole run's.
        other = (rest if any(step is not None for step, _ in curve) else At("last")).choose(curve, better)
        values[metric] = float("nan") if isinstance(other, str) else other.value
    return Row(run, point.step, values)


def curve_name(run: CollectedRun, metric: str) -> str | None:
    """A metric by its name, or by the last part of a dotted one if no other ends so."""
    if metric in run.curves:
        return metric
    ends = [name for name in run.curves if name.endswith(f".{metric}")]
    return ends[0] if len(ends) == 1 else None


def metric_names(runs: Sequence[CollectedRun]) -> list[str]:
    """What was measured, the most common first; a number that may be a parameter comes last."""
    counts = Counter(name for run in runs for name in run.curves if not is_seed(name))
    known = {name for run in runs for name in run.parameters}
    return sorted(counts, key=lambda name: (name in known, -counts[name], name))


def check_metrics(runs: Sequence[CollectedRun], metrics: Sequence[str], source: str) -> None:
    """Every metric that is asked for must be had of some run."""
    names = metric_names(runs)
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    if not metrics:
        raise SourceError(f"say which metric with --metric; {source} has {shown or 'none'}")
    for metric in metrics:
        if not any(curve_name(run, metric) for run in runs):
            hint = did_you_mean(metric, names)
            raise SourceError(
                f"no run in {source} has the metric {metric!r}{hint} (it has {shown or 'none'})"
            )


def without_duplicates(rows: Sequence[Row], seed: str | None) -> tuple[list[Row], list[Unread]]:
    """The latest of runs with the same parameters and seed; without a seed, equal runs are replicates."""
    latest: dict[str, Row] = {}
    unread = []
    kept = []
    for row in reversed(rows):
        known = seed is not None and seed in row.run.parameters
        same = json.dumps([row.run.group, sorted((k, str(v)) for k, v in row.run.parameters.items())])
        if known and same in latest:
            unread.append(
                Unread(
                    row.run.name,
                    f"its parameters and its seed are those of {latest[same].run.name}, a later run",
                )
            )
        else:
            latest[same] = row
            kept.append(row)
    return kept[::-1], unread[::-1]


@dataclass(frozen=True)
class Shaped:
    """The table, and what became of the parameters."""

    table: pd.DataFrame
    seed: str | None
    varying: tuple[str, ...]
    constant: tuple[str, ...]


def shaped(rows: Sequence[Row], metrics: Sequence[str], group: str, *, all_parameters: bool) -> Shaped:
    """Columns run, experiment or study, seed, parameters, step, metrics; the parameters that vary, or all."""
    parameters = [{k: v for k, v in row.run.parameters.items() if k not in metrics} for row in rows]
    seed = find_seed(parameters)
    columns: dict[str, list[Any]] = {"run": [row.run.name for row in rows]}
    if group and len({row.run.group for row in rows}) > 1:
        columns[group] = [row.run.group for row in rows]
    if seed is not None:
        columns["seed"] = [own.get(seed) for own in parameters]
    names = [name for name in dict.fromkeys(k for own in parameters for k in own) if name != seed]
    levels = {name: {str(own.get(name)) for own in parameters} for name in names}
    # What is left of names tells something only if it tells several runs from several others.
    if STEM in levels and not 1 < len(levels[STEM]) < len(rows):
        names.remove(STEM)
    varying = [name for name in names if len(levels[name]) > 1]
    constant = [name for name in names if len(levels[name]) < 2]
    taken = {"run", "seed", "step", *metrics, *columns}
    for name in names if all_parameters else varying:
        columns[_free(name, taken)] = [own.get(name) for own in parameters]
    if any(row.step is not None for row in rows):
        columns["step"] = [row.step for row in rows]
    names_as_they_are = ("run", group)
    table = pd.DataFrame(
        {
            name: pd.Series(values, dtype=object) if name in names_as_they_are else _typed(values)
            for name, values in columns.items()
        }
    )
    for metric in metrics:
        table[metric] = [row.values[metric] for row in rows]
    return Shaped(table, seed, tuple(_free(name, taken) for name in varying), tuple(constant))


def _free(name: str, taken: set[str]) -> str:
    return f"param.{name}" if name in taken else name


def _typed(values: Sequence[Any]) -> "pd.Series[Any]":
    """Numbers if all are numbers or text that is exactly one, whole if all are whole; else text."""
    present = [value for value in values if value is not None]
    texts = [str(value) for value in present]
    if present and not any(isinstance(v, bool) for v in present) and all(_NUMBER.fullmatch(t) for t in texts):
        numbers = [None if value is None else float(value) for value in values]
        whole = all(float(t).is_integer() and abs(float(t)) < 2**53 for t in texts)
        return pd.Series(numbers, dtype="float64").astype("Int64" if whole else "float64")
    return pd.Series([None if value is None else str(value) for value in values], dtype=object)
