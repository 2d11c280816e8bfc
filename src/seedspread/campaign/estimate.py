"""How long runs take: by what finished ones took, by how far others are, or by what their runner measures."""

from collections.abc import Mapping
from statistics import fmean, median

from seedspread.campaign.plan import CellId, Plan, PlannedRun
from seedspread.errors import MissingExtraError
from seedspread.runners.contract import Runner
from seedspread.runs.store import FINISHED, RunState

# Finished runs of a cell whose durations are looked up.
_SAMPLE = 10
_ENDED = (*FINISHED, "failed")


class Estimate:
    """Expected seconds of a worker's time, of which runs that are trained together have a share each.

    It remembers what finished runs took: a campaign asks again and again.

    Attributes:
        source: where the last answer came from, in words.

    Args:
        plan: whose runs are estimated.
    """

    def __init__(self, plan: Plan) -> None:
        self._store = plan.store
        self._runs = plan.distinct
        self._took: dict[str, float | None] = {}
        self.source = "from what other runs took"

    def seconds_left(self, states: Mapping[str, RunState]) -> float | None:
        """By the clock, with the workers that are at it now; None if that is unknown, or if there are none.

        The end is not before the busiest of them is through with what it has.
        """
        by_cell = self._by_cell(states)
        runs = [self._runs[key] for key, state in states.items() if state.state not in _ENDED]
        left = self._left(runs, states, by_cell)
        busy: dict[str, float] = {}
        for key, state in states.items():
            if state.state == "running":
                busy[state.worker] = busy.get(state.worker, 0.0) + left.get(key, 0.0)
        if not busy or len(left) < len(runs):
            return None
        return max(sum(left.values()) / len(busy), *busy.values())

    def work_left(self, states: Mapping[str, RunState], *, measure: bool = True) -> float | None:
        """Of one worker's time, for all that has no result; None if that is unknown.

        `MissingExtraError` if a runner could measure it, with more installed.

        Args:
            states: of all runs.
            measure: whether to ask runners for what cannot be known from other runs, which can take seconds.
        """
        by_cell = self._by_cell(states)
        missing = [self._runs[key] for key, state in states.items() if state.state not in FINISHED]
        new = [run for run in missing if run.cell_id not in by_cell]
        by_runner: dict[Runner, list[PlannedRun]] = {}
        for run in new:
            by_runner.setdefault(run.runner, []).append(run)
        for runner, runs in by_runner.items() if measure else ():
            measured = self._measured(runner, runs, by_cell)
            if measured:
                by_cell |= measured
                self.source = "from a measured step"
        left = self._left(missing, states, by_cell)
        return sum(left.values()) if len(left) == len(missing) else None

    def _by_cell(self, states: Mapping[str, RunState]) -> dict[CellId, float]:
        """What a run takes, for the cells of which one has ended or is under way."""
        looked: dict[CellId, int] = {}
        ended: dict[CellId, list[float]] = {}
        begun: dict[CellId, list[float]] = {}
        for key, state in reversed(list(states.items())):
            run = self._runs[key]
            if state.state in FINISHED:
                looked[run.cell_id] = looked.get(run.cell_id, 0) + 1
                if looked[run.cell_id] <= _SAMPLE and (seconds := self._seconds(run)) is not None:
                    ended.setdefault(run.cell_id, []).append(seconds)
            elif state.heartbeat is not None and state.heartbeat.seconds is not None:
                begun.setdefault(run.cell_id, []).append(state.heartbeat.seconds)
        return {cell: median(seconds) for cell, seconds in (begun | ended).items()}

    def _seconds(self, run: PlannedRun) -> float | None:
        if run.key not in self._took:
            alone = run.runner.group_size(run.parameters) == 1
            self._took[run.key] = self._store.run(run.key).seconds(alone=alone)
        return self._took[run.key]

    def _left(
        self, runs: list[PlannedRun], states: Mapping[str, RunState], by_cell: Mapping[CellId, float]
    ) -> dict[str, float]:
        """What is left of each run; one of a cell of which nothing is known is like those of the others.

        It takes no less than what one of its cell, of which only the time is known, has taken already.
        """
        others, least = _mean_by_runner(self._cells(by_cell), by_cell), self._spent(states)
        wholes = {}
        for run in runs:
            whole = by_cell.get(run.cell_id, others.get(run.runner))
            wholes[run.key] = None if whole is None else max(whole, least.get(run.cell_id, 0.0))
        return {key: _rest(whole, states[key]) for key, whole in wholes.items() if whole is not None}

    def _spent(self, states: Mapping[str, RunState]) -> dict[CellId, float]:
        spent: dict[CellId, float] = {}
        for key, state in states.items():
            beat, cell = state.heartbeat, self._runs[key].cell_id
            if beat is not None and beat.done is None and beat.spent is not None:
                spent[cell] = max(spent.get(cell, 0.0), beat.spent)
        return spent

    def _measured(
        self, runner: Runner, runs: list[PlannedRun], by_cell: Mapping[CellId, float]
    ) -> dict[CellId, float]:
        """What the runner measures of cells that have not begun, to the scale of those that have."""
        cells = {run.cell_id: run for run in runs}
        known = {cell: run for cell, run in self._cells(by_cell).items() if run.runner == runner}
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

    def _cells(self, cells: Mapping[CellId, float]) -> dict[CellId, PlannedRun]:
        """A run of each."""
        return {run.cell_id: run for run in self._runs.values() if run.cell_id in cells}


def _mean_by_runner(
    cells: Mapping[CellId, PlannedRun], by_cell: Mapping[CellId, float]
) -> dict[Runner, float]:
    known: dict[Runner, list[float]] = {}
    for cell, run in cells.items():
        known.setdefault(run.runner, []).append(by_cell[cell])
    return {runner: fmean(seconds) for runner, seconds in known.items()}


def _rest(whole: float, state: RunState) -> float:
    """What is left of a run that has perhaps begun."""
    beat = state.heartbeat
    if beat is None:
        return whole
    return max(whole - (beat.spent or 0.0), 0.0) if beat.done is None else whole * (1 - beat.done)
