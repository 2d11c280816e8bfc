"""How long a plan's runs take: by what others took, by how far they are, or by what their runner measures."""

from collections.abc import Hashable, Mapping

from seedspread.errors import MissingExtraError
from seedspread.runners.contract import Runner
from seedspread.runs.store import FINISHED, RunState
from seedspread.runs.time_left import TimedRun, TimeLeft
from seedspread.study.plan import CellId, Plan, PlannedRun


class Estimate:
    """Expected seconds of a worker's time, of which runs that are trained together have a share each.

    Attributes:
        source: where the last answer came from, in words.

    Args:
        plan: whose runs are estimated.
    """

    def __init__(self, plan: Plan) -> None:
        self._runs = plan.distinct
        alone: dict[CellId, bool] = {}
        for run in self._runs.values():
            if run.cell_id not in alone:
                group = run.runner.group(run.parameters, threads=1)
                alone[run.cell_id] = group is None or group.size == 1
        kinds = {run.runner: number for number, run in enumerate(self._runs.values())}
        runs = (
            TimedRun(key, run.cell_id, kinds[run.runner], alone[run.cell_id])
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
        by_runner: dict[Runner, list[PlannedRun]] = {}
        for run in new:
            by_runner.setdefault(run.runner, []).append(run)
        for runner, runs in by_runner.items() if measure else ():
            measured = self._measured(runner, runs, by_cell)
            if measured:
                by_cell |= measured
                self.source = "from a measured step"
        left = self._time.rests((run.key for run in missing), states, by_cell)
        return sum(left.values()) if len(left) == len(missing) else None

    def _measured(
        self, runner: Runner, runs: list[PlannedRun], by_cell: Mapping[Hashable, float]
    ) -> dict[Hashable, float]:
        """What the runner measures of cells that have not begun, to the scale of those that have."""
        cells = {run.cell_id: run for run in runs}
        known = {r.cell_id: r for r in self._runs.values() if r.cell_id in by_cell and r.runner == runner}
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
