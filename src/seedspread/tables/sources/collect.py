"""`collect`: a table with one row per run from what another tool has logged."""

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from seedspread.atomic import replacing
from seedspread.errors import did_you_mean, require_extra, spoken
from seedspread.render.table import head_of, without_formula
from seedspread.render.web import for_notebook
from seedspread.runs.metrics import Better, metric_of
from seedspread.runs.store import has_begun, is_store
from seedspread.tables.columns import is_seed
from seedspread.tables.question import with_known_arguments
from seedspread.tables.sources.logs import (
    HydraReader,
    JsonReader,
    LightningReader,
    PatternReader,
    TensorBoardReader,
    WandbReader,
)
from seedspread.tables.sources.run import (
    STEM,
    CollectedRun,
    Curve,
    Place,
    Reader,
    SourceError,
    Unread,
    clean,
    count,
    find_seed,
    number,
    quiet,
)
from seedspread.tables.sources.trackers import MlflowReader, OptunaReader

# The surest first: Hydra jobs may contain Lightning logs, and anything may contain JSON.
READERS: tuple[Reader, ...] = (
    MlflowReader(), OptunaReader(), HydraReader(), LightningReader(), TensorBoardReader(),
    WandbReader(), JsonReader(),
)  # fmt: skip
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d+)?([eE][-+]?\d{1,2})?|-?\.\d+")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MOST_LINES, _MOST_LEVELS = 20, 6


@dataclass(frozen=True, repr=False)
class Collected:
    """The runs found in a source; `audit`, `compare` and `components` take it as it is.

    Attributes:
        table: a row per run: run, experiment or study if there are several, seed, parameters, step, metrics.
        unread: what was left out, and why.
        notes: remarks on how the table was made.
        source: the source, as the user named it.
        kind: kind of the source; `title` is its name for people.
        seed: the parameter that became the column `seed`; None if there is none.
        varying: the parameters that vary, as columns of the table.
        constant: parameters that are the same in every run.
        better: the direction by which the best was taken; None if the best was not asked for.
        declared: the direction that the source itself records for the first metric, if any. An audit of a
            `Collected` uses it; an audit of its `table` infers the direction from the column's name.
    """

    table: pd.DataFrame
    unread: tuple[Unread, ...]
    notes: tuple[str, ...]
    source: str
    kind: str
    title: str
    seed: str | None
    varying: tuple[str, ...]
    constant: tuple[str, ...]
    better: Better | None
    declared: Better | None

    def __repr__(self) -> str:
        return f"<Collected: {len(self.table)} runs of {self.title} from {self.source}>"

    def _repr_html_(self) -> str:
        what = f"{len(self.table)} runs of {self.title} from {self.source}; .table has all of them."
        unread = [f"{len(self.unread)} give no row{_first(self.unread)}."] if self.unread else []
        return for_notebook([what], [head_of(self.table)], [*self.notes, *unread])


