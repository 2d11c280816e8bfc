"""The runs that are under way, for the live page: how far each is, how fast, and its curves so far."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seedspread.errors import abridged
from seedspread.render.web import environment
from seedspread.runs.store import FINISHED, RunState, Store
from seedspread.runs.studies import RecordedStudy, load_studies
from seedspread.runs.time_left import TimeLeft, duration

_SHOWN = 24
_LOOK_SECONDS = 1.0
_WHERE_WIDTH = 80
# Of a curve's picture, in its own units.
WIDTH, HEIGHT = 120, 30


@dataclass(frozen=True)
class Curve:
    """A curve as a picture: the points of its line, and its last value."""

    points: str
    last: str


@dataclass(frozen=True)
class _Scale:
    """What the pictures of one curve share: its values' range, and the length of the longest."""

    low: float
    high: float
    longest: int

    @classmethod
    def of(cls, curves: list[Sequence[float]]) -> "_Scale":
        values = [value for curve in curves for value in curve]
        return cls(min(values), max(values), max(map(len, curves)))

    def picture(self, curve: Sequence[float]) -> Curve | None:
        if not curve:
            return None
        across, up = WIDTH / max(self.longest - 1, 1), HEIGHT / ((self.high - self.low) or 1.0)
        points = [f"{across * i:.1f},{up * (self.high - value):.1f}" for i, value in enumerate(curve)]
        return Curve(" ".join(points), f"{curve[-1]:.3g}")


@dataclass(frozen=True)
class RunUnderWay:
    """A row: the run's cell and seed, how far it is, and a curve or None for each that any run has."""

    name: str
    done: float | None
    where: str
    speed: float | None
    curves: tuple[Curve | None, ...]


class UnderWay:
    """Looks at a store when it is asked, and not more often than every second.

    Args:
        store: where the runs are.
        studies: whose time left is told; by default those of which a run is under way.
    """

    def __init__(self, store: Path, studies: Sequence[RecordedStudy] = ()) -> None:
        self._store, self._studies, self._lock = Store(store), tuple(studies), threading.Lock()
        self._html, self._next = "", 0.0
        self._finished: dict[str, RunState] = {}
        self._time: tuple[tuple[RecordedStudy, ...], TimeLeft] | None = None

    def html(self) -> str:
        """The runs as a part of the page; nothing if none is under way."""
        with self._lock:
            start = time.monotonic()
            if start >= self._next:
                self._html = self._render()
                # A large store is not looked at all the time.
                self._next = start + max(_LOOK_SECONDS, 10 * (time.monotonic() - start))
            return self._html

    def _render(self) -> str:
        running = self._store.running()
        states = [state for state in running if state.heartbeat is not None]
        if not states:
            return ""
        studies = load_studies(self._store)[0]
        names, rows = _rows(states, _names(studies))
        left = self._seconds_left(self._studies or _under_way(studies, running))
        template = environment("seedspread.report.page").get_template("under_way.html")
        return template.render(
            rows=rows[:_SHOWN], more=max(len(rows) - _SHOWN, 0), count=len(rows), names=names, width=WIDTH,
            height=HEIGHT, speed=sum(row.speed or 0.0 for row in rows),
            told=any(row.done is not None for row in rows), left="" if left is None else duration(left),
        )  # fmt: skip

    def _seconds_left(self, studies: tuple[RecordedStudy, ...]) -> float | None:
        """As `seedspread status` estimates it; a run that is done stays so."""
        if self._time is None or self._time[0] != studies:
            self._time = studies, TimeLeft.of(self._store, studies)
        keys = dict.fromkeys(key for study in studies for key in study.keys)
        states = {key: self._finished.get(key) or self._store.state(key) for key in keys}
        self._finished |= {key: state for key, state in states.items() if state.state in FINISHED}
        return self._time[1].seconds(states)


def _under_way(studies: Sequence[RecordedStudy], running: Sequence[RunState]) -> tuple[RecordedStudy, ...]:
    keys = {state.key for state in running}
    return tuple(study for study in studies if keys & set(study.keys))


def _names(studies: Sequence[RecordedStudy]) -> dict[str, str]:
    """Cell and seed of every run that a study of the store names, in the studies' order."""
    return {
        key: f"{cell.name}, seed {seed}"
        for study in studies
        for cell in study.cells
        for seed, key in cell.runs.items()
    }


def _rows(states: list[RunState], names: dict[str, str]) -> tuple[list[str], list[RunUnderWay]]:
    """The names of all curves, and a row per run; a curve's pictures share their scale."""
    order = {key: number for number, key in enumerate(names)}
    states.sort(key=lambda state: (order.get(state.key, len(order)), state.key))
    beats = [state.heartbeat for state in states if state.heartbeat is not None]
    curves = list(dict.fromkeys(name for beat in beats for name, values in beat.curves.items() if values))
    scales = {name: _Scale.of([beat.curves.get(name, ()) for beat in beats]) for name in curves}
    rows = [
        RunUnderWay(
            names.get(state.key, state.key),
            beat.done,
            abridged(beat.where, _WHERE_WIDTH),
            beat.images_per_second,
            tuple(scales[name].picture(beat.curves.get(name, ())) for name in curves),
        )
        for state, beat in zip(states, beats, strict=True)
    ]
    return curves, rows
