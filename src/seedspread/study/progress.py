"""How far the runs of a plan are, cell by cell, and how long the rest will take."""

import time
from collections.abc import Hashable, Iterable, Mapping

from seedspread.errors import MissingExtraError
from seedspread.runners.contract import Runner
from seedspread.runs.folder import Heartbeat
from seedspread.runs.run import Run
from seedspread.runs.store import FINISHED, RunState, Store
from seedspread.runs.time_left import TimedRun, TimeLeft
from seedspread.study.executor import CellProgress, StudyProgress
from seedspread.study.plan import CellId, Plan


class Estimate:
    """Expected seconds of a worker's time; `source` says where the last answer came from.

    Runs that are trained together have a share of that time each.
    """

    def __init__(self, plan: Plan) -> None:
        self._runs, self._runners = plan.distinct, plan.runners
        alone: dict[CellId, bool] = {}
        for run in self._runs.values():
            if run.cell_id not in alone:
                group = self._runners[run.study].group(run.parameters, threads=1)
                alone[run.cell_id] = group is None or group.size == 1
        kinds = {runner: number for number, runner in enumerate(dict.fromkeys(plan.runners.values()))}
        runs = (
            TimedRun(key, run.cell_id, kinds[plan.runners[run.study]], alone[run.cell_id])
            for key, run in self._runs.items()
        )
        self._time = TimeLeft(plan.store, runs)
        self.source = "from what other runs took"

    def seconds_left(self, states: Mapping[str, RunState]) -> float | None:
        """By the clock, with the workers at it now; None if that is unknown, or if there are none."""
        return self._time.seconds(states)

    def work_left(self, states: Mapping[str, RunState], *, measure: bool = True) -> float | None:
        """Of one worker's time, for all that has no result; None if that is unknown.

        `MissingExtraError` if a runner could measure it, with more installed.

        Args:
            states: of all runs.
            measure: whether to ask runners for what cannot be known from other runs, which can take seconds.
        """
        by_cell = self._time.by_cell(states)
        missing = [self._runs[key] for key, state in states.items() if state.state not in FINISHED]
        new = [run for run in missing if run.cell_id not in by_cell]
        by_runner: dict[Runner, list[Run]] = {}
        for run in new:
            by_runner.setdefault(self._runners[run.study], []).append(run)
        for runner, runs in by_runner.items() if measure else ():
            measured = self._measured(runner, runs, by_cell)
            if measured:
                by_cell |= measured
                self.source = "from a measured step"
        left = self._time.rests((run.key for run in missing), states, by_cell)
        return sum(left.values()) if len(left) == len(missing) else None

    def _measured(
        self, runner: Runner, runs: list[Run], by_cell: Mapping[Hashable, float]
    ) -> dict[Hashable, float]:
        """What the runner measures of cells that have not begun, to the scale of those that have."""
        cells = {run.cell_id: run for run in runs}
        known = {
            run.cell_id: run
            for run in self._runs.values()
            if run.cell_id in by_cell and self._runners[run.study] == runner
        }
        try:
            measured = {cell: runner.seconds([run.parameters]) for cell, run in (known | cells).items()}
        except MissingExtraError:
            if known:
                return {}
            raise
        if None in measured.values():
            return {}
        seconds = {cell: float(value or 0.0) for cell, value in measured.items()}
        guessed = sum(seconds[cell] for cell in known)
        scale = sum(by_cell[cell] for cell in known) / guessed if guessed else 1.0
        return {cell: scale * seconds[cell] for cell in cells}


_LOOK_SECONDS = 2.0
# Of the time: a large store is not looked at all the time.
_LOOK_SHARE = 0.05


class Overview:
    """Keeps a running study's progress up to date with what its store tells of the runs under way."""

    def __init__(self, plan: Plan, progress: StudyProgress) -> None:
        self.progress = progress
        self._plan, self._estimate, self._next = plan, Estimate(plan), 0.0
        self._states = {key: state for key, state in plan.states().items() if state.state in FINISHED}

    @property
    def store(self) -> Store:
        return self._plan.store

    def look(self) -> bool:
        """Looks, if it is time to; whether it did."""
        start = time.monotonic()
        if start < self._next:
            return False
        states = {key: self._state(key) for key in self._plan.distinct}
        self.progress.cells = cells(self._plan.distinct.values(), states)
        self.progress.images_per_second = images_per_second(states)
        self.progress.seconds_left = self._estimate.seconds_left(states)
        took = time.monotonic() - start
        self._next = start + max(_LOOK_SECONDS, took / _LOOK_SHARE)
        return True

    def _state(self, key: str) -> RunState:
        if key in self._states:
            return self._states[key]
        if key in self.progress.failed:
            return RunState(key, "failed", self.progress.failed[key])
        state = self.store.state(key)
        if state.state in FINISHED:
            self._states[key] = state
        return state


def cells(runs: Iterable[Run], states: Mapping[str, RunState]) -> tuple[CellProgress, ...]:
    """How every cell stands; a run that several share counts in the first."""
    members: dict[CellId, list[Run]] = {}
    for run in runs:
        members.setdefault(run.cell_id, []).append(run)
    return tuple(_cell(runs, states) for runs in members.values())


def _cell(runs: list[Run], states: Mapping[str, RunState]) -> CellProgress:
    now = [states[run.key] for run in runs]
    failed = sum(state.state == "failed" for state in now)
    under_way = [run for run in runs if states[run.key].state == "running"]
    beats = [beat for run in under_way if (beat := states[run.key].heartbeat) is not None]
    furthest = max(beats, key=lambda beat: beat.done or 0.0, default=None)
    return CellProgress(
        name=runs[0].cell_name,
        planned=len(runs),
        ended=failed + sum(state.state in FINISHED for state in now),
        failed=failed,
        seeds=tuple(run.seed for run in under_way),
        where="" if furthest is None else furthest.where,
    )


def images_per_second(states: Mapping[str, RunState]) -> float:
    """Of all runs under way together; 0 if none counts them."""
    beats: list[Heartbeat] = [s.heartbeat for s in states.values() if s.heartbeat is not None]
    return sum(beat.images_per_second or 0.0 for beat in beats)
