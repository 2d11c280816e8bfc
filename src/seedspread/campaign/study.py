"""A study as data: what is run, factors, seeds, and the comparison that is to be audited. Needs no torch."""

import tomllib
from collections import Counter
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator

from seedspread.config import FrozenConfig
from seedspread.errors import SeedspreadError, did_you_mean
from seedspread.runners import runner_of_study
from seedspread.runners.contract import Level, Runner, RunnerError
from seedspread.runs.studies import AuditSpec

Cell = dict[str, Level]

_STACK_LIMIT = 64
_THREAD_LIMIT = 1024
_SEED_LIMIT = 2**63


class StudyError(SeedspreadError):
    """A study that cannot be: the message names the file and the field."""


class CampaignSpec(FrozenConfig):
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
        if value == "auto" or (type(value) is int and 1 <= value <= _STACK_LIMIT):
            return value
        raise ValueError(f'must be "auto" or a number from 1 to {_STACK_LIMIT}; got {value!r}')


class StudyFile(FrozenConfig):
    """What stands in a study's file; either `preset` with `factors` or `cells`, or `include`."""

    title: str
    preset: str | None = None
    seeds: tuple[int, ...] = ()
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
        campaign: how its runs are run.
    """

    name: str
    title: str
    runner: Runner
    cells: tuple[StudyCell, ...]
    seeds: tuple[int, ...]
    audit: AuditSpec | None
    note: str = ""
    included: tuple["Study", ...] = ()
    campaign: CampaignSpec = field(default_factory=CampaignSpec)

    @classmethod
    def from_file(cls, name: "str | Path") -> "Study":
        """A shipped study by name (`mini/cifar10-factorial`), or a .toml file."""
        return _build(str(name), _read(str(name)), ())

    @property
    def parts(self) -> tuple["Study", ...]:
        """The single studies in it: itself, or all that a collection includes."""
        return tuple(p for study in self.included for p in study.parts) or (self,)


def study_names() -> list[str]:
    """All shipped studies, sorted."""
    root = files("seedspread.studies")
    found = [file.name for file in root.iterdir()]
    found += [f"{d.name}/{f.name}" for d in root.iterdir() if d.is_dir() for f in d.iterdir()]
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def _read(name: str) -> StudyFile:
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not a text file"
            raise StudyError(f"{name}: {reason}; give a study's name or a .toml file") from None
    else:
        names = study_names()
        if name not in names:
            raise StudyError(
                f"no study is named {name!r}{did_you_mean(name, names)} There are: {', '.join(names)}; "
                "or give a .toml file"
            )
        text = (files("seedspread.studies") / f"{name}.toml").read_text()
    try:
        return StudyFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{name} is not a TOML file: {error}") from None
    except ValidationError as error:
        raise StudyError(f"{name}: {_explain(error)}") from None


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
    said = first["msg"].removeprefix("Value error, ").replace("tuple", "list")
    return f"{where}: {said}"


def _build(name: str, file: StudyFile, within: tuple[str, ...]) -> Study:
    if name in within:
        raise StudyError(f"{name} includes itself")
    title = Path(name).stem if name.endswith(".toml") else name
    runner = runner_of_study()
    if file.include:
        if file.preset or file.factors or file.cells or file.seeds or "campaign" in file.model_fields_set:
            raise StudyError(
                f"{name}: a study that includes others has no preset, factors, cells, seeds or campaign"
            )
        parts = tuple(_build(part, _read(part), (*within, name)) for part in file.include)
        study = Study(title, file.title, runner, (), (), file.audit, file.note, parts)
        _check_audit(name, study)
        return study
    try:
        cells = _study_cells(name, file, runner)
    except RunnerError as error:
        raise StudyError(f"{name}: {error}") from None
    study = Study(title, file.title, runner, cells, file.seeds, file.audit, file.note, (), file.campaign)
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
    if file.factors and file.cells:
        raise StudyError(f"{name}: give factors (crossed) or cells (a list), not both")
    if not file.factors and not file.cells:
        raise StudyError(f"{name}: there is nothing to compare; give factors or cells")
    for factor, levels in file.factors.items():
        if not levels:
            raise StudyError(f"{name}: factors.{factor} has no levels")
        _refuse_repeats(f"{name}: factors.{factor}", levels)
    crossed = [dict(zip(file.factors, levels, strict=True)) for levels in product(*file.factors.values())]
    cells = list(file.cells) or crossed
    for i, cell in enumerate(cells):
        if cell in cells[:i]:
            raise StudyError(f"{name}: cells has {cell} twice")
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
    known = levels[audit.group]
    if audit.reference not in known:
        hint = did_you_mean(audit.reference, known)
        raise StudyError(f"{name}: audit.reference {audit.reference!r} is no level of {audit.group}{hint}")
