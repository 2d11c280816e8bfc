"""Plans and states for people."""

from collections import Counter
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from seedspread.errors import abridged
from seedspread.render.text import FittedTable, to_rich
from seedspread.runs.levels import counted_runs
from seedspread.runs.run_files import Heartbeat
from seedspread.runs.store import FINISHED, RunState, by_state
from seedspread.runs.time_left import duration
from seedspread.study.estimate import Estimate
from seedspread.study.local import cores_here
from seedspread.study.overview import images_per_second
from seedspread.study.plan import Plan

_FAILURES_SHOWN = 8
_RUNNING_SHOWN = 8
_LINE_WIDTH = 100
_CELLS_SHOWN = 500


def plan_table(plan: Plan, states: dict[str, RunState]) -> FittedTable:
    """One row per study and cell: its levels by factor, its runs, and how many of them are where."""
    return to_rich(plan.overview(states, _CELLS_SHOWN))


def more_cells(plan: Plan) -> list[str]:
    """A line on the cells that the table does not have."""
    more = len({run.cell_id for run in plan.runs}) - _CELLS_SHOWN
    return [f"... and {more:,} more cells, which --json lists"] if more > 0 else []


def sharing(plan: Plan) -> list[str]:
    """How many runs are named, how many are distinct, and why."""
    named, distinct = len(plan.runs), len(plan.distinct)
    lines = [f"{named} runs are named, {distinct} are distinct."]
    if named == distinct:
        return lines
    pairs: Counter[tuple[str, ...]] = Counter()
    for runs in plan.shared.values():
        names = dict.fromkeys(f"{r.study} ({r.cell_name})" for r in runs)
        pairs[tuple(names)] += 1
    for sharers, times in pairs.items():
        lines.append(f"{times} are shared by {' and '.join(sharers)}: the same run by its key.")
    return lines


def time_needed(plan: Plan, seconds: float | None, source: str) -> str:
    """How many runs are to do, and how long they will take; `source` says how that is known, or why not."""
    states = [state.state for state in plan.states().values()]
    failed = states.count("failed")
    missing = len(states) - failed - sum(states.count(state) for state in FINISHED)
    again = f" {counted_runs(failed)} failed, to be tried again with --retry-failed." if failed else ""
    if not missing:
        return "Nothing is left to do." + again if failed else "Everything is there."
    if seconds is None:
        return f"{counted_runs(missing)} to do. How long they will take: {source}.{again}"
    line = f"{counted_runs(missing)} to do: about {duration(seconds)} on one core of this machine's CPU"
    cores = min(cores_here(), missing)
    several = f", {duration(seconds / cores)} on {cores}" if cores > 1 else ""
    return f"{line}{several} ({source}).{again}"


def lacking(plan: Plan) -> list[str]:
    """What finished runs do not report, although the study promises it by now."""
    return [
        f"{count} finished runs have no {name}, which was declared after they were made: "
        "delete their folders to run them again."
        for name, count in plan.lacking().items()
    ]


def changed_inputs(plan: Plan) -> list[str]:
    """What the store has of this study from input files that have changed since."""
    lines = []
    if plan.accepted:
        lines.append(f"{len(plan.accepted)} were made with other inputs, and are kept (--accept-changed).")
    if plan.stale:
        names: set[str] = set()
        for key, other in plan.stale.items():
            now, before = dict(plan.distinct[key].parameters.inputs), plan.store.run(other).inputs()
            names |= {name for name in {*now, *before} if now.get(name) != before.get(name)}
        what = ", ".join(sorted(names)) or "the function"
        lines.append(
            f"{len(plan.stale)} are stale: the store has them from before {what} changed. "
            "They are run again; --accept-changed keeps them as they are."
        )
    return lines


def failures(plan: Plan, states: Mapping[str, RunState]) -> list[str]:
    """The last line of each failure by cell and seed, the first few of them."""
    failed = [(run, states[key]) for key, run in plan.distinct.items() if states[key].state == "failed"]
    lines = [f"failed: {run.title}: {state.message}" for run, state in failed[:_FAILURES_SHOWN]]
    more = len(failed) - _FAILURES_SHOWN
    return [*lines, f"... and {more} more"] if more > 0 else lines


def status_view(plan: Plan, states: dict[str, RunState], estimate: Estimate) -> RenderableType:
    """The state of a study, as `seedspread status` shows it."""
    parts: list[RenderableType] = [plan_table(plan, states), *map(Text, more_cells(plan))]
    counts = Counter(s.state for s in states.values())
    speed, left = images_per_second(states), estimate.seconds_left(states)
    facts = [f"{len(states)} distinct runs: {by_state(states)}"]
    facts += [f"{speed:,.0f} images/s"] if speed else []
    idle = not counts["running"] and counts["waiting"] + counts["interrupted"]
    work = estimate.work_left(states, measure=False) if idle else None
    if left is not None:
        facts.append(f"about {duration(left)} left")
    elif work:
        facts.append(f"about {duration(work)} of one worker's time left")
    parts.append(Text(f"{'; '.join(facts)}."))
    parts += [Text(line) for line in _running(plan, states)]
    parts += [Text(line, style="red") for line in failures(plan, states)]
    problems = plan.store.problems()
    parts += [Text(f"! {problem}", style="yellow") for problem in problems[:_FAILURES_SHOWN]]
    if len(problems) > _FAILURES_SHOWN:
        parts.append(Text(f"! and {len(problems) - _FAILURES_SHOWN} more", style="yellow"))
    return Group(*parts)


def _running(plan: Plan, states: dict[str, RunState]) -> list[str]:
    """How far the runs are that are under way, the first few of them."""
    lines = [
        f"{run.title}: {_where(state.heartbeat)}"
        for key, run in plan.distinct.items()
        if (state := states[key]).state == "running" and state.heartbeat is not None
    ]
    more = len(lines) - _RUNNING_SHOWN
    return [*lines[:_RUNNING_SHOWN], *([f"... and {more} more under way"] if more > 0 else [])]


def _where(heartbeat: Heartbeat) -> str:
    """`20%, encoder, epoch 3 of 5`, or the last line of a program's output."""
    if heartbeat.done is None:
        return abridged(heartbeat.where, _LINE_WIDTH) or "running, no output yet"
    return f"{heartbeat.done:.0%}, {heartbeat.where}"