@with_known_arguments
def collect(
    source: "str | Path",
    metric: "str | Sequence[str]",
    at: str = "last",
    *,
    kind: str | None = None,
    better: Literal["higher", "lower"] | None = None,
    all_parameters: bool = False,
    keep_duplicates: bool = False,
    pattern: str | None = None,
) -> Collected:
    """Return a table of the runs that another tool has logged: one row per run.

    Args:
        source: a folder, a file, or the address of an MLflow server or of a database.
        metric: metric or metrics of each run; the first one decides on the step.
        at: `last`, `best`, or `step=N`.
        kind: kind of the source; by default inferred from its content.
        better: which direction is better; by default inferred from the source or the metric's name.
        all_parameters: also keep parameters that are the same in all runs.
        keep_duplicates: keep runs with the same parameters and seed as a later one.
        pattern: paths in the folder, such as `{model}/{dataset}/seed-{seed}/results.json`: names in braces
            are parameters.

    Returns:
        The result: `table`, its `seed` column, the parameters that are `varying`, and what was `unread`.

    Example:
        ```python
        found = collect("mlruns", "val_acc", at="best")
        audit(found, "val_acc", "optimizer", "adam")
        ```
    """
    metrics = [metric] if isinstance(metric, str) else list(dict.fromkeys(metric))
    when = At.of(at)
    place = Place.of(source)
    reader, others = find_reader(place, kind) if pattern is None else (PatternReader(pattern), [])
    with quiet():
        items = list(reader.read(place, metrics, when.word != "last"))
    runs = [item for item in items if isinstance(item, CollectedRun)]
    unread = [item for item in items if isinstance(item, Unread)]
    if not runs:
        raise SourceError(f"no run could be read from {place.source}{_first(unread)}")
    _check_metrics(runs, metrics, place.source)
    direction, decided_by = _direction(metrics[0], better, runs)
    rows, without = list[_Row](), list[Unread]()
    for run in runs:
        try:
            rows.append(_row(run, metrics, when, direction))
        except ValueError as error:
            without.append(Unread(run.name, str(error)))
    if not rows:
        raise SourceError(f"no run in {place.source} has {metrics[0]} at {when}{_first(without)}")
    seed = find_seed(row.parameters for row in rows)
    if not keep_duplicates:
        rows, twice = _without_duplicates(rows, seed)
        unread += twice
    table, varying, constant = _table(rows, metrics, seed, reader.group, all_parameters)
    notes = [f"It could be read as {other} too: --kind {other}." for other in others]
    if when.word == "best" and all(len(row.run.curves.get(metrics[0], ())) < 2 for row in rows):
        notes.append(f"Each run has one value of {metrics[0]}: that is taken.")
    elif when.word == "best":
        notes.append(f"The best {metrics[0]} is the {direction.replace('er', 'est')} (by {decided_by}).")
    if place.links:
        notes.append(f"{place.links} links were not followed.")
    notes += _early_ends(rows, when, seed)
    for name in ("seed", *metrics[1:]):
        lacking = int(table[name].isna().sum()) if name in table.columns else 0
        notes += [f"{lacking} of {len(table)} rows have no {name}."] if lacking else []
    return Collected(
        table, (*unread, *without), tuple(map(spoken, notes)), place.source, reader.kind, reader.title,
        seed, varying, constant,
        better=direction if when.word == "best" else None,
        declared=direction if decided_by == "the study" else None,
    )  # fmt: skip


def _early_ends(rows: "Sequence[_Row]", when: "At", seed: str | None) -> list[str]:
    """Note the runs that stop before the last step of other seeds: they may have crashed."""
    stepped = [(row, row.step) for row in rows if row.step is not None]
    ends: dict[str, float] = {}
    for row, step in stepped:
        same = row.setting(seed)
        ends[same] = max(step, ends.get(same, step))
    early = [(row, step) for row, step in stepped if step < ends[row.setting(seed)]]
    if when.word != "last" or not stepped:
        return []
    last, unlike = max(ends.values()), len({*ends.values()}) > 1
    notes = [f"Runs end at different steps: {min(ends.values()):g} to {last:g}."] if unlike else []
    if early:
        some = [f"{row.run.name} at {step:g}" for row, step in early[:3]]
        named = ", ".join([*some, *["..."] * (len(early) > 3)])
        out = "" if unlike else f"; --at step={last:g} leaves them out"
        many = f"{len(early)} of {count(len(rows), 'run')} end{'s' * (len(early) == 1)} before other seeds"
        notes.append(f"{many} ({named}), and may have crashed{out}.")
    return notes


def find_reader(place: Place, kind: str | None = None) -> tuple[Reader, list[str]]:
    """Return the reader for a place, and the other kinds that it could be."""
    kinds = [reader.kind for reader in READERS]
    if kind is not None and kind not in kinds:
        hint = did_you_mean(kind, kinds)
        raise SourceError(f"the kind must be one of {', '.join(kinds)}; got {kind!r}{hint}")
    if place.path is not None and not place.path.exists():
        raise SourceError(f"{place.source} does not exist; give a folder, a file or an address of results")
    if place.folder is not None and is_store(place.folder):
        raise SourceError(
            f"{place.source} is a store of runs, which audit reads as it is; Store({place.source!r}).table() "
            "has its runs"
        )
    found = [reader for reader in READERS if reader.recognizes(place)]
    if kind is not None:
        asked = next(reader for reader in READERS if reader.kind == kind)
        # An address does not reveal what is behind it.
        if asked not in found and place.path is not None:
            looks = f"; it looks like {found[0].title}" if found else ""
            raise SourceError(f"{place.source} holds nothing of {asked.title}{looks}")
        return asked, []
    if not found:
        *known, last = [reader.looks_like for reader in READERS]
        audit = f"; if it is a table, audit it: seedspread audit {shlex.quote(place.source)}"
        expected = f"{', '.join(known)} or {last}{audit if place.file else ''}"
        raise SourceError(f"{place.source} holds no results that are known: {expected}")
    # Nearly every folder of results has some JSON in it.
    return found[0], [reader.kind for reader in found[1:] if reader.kind != "json"]


