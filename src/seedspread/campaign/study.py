"""A study as data: a preset, factors, seeds, and the comparison that is to be audited. Needs no torch."""

import tomllib
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError, field_validator

from seedspread.config import Part, RunConfig
from seedspread.errors import SeedspreadError, did_you_mean
from seedspread.presets import ConfigError, check, preset_values

if TYPE_CHECKING:
    from seedspread.campaign.plan import Plan
    from seedspread.campaign.store import Store

Level = str | int | float | bool
Cell = dict[str, Level]

_STACK_LIMIT = 64


class StudyError(SeedspreadError):
    """A study that cannot be: the message names the file and the field."""


class AuditSpec(Part):
    """Which comparison a study is about, by its factors' names.

    Attributes:
        group: the factor whose levels are compared.
        reference: the level that the others are compared with.
        block: factors in which the same seed is run again.
        by: a factor whose levels are audited apart; `study` in a collection.
    """

    group: str
    reference: str
    block: tuple[str, ...] = ()
    by: str | None = None


class CampaignSpec(Part):
    """How a study's runs are carried out; it alters no result.

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


class StudyFile(Part):
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
class NamedRun:
    """A run that a study names: which study, which cell, which seed, and what it is."""

    study: str
    cell: tuple[tuple[str, Level], ...]
    seed: int
    config: RunConfig

    @property
    def title(self) -> str:
        """`clamp, detach, seed 3`."""
        return ", ".join([*(str(level) for _, level in self.cell), f"seed {self.seed}"])


@dataclass(frozen=True)
class Study:
    """A study, or a collection of studies.

    Attributes:
        name: by which it is called.
        title: what it is about.
        runs: every run that it names, in order.
        audit: the comparison that it is about.
        note: what to know about it.
        included: the studies of a collection, each with its own comparison; none in a single study.
        stack: how many runs are trained as one program (`CampaignSpec`).
    """

    name: str
    title: str
    runs: tuple[NamedRun, ...]
    audit: AuditSpec | None
    note: str = ""
    included: tuple["Study", ...] = ()
    stack: Literal["auto"] | int = "auto"

    @classmethod
    def from_file(cls, name: "str | Path") -> "Study":
        """A shipped study by name (`mini/cifar10-factorial`), or a .toml file."""
        return _build(str(name), _read(str(name)), ())

    @property
    def parts(self) -> tuple["Study", ...]:
        """The single studies in it: itself, or all that a collection includes."""
        return tuple(p for study in self.included for p in study.parts) or (self,)

    def plan(self, store: "Store | Path | str", data_dir: Path | None = None) -> "Plan":
        """What there is to do, given what the store holds."""
        from seedspread.campaign.plan import Plan  # noqa: PLC0415 - a plan knows its study
        from seedspread.campaign.store import Store  # noqa: PLC0415

        return Plan.make(self, store if isinstance(store, Store) else Store(Path(store)), data_dir)


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
        parts: dict[str, type[Part]] = {"audit": AuditSpec, "campaign": CampaignSpec}
        fields = parts.get(str(first["loc"][0]), StudyFile).model_fields
        return f"{where}: no such field{did_you_mean(str(first['loc'][-1]), fields)}"
    where = ".".join(str(part) for part in first["loc"] if str(part) not in ("str", "int", "float", "bool"))
    said = first["msg"].removeprefix("Value error, ").replace("tuple", "list")
    return f"{where}: {said}"


def _build(name: str, file: StudyFile, within: tuple[str, ...]) -> Study:
    if name in within:
        raise StudyError(f"{name} includes itself")
    title = Path(name).stem if name.endswith(".toml") else name
    if file.include:
        if file.preset or file.factors or file.cells or file.seeds or "campaign" in file.model_fields_set:
            raise StudyError(
                f"{name}: a study that includes others has no preset, factors, cells, seeds or campaign"
            )
        parts = [_build(part, _read(part), (*within, name)) for part in file.include]
        _check_audit(name, file, [r for p in parts for r in p.runs])
        runs = tuple(r for p in parts for r in p.runs)
        return Study(title, file.title, runs, file.audit, file.note, tuple(parts))
    if file.preset is None:
        raise StudyError(f"{name}: preset is missing; name one, such as preset = 'mini/cifar10'")
    if not file.seeds:
        raise StudyError(f"{name}: seeds is missing; list them, such as seeds = [1, 2, 3, 4, 5]")
    _refuse_repeats(f"{name}: seeds", file.seeds)
    cells = _cells(name, file)
    fields = _field_names()
    _check_fields(name, file, cells, fields)
    runs = tuple(
        NamedRun(title, _short(cell, fields), seed, _config(name, file, cell, seed, fields))
        for cell in cells
        for seed in file.seeds
    )
    _check_audit(name, file, list(runs))
    return Study(title, file.title, runs, file.audit, file.note, stack=file.campaign.stack)


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


def _field_names() -> dict[str, str]:
    """Every name by which a config field can be called: the full one, and its last part where clear."""
    full = [
        f"{part}.{field}"
        for part, info in RunConfig.model_fields.items()
        for field in getattr(info.annotation, "model_fields", {})
    ]
    times = Counter(name.split(".")[1] for name in full)
    short = {name.split(".")[1]: name for name in full if times[name.split(".")[1]] == 1}
    return short | {name: name for name in full}


def _full(name: str, factor: str, fields: dict[str, str]) -> str:
    if factor not in fields:
        raise StudyError(f"{name}: no config field is called {factor!r}{did_you_mean(factor, fields)}")
    if fields[factor] in ("seeds.run", "runtime.threads", "runtime.device", "runtime.checkpoint_seconds"):
        raise StudyError(f"{name}: {fields[factor]} cannot be a factor: it is not what a run is")
    return fields[factor]


def _short(cell: Cell, fields: dict[str, str]) -> tuple[tuple[str, Level], ...]:
    """Factors by their shortest clear name, as tables and audits call them."""
    return tuple(
        (min((s for s in fields if fields[s] == fields.get(f)), key=len, default=f), v)
        for f, v in cell.items()
    )


def _config(name: str, file: StudyFile, cell: Cell, seed: int, fields: dict[str, str]) -> RunConfig:
    try:
        values = preset_values(str(file.preset))
    except ConfigError as error:
        raise StudyError(f"{name}: preset: {error}") from None
    for factor, level in (file.settings | cell).items():
        part, field = _full(name, factor, fields).split(".")
        values.setdefault(part, {})[field] = level
    values.setdefault("seeds", {})["run"] = seed
    try:
        return check(values)
    except ConfigError as error:
        raise StudyError(f"{name}: {error}") from None


def _check_fields(name: str, file: StudyFile, cells: list[Cell], fields: dict[str, str]) -> None:
    """Each field has one role: not two names for one factor, not a factor and a setting."""
    given = [*(cells[0] if cells else {}), *file.settings]
    full = [_full(name, field, fields) for field in given]
    twice = [field for field, times in Counter(full).items() if times > 1]
    if twice:
        raise StudyError(f"{name}: {twice[0]} is given twice, among factors, cells and settings")
    if not full[: len(full) - len(file.settings)]:
        raise StudyError(f"{name}: there is nothing to compare; cells set no field")


def _check_audit(name: str, file: StudyFile, runs: list[NamedRun]) -> None:
    if file.audit is None:
        return
    levels: dict[str, set[str]] = {"study": {run.study for run in runs}} if file.include else {}
    for run in runs:
        for factor, level in run.cell:
            levels.setdefault(factor, set()).add(str(level))
    for wanted in (file.audit.group, *file.audit.block, *([file.audit.by] if file.audit.by else [])):
        if wanted not in levels:
            raise StudyError(
                f"{name}: audit names {wanted!r}, which is no factor{did_you_mean(wanted, levels)} "
                f"(factors are {', '.join(sorted(levels))})"
            )
    known = levels[file.audit.group]
    if file.audit.reference not in known:
        hint = did_you_mean(file.audit.reference, known)
        raise StudyError(
            f"{name}: audit.reference {file.audit.reference!r} is no level of {file.audit.group}{hint}"
        )
