"""Records of a store's studies: written when a study starts to run, so that the store explains itself later.

A record contains every cell with its parameters and every run by its key. Reading it takes no study file, no
data and no runner, and it travels with the store.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictInt,
    TypeAdapter,
    model_validator,
)

from seedspread.atomic import replacing
from seedspread.errors import reason
from seedspread.runs.files import FORMAT, UNREADABLE, FrozenConfig, NewerFormatError, read_record
from seedspread.runs.folder import RunFolder
from seedspread.runs.levels import level_name, setting_name, several
from seedspread.runs.metrics import Metric
from seedspread.runs.run import checked_key
from seedspread.runs.store import RunState, Store, StoreError

# The variance of fewer seeds is next to meaningless.
FEWEST_SEEDS = 3
# More looks increase the error rate and gain nothing.
MOST_LOOKS = 100
# Seeds of a group; with more, the model that the levels come from is not used.
MOST_SEEDS = 5000


class SequentialSpec(FrozenConfig):
    """The schedule of a study's interim looks, and the rule that ends it.

    Attributes:
        start: seeds of every group at the first interim look.
        step: how many seeds are added from one look to the next.
        limit: seeds of every group at the last look, at most.
        stop: `decided` (the default): stop once every comparison is YES or NO.
        precision: instead, stop once every ratio is known to this factor either way.
    """

    start: StrictInt
    step: StrictInt
    limit: StrictInt
    stop: Literal["decided"] | None = None
    precision: float | None = Field(default=None, gt=1)

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
        """Seeds of every group at each interim look."""
        return *range(self.start, self.limit, self.step), self.limit

    @property
    def title(self) -> str:
        """`start 8, step 4, limit 40, until decided`."""
        until = f"a precision of {self.precision:g}" if self.precision else "decided"
        return f"start {self.start}, step {self.step}, limit {self.limit}, until {until}"


@dataclass(frozen=True)
class LookComparison:
    """The result of an interim look for one comparison.

    The interval and p account for the looks and are adjusted; `correlation` is over the groups' seeds.
    """

    title: str
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    word: str | None
    correlation: float | None = None


@dataclass(frozen=True)
class LookRecord:
    """An interim look, with its number of seeds per group; `stop` is why the study ended here, if it did."""

    seeds: int
    comparisons: tuple[LookComparison, ...]
    stop: str = ""


@dataclass(frozen=True)
class SequentialRecord:
    """A sequential study as a store records it.

    `factor` is how much wider its boundaries are than those of normal theory; None until it has begun.
    """

    spec: SequentialSpec
    factor: float | None = None
    looks: tuple[LookRecord, ...] = ()

    @property
    def stopped(self) -> str:
        """The reason why it has ended; empty while it goes on."""
        return self.looks[-1].stop if self.looks else ""

    @property
    def seeds(self) -> int:
        """Seeds per group at the next interim look, or at the one that ended it."""
        return self.spec.sizes[len(self.looks) - 1 if self.stopped else len(self.looks)]

    @property
    def number(self) -> int:
        """Number of the interim look whose level applies: the last one taken, or else the first."""
        return max(1, len(self.looks))


def sequential_values(record: SequentialRecord) -> dict[str, Any]:
    looks = [asdict(look) for look in record.looks]
    return record.spec.model_dump(mode="json") | {"factor": record.factor, "looks": looks}


def read_sequential(values: Mapping[str, Any]) -> SequentialRecord:
    """Read what `sequential_values` returns; `ValueError`, `KeyError` or `TypeError` if it is damaged."""
    rest = {name: value for name, value in values.items() if name not in ("factor", "looks")}
    spec = SequentialSpec.model_validate(rest)
    factor = None if values["factor"] is None else float(values["factor"])
    looks = TypeAdapter(tuple[LookRecord, ...]).validate_python(values["looks"])
    in_order = tuple(look.seeds for look in looks) == spec.sizes[: len(looks)]
    usable = 0 < factor < 10 if factor is not None else not looks
    if not in_order or not usable or any(look.stop for look in looks[:-1]):
        raise ValueError("its looks are not those of its rule")
    return SequentialRecord(spec, factor, looks)


STUDIES = ".studies"
_Key = Annotated[str, AfterValidator(checked_key)]
_Sequential = Annotated[SequentialRecord, PlainValidator(read_sequential), PlainSerializer(sequential_values)]


def _as_text(value: object) -> object:
    return level_name(value) if isinstance(value, str | bool | int | float) else value


class AuditSpec(FrozenConfig):
    """The comparison that a study is about, by its factors' names.

    Attributes:
        group: the factor whose levels are compared.
        baseline: the level that the others are compared with; a number stands for its text.
        block: a factor, or several, varied within a seed.
        by: a factor, or several, whose levels are audited separately; `study` in a collection.
        value: the metric, or several, the main one first.
    """

    group: str
    baseline: Annotated[str, BeforeValidator(_as_text)]
    block: str | tuple[str, ...] = ()
    by: str | tuple[str, ...] | None = None
    value: str | Annotated[tuple[str, ...], Field(min_length=1)] = "accuracy"

    @property
    def blocks(self) -> tuple[str, ...]:
        return several(self.block)

    @property
    def strata(self) -> tuple[str, ...]:
        return several(self.by)

    @property
    def values(self) -> tuple[str, ...]:
        return several(self.value)

    @property
    def factors(self) -> tuple[str, ...]:
        return (self.group, *self.blocks, *self.strata)


@dataclass(frozen=True)
class RecordedCell:
    """A cell of a study: the levels of its factors, its runs' parameters, and their keys by seed.

    Parameters are plain values, unless a reader that has their runner has converted them.
    """

    levels: Annotated[Mapping[str, Any], Field(alias="cell")]
    parameters: Annotated[Any, Field(alias="config")]
    runs: Mapping[int, _Key]

    @property
    def title(self) -> str:
        """`clamp, detach`."""
        return ", ".join(level_name(level) for level in self.levels.values())

    @property
    def name(self) -> str:
        """`margin_type = clamp, stability = detach`."""
        return setting_name(self.levels.items())

    @property
    def titles(self) -> dict[str, str]:
        """Cell and seed of each run, by key."""
        return {key: f"{self.name}, seed {seed}" for seed, key in self.runs.items()}

    def named(self, states: Mapping[str, RunState]) -> dict[str, RunState]:
        """Return the states of its runs, each named by its cell and seed."""
        return {key: replace(states[key], name=title) for key, title in self.titles.items()}


@dataclass(frozen=True)
class RecordedStudy:
    """A single study as a store records it.

    Attributes:
        threads: CPU threads of each run, if its parameters do not set them.
        metrics: those that it declares.
        accepted: runs that are kept although they were made with other inputs, by the planned keys.
        origin: the code it runs; studies that differ in it are distinct, even under one name.
        sequential: its rule and its interim looks.
        question: the question that it is to answer.
        prediction: the answer that was expected before it ran.
    """

    name: str
    title: str
    note: str
    audit: AuditSpec | None
    runner: str
    cells: tuple[RecordedCell, ...]
    threads: int | None = None
    metrics: tuple[Metric, ...] = ()
    accepted: Mapping[_Key, _Key] = field(default_factory=dict)
    origin: str = ""
    sequential: _Sequential | None = None
    question: str = ""
    prediction: str = ""

    @property
    def asked(self) -> list[str]:
        """Question and prediction as lines."""
        both = {"Question": self.question, "Prediction": self.prediction}
        return [f"{name}: {text}" for name, text in both.items() if text]

    @property
    def at_last_look(self) -> "RecordedStudy":
        """Return the study with the runs of its last interim look; with all of its runs before the first."""
        if self.sequential is None or not self.sequential.looks:
            return self
        seeds = self.sequential.looks[-1].seeds
        cells = (replace(cell, runs=dict(islice(cell.runs.items(), seeds))) for cell in self.cells)
        return replace(self, cells=tuple(cells))

    @property
    def keys(self) -> tuple[str, ...]:
        """The key of every run, once."""
        return tuple(dict.fromkeys(key for cell in self.cells for key in cell.runs.values()))


@cache
def _record() -> TypeAdapter[RecordedStudy]:
    """Return the format of a study's file; building it is slow, and an audit of a table does not need it."""
    return TypeAdapter(RecordedStudy)


