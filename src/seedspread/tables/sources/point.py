"""Which point of a curve is a run's result: the last, the best, or that of a step."""

import math
from dataclasses import dataclass

from seedspread.tables.sources.run import Better, Curve, SourceError


@dataclass(frozen=True)
class Point:
    """A step, where it has one, and a value."""

    step: float | None
    value: float


@dataclass(frozen=True)
class At:
    """`last`, `best` or `step=N`."""

    word: str
    step: float | None = None

    @classmethod
    def of(cls, text: str) -> "At":
        """From the command line's word."""
        word, _, rest = text.partition("=")
        if word in ("last", "best") and not rest:
            return cls(word)
        try:
            step = float(rest)
            if word != "step" or not math.isfinite(step):
                raise ValueError
        except ValueError:
            raise SourceError(f"at must be best, last or step=N; got {text!r}") from None
        return cls("step", step)

    @property
    def words(self) -> str:
        """For people."""
        return f"step {self.step:g}" if self.step is not None else f"its {self.word} step"

    def choose(self, curve: Curve, better: Better) -> Point | str:
        """The point of a curve, or why it has none."""
        if not curve:
            return "it has no value"
        if self.word == "best":
            finite = [point for point in curve if math.isfinite(point[1])]
            if not finite:
                return "no value of it is a finite number"
            pick = max if better == "higher" else min
            return Point(*pick(finite, key=lambda point: point[1]))
        if self.step is None:
            # A later point of the same step was written later.
            last = max(enumerate(curve), key=lambda p: (-math.inf if p[1][0] is None else p[1][0], p[0]))[1]
            return _finite(Point(*last), "its last value")
        there = [point for point in curve if point[0] == self.step]
        if not there:
            steps = [step for step, _ in curve if step is not None]
            return f"it has no step {self.step:g}" + (
                f"; its last is {max(steps):g}" if steps else ", and no steps"
            )
        return _finite(Point(*there[-1]), f"its value at step {self.step:g}")


def _finite(point: Point, what: str) -> Point | str:
    if math.isfinite(point.value):
        return point
    return f"{what} is {point.value:g}, not a finite number"
