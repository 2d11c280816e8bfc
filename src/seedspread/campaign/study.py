"""A study as data: what is run, factors, seeds, and the comparison that is to be audited. Needs no torch."""

import math
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, StrictInt, ValidationError, field_validator

from seedspread.config import FrozenConfig
from seedspread.errors import SeedspreadError, did_you_mean, short
from seedspread.runners import runner_of_study
from seedspread.runners.contract import Level, Runner, RunnerError
from seedspread.runs.studies import AuditSpec
from seedspread.toml_text import MAX_BYTES, TomlError, parse_toml, read_toml

Cell = dict[str, Level]

# Runs that a study may name unless more are asked for.
MAX_RUNS = 20_000
_STACK_LIMIT = 64
_SEED_LIMIT = 2**63
_INCLUDE_DEPTH = 16


class StudyError(SeedspreadError):
    """A study that cannot be: the message names the file and the field."""


class CampaignSpec(FrozenConfig):
    """How a study's runs are run; it alters no result.

    Attributes:
        stack: how many runs of one shape a worker trains as one program: a number, 1 for each alone, or
            `auto` for several where that pays. Local engine; `runtime.implementation = "fast"`.
    """

    stack: Literal["auto"] | int = "auto"

    @field_validator("stack", mode="before")
    @classmethod
    def _a_number_of_runs(cls, value: object) -> object:
        if value == "auto" or (type(value) is int and 1 <= value <= _STACK_LIMIT):
            return value
        raise ValueError(f'must be "auto" or a number from 1 to {_STACK_LIMIT}; got {value!r}')


class StudyFile(FrozenConfig):
    """What stands in a study's file; either `preset` with `factors` or `cells`, or `include`."""

    title: str
    preset: str | None = None
    seeds: tuple[StrictInt, ...] = ()
    settings: dict[str, Level] = Field(default_factory=dict)
    factors: dict[str, tuple[Level, ...]] = Field(default_factory=dict)
    cells: tuple[Cell, ...] = ()
    include: tuple[str, ...] = ()
    audit: AuditSpec | None = None
    campaign: CampaignSpec = CampaignSpec()
    note: str = ""


@dataclass(frozen=True)
class StudyCell:
    """A cell of a study: the levels of its factors, and the parameters that its runs share."""

    levels: tuple[tuple[str, Level], ...]
    parameters: Any


@dataclass(frozen=True)
class Study:
    """A study, or a collection of studies.

    Attributes:
        name: by which it is called.
        title: what it is about.
        runner: what runs it.
        cells: what is compared; none in a collection.
        seeds: with which every cell is run.
        audit: the comparison that it is about.
        note: what to know about it.
        included: the studies of a collection, each with its own comparison; none in a single study.
        stack: how many runs are run together by a worker (`CampaignSpec`).
    """

    name: str
    title: str
    runner: Runner
    cells: tuple[StudyCell, ...]
    seeds: tuple[int, ...]
    audit: AuditSpec | None
    note: str = ""
    included: tuple["Study", ...] = ()
    stack: Literal["auto"] | int = "auto"

    @classmethod
    def from_file(cls, name: "str | Path", max_runs: int = MAX_RUNS) -> "Study":
        """A shipped study by name (`mini/cifar10-factorial`), or a .toml file.

        `StudyError` if it names more than `max_runs` runs, all that it includes among them.
        """
        files = _StudyFiles(max_runs)
        runs = files.count(str(name))
        if runs > max_runs:
            count = f"{runs:,}" if runs < 10**15 else "more than 10^15"
            raise StudyError(f"{name} names {count} runs; the limit is {max_runs:,}, which --max-runs raises")
        return files.build(str(name))

    @property
    def parts(self) -> tuple["Study", ...]:
        """The single studies in it: itself, or all that a collection includes."""
        return tuple(p for study in self.included for p in study.parts) or (self,)