def is_source(source: "str | Path") -> bool:
    """Return whether logs of another tool are there, not only a plain table or a store of runs."""
    place = Place.of(source)
    if place.path is not None and (not place.path.exists() or has_begun(place.path)):
        return False
    return any(reader.recognizes(place) for reader in READERS)


def _direction(metric: str, better: Better | None, runs: Sequence[CollectedRun]) -> tuple[Better, str]:
    """Return the better direction, and how it was determined."""
    if better is not None:
        return better, "the option"
    declared = {run.better[metric] for run in runs if metric in run.better}
    if len(declared) > 1:
        raise SourceError(
            f"the studies differ in which {metric} is better; say --higher-is-better or --lower-is-better"
        )
    return (declared.pop(), "the study") if declared else (metric_of(metric).better, "its name")


def _first(unread: Sequence[Unread]) -> str:
    if not unread:
        return ""
    more = f"; and {len(unread) - 1} more" if len(unread) > 1 else ""
    return f": {unread[0].name}: {unread[0].reason}{more}"


@dataclass(frozen=True)
class At:
    """The point of a curve that is a run's result: `last`, `best` or `step=N`."""

    word: str
    step: float | None = None

    @classmethod
    def of(cls, text: str) -> "At":
        word, _, rest = text.partition("=")
        if word in ("last", "best") and not rest:
            return cls(word)
        step = number(rest)
        if word != "step" or step is None or not math.isfinite(step):
            raise SourceError(f"at must be best, last or step=N; got {text!r}")
        return cls("step", step)

    def __str__(self) -> str:
        return f"step {self.step:g}" if self.step is not None else f"its {self.word} step"

    def choose(self, curve: Curve, better: Better) -> tuple[float | None, float]:
        """Return the point of a curve; a ValueError says why it has none."""
        if not curve:
            raise ValueError("it has no value")
        if self.word == "best":
            finite = [point for point in curve if math.isfinite(point[1])]
            if not finite:
                raise ValueError("no value of it is a finite number")
            return (max if better == "higher" else min)(finite, key=itemgetter(1))
        what = "its last value" if self.step is None else f"its value at step {self.step:g}"
        if self.step is None:
            # A later point of the same step was written later.
            point = max(enumerate(curve), key=lambda p: (-math.inf if p[1][0] is None else p[1][0], p[0]))[1]
        else:
            there = [point for point in curve if point[0] == self.step]
            if not there:
                steps = [step for step, _ in curve if step is not None]
                rest = f"; its last is {max(steps):g}" if steps else ", and no steps"
                raise ValueError(f"it has no step {self.step:g}{rest}")
            point = there[-1]
        if not math.isfinite(point[1]):
            raise ValueError(f"{what} is {point[1]:g}, not a finite number")
        return point


@dataclass(frozen=True)
class _Row:
    """A run with its results; `parameters` are those that are not requested metrics."""

    run: CollectedRun
    step: float | None
    values: Mapping[str, float]

    @property
    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in self.run.parameters.items() if name not in self.values}

    def setting(self, seed: str | None) -> str:
        """Return what distinguishes it from runs with other settings, seed aside."""
        own = sorted((k, str(v)) for k, v in self.parameters.items() if k != seed and not is_seed(k))
        return json.dumps([self.run.group, own])


