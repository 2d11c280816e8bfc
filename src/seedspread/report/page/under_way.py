"""The runs that are under way, for the live page: how far each is, how fast, and its curves so far."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seedspread.errors import abridged
from seedspread.render.web import environment
from seedspread.runs.store import RunState, Store
from seedspread.runs.studies import load_studies

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
    """

    def __init__(self, store: Path) -> None:
        self._store, self._lock = Store(store), threading.Lock()
        self._html, self._next = "", 0.0

    def html(self) -> str:
        """The runs as a part of the page; nothing if none is under way."""
        with self._lock:
            start = time.monotonic()
            if start >= self._next:
                self._html = render(self._store)
                # A large store is not looked at all the time.
                self._next = start + max(_LOOK_SECONDS, 10 * (time.monotonic() - start))
            return self._html


def render(store: Store) -> str:
    """The runs of a store that are under way, as HTML."""
    states = [state for state in store.running() if state.heartbeat is not None]
    if not states:
        return ""
    names, rows = _rows(states, _names(store))
    speed = sum(row.speed or 0.0 for row in rows)
    template = environment("seedspread.report.page").get_template("under_way.html")
    return template.render(
        rows=rows[:_SHOWN], more=max(len(rows) - _SHOWN, 0), count=len(rows), speed=speed, names=names,
        width=WIDTH, height=HEIGHT, told=any(row.done is not None for row in rows),
    )  # fmt: skip


def _names(store: Store) -> dict[str, str]:
    """Cell and seed of every run that a study of the store names, in the studies' order."""
    return {
        key: f"{cell.name}, seed {seed}"
        for study in load_studies(store)[0]
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