def save_study(store: Store, study: RecordedStudy) -> None:
    """Record a study, replacing an older one of the same name."""
    path = _path(store, study.name, study.origin)
    if path.parent.is_symlink():
        raise StoreError(f"{path.parent} is a link, which would lead out of the store: remove it")
    if recorded_study(store, study.name, study.origin) == study:
        return
    values = {"format": FORMAT} | _record().dump_python(study, mode="json", by_alias=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(json.dumps(values, indent=1) + "\n")
    except OSError as error:
        raise StoreError(f"the store {store.path} cannot be written: {reason(error)}") from None


def recorded_study(store: Store, name: str, origin: str = "") -> RecordedStudy | None:
    """Return a study as the store records it; None if there is no record, or it is damaged."""
    try:
        return _read(_path(store, name, origin))
    except NewerFormatError:
        raise
    except UNREADABLE:
        return None


def _path(store: Store, name: str, origin: str) -> Path:
    identity = f"{name} {origin}" if origin else name
    return store.path / STUDIES / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"


def load_studies(store: Store) -> tuple[list[RecordedStudy], list[str]]:
    """Return all studies of a store, by name, and a line on each record that cannot be read."""
    studies, problems = [], []
    for path in _paths(store.path):
        try:
            studies.append(_read(path))
        except UNREADABLE as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            problems.append(f"{path} is not a readable record of a study: {reason}")
    return sorted(studies, key=lambda study: study.name), problems


def stale_runs(store: Store) -> set[str]:
    """Return finished runs that no study names anymore, if another run differs in input files only."""
    named = {key for study in load_studies(store)[0] for key in study.keys}
    bases = {key: base for key in store.keys() if (base := store.run(key).base_key()) is not None}  # noqa: SIM118
    current = {base for key, base in bases.items() if key in named}
    return {key for key, base in bases.items() if key not in named and base in current}


def declared_metric(store: Store, name: str) -> Metric | None:
    declared = (metric for study in load_studies(store)[0] for metric in study.metrics)
    return next((metric for metric in declared if metric.name == name), None)


def _read(path: Path) -> RecordedStudy:
    study = _record().validate_python(read_record(str(path.parent), path.name))
    factors = {factor for cell in study.cells for factor in cell.levels}
    if study.audit is not None and not set(study.audit.factors) <= factors:
        raise ValueError("its audit names something that is not a factor")
    return study


def store_marks(store: Path) -> tuple[list[str], bool]:
    """Return marks that change if a run begins, ends or fails, or a study is added; and if any is active.

    This reads no file.
    """
    seen, under_way = [], False
    try:
        with os.scandir(store) as entries:
            names = sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
        for name in names:
            marks, at_work = RunFolder(store / name).marks()
            seen += [f"{name}/{mark}" for mark in marks]
            under_way |= at_work
        seen += [f"{path.name} {path.stat().st_mtime_ns}" for path in _paths(store)]
    except OSError:
        pass  # files come and go while runs are under way; the next look will do
    return seen, under_way


def _paths(store: Path) -> list[Path]:
    """Return the files of the records; hidden ones were being written when a study was killed."""
    return sorted(path for path in (store / STUDIES).glob("*.json") if not path.name.startswith("."))