def _row(run: CollectedRun, metrics: Sequence[str], at: At, better: Better) -> _Row:
    """Take the other metrics at the best step of the first one; a ValueError explains why there is none."""
    first = curve_name(run, metrics[0])
    if first is None:
        raise ValueError(f"it has no {metrics[0]}")
    try:
        step, value = at.choose(run.curves[first], better)
    except ValueError as error:
        raise ValueError(f"{metrics[0]}: {error}") from None
    values = {metrics[0]: value}
    rest = at if at.word != "best" or step is None else At("step", step)
    for metric in metrics[1:]:
        name = curve_name(run, metric)
        curve = run.curves[name] if name else []
        has_steps = any(step is not None for step, _ in curve)  # else its value is the whole run's
        try:
            values[metric] = (rest if has_steps else At("last")).choose(curve, better)[1]
        except ValueError:
            values[metric] = math.nan
    return _Row(run, step, values)


def curve_name(run: CollectedRun, metric: str) -> str | None:
    """Return a metric by its name, or by the last part of a dotted one if it is unambiguous."""
    if metric in run.curves:
        return metric
    ends = [name for name in run.curves if name.endswith(f".{metric}")]
    return ends[0] if len(ends) == 1 else None


def _check_metrics(runs: Sequence[CollectedRun], metrics: Sequence[str], source: str) -> None:
    """Raise a `SourceError` that lists the metrics, unless each requested one occurs in some run."""
    counts = Counter(name for run in runs for name in run.curves if not is_seed(name))
    parameters = {name for run in runs for name in run.parameters}
    names = sorted(counts, key=lambda name: (name in parameters, -counts[name], name))
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    if not metrics:
        raise SourceError(f"say which metric with --metric; {source} has {shown or 'none'}")
    for metric in metrics:
        if not any(curve_name(run, metric) for run in runs):
            hint = did_you_mean(metric, names)
            raise SourceError(
                f"no run in {source} has the metric {metric!r}{hint} (it has {shown or 'none'})"
            )


def _without_duplicates(rows: Sequence[_Row], seed: str | None) -> tuple[list[_Row], list[Unread]]:
    """Keep the latest of runs with equal parameters and seed; without a seed, they are replicates."""
    latest: dict[str, _Row] = {}
    kept, unread = [], []
    for row in reversed(rows):
        run = row.run
        same = json.dumps([run.group, sorted((k, str(v)) for k, v in run.parameters.items())])
        if seed in run.parameters and same in latest:
            later = latest[same].run.name
            unread.append(Unread(run.name, f"its parameters and its seed are those of {later}, a later run"))
        else:
            latest[same] = row
            kept.append(row)
    return kept[::-1], unread[::-1]


