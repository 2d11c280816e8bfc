"""A study that grows until its answer is in: when it is looked at, what ends it, and the looks so far."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

# A variance of fewer seeds tells next to nothing.
FEWEST_SEEDS = 3
# More tell nothing more, and only cost.
MOST_LOOKS = 100
# Of an arm: with more of them the headline's model, whose levels these are, is not used.
MOST_SEEDS = 5000
_PRECISION = re.compile(r"\s*precision\s*=\s*([0-9]+(?:\.[0-9]+)?)\s*")


class SequentialSpec(BaseModel):
    """When a study is looked at, and what ends it.

    Attributes:
        start: seeds of every arm at the first look.
        step: how many are added from one look to the next.
        limit: the most there may be; the last look.
        stop: `decided`: once every comparison is shown, or shown to be small. By default.
        precision: instead, once every ratio is known to this factor either way; also as
            `stop = "precision = 4"`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    start: StrictInt
    step: StrictInt
    limit: StrictInt
    stop: Literal["decided"] | None = None
    precision: float | None = Field(default=None, gt=1)

    @model_validator(mode="before")
    @classmethod
    def _either_way(cls, values: Any) -> Any:
        """`stop = "precision = 4"` says the same as `precision = 4`."""
        stop = values.get("stop") if isinstance(values, dict) else None
        found = _PRECISION.fullmatch(stop) if isinstance(stop, str) else None
        if found is None:
            if stop not in (None, "decided"):
                raise ValueError(f'stop must be "decided" or "precision = 4" (a factor); got {stop!r}')
            return values
        if values.get("precision") is not None:
            raise ValueError("precision is given twice, in stop and by itself")
        return {**values, "stop": None, "precision": float(found[1])}

    @model_validator(mode="after")
    def _can_be_followed(self) -> "SequentialSpec":
        if self.start < FEWEST_SEEDS:
            raise ValueError(f"start must be {FEWEST_SEEDS} seeds or more; got {self.start}")
        if self.step < 1:
            raise ValueError(f"step must be 1 seed or more; got {self.step}")
        if self.limit < self.start:
            raise ValueError(f"limit must be as large as start, {self.start}, or larger; got {self.limit}")
        if self.limit > MOST_SEEDS:
            raise ValueError(f"limit must be {MOST_SEEDS:,} seeds or fewer; got {self.limit:,}")
        looks = 1 - (self.start - self.limit) // self.step  # before `sizes`, which may not fit into memory
        if looks > MOST_LOOKS:
            raise ValueError(f"step = {self.step} makes {looks:,} looks; take at most {MOST_LOOKS}")
        if self.stop and self.precision:
            raise ValueError('give stop = "decided" or precision, not both')
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        """Seeds of every arm at each look."""
        return *range(self.start, self.limit, self.step), self.limit

    @property
    def title(self) -> str:
        """`start 8, step 4, limit 40, until decided`."""
        until = f"a precision of {self.precision:g}" if self.precision else "decided"
        return f"start {self.start}, step {self.step}, limit {self.limit}, until {until}"


@dataclass(frozen=True)
class LookedComparison:
    """What a look said of one comparison; the interval and p count the looks, and are adjusted (Holm).

    `correlation` is that of the arms over their seeds.
    """

    title: str
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    word: str | None
    correlation: float | None = None


@dataclass(frozen=True)
class TakenLook:
    """A look at a study.

    Attributes:
        seeds: of every arm.
        comparisons: what it said of each.
        stop: why the study ended here; empty if it went on.
    """

    seeds: int
    comparisons: tuple[LookedComparison, ...]
    stop: str = ""


@dataclass(frozen=True)
class SequentialRecord:
    """A growing study as a store remembers it.

    Attributes:
        spec: when it is looked at, and what ends it.
        factor: by how much its boundaries are wider than those of normal theory; None until it has begun.
        looks: that were taken.
    """

    spec: SequentialSpec
    factor: float | None = None
    looks: tuple[TakenLook, ...] = ()

    @property
    def stopped(self) -> str:
        """Why it has ended; empty while it goes on."""
        return self.looks[-1].stop if self.looks else ""

    @property
    def seeds(self) -> int:
        """Of every arm: those of the look that is to come, or of the one that ended it."""
        return self.spec.sizes[len(self.looks) - 1 if self.stopped else len(self.looks)]

    @property
    def number(self) -> int:
        """The look whose level holds now: the last that was taken; before the first, the first."""
        return max(1, len(self.looks))


def sequential_values(record: SequentialRecord) -> dict[str, Any]:
    """As JSON has it."""
    looks = [asdict(look) for look in record.looks]
    return record.spec.model_dump(mode="json") | {"factor": record.factor, "looks": looks}


def read_sequential(values: Mapping[str, Any]) -> SequentialRecord:
    """From JSON; raises `ValueError`, `KeyError` or `TypeError` if it is damaged."""
    rest = {name: value for name, value in values.items() if name not in ("factor", "looks")}
    spec = SequentialSpec.model_validate(rest)
    factor = None if values["factor"] is None else float(values["factor"])
    looks = tuple(
        TakenLook(
            int(look["seeds"]),
            tuple(LookedComparison(**comparison) for comparison in look["comparisons"]),
            str(look["stop"]),
        )
        for look in values["looks"]
    )
    in_order = tuple(look.seeds for look in looks) == spec.sizes[: len(looks)]
    usable = 0 < factor < 10 if factor is not None else not looks
    if not in_order or not usable or any(look.stop for look in looks[:-1]):
        raise ValueError("its looks are not those of its rule")
    return SequentialRecord(spec, factor, looks)
