"""A study on a terminal or in a notebook: its plan, its progress, its state."""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from seedspread.errors import abridged
from seedspread.render.table import head_of
from seedspread.render.terminal import Terminal, to_rich
from seedspread.render.web import for_notebook
from seedspread.runs.folder import Heartbeat
from seedspread.runs.levels import counted_runs, level_name
from seedspread.runs.run import Run
from seedspread.runs.store import FINISHED, RunState, by_state, tidy_table
from seedspread.runs.studies import SequentialRecord
from seedspread.runs.time_left import duration
from seedspread.study.executor import StudyProgress
from seedspread.study.local import cores_here
from seedspread.study.plan import Estimate, Plan
from seedspread.study.sequential import Watcher, named
from seedspread.study.spec import StudySpec
from seedspread.tables.from_store import read_runs

if TYPE_CHECKING:
    import pandas as pd

_FAILURES_SHOWN = 8
_RUNNING_SHOWN = 8
_LINE_WIDTH = 100
_CELLS_LISTED = 500


def plan_table(plan: Plan, states: dict[str, RunState]) -> list[RenderableType]:
    table = plan.overview(states, _CELLS_LISTED)
    more = [Text(f"... and {table.note}, which --json lists")] if table.note else []
    return [to_rich(replace(table, title="")), *more]


def sharing(plan: Plan) -> list[str]:
    """Return a line on runs that several cells share: how many, and which cells; none if there are none."""
    sharers: dict[str, list[str]] = {}
    for run in plan.runs:
        sharers.setdefault(run.key, []).append(f"{run.study} ({run.cell_name})")
    shared = Counter(" and ".join(dict.fromkeys(names)) for names in sharers.values() if len(names) > 1)
    if not shared:
        return []
    first = f"The study names {len(plan.runs)} runs, {len(plan.distinct)} of them distinct."
    return [first, *(f"{times} are shared by {names}." for names, times in shared.items())]


def time_needed(found: Mapping[str, RunState], seconds: float | None, source: str) -> str:
    """Return how many runs are done and to do, and how long they take; `source` explains the estimate."""
    states = [state.state for state in found.values()]
    done, failed = sum(states.count(state) for state in FINISHED), states.count("failed")
    missing = len(states) - failed - done
    again = f", {failed} failed (run --retry-failed tries these again)" if failed else ""
    so_far = f"{done} of {counted_runs(len(states))} are done{again}."
    if not missing:
        return so_far if failed else f"All {counted_runs(done)} are done."
    first = f"{so_far} " if done or failed else ""
    if seconds is None:
        return f"{first}{counted_runs(missing)} to do. Time: {source}."
    cores = min(cores_here(), missing)
    several = f", {duration(seconds / cores)} on {cores}" if cores > 1 else ""
    line = f"{counted_runs(missing)} to do: about {duration(seconds)} on one core of this machine"
    return f"{first}{line}{several} ({source})."


def lacking(plan: Plan) -> list[str]:
    """Return notes on finished runs without a metric that was declared later."""
    counts: Counter[str] = Counter()
    finished = plan.store.finished(plan.distinct)
    for part in plan.study.parts:
        runs = [finished.get(run.key) for run in plan.runs if run.study == part.name]
        for name in (metric.name for metric in part.metrics):
            there = [run.metrics.get(name, math.nan) for run in runs if isinstance(run, Run)]
            counts[name] += sum(map(math.isnan, there))
    return [
        f"{count} finished runs have no {name}, which was declared later: delete their folders to run them "
        "again."
        for name, count in (+counts).items()
    ]


def changed_inputs(plan: Plan) -> list[str]:
    """Return notes on runs whose input files have changed since."""
    lines = []
    if plan.accepted:
        lines.append(
            f"{len(plan.accepted)} runs were made with other inputs and are kept (--accept-changed)."
        )
    if plan.stale:
        names: set[str] = set()
        for key, other in plan.stale.items():
            now, before = dict(plan.distinct[key].parameters.inputs), plan.store.run(other).inputs()
            names |= {name for name in {*now, *before} if now.get(name) != before.get(name)}
        what = ", ".join(sorted(names)) or "the function"
        lines.append(
            f"{len(plan.stale)} runs are stale, since {what} has changed: they will be run again, unless "
            "--accept-changed keeps them."
        )
    return lines


def failures(plan: Plan, states: Mapping[str, RunState]) -> list[str]:
    """Return the last line of each failure by cell and seed, at most the first few."""
    lines = [
        f"failed: {run.title}: {states[key].message}"
        for key, run in plan.distinct.items()
        if states[key].state == "failed"
    ]
    return _first_few(lines, _FAILURES_SHOWN)


def _first_few(lines: Sequence[str], most: int, more: str = "... and {} more") -> list[str]:
    return [*lines[:most], *([more.format(len(lines) - most)] if len(lines) > most else [])]


def status_view(plan: Plan, states: dict[str, RunState], estimate: Estimate) -> RenderableType:
    counts = Counter(s.state for s in states.values())
    left = estimate.seconds_left(states)
    facts = [f"{counted_runs(len(states))}: {by_state(states)}"]
    idle = not counts["running"] and counts["waiting"] + counts["interrupted"]
    work = estimate.work_left(states, measure=False) if idle else None
    if left is not None:
        facts.append(f"about {duration(left)} left")
    elif work:
        facts.append(f"about {duration(work)} of one worker's time left")
    parts: list[RenderableType] = [Text(plan.study.title, style="bold"), Text(f"{'; '.join(facts)}.")]
    parts += [*map(Text, changed_inputs(plan)), *plan_table(plan, states)]
    running = [
        f"{run.title}: {_how_far(state.heartbeat)}"
        for key, run in plan.distinct.items()
        if (state := states[key]).state == "running" and state.heartbeat is not None
    ]
    parts += map(Text, _first_few(running, _RUNNING_SHOWN, "... and {} more under way"))
    parts += [Text(line, style="red") for line in failures(plan, states)]
    problems = _first_few(plan.store.problems(), _FAILURES_SHOWN, "and {} more")
    return Group(*parts, *(Text(f"! {problem}", style="yellow") for problem in problems))


