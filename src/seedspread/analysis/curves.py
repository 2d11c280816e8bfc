"""The spread over training: mean, band and sd across seeds by step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from seedspread.analysis.display import Block, Heading, Note, Result, mean_and_sd, table_of
from seedspread.analysis.words import span
from seedspread.render.chart import COLORS, Axis, Chart, Mark, Panel, PlotError, check_picture, floats
from seedspread.render.table import Table
from seedspread.runs.files import UNREADABLE
from seedspread.runs.folder import RunFolder
from seedspread.runs.levels import group_name, stratum_name
from seedspread.runs.store import is_store
from seedspread.stats.groups import Floats
from seedspread.stats.result import Interval, Summary
from seedspread.stats.seed_summaries import curve_over_seeds
from seedspread.tables.columns import (
    combined,
    distinguishing,
    find_seed,
    is_seed,
    is_step,
    levels_in,
    numbers_in,
    require,
)
from seedspread.tables.question import (
    Question,
    Rows,
    TableError,
    check_options,
    listed,
    row_numbers,
    with_known_arguments,
)
from seedspread.tables.read import Source, read_table
from seedspread.tables.read import Table as ReadTable
from seedspread.tables.shape import shaped
from seedspread.tables.sources.collect import curve_name, find_reader, is_source, write_table
from seedspread.tables.sources.run import CollectedRun, Place, quiet, step_column
from seedspread.tables.sources.run import find_seed as seed_parameter

# Steps of a curve; of more, a selection is drawn that includes the first and the last.
_MOST_STEPS = 1_000
# Runs end early if they lack more than this share of the steps.
_LATE = 0.1
# Steps in the text's table, strata in a picture, groups in one panel, and seeds for the interval of an sd.
_SHOWN, _MOST_STRATA, MOST_GROUPS, _FEWEST_SEEDS = 4, 6, 12, 5
_SD = "sd across seeds"
# An sd this small relative to its mean is a rounding error.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class CurvesResult(Result):
    """Mean and sd across seeds by step.

    Attributes:
        factor: the column whose levels have a curve each; empty if there is one curve.
        frame: a row per group and step: stratum, group, step, seeds (of the group), n (those that reach the
            step), mean, sd, and the ends of their intervals, each about one step.
    """

    source: str
    metric: str
    step: str
    factor: str
    runs: int
    level: float
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()

    def as_values(self) -> dict[str, Any]:
        return vars(self) | {"frame": self.frame.to_dict("records")}

    def page(self, width: int | None = None, details: bool = False, explain: bool = False) -> Iterator[Block]:
        """Yield mean and sd at a few steps; `frame` and the picture have all of them."""
        steps = self.frame["step"]
        span = f"{self.step} {_plain(steps.min())} to {_plain(steps.max())}"
        yield Heading(f"{self.metric} over training | {self.runs:,} runs, {span}")
        yield self.table()
        yield from map(Note, self.notes)

    def table(self) -> Table:
        """Return seeds and mean ± sd at a few steps, which half of the seeds reach."""
        reached = self.frame.groupby("step")["n"].sum()
        there = reached.index[2 * reached >= reached.max()]
        shown = there[np.unique(np.linspace(0, len(there) - 1, _SHOWN).round().astype(int))]
        rows = []
        columns = ["stratum", "group", "step", "n", "mean", "sd", "sd_low", "sd_high"]
        chosen = self.frame.loc[self.frame["step"].isin(shown), columns]
        for where, group, step, n, mean, sd, low, high in chosen.to_records(index=False).tolist():
            own = None if np.isnan(sd) else 0.0 if sd < _ROUNDING * abs(mean) else sd
            interval = Interval(low, high, self.level) if own else None
            value = mean_and_sd(Summary("", (), n, mean, own, None))
            rows.append((where, group, _plain(step), str(n), value, span(interval)))
        factor, ci = self.factor or "group", f"sd, {self.level:.0%} CI"
        return table_of("", ("", factor, self.step, "seeds", "mean ± sd", ci), rows)

    def chart(self) -> Chart:
        """Return for each stratum the means with bands of one sd, and the sds with their intervals."""
        strata, groups = (list(dict.fromkeys(self.frame[name])) for name in ("stratum", "group"))
        if len(strata) > _MOST_STRATA or len(groups) > MOST_GROUPS:
            raise PlotError(
                f"a picture shows up to {_MOST_STRATA} levels of --by and {MOST_GROUPS} groups; choose from "
                f"these {len(strata)} and {len(groups)} with --where"
            )
        panels: dict[str, list[Mark]] = {}
        for (stratum, group), own in self.frame.groupby(["stratum", "group"], sort=False):
            name, color = group_name(self.factor, str(group)), COLORS[groups.index(group) % len(COLORS)]
            mean, sd, few = own["mean"], own["sd"], own["n"] < _FEWEST_SEEDS
            drawn = {
                "mean ± sd": (mean, mean - sd, mean + sd),
                _SD: (sd, own["sd_low"].mask(few), own["sd_high"].mask(few)),
            }
            for title, values in drawn.items():
                marks = panels.setdefault(f"{stratum}: {title}" if stratum else title, [])
                marks += _marks(own, name, color, *(v.to_numpy() for v in values))
        return Chart(
            "curves",
            f"{self.metric} over training",
            "Means across seeds with bands of one standard deviation, and the standard deviation itself with "
            f"its interval, from {_FEWEST_SEEDS} seeds on. Dashed: fewer seeds reach the step.",
            f"{self.metric} by {self.step}, mean and standard deviation across seeds.",
            tuple(
                Panel(title, Axis(self.step), Axis(self.metric, range=_range(title, marks)), tuple(marks))
                for title, marks in panels.items()
            ),
            f"{self.runs:,} runs from {Path(self.source).name}",
        )

    def write(self, path: "Path | str") -> None:
        """Write the values of every step (.csv), or a picture (.pdf, .svg, .png)."""
        if is_csv(path):
            write_table(self.frame, Path(path))
        else:
            self.draw(path)


def is_csv(path: "Path | str") -> bool:
    """Return whether the file is for values (.csv); refuse anything that is neither that nor a picture."""
    if Path(path).suffix == ".csv":
        return True
    check_picture(Path(path), ".csv, ")
    return False


def _plain(step: float) -> str:
    return f"{step:,.10g}" if abs(step) < 1e10 else f"{step:.4g}"


def _range(title: str, marks: list[Mark]) -> tuple[float, float] | None:
    ends = [y for mark in marks for y in (mark.high or mark.y) if y > 0]
    return (0.0, 1.05 * max(ends)) if ends and title.endswith(_SD) else None


def _marks(own: pd.DataFrame, name: str, color: str, y: Floats, low: Floats, high: Floats) -> list[Mark]:
    """Return a band and a line, which is dashed if fewer seeds than the group has reach the step."""
    x, n = own["step"].to_numpy(float), own["n"].to_numpy()
    banded, fewer = np.isfinite(low), n < own["seeds"].to_numpy()
    labels = tuple(f"{name}\n{_plain(s)}: {v:.4g} ({k} seeds)" for s, v, k in zip(x, y, n, strict=True))
    a, b, c, d = (floats(values[banded]) for values in (x, y, low, high))
    marks = [Mark("band", name, a, b, c, d, color=color)] if a else []
    solid = np.where(fewer, np.nan, y)
    marks.append(Mark("line", name, floats(x), floats(solid), labels=labels, color=color, legend=True))
    if fewer.any():  # the neighbors are included, so that the two lines touch
        dashed = fewer | np.r_[fewer[1:], False] | np.r_[False, fewer[:-1]]
        marks.append(Mark("rule", name, floats(x), floats(np.where(dashed, y, np.nan)), color=color))
    return marks


@with_known_arguments
def curves(
    table: Source,
    metric: str,
    group: str | None = None,
    block: "str | Sequence[str] | None" = None,
    seed: str | None = "seed",
    by: "str | Sequence[str] | None" = None,
    *,
    step: str | None = None,
    level: float = 0.95,
    **rows: Unpack[Rows],
) -> CurvesResult:
    """Return mean and sd across seeds by step, for runs of unequal length and unequal steps.

    A run is interpolated between its own steps, never beyond them: `n` counts the seeds that reach a step.

    Args:
        table: a store whose runs logged the metric with a step, logs of another tool, or a table with one row
            per run and step.
        metric: what was logged over training.
        group: the column whose levels have a curve each; by default all runs have one.
        block: columns varied within a seed; runs that share a seed are averaged.
        seed: the column with the seed, also found by its usual names.
        by: columns, such as the dataset, whose levels are shown separately.
        step: the column that counts steps, also found by its usual names.
        level: confidence level of the intervals, each about one step.
        rows: where, metric_column, sheet: which rows count; see `Rows`.

    Returns:
        The result: `frame` with mean, sd, intervals and n by group and step; `plot`.

    Example:
        >>> rows = [{"seed": s, "step": t, "loss": 1 / (t + s)} for s in range(1, 4) for t in range(1, 6)]
        >>> len(curves(rows, "loss").frame)
        5
    """
    check_options(level)
    rows["command"] = "curves"
    question = Question.of(metric, group, None, block, seed, by, **rows)
    long, question, step = _curve_table(table, question, step)
    x = np.asarray(numbers_in(long.frame[step], step).values, np.float64)
    y = np.asarray(numbers_in(long.frame[metric], metric, long.decimal_comma).values, np.float64)
    kept = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    frame, x, y, strata = long.frame.iloc[kept], x[kept], y[kept], question.by
    shown, seed = [*strata, *((group,) if group else ())], str(question.seed)
    of_run = combined(frame, [*shown, *question.block, seed])
    order = np.lexsort((x, of_run))
    runs = np.split(order, np.flatnonzero(np.diff(of_run[order])) + 1)
    if max(map(len, runs)) < 2:
        raise TableError(f"each run has one value of {metric}: a curve takes several steps per run")
    first = [rows_of_run[0] for rows_of_run in runs]
    cells, codes = levels_in(frame, shown).iloc[first], combined(frame, [seed])[first]
    of_stratum, found = combined(frame, strata), []
    for levels in dict.fromkeys(cells):
        own = [k for k, other in enumerate(cells) if other == levels]
        grid = np.unique(x[of_stratum == of_stratum[first[own[0]]]])
        grid = grid[np.unique(np.linspace(0, len(grid) - 1, _MOST_STEPS).round().astype(int))]
        curve = curve_over_seeds(codes[own], [(x[runs[k]], y[runs[k]]) for k in own], grid, level)
        where = stratum_name(strata, levels[: len(strata)])
        about = {"stratum": where, "group": levels[-1] if group else "all", "step": grid}
        found.append(pd.DataFrame(about | {"seeds": len({*codes[own]}), **vars(curve)}))
    late = float(x.max() - _LATE * np.ptp(x))
    early = sum(x[rows_of_run[-1]] < late for rows_of_run in runs)
    notes = [f"{early} of {len(runs)} runs end before {step} {_plain(late)}."] if early else []
    every = pd.concat(found, ignore_index=True)
    return CurvesResult(
        long.name, metric, step, group or "", len(runs), level, every[every["n"] > 0], (*long.notes, *notes)
    )


# The column that names a run of a store, or of another tool.
_RUN = "run"


def _curve_table(source: Source, question: Question, step: str | None) -> tuple[ReadTable, Question, str]:
    """Return a row per run and step, the question with its seed, and the column of the steps.

    If a run was logged twice at a step, the later row counts, as the run was resumed. In a table, two such
    rows are two runs, and the question must name what distinguishes them.
    """
    metric, is_logged = str(question.value), True
    if isinstance(source, str | Path) and not is_store(Path(source)) and is_source(source):
        table = _logged(source, metric)
    else:
        table = read_table(source, question)
        is_logged = table.store is not None
        table = _stored(table, metric, step) if is_logged else table
    table, question = shaped(table, question)
    frame = table.frame
    for name in (metric, *filter(None, (question.group, step, *question.by, *question.block))):
        require(name, frame.columns, table.name)
    step = step or _step(list(frame.columns))
    if step is None:
        raise TableError(
            f"no column of {table.name} counts steps; name it with --step, or log one beside the metric: "
            f"seedspread.log({metric}=..., step=...) (it has {listed(frame.columns)})"
        )
    taken = {metric, step, question.group, *question.by, *question.block}
    seed = question.seed if question.seed in frame.columns else None
    seed = seed or find_seed(frame, [name for name in frame.columns if name not in taken])
    if seed is None:
        there = f"(it has {listed(frame.columns)})"
        raise TableError(f"no column of {table.name} tells runs apart; name it with --seed {there}")
    run = [*question.by, *((question.group,) if question.group else ()), *question.block, seed, step]
    again = pd.Series(combined(frame, run)).duplicated(keep="last").to_numpy()
    others = [name for name in frame.columns if name not in {*run, metric, _RUN, "folder"}]
    apart = distinguishing(frame, run, [n for n in others if not is_seed(n)]) if again.any() else []
    if apart:
        raise TableError(
            f"runs of one {question.group or 'group'} and {seed} differ in {listed(apart)}: show them apart "
            f"(--by {apart[0]}), choose some (--where '{apart[0]} == ...'), or name same-seed runs "
            f"(--block {apart[0]})"
        )
    if again.any() and not is_logged:
        rows = row_numbers(frame.index[again])
        raise TableError(
            f"{rows}: a later row has the same {step} of the same run; if there are several, name what tells "
            "them apart with --group, --by or --block"
        )
    return replace(table, frame=frame.loc[~again]), replace(question, seed=seed), step


def _step(names: list[str]) -> str | None:
    return step_column([dict.fromkeys(names)]) or next((name for name in names if is_step(name)), None)


def _joined(runs: list[dict[str, Any]], parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the steps of all runs, with what is known of their run beside them."""
    steps = pd.concat(parts, ignore_index=True)
    about = pd.DataFrame(runs).drop(columns=list(steps.columns), errors="ignore")
    rows = [n for n, part in enumerate(parts) for _ in range(len(part))]
    return pd.concat([steps, about.iloc[rows].reset_index(drop=True)], axis=1)


