"""Time estimates for runs, from the durations of finished ones and the progress of others."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean, median

from seedspread.runs.store import FINISHED, RunState, Store
from seedspread.runs.studies import RecordedStudy

# Finished runs of a cell whose durations are read.
_SAMPLE = 10
_ENDED = (*FINISHED, "failed")


def duration(seconds: float) -> str:
    """Format as `45 s`, `12 min`, `3.5 h`, `20 days`; at least one second."""
    seconds = max(seconds, 1.0)
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            amount = seconds / size
            return f"{amount:.1f} {unit}" if unit == "h" and amount < 10 else f"{amount:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


class TimeLeft:
    """Expected seconds of a worker's time.

    Durations of finished runs are cached, because a watched study asks again and again.

    Args:
        store: where the runs lie.
        cells: the cell of each run, by key; runs of one cell take about equally long.
    """

    def __init__(self, store: Store, cells: Mapping[str, Hashable]) -> None:
        self._cells = cells
        self._seconds = cache(lambda key: store.run(key).seconds())

    @classmethod
    def of(cls, store: Store, studies: Sequence[RecordedStudy]) -> "TimeLeft":
        """Return it for studies that a store records; a run that several cells share belongs to the first."""
        cells: dict[str, Hashable] = {}
        for study in studies:
            for number, cell in enumerate(study.cells):
                for key in cell.runs.values():
                    cells.setdefault(key, (study.name, study.origin, number))
        return cls(store, cells)

    def seconds_left(self, states: Mapping[str, RunState]) -> float | None:
        """Return wall-clock seconds with the workers now running; None if unknown, or if there are none.

        At least as long as the longest run under way.
        """
        runs = [key for key, state in states.items() if state.state not in _ENDED]
        left = self.rests(runs, states, self.by_cell(states))
        running = [left.get(key, 0.0) for key, state in states.items() if state.state == "running"]
        if not running or len(left) < len(runs):
            return None
        return max(sum(left.values()) / len(running), *running)

    def by_cell(self, states: Mapping[str, RunState]) -> dict[Hashable, float]:
        """Return seconds per run for the cells of which a run has ended or is under way."""
        ended: dict[Hashable, list[float]] = {}
        begun: dict[Hashable, list[float]] = {}
        for key, state in reversed(list(states.items())):
            cell = self._cells[key]
            if state.state in FINISHED and len(ended.get(cell, ())) < _SAMPLE:
                if (seconds := self._seconds(key)) is not None:
                    ended.setdefault(cell, []).append(seconds)
            elif state.heartbeat is not None and state.heartbeat.seconds is not None:
                begun.setdefault(cell, []).append(state.heartbeat.seconds)
        return {cell: median(seconds) for cell, seconds in (begun | ended).items()}

    def rests(
        self, keys: Iterable[str], states: Mapping[str, RunState], by_cell: Mapping[Hashable, float]
    ) -> dict[str, float]:
        """Return seconds left of each run; a cell without any information counts as average."""
        if not by_cell:
            return {}
        others, left = fmean(by_cell.values()), {}
        for key in keys:
            whole, beat = by_cell.get(self._cells[key], others), states[key].heartbeat
            if beat is not None and beat.done is None:  # it reports no progress, only its time
                left[key] = max(whole - (beat.spent or 0.0), 0.0)
            else:
                left[key] = whole * (1 - (0.0 if beat is None else beat.done or 0.0))
        return left
