"""What is to be seen of a study while it runs: its cells, how far their runs are, the time left."""

import time
from collections.abc import Iterable, Mapping

from seedspread.runs.run_files import Heartbeat
from seedspread.runs.store import FINISHED, RunState, Store
from seedspread.study.estimate import Estimate
from seedspread.study.executor import CellProgress, StudyProgress
from seedspread.study.plan import CellId, Plan, PlannedRun

_LOOK_SECONDS = 2.0
# Of the time: a large store is not looked at all the time.
_LOOK_SHARE = 0.05


class Overview:
    """Keeps a running study's progress up to date with what its store tells of the runs under way.

    Attributes:
        progress: of the study.

    Args:
        plan: what there is to do.
        progress: how it stands.
    """

    def __init__(self, plan: Plan, progress: StudyProgress) -> None:
        self.progress = progress
        self._plan, self._estimate, self._next = plan, Estimate(plan), 0.0
        self._states = {key: state for key, state in plan.states().items() if state.state in FINISHED}

    @property
    def store(self) -> Store:
        """Where the runs are."""
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
        """A run that is done stays so."""
        if key in self._states:
            return self._states[key]
        if key in self.progress.failed:
            return RunState(key, "failed", self.progress.failed[key])
        state = self.store.state(key)
        if state.state in FINISHED:
            self._states[key] = state
        return state


def cells(runs: Iterable[PlannedRun], states: Mapping[str, RunState]) -> tuple[CellProgress, ...]:
    """How every cell stands; a run that several share counts in the first."""
    members: dict[CellId, list[PlannedRun]] = {}
    for run in runs:
        members.setdefault(run.cell_id, []).append(run)
    return tuple(_cell(runs, states) for runs in members.values())


def _cell(runs: list[PlannedRun], states: Mapping[str, RunState]) -> CellProgress:
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
