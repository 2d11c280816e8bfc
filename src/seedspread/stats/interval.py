"""An interval: what every estimate here comes with."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A confidence interval; `high` is infinite where the data set no upper bound."""

    low: float
    high: float
    level: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Estimate:
    """A number and its interval, which is None where the data give none."""

    value: float
    interval: Interval | None = None