def study_names() -> list[str]:
    """All shipped studies, sorted."""
    root = files("seedspread.studies")
    names = [file.name for file in root.iterdir()]
    names += [f"{d.name}/{f.name}" for d in root.iterdir() if d.is_dir() for f in d.iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


class _StudyFiles:
    """A study's file and those that it includes: read once each, and counted before a run is made."""

    def __init__(self, max_runs: int) -> None:
        self._max_bytes = max(MAX_BYTES, 100 * max_runs)
        self._files: dict[str, StudyFile] = {}
        self._counts: dict[str, int] = {}
        self._studies: dict[str, Study] = {}

    def count(self, name: str, within: tuple[str, ...] = ()) -> int:
        """How many runs a study names; `within` are the files that have led to it."""
        if name in within:
            raise StudyError(f"{name} includes itself")
        if len(within) > _INCLUDE_DEPTH:
            raise StudyError(f"{within[0]}: studies are included over more than {_INCLUDE_DEPTH} files")
        if name not in self._counts:
            file = self._files[name] = self._read(name)
            _check_parts(name, file)
            cells = len(file.cells) or math.prod(len(levels) for levels in file.factors.values())
            included = sum(self.count(part, (*within, name)) for part in file.include)
            self._counts[name] = included if file.include else cells * len(file.seeds)
        return self._counts[name]

    def build(self, name: str) -> Study:
        """A study that has been counted."""
        if name not in self._studies:
            included = tuple(self.build(part) for part in self._files[name].include)
            self._studies[name] = _build(name, self._files[name], included)
        return self._studies[name]

    def _read(self, name: str) -> StudyFile:
        try:
            if name.endswith(".toml"):
                values = read_toml(name, self._max_bytes)
            else:
                values = parse_toml(_shipped(name), name)
            return StudyFile.model_validate(values)
        except TomlError as error:
            raise StudyError(f"{error}; give a study's name or a .toml file") from None
        except ValidationError as error:
            raise StudyError(f"{name}: {_explain(error)}") from None


def _shipped(name: str) -> str:
    names = study_names()
    if name not in names:
        raise StudyError(
            f"no study is named {name!r}{did_you_mean(name, names)} There are: {', '.join(names)}; "
            "or give a .toml file"
        )
    return (files("seedspread.studies") / f"{name}.toml").read_text()


def _check_parts(name: str, file: StudyFile) -> None:
    """A study has parts of its own, or includes others."""
    own = file.preset or file.factors or file.cells or file.seeds or "campaign" in file.model_fields_set
    if file.include and own:
        raise StudyError(
            f"{name}: a study that includes others has no preset, factors, cells, seeds or campaign"
        )
    if file.factors and file.cells:
        raise StudyError(f"{name}: give factors (crossed) or cells (a list), not both")


def _explain(error: ValidationError) -> str:
    # A name that is not known explains a name that is missing.
    errors = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        parts: dict[str, type[BaseModel]] = {"audit": AuditSpec, "campaign": CampaignSpec}
        fields = parts.get(str(first["loc"][0]), StudyFile).model_fields
        return f"{where}: no such field{did_you_mean(str(first['loc'][-1]), fields)}"
    where = ".".join(str(part) for part in first["loc"] if str(part) not in ("str", "int", "float", "bool"))
    reason = first["msg"].removeprefix("Value error, ").replace("tuple", "list")
    got = "" if first["type"] in ("missing", "value_error") else f"; got {short(first['input'])}"
    return f"{where}: {reason}{got}"


def _build(name: str, file: StudyFile, included: tuple[Study, ...]) -> Study:
    title = Path(name).stem if name.endswith(".toml") else name
    runner = runner_of_study()
    if included:
        study = Study(title, file.title, runner, (), (), file.audit, file.note, included)
    else:
        try:
            cells = _study_cells(name, file, runner)
        except RunnerError as error:
            raise StudyError(f"{name}: {error}") from None
        study = Study(
            title, file.title, runner, cells, file.seeds, file.audit, file.note, (), file.campaign.stack
        )
    _check_audit(name, study)
    return study


def _study_cells(name: str, file: StudyFile, runner: Runner) -> tuple[StudyCell, ...]:
    if not file.seeds:
        raise StudyError(f"{name}: seeds is missing; list them, such as seeds = [1, 2, 3, 4, 5]")
    wrong = [seed for seed in file.seeds if not 0 <= seed < _SEED_LIMIT]
    if wrong:
        raise StudyError(f"{name}: seeds must lie between 0 and 2^63; got {wrong[0]}")
    _refuse_repeats(f"{name}: seeds", file.seeds)
    cells = _cells(name, file)
    _check_fields(name, file, cells, runner)
    settings = {runner.full_name(field): level for field, level in file.settings.items()}
    out = []
    for cell in cells:
        full = {runner.full_name(factor): level for factor, level in cell.items()}
        levels = tuple((runner.short_name(field), level) for field, level in full.items())
        out.append(StudyCell(levels, runner.parameters(file.preset, settings | full)))
    return tuple(out)


def _cells(name: str, file: StudyFile) -> list[Cell]:
    if not file.factors and not file.cells:
        raise StudyError(f"{name}: there is nothing to compare; give factors or cells")
    for factor, levels in file.factors.items():
        if not levels:
            raise StudyError(f"{name}: factors.{factor} has no levels")
        _refuse_repeats(f"{name}: factors.{factor}", levels)
    crossed = [dict(zip(file.factors, levels, strict=True)) for levels in product(*file.factors.values())]
    cells = list(file.cells) or crossed
    times = Counter(frozenset(cell.items()) for cell in cells)
    repeated = [cell for cell in cells if times[frozenset(cell.items())] > 1]
    if repeated:
        raise StudyError(f"{name}: cells has {repeated[0]} twice")
    if len({tuple(sorted(cell)) for cell in cells}) > 1:
        raise StudyError(f"{name}: every cell must set the same fields")
    return cells


def _refuse_repeats(where: str, values: tuple[Level, ...]) -> None:
    repeated = [value for value, times in Counter(values).items() if times > 1]
    if repeated:
        raise StudyError(f"{where} has {repeated[0]!r} twice")


def _check_fields(name: str, file: StudyFile, cells: list[Cell], runner: Runner) -> None:
    """Each parameter has one role: not two names for one factor, not a factor and a setting."""
    factors = [runner.full_name(field) for field in (cells[0] if cells else {})]
    full = factors + [runner.full_name(field) for field in file.settings]
    twice = [field for field, times in Counter(full).items() if times > 1]
    if twice:
        raise StudyError(f"{name}: {twice[0]} is given twice, among factors, cells and settings")
    if not factors:
        raise StudyError(f"{name}: there is nothing to compare; cells set no field")


def _check_audit(name: str, study: Study) -> None:
    audit = study.audit
    if audit is None:
        return
    levels: dict[str, set[str]] = {"study": {part.name for part in study.parts}} if study.included else {}
    for factor, level in (pair for part in study.parts for cell in part.cells for pair in cell.levels):
        levels.setdefault(factor, set()).add(str(level))
    for wanted in audit.factors:
        if wanted not in levels:
            raise StudyError(
                f"{name}: audit names {wanted!r}, which is no factor{did_you_mean(wanted, levels)} "
                f"(factors are {', '.join(sorted(levels))})"
            )
    metrics = study.runner.metrics
    if audit.value not in metrics:
        hint = did_you_mean(audit.value, metrics)
        raise StudyError(
            f"{name}: audit.value {audit.value!r} is no metric{hint} (there are {', '.join(metrics)})"
        )
    compared = levels[audit.group]
    if audit.reference not in compared:
        hint = did_you_mean(audit.reference, compared)
        raise StudyError(f"{name}: audit.reference {audit.reference!r} is no level of {audit.group}{hint}")
