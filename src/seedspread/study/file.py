"""What may stand in a study's file, checked field by field."""

import math
import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)

from seedspread.errors import did_you_mean, short
from seedspread.runners.contract import Level
from seedspread.runs.frozen import FrozenConfig
from seedspread.runs.metrics import Metric, metric_of
from seedspread.runs.plugins import plugins
from seedspread.runs.sequential import SequentialSpec
from seedspread.runs.studies import AuditSpec

Cell = dict[str, Level]

STACK_LIMIT = 64
SEED_LIMIT = 2**63
_THREAD_LIMIT = 1024
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|d)")


def _seconds(value: object) -> object:
    """`90`, `"90s"`, `"30 min"`, `"2h"`, `"1.5d"` as seconds."""
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = float(match[1]) * _UNITS[match[2]] if match else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise ValueError(f'must be a time such as "2h", "30m" or 90 (seconds); got {value!r}')
    return float(seconds)


def _words(value: object) -> object:
    """A command as a list of words; a text is split as a shell would."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}; give a list of words") from None
    if (
        not isinstance(words, list | tuple)
        or not words
        or not all(isinstance(w, str) for w in words)
        or not words[0]
    ):
        raise ValueError('must be a text or a list of words, such as "python train.py --seed {seed}"')
    if any("\0" in word for word in words):
        raise ValueError("must not contain a null character")
    return tuple(words)


def _seeds(value: object) -> object:
    """How many, or a list."""
    if isinstance(value, str | float | bool) or (isinstance(value, int) and value < 1):
        raise ValueError(f"must be a number from 1 on, or a list; got {short(value)}")
    return value


class RunSpec(FrozenConfig):
    """How a program is run.

    Attributes:
        command: its words, or a text that is split as a shell would; `{seed}`, `{folder}` and every parameter
            are replaced.
        inputs: patterns of files whose content is part of a run's identity.
        environment: names of variables whose values are.
        timeout: how long a run may take, such as `"2h"`.
    """

    command: Annotated[tuple[str, ...], BeforeValidator(_words)] | None = None
    inputs: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout: Annotated[float, BeforeValidator(_seconds)] | None = None


class MetricSpec(FrozenConfig):
    """What is known of a metric; a direction that is not given is told from the name."""

    better: Literal["higher", "lower"] | None = None
    unit: str | None = None
    chance: float | None = None
    title: str = ""

    def metric(self, name: str) -> Metric:
        """The metric of that name."""
        guess = metric_of(name)
        return Metric(
            name=name,
            title=self.title or guess.title,
            unit={"%": "per cent", "percent": "per cent"}.get(self.unit or "", self.unit) or guess.unit,
            better=self.better or guess.better,
            chance=self.chance,
        )


class EngineSpec(FrozenConfig):
    """How a study's runs are run: not what they are.

    Attributes:
        stack: how many runs of one shape a worker trains as one program: a number, 1 for each alone, or
            `auto` for several where that pays. Local engine; `runtime.implementation = "fast"`.
        threads: CPU threads of a run; None for one, or what the command says.
    """

    stack: Literal["auto"] | int = "auto"
    threads: int | None = Field(default=None, ge=1, le=_THREAD_LIMIT, strict=True)

    @field_validator("stack", mode="before")
    @classmethod
    def _a_number_of_runs(cls, value: object) -> object:
        if value == "auto" or (type(value) is int and 1 <= value <= STACK_LIMIT):
            return value
        raise ValueError(f'must be "auto" or a number from 1 to {STACK_LIMIT}; got {value!r}')


class StudyFile(FrozenConfig):
    """What stands in a study's file.

    A single study has something to run (`run.command` or `runner`), `factors` or `cells`, and `seeds`; a
    collection has `include`. `runner` names a function, `module:function`, or a runner that a package
    brings, which may have presets. `question` and `prediction` are for who reads the answer.
    """

    title: str = ""
    preset: str | None = None
    runner: str | None = None
    run: RunSpec | None = None
    seeds: Annotated[StrictInt | tuple[StrictInt, ...], BeforeValidator(_seeds)] = ()
    vary: tuple[str, ...] = ()
    settings: dict[str, Level] = Field(default_factory=dict)
    factors: dict[str, tuple[Level, ...]] = Field(default_factory=dict)
    cells: tuple[Cell, ...] = ()
    metrics: dict[str, MetricSpec] = Field(default_factory=dict)
    include: tuple[str, ...] = ()
    audit: AuditSpec | None = None
    engine: EngineSpec = EngineSpec()
    sequential: SequentialSpec | None = None
    note: str = ""
    question: str = ""
    prediction: str = ""

    @model_validator(mode="after")
    def _one_thing_to_run(self) -> "StudyFile":
        command = self.run is not None and self.run.command is not None
        if command and self.runner:
            raise ValueError("give runner or run.command, not both: a study runs one thing")
        if self.preset and self.plugin is None:
            names = " or ".join(f'runner = "{name}"' for name in plugins("runners"))
            raise ValueError(f"a preset is for a runner that has presets: add {names}")
        if self.run is not None and self.plugin:
            raise ValueError(f"[run] is for a program or a function; {self.plugin} has none")
        if self.run is not None and not command and not self.runner:
            raise ValueError('run.command is missing, such as command = "python train.py --seed {seed}"')
        return self

    @property
    def plugin(self) -> str | None:
        """The runner's name, if a package brings it; None for a function or a program."""
        return self.runner if self.runner is not None and ":" not in self.runner else None

    @model_validator(mode="after")
    def _looks_at_something(self) -> "StudyFile":
        if self.sequential is None:
            return self
        if self.audit is None:
            raise ValueError("sequential: nothing is compared, so nothing can be decided; give it an [audit]")
        if self.seeds and self._named < self.sequential.limit:
            raise ValueError(
                f"sequential.limit is {self.sequential.limit}, and seeds names {self._named}: leave seeds "
                "out, or name as many"
            )
        return self

    @property
    def _named(self) -> int:
        return self.seeds if isinstance(self.seeds, int) else len(self.seeds)

    @property
    def seed_count(self) -> int:
        """How many seeds each cell has, at most."""
        return self._named if self.sequential is None else self.sequential.limit

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds: a number of them stands for 1, 2, ... up to it."""
        if isinstance(self.seeds, int) or (self.sequential is not None and not self.seeds):
            return tuple(range(1, self.seed_count + 1))
        return self.seeds[: self.seed_count]

    @property
    def promised(self) -> tuple[Metric, ...]:
        """The metrics that its runs must report: those it names, or those that it audits."""
        if self.metrics:
            return tuple(spec.metric(name) for name, spec in self.metrics.items())
        return tuple(metric_of(name) for name in (self.audit.values if self.audit else ()))


# What to write where a field is missing.
_MISSING = {
    "audit.group": "; name the factor whose levels are compared",
    "audit.baseline": "; name the level that the others are compared with",
}


# Former names, by what they are called now.
_RENAMED = {"campaign": "engine", "audit.reference": "baseline"}


def explain(error: ValidationError) -> str:
    """What is wrong with a study's file, in one line that names the field."""
    # A name that is not known explains a name that is missing.
    first = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")[0]
    location = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        where = ".".join(location)
        if where in _RENAMED:
            return f"{where}: no such field; it is called {_RENAMED[where]} now"
        return f"{where}: no such field{did_you_mean(location[-1], _fields_at(location[:-1]))}"
    where = ".".join(part for part in location if part not in ("str", "int", "float", "bool"))
    if (len(location) > 2 and location[0] in ("factors", "cells")) or location[:1] == ["settings"]:
        return f"{where}: must be a text, a finite number, or true or false; got {short(first['input'])}"
    if first["type"] == "missing":
        return f"{where} is missing{_MISSING.get(where, '')}"
    message = first["msg"].removeprefix("Value error, ").replace("tuple", "list")
    got = "" if first["type"] == "value_error" else f"; got {short(first['input'])}"
    return f"{where}: {message}{got}" if where else message


def _fields_at(location: list[str]) -> Any:
    parts: dict[str, type[BaseModel]] = {
        "audit": AuditSpec, "engine": EngineSpec, "run": RunSpec, "metrics": MetricSpec,
        "sequential": SequentialSpec,
    }  # fmt: skip
    return parts.get(location[0] if location else "", StudyFile).model_fields