def _how_far(heartbeat: Heartbeat) -> str:
    """Return `20%, encoder, epoch 3 of 5`, or the last line of a program's output."""
    if heartbeat.done is None:
        return abridged(heartbeat.where, _LINE_WIDTH) or "running, no output yet"
    return f"{heartbeat.done:.0%}, {heartbeat.where}"


_SECONDS_BETWEEN_LINES = 10.0


class ProgressDisplay(Watcher):
    """Shows the progress of a study: a bar on a terminal, one changing line in a notebook, else lines."""

    def __init__(self, console: Terminal) -> None:
        self._console = console
        self._has_bar = console.is_terminal and not console.is_jupyter  # a bar needs ipywidgets there
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task("runs", total=None)
        self._live = Live(self._progress, console=console, transient=True)
        self._line, self._line_at = "", 0.0
        self._in_notebook: Any = None  # IPython's handle of the displayed line
        self._reported: set[str] = set()
        self._tenths = 0

    def __enter__(self) -> "ProgressDisplay":
        if self._has_bar:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_bar:
            self._live.stop()

    def tell(self, progress: StudyProgress) -> None:
        for key, message in progress.failed.items():
            if key not in self._reported:
                self._reported.add(key)
                self._say(f"failed: {progress.title(key)}: {message}", "red")
        done, planned = progress.before + len(progress.done), progress.before + progress.total
        line, now = ", ".join([f"{done}/{planned} runs done", *_facts(progress)]), time.monotonic()
        if self._has_bar:
            self._progress.update(self._task, total=planned, completed=done)
            self._live.update(Group(self._progress, *map(Text, _facts(progress))))
        elif self._console.is_jupyter:
            self._show(line)
        # Skip a line that repeats the last one, or follows it too soon.
        elif line != self._line and (not progress.left or now - self._line_at >= _SECONDS_BETWEEN_LINES):
            self._line, self._line_at = line, now
            self._say(line)

    def interim_look(self, plan: Plan, name: str, record: SequentialRecord) -> None:
        from seedspread.analysis.sequential import last_look  # noqa: PLC0415 - scipy, which most studies run without

        self._say(named(plan, name, last_look(record)))

    def simulated(self, share: float) -> None:
        if int(10 * share) > self._tenths:
            self._tenths = int(10 * share)
            self._say(f"simulating the levels of the interim looks (once): {self._tenths}0%")

    def _show(self, line: str) -> None:
        """Show a line in place of the previous one, in a notebook."""
        ipython = import_module("IPython.display")
        html = ipython.HTML(f"<pre style='color:inherit;background:none'>{escape(line)}</pre>")
        if self._in_notebook is None:
            self._in_notebook = ipython.display(html, display_id=True)
        else:
            self._in_notebook.update(html)

    def _say(self, line: str, style: str = "") -> None:
        self._console.print(Text(line, style=style), soft_wrap=True)


def _facts(progress: StudyProgress) -> list[str]:
    """Return `1 failed`, `about 40 s left`."""
    facts = [f"{len(progress.failed)} failed"] if progress.failed else []
    if progress.left and progress.seconds_left is not None:
        facts.append(f"about {duration(progress.seconds_left)} left")
    return facts


_CELLS_IN_NOTEBOOK = 20


def tidy_runs(plan: Plan, metrics: Sequence[str] = ()) -> "pd.DataFrame":
    """Return one row per finished run of the study, each field once; `study` and `key` come last."""
    runs = read_runs(plan.store, plan.recorded(), metrics)[0]
    return tidy_table(runs, metrics).assign(study=[run.study for run in runs], key=[run.key for run in runs])


def study_html(plan: Plan, metrics: Sequence[str]) -> str:
    """Return the number of runs by state, and each cell's mean and sd if it has finished runs."""
    import pandas as pd  # noqa: PLC0415 - slow, and `run`, `plan` and `status` need no table

    lines = [plan.study.title or plan.study.name, plan.counts(plan.states())]
    table = tidy_runs(plan, metrics)
    factors = [n for n in dict.fromkeys(name for run in plan.runs for name, _ in run.cell) if n in table]
    rows = []
    for levels, cell in table.groupby(factors, sort=False, dropna=False) if factors else ():
        row: dict[str, object] = dict(zip(factors, map(level_name, levels), strict=True))
        row["seeds"] = cell["seed"].nunique()
        for name in (name for name in metrics if name in cell):
            sd = f" ± {cell[name].std():.2g}" if len(cell) > 1 else ""
            row[name] = f"{cell[name].mean():.4g}{sd}"
        rows.append(row)
    tables = [head_of(pd.DataFrame(rows), "mean ± sd over seeds", _CELLS_IN_NOTEBOOK)] if rows else []
    rest = ".audit() compares them, .table has every field, .report(page) writes a page."
    return for_notebook(lines, tables, [*failures(plan, plan.states()), rest])


def size_of(study: StudySpec) -> str:
    """Return `12 cells x 8 seeds`; for a collection, the number of studies."""
    if study.included:
        return f"{len(study.parts)} studies"
    cells, seeds = len(study.cells), len(study.seeds)
    return f"{cells} cell{'s' * (cells != 1)} x {seeds} seed{'s' * (seeds != 1)}"