def _stored(table: ReadTable, metric: str, step: str | None) -> ReadTable:
    """Return the logged values of a store's runs, call by call."""
    runs, parts, others = [], [], dict[str, None]()
    for row in table.frame.dropna(subset=["folder"]).to_dict("records"):
        try:
            history = RunFolder(Path(row["folder"])).history().to_pandas()
        except UNREADABLE:  # it logged nothing
            continue
        others |= dict.fromkeys(history.columns)
        if metric in history.columns:
            rows = history.dropna(subset=[metric])
            of_run = rows["layer"].isna() if "layer" in rows else rows[metric].isna()
            parts.append(rows[of_run] if of_run.any() else rows)  # leave out rows about layers
            runs.append({str(name): value for name, value in row.items()})
    if not parts:
        there = f" (they logged {listed(others)})" if others else ""
        raise TableError(f"no run of {table.name} logged {metric} over training{there}; log it in the run: "
                         f"seedspread.log({metric}=..., step=...)")  # fmt: skip
    frame = _joined(runs, parts)
    if step is None and _step(list(others)) is None:  # a parameter, such as epochs, is not a step
        frame = frame[[name for name in frame.columns if not is_step(name)]]
    return replace(table, frame=frame)


def _logged(source: "str | Path", metric: str) -> ReadTable:
    """Return the curves that another tool has logged; runs without a seed are identified by their names."""
    place = Place.of(source)
    with quiet():
        items = [*find_reader(place)[0].read(place, [metric], True)]
    found = [(run, curve_name(run, metric)) for run in items if isinstance(run, CollectedRun)]
    points = [(run, [p for p in run.curves[name] if p[0] is not None]) for run, name in found if name]
    points = [(run, curve) for run, curve in points if curve]
    if not points:
        others = listed(dict.fromkeys(name for run, _ in found for name in run.curves))
        raise TableError(
            f"no run in {place.source} has {metric} with steps (it has {others or 'no metrics'})"
        )
    parts = [pd.DataFrame(curve, columns=["step", metric]) for _, curve in points]
    frame = _joined([{**run.parameters, _RUN: run.name} for run, _ in points], parts)
    seed = seed_parameter(run.parameters for run, _ in points)
    frame["seed"] = frame[seed if seed is not None else _RUN]
    return ReadTable(frame, place.source, path=place.source)
