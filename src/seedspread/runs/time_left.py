"""How long runs take: by what finished ones took, and by how far others are."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from seedspread.runs.store import FINISHED, RunState, Store
from seedspread.runs.studies import RecordedStudy

# Finished runs of a cell whose durations are looked up.
_SAMPLE = 10
_ENDED = (*FINISHED, "failed")


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`, `20 days`; what takes less than a second takes one."""
    seconds = max(seconds, 1.0)
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            amount = seconds / size
            return f"{amount:.1f} {unit}" if unit == "h" and amount < 10 else f"{amount:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


@dataclass(frozen=True)
class TimedRun:
    """A run, and which others tell how long it takes.

    Attributes:
        cell: its runs take about as long as each other.
        kind: of cells; one without any finished run is like the others of its kind.
    """

    key: str
    cell: Hashable
    kind: Hashable


class TimeLeft:
    """Expected seconds of a worker's time.

    It keeps what finished runs took: whoever watches a study asks again and again.
    """

    def __init__(self, store: Store, runs: Iterable[TimedRun]) -> None:
        self._store = store
        self._runs = {run.key: run for run in runs}
        self._took: dict[str, float | None] = {}

    @classmethod
    def of(cls, store: Store, studies: Sequence[RecordedStudy]) -> "TimeLeft":
        """For studies that a store records; a run that cells share is the first one's."""
        runs: dict[str, TimedRun] = {}
        for study in studies:
            kind = (study.runner, study.origin)
            for number, cell in enumerate(study.cells):
                for key in cell.runs.values():
                    runs.setdefault(key, TimedRun(key, (study.name, study.origin, number), kind))
        return cls(store, runs.values())

    def seconds(self, states: Mapping[str, RunState]) -> float | None:
        """Seconds by the clock, with the workers that are at it now; None if unknown, or if there are none.

        The end is not before the busiest of them is through with what it has.
        """
        runs = [key for key, state in states.items() if state.state not in _ENDED]
        left = self.rests(runs, states, self.by_cell(states))
        busy: dict[str, float] = {}
        for key, state in states.items():
            if state.state == "running":
                busy[state.worker] = busy.get(state.worker, 0.0) + left.get(key, 0.0)
        if not busy or len(left) < len(runs):
            return None
        return max(sum(left.values()) / len(busy), *busy.values())

    def by_cell(self, states: Mapping[str, RunState]) -> dict[Hashable, float]:
        """Seconds of a run, for the cells of which one has ended or is under way."""
        looked: dict[Hashable, int] = {}
        ended: dict[Hashable, list[float]] = {}
        begun: dict[Hashable, list[float]] = {}
        for key, state in reversed(list(states.items())):
            cell = self._runs[key].cell
            if state.state in FINISHED:
                looked[cell] = looked.get(cell, 0) + 1
                if looked[cell] <= _SAMPLE and (seconds := self._seconds(key)) is not None:
                    ended.setdefault(cell, []).append(seconds)
            elif state.heartbeat is not None and state.heartbeat.seconds is not None:
                begun.setdefault(cell, []).append(state.heartbeat.seconds)
        return {cell: median(seconds) for cell, seconds in (begun | ended).items()}

    def _seconds(self, key: str) -> float | None:
        if key not in self._took:
            self._took[key] = self._store.run(key).seconds()
        return self._took[key]

    def rests(
        self, keys: Iterable[str], states: Mapping[str, RunState], by_cell: Mapping[Hashable, float]
    ) -> dict[str, float]:
        """Seconds left of each run; one of a cell of which nothing is known is like those of the others.

        It takes no less than what one of its cell, of which only the time is known, has taken already.
        """
        kinds: dict[Hashable, dict[Hashable, float]] = {}
        for run in self._runs.values():
            if run.cell in by_cell:
                kinds.setdefault(run.kind, {})[run.cell] = by_cell[run.cell]
        others = {kind: fmean(seconds.values()) for kind, seconds in kinds.items()}
        spent: dict[Hashable, float] = {}
        for key, state in states.items():
            beat, cell = state.heartbeat, self._runs[key].cell
            if beat is not None and beat.done is None and beat.spent is not None:
                spent[cell] = max(spent.get(cell, 0.0), beat.spent)
        left = {}
        for run in (self._runs[key] for key in keys):
            whole, beat = by_cell.get(run.cell, others.get(run.kind)), states[run.key].heartbeat
            if whole is None:
                continue
            whole = max(whole, spent.get(run.cell, 0.0))
            done = (0.0 if beat is None else beat.done) or 0.0
            gone = (beat.spent or 0.0) if beat is not None and beat.done is None else 0.0
            left[run.key] = max(whole * (1 - done) - gone, 0.0)
        return left