def _table(
    rows: Sequence[_Row], metrics: Sequence[str], seed: str | None, group: str, all_parameters: bool
) -> tuple[pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    """Return the table, the columns of the parameters that vary, and the parameters that do not.

    Columns: run, experiment or study, seed, parameters (those that vary, or all), step, metrics.
    """
    parameters = [row.parameters for row in rows]
    columns = {"run": pd.Series([row.run.name for row in rows], dtype=object)}
    if group and len({row.run.group for row in rows}) > 1:
        columns[group] = pd.Series([row.run.group for row in rows], dtype=object)
    if seed is not None:
        columns["seed"] = _typed([own.get(seed) for own in parameters])
    names = [name for name in dict.fromkeys(k for own in parameters for k in own) if name != seed]
    levels = {name: {str(own.get(name)) for own in parameters} for name in names}
    # The rest of a name is informative only if several runs share it and others do not.
    if STEM in levels and not 1 < len(levels[STEM]) < len(rows):
        names.remove(STEM)
    varying = [name for name in names if len(levels[name]) > 1]
    taken = {"run", "seed", "step", *metrics, *columns}
    column_of = {name: f"param.{name}" if name in taken else name for name in names}
    for name in names if all_parameters else varying:
        columns[column_of[name]] = _typed([own.get(name) for own in parameters])
    if any(row.step is not None for row in rows):
        columns["step"] = _typed([row.step for row in rows])
    table = pd.DataFrame(columns)
    for metric in metrics:
        table[metric] = [row.values[metric] for row in rows]
    constant = (name for name in names if len(levels[name]) < 2)
    return table, tuple(column_of[name] for name in varying), tuple(constant)


def _typed(values: Sequence[Any]) -> "pd.Series[Any]":
    """Return numbers if all are numbers or exact texts of numbers, as integers if all are; else text."""
    present = [value for value in values if value is not None]
    texts = [str(value) for value in present]
    if present and not any(isinstance(v, bool) for v in present) and all(_NUMBER.fullmatch(t) for t in texts):
        numbers = [None if value is None else float(value) for value in values]
        whole = all(float(t).is_integer() and abs(float(t)) < 2**53 for t in texts)
        return pd.Series(numbers, dtype="float64").astype("Int64" if whole else "float64")
    return pd.Series([None if value is None else str(value) for value in values], dtype=object)


def summary(collected: Collected, metrics: Sequence[str], at: str) -> str:
    """Return lines for a terminal: number of runs, seed, what varies, what could not be read."""
    table = collected.table
    what = f"{', '.join(metrics)} at {At.of(at)}"
    lines = [f"{count(len(table), 'run')} from {collected.title} ({collected.source}): {what}"]
    if collected.seed is None:
        seed = "no parameter is a seed: the table has no column seed, and an audit takes each row for one"
    else:
        seed = f"seed: the parameter {collected.seed} ({count(table['seed'].nunique(), 'value')})"
    varying = "; ".join(_levels(table, name) for name in collected.varying)
    lines += [seed, f"parameters that vary: {varying}" if varying else "no parameter varies"]
    if collected.constant:
        kept = any(name in table.columns for name in collected.constant)
        where = "kept as columns" if kept else "left out (--all-parameters keeps them)"
        lines.append(f"{count(len(collected.constant), 'parameter')} the same in every run: {where}")
    lines += collected.notes
    unread = collected.unread
    lines += [f"not in the table: {len(unread)}"] if unread else []
    lines += [f"  {one.name}: {one.reason}" for one in unread[:_MOST_LINES]]
    if len(unread) > _MOST_LINES:
        lines.append(f"  ... and {len(unread) - _MOST_LINES} more; --json lists all")
    return "\n".join(clean(line) for line in lines)


def _levels(table: pd.DataFrame, name: str) -> str:
    levels = list(dict.fromkeys(table[name].dropna().astype(str)))
    shown = ", ".join(level if len(level) <= 40 else f"{level[:37]}..." for level in levels[:_MOST_LEVELS])
    more = f", ... {len(levels)} values" if len(levels) > _MOST_LEVELS else ""
    return f"{name} ({shown}{more})"


def audit_notes(collected: Collected) -> tuple[str, ...]:
    """Return a few sentences on what was collected, for an audit of it."""
    notes = [f"Read {count(len(collected.table), 'run')} from {collected.title}."]
    if collected.seed not in (None, "seed"):
        notes.append(f"The seed is the parameter {collected.seed}.")
    source, metric = map(shlex.quote, (collected.source, str(collected.table.columns[-1])))
    command = f"seedspread collect {source} --metric {metric}"
    notes += [note.replace("too: --kind", f"too: {command} --kind") for note in collected.notes]
    if collected.unread:
        first = collected.unread[0]
        more = f" and {len(collected.unread) - 1} more" if len(collected.unread) > 1 else ""
        notes.append(f"Not read: {first.name} ({first.reason}){more}; `{command}` lists them.")
    return tuple(clean(note) for note in notes)


def check_ending(path: Path) -> None:
    """Refuse a file name with an unsupported ending, before anything is read."""
    if path.suffix not in (*_SEPARATORS, ".parquet"):
        raise SourceError(f"the table must end in .csv, .tsv or .parquet; got {path}")
    if path.suffix == ".parquet":
        require_extra("parquet", f"writing {path}")


def for_spreadsheets(collected: Collected) -> Collected:
    """Return runs whose texts and names start no spreadsheet formula: anyone may have written them."""
    cells = collected.table.map(lambda cell: without_formula(cell) if isinstance(cell, str) else cell)
    varying = tuple(map(without_formula, collected.varying))
    return replace(collected, table=cells.rename(columns=without_formula), varying=varying)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write CSV, TSV or Parquet, by the ending; the file appears whole or not at all."""
    try:
        with replacing(path) as temporary:
            if path.suffix == ".parquet":
                table.to_parquet(temporary, index=False)
            else:
                table.to_csv(temporary, index=False, sep=_SEPARATORS[path.suffix], encoding="utf-8")
    except OSError as error:
        raise SourceError(f"cannot write {path}: {error.strerror}") from error
