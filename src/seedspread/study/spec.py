"""A study: the format of its file, checked field by field, and the study as data that follows from it."""

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)

from seedspread.errors import SeedspreadError, did_you_mean, short
from seedspread.runners.contract import AmbiguousNameError, Level, Runner, RunnerError
from seedspread.runners.function import FunctionRunner, PythonFunction
from seedspread.runners.outputs import SUFFIXES, MetricSource
from seedspread.runners.own_code import COLUMNS, REPEAT, Randomness
from seedspread.runners.program import Command, ProgramRunner
from seedspread.runners.revisions import REVISION, Revisions
from seedspread.runs.files import (
    MAX_BYTES,
    FrozenConfig,
    TomlError,
    TooLargeError,
    parse_toml,
    read_toml,
    toml_value,
)
from seedspread.runs.levels import level_name
from seedspread.runs.metrics import Metric, metric_of
from seedspread.runs.plugins import PluginError, load_plugin, plugins, toml_files
from seedspread.runs.studies import AuditSpec, SequentialSpec

Cell = dict[str, Level]

SEED_LIMIT = 2**63
_THREAD_LIMIT = 1024
_REPEAT_LIMIT = 1000
_SOURCE = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|d)")


def _seconds(value: object) -> object:
    """Return `90`, `"90s"`, `"30 min"`, `"2h"`, `"1.5d"` as seconds."""
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = float(match[1]) * _UNITS[match[2]] if match else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise ValueError(f'must be a time such as "2h", "30m" or 90 (seconds); got {value!r}')
    return float(seconds)


def _words(value: object) -> object:
    """Return a command as a list of words; a text is split as a shell would do it."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}; give a list of words") from None
    if not (
        isinstance(words, list | tuple) and words and words[0] and all(isinstance(w, str) for w in words)
    ):
        raise ValueError('must be a text or a list of words, such as "python train.py --seed {seed}"')
    if any("\0" in word for word in words):
        raise ValueError("must not contain a null character")
    return tuple(words)


def _seeds(value: object) -> object:
    if isinstance(value, str | float | bool) or (isinstance(value, int) and value < 1):
        raise ValueError(f"must be a number from 1 on, or a list; got {short(value)}")
    return value


class RunSpec(FrozenConfig):
    """A program and how to run it.

    Attributes:
        command: its words, or a text that is split as a shell would do it; `{seed}`, `{folder}` and every
            parameter are replaced.
        inputs: patterns of files whose content is part of a run's identity.
        environment: names of variables whose values are part of it.
        timeout: longest duration of a run, such as `"2h"`.
        revisions: revisions of the program's git repository: levels of a factor `revision`.
        setup: a shell line, run once in the checkout of each revision.
    """

    command: Annotated[tuple[str, ...], BeforeValidator(_words)] | None = None
    inputs: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout: Annotated[float, BeforeValidator(_seconds)] | None = None
    revisions: tuple[str, ...] = ()
    setup: str = ""

    @model_validator(mode="after")
    def _check_setup(self) -> "RunSpec":
        if self.setup and not self.revisions:
            raise ValueError("setup needs revisions: it runs once in the checkout of each")
        return self


class MetricSpec(FrozenConfig):
    """Properties of a metric; a direction that is not given follows from the name.

    Attributes:
        regex: matches a program's output: its group is the value, and the last match counts.
        file: a file that the program writes, with placeholders.
        key: the field in that file; by default the metric's name.
    """

    better: Literal["higher", "lower"] | None = None
    unit: str | None = None
    chance: float | None = None
    title: str = ""
    regex: str | None = None
    file: str | None = None
    key: str | None = None

    @field_validator("regex")
    @classmethod
    def _check_regex(cls, value: str | None) -> str | None:
        try:
            if value is not None and not re.compile(value).groups:
                raise ValueError(r"needs a group, in parentheses, for the number, such as 'acc: ([\d.]+)'")
        except re.error as error:
            raise ValueError(f"is not a regular expression: {error}") from None
        return value

    @model_validator(mode="after")
    def _check_place(self) -> "MetricSpec":
        if self.regex and self.file:
            raise ValueError("give regex (of the output) or file, not both")
        if self.key and not self.file:
            raise ValueError("key is for a field of a file: name it with file")
        if self.file and not self.file.lower().endswith(SUFFIXES):
            raise ValueError(f"file must end in one of {', '.join(SUFFIXES)}; got {self.file!r}")
        return self

    def metric(self, name: str) -> Metric:
        guess = metric_of(name)
        return Metric(
            name=name,
            title=self.title or guess.title,
            unit={"%": "per cent", "percent": "per cent"}.get(self.unit or "", self.unit) or guess.unit,
            better=self.better or guess.better,
            chance=self.chance,
        )

    def source(self, name: str) -> MetricSource | None:
        """Return where to find its value, if the program does not report it itself."""
        return MetricSource(name, self.regex, self.file, self.key) if self.regex or self.file else None


class EngineSpec(FrozenConfig):
    """Settings of an engine that do not affect what the runs are.

    Attributes:
        threads: CPU threads of a run; None for one, or the command's own number.
    """

    threads: int | None = Field(default=None, ge=1, le=_THREAD_LIMIT, strict=True)


class StudyFile(FrozenConfig):
    """The fields of a study's file.

    A single study has something to run (`run.command` or `runner`), `factors` or `cells`, and `seeds`; a
    collection has `include`. `runner` names a function, `module:function`, or a runner from a package, which
    may have presets. `sources` are sources of randomness in the user's own code, each with its own seed;
    `vary` lets the seed control some of them only. `repeat` runs every seed several times.
    `question` and `prediction` are for readers of the answer.
    """

    title: str = ""
    preset: str | None = None
    runner: str | None = None
    run: RunSpec | None = None
    seeds: Annotated[StrictInt | tuple[StrictInt, ...], BeforeValidator(_seeds)] = ()
    vary: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    repeat: int = Field(default=1, ge=1, le=_REPEAT_LIMIT, strict=True)
    settings: dict[str, Level] = Field(default_factory=dict)
    factors: dict[str, tuple[Level, ...]] = Field(default_factory=dict)
    cells: tuple[Cell, ...] = ()
    metrics: dict[str, MetricSpec] = Field(default_factory=dict)
    include: tuple[str, ...] = ()
    audit: AuditSpec | None = None
    engine: EngineSpec = EngineSpec()
    slurm: dict[str, str | int] = Field(default_factory=dict)
    sequential: SequentialSpec | None = None
    note: str = ""
    question: str = ""
    prediction: str = ""

    @model_validator(mode="after")
    def _check_runner(self) -> "StudyFile":
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

    @field_validator("sources")
    @classmethod
    def _check_sources(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [name for name in sources if not _SOURCE.fullmatch(name) or name == "run"]
        if wrong or len(set(sources)) < len(sources):
            raise ValueError(f"must be different names such as init and order; got {list(sources)}")
        return sources

    @property
    def revisions(self) -> tuple[str, ...]:
        return self.run.revisions if self.run is not None else ()

    @property
    def randomness(self) -> Randomness:
        """The meaning of the seed in a program or a function."""
        return Randomness(self.sources, repeats=self.repeat)

    @property
    def plugin(self) -> str | None:
        """The name of a runner that comes from a package; None for a function or a program."""
        return self.runner if self.runner is not None and ":" not in self.runner else None

    @model_validator(mode="after")
    def _check_looks(self) -> "StudyFile":
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
        """Number of seeds of each cell, at most."""
        return self._named if self.sequential is None else self.sequential.limit

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds: a number N stands for 1, 2, ... N."""
        if isinstance(self.seeds, int) or (self.sequential is not None and not self.seeds):
            return tuple(range(1, self.seed_count + 1))
        return self.seeds[: self.seed_count]

    @property
    def promised(self) -> tuple[Metric, ...]:
        """Metrics that its runs must report: those it names, or those that it audits."""
        if self.metrics:
            return tuple(spec.metric(name) for name, spec in self.metrics.items())
        return tuple(metric_of(name) for name in (self.audit.values if self.audit else ()))


# Advice on missing fields.
_MISSING = {
    "audit.group": "; name the factor whose levels are compared",
    "audit.baseline": "; name the level that the others are compared with",
}


_OBJECT = "; give objects names as levels, and look them up in the function"
# Replacements of former names.
_FORMER = {
    "campaign": "it is called engine now",
    "audit.reference": "it is called baseline now",
    "keep_model": "it is a setting now: settings = { keep_model = false }",
    "engine.stack": "every run is trained by itself now; leave it out",
    "run.isolate": "every run has a process of its own; load what runs share when the module is imported",
}


_PARTS: dict[str, type[BaseModel]] = {
    "audit": AuditSpec, "engine": EngineSpec, "run": RunSpec, "metrics": MetricSpec,
    "sequential": SequentialSpec,
}  # fmt: skip


def explain(error: ValidationError) -> str:
    """Return what is wrong with a study's file, in one line that names the field."""
    # An unknown name explains a missing one.
    first = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")[0]
    location = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        where = ".".join(location)
        if where in _FORMER:
            return f"{where}: no such field; {_FORMER[where]}"
        part = _PARTS.get(location[0], StudyFile) if location[1:] else StudyFile
        return f"{where}: no such field{did_you_mean(location[-1], part.model_fields)}"
    where = ".".join(part for part in location if part not in ("str", "int", "float", "bool"))
    if (len(location) > 2 and location[0] in ("factors", "cells")) or location[:1] == ["settings"]:
        got = first["input"]
        hint = "" if isinstance(got, str | int | float | list | dict | None) else _OBJECT
        return f"{where}: must be a text, a finite number, or true or false; got {short(got)}{hint}"
    if first["type"] == "missing":
        return f"{where} is missing{_MISSING.get(where, '')}"
    message = first["msg"].removeprefix("Value error, ").replace("tuple", "list")
    got = "" if first["type"] == "value_error" else f"; got {short(first['input'])}"
    return f"{where}: {message}{got}" if where else message


def study_names() -> list[str]:
    return sorted(_studies())


def is_study(text: str) -> bool:
    """Return whether a text names a shipped study or a .toml file, varied or not."""
    name, _ = Variation.named(text)
    return name.endswith(".toml") or name in study_names()


def _studies() -> dict[str, Traversable]:
    entries = reversed(plugins("studies").values())  # of two with one name, the first counts
    return {name: file for entry in entries for name, file in toml_files(entry.value).items()}


class StudyError(SeedspreadError):
    """A study with a mistake; the message names the file and the field."""


@dataclass(frozen=True)
class StudyCell:
    """A cell of a study: the levels of its factors, and the parameters that its runs share."""

    levels: tuple[tuple[str, Level], ...]
    parameters: Any


def study_cells(name: str, file: StudyFile, runner: Runner) -> tuple[StudyCell, ...]:
    if not file.seed_list:
        raise StudyError(f"{name}: seeds is missing; say how many, such as seeds = 10, or list them")
    wrong = [seed for seed in file.seed_list if not 0 <= seed < SEED_LIMIT]
    if wrong:
        raise StudyError(f"{name}: seeds must lie between 0 and 2^63; got {wrong[0]}")
    _refuse_repeats(f"{name}: seeds", file.seed_list)
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
    if not file.factors and not file.cells and not file.revisions:
        raise StudyError(f"{name}: there is nothing to compare; give factors or cells")
    own = {*file.factors, *file.settings, *(factor for cell in file.cells for factor in cell)}
    if file.revisions and REVISION in own:
        raise StudyError(f"{name}: run.revisions adds a factor called revision; rename yours")
    if file.revisions:
        _refuse_repeats(f"{name}: run.revisions", file.revisions)
    for factor, levels in file.factors.items():
        if not levels:
            raise StudyError(f"{name}: factors.{factor} has no levels")
        _refuse_repeats(f"{name}: factors.{factor}", levels)
    crossed = [dict(zip(file.factors, levels, strict=True)) for levels in product(*file.factors.values())]
    cells = list(file.cells) or crossed
    if file.revisions:
        cells = [{REVISION: revision, **cell} for revision in file.revisions for cell in cells]
    _refuse_repeats(
        f"{name}: cells", cells, lambda cell: frozenset((n, level_name(level)) for n, level in cell.items())
    )
    for factor, level in (pair for cell in cells for pair in cell.items()):
        if not level_name(level):
            raise StudyError(
                f"{name}: {factor} has {level!r}, which a table cannot tell from a missing value"
            )
    if file.repeat == 1:
        return cells
    return [{**cell, REPEAT: number} for cell in cells for number in range(1, file.repeat + 1)]


def _refuse_repeats(where: str, values: Sequence[Any], name: Callable[[Any], object] = level_name) -> None:
    """Compare by name: a table could not distinguish 1 and 1.0, or 1 and "1"."""
    times = Counter(map(name, values))
    repeated = [value for value in values if times[name(value)] > 1]
    if repeated:
        raise StudyError(f"{where} has {repeated[0]!r} twice")


def _check_fields(name: str, file: StudyFile, cells: list[Cell], runner: Runner) -> None:
    """Refuse parameters with two roles: two names of one factor, or a factor and a setting."""
    factors = [runner.full_name(field) for field in dict.fromkeys(field for cell in cells for field in cell)]
    full = factors + [runner.full_name(field) for field in file.settings]
    twice = [field for field, times in Counter(full).items() if times > 1]
    if twice:
        raise StudyError(f"{name}: {twice[0]} is given twice, among factors, cells and settings")
    if not factors:
        raise StudyError(f"{name}: there is nothing to compare; cells set no field")


# A study's name, followed by its variation.
_VARIED = re.compile(r"(.*?\.toml|(?!.*\.toml)\S+)\s+('?[\w.-]+\s*=.*)", re.DOTALL)


@dataclass(frozen=True)
class Variation:
    """A study's seeds and further settings, in place of those in its file.

    They are part of its name, `mini/cifar10-factorial seeds=3 training.epochs=2`: a store records it beside
    the unvaried study, and such a name works wherever a study is named.
    """

    seeds: Any = None  # as in a file; None for the file's own
    settings: Mapping[str, Any] = field(default_factory=dict)  # by field, in place of the file's own

    @classmethod
    def of(cls, words: Sequence[str]) -> "Variation":
        """Read `seeds=3` and `training.epochs=2`; seeds also as `1,2,5`."""
        values: dict[str, Any] = {}
        for word in words:
            name, equals, text = (part.strip() for part in word.partition("="))
            if not (name and equals):
                raise StudyError(f"--set {word}: write it as field=value, such as training.epochs=2")
            if name in values:
                raise StudyError(f"{name} is given twice; give it once")
            is_list = name == "seeds" and "," in text and not text.startswith("[")
            values[name] = toml_value(f"[{text}]" if is_list else text)
        return cls(values.pop("seeds", None), values)

    @classmethod
    def named(cls, text: str) -> "tuple[str, Variation]":
        """Split the name of a study into the name of its file, or of a shipped study, and the variation."""
        found = _VARIED.fullmatch(text)
        try:
            return (found[1], cls.of(shlex.split(found[2]))) if found else (text, cls())
        except ValueError:  # an unclosed quotation
            return text, cls()

    @property
    def words(self) -> list[str]:
        seeds = self.seeds
        if isinstance(seeds, list | tuple) and all(type(seed) is int for seed in seeds):
            seeds = ",".join(map(str, seeds)) + "," * (len(seeds) == 1)
        values = ({} if seeds is None else {"seeds": seeds}) | dict(self.settings)
        return [f"{name}={_as_text(value)}" for name, value in values.items()]

    def name(self, study: str) -> str:
        return " ".join([study, *map(shlex.quote, self.words)])

    def applied(self, values: dict[str, Any]) -> dict[str, Any]:
        """Vary the fields of a single study; in a collection, the included studies are varied instead."""
        if "include" in values:
            return values
        own = values.get("settings", {})
        changed = {} if self.seeds is None else {"seeds": self.seeds}
        if self.settings and isinstance(own, dict):
            changed["settings"] = own | dict(self.settings)
        return values | changed

    def replaced(self, settings: Mapping[str, Level], runner: Runner) -> dict[str, Level]:
        """Drop the file's settings that this variation replaces, by either of their names."""
        anew = {runner.full_name(name) for name in self.settings}
        old = [name for name in settings if name not in self.settings and runner.full_name(name) in anew]
        return {name: level for name, level in settings.items() if name not in old}


def _as_text(value: Any) -> str:
    """Return a value as text that `Variation.of` can read back."""
    plain = isinstance(value, str) and value.isprintable() and toml_value(value) == value == value.strip()
    return value if plain else tomli_w.dumps({"value": value}).partition("=")[2].strip()


# Most runs of a study.
MAX_RUNS = 20_000
_BYTES_PER_RUN = 50
_INCLUDE_DEPTH = 16


@dataclass(frozen=True)
class StudySpec:
    """A study, or a collection of studies.

    Attributes:
        cells: the cells to compare; none in a collection.
        seeds: seeds of every cell; for a sequential study, the most there may be.
        included: the studies of a collection, each with its own comparison; none in a single study.
        metrics: the metrics that it declares.
        file: everything as written in the study's file.
    """

    name: str
    title: str
    runner: Runner = field(repr=False)
    cells: tuple[StudyCell, ...] = field(repr=False)
    seeds: tuple[int, ...] = field(repr=False)
    audit: AuditSpec | None = field(repr=False)
    included: tuple["StudySpec", ...] = ()
    metrics: tuple[Metric, ...] = field(default=(), repr=False)
    file: StudyFile = field(default_factory=StudyFile, repr=False)

    @classmethod
    def from_file(cls, name: "str | Path", variation: Variation | None = None) -> "StudySpec":
        """Return a shipped study by name (`mini/cifar10-factorial`), or a .toml file, varied or not.

        `StudyError` if it names more than `MAX_RUNS` runs, including those of included studies.
        """
        file, named = Variation.named(str(name))
        if variation is not None:
            seeds = named.seeds if variation.seeds is None else variation.seeds
            named = Variation(seeds, {**named.settings, **variation.settings})
        files = _StudyFiles(named)
        files.check_count(file)
        return files.build(file)

    @classmethod
    def from_values(
        cls,
        name: str,
        values: dict[str, Any],
        make_runner: Callable[[StudyFile], Runner] | None = None,
    ) -> "StudySpec":
        """Return a single study from the values of a file; `make_runner` replaces the file's own runner."""
        files = _StudyFiles()
        files.add(name, values)
        files.check_count(name)
        return files.build(name, make_runner)

    @property
    def sequential(self) -> SequentialSpec | None:
        return self.file.sequential

    @property
    def origin(self) -> str:
        """The file or function that it runs; empty if it comes from a package."""
        return self.runner.origin

    @property
    def parts(self) -> tuple["StudySpec", ...]:
        """The single studies in it: itself, or all that a collection includes."""
        return tuple(p for study in self.included for p in study.parts) or (self,)


class _StudyFiles:
    """A study's file and those that it includes: each is read once, and runs counted before any exists."""

    def __init__(self, variation: Variation | None = None) -> None:
        self._variation = variation or Variation()
        self._files: dict[str, StudyFile] = {}
        self._counts: dict[str, int] = {}
        self._studies: dict[str, StudySpec] = {}

    def add(self, name: str, values: dict[str, Any]) -> None:
        try:
            self._files[name] = StudyFile.model_validate(self._variation.applied(values))
        except ValidationError as error:
            raise StudyError(f"{name}: {explain(error)}") from None

    def check_count(self, name: str) -> None:
        runs = self._count(name)
        if runs > MAX_RUNS:
            count = f"{runs:,}" if runs < 10**15 else "more than 10^15"
            raise StudyError(
                f"{name} names {count} runs; the limit is {MAX_RUNS:,}: make several studies of it"
            )

    def _count(self, name: str, within: tuple[str, ...] = ()) -> int:
        """Return the number of runs of a study; `within` are the files that led to it."""
        if name in within:
            raise StudyError(f"{name} includes itself")
        if len(within) > _INCLUDE_DEPTH:
            raise StudyError(f"{within[0]}: studies are included over more than {_INCLUDE_DEPTH} files")
        if name not in self._counts:
            if name not in self._files:
                self.add(name, self._read(name))
            file = self._files[name]
            _check_parts(name, file)
            cells = len(file.cells) or math.prod(len(levels) for levels in file.factors.values())
            cells = max(cells, 1 if file.revisions else 0) * len(file.revisions or "1") * file.repeat
            included = sum(self._count(part, (*within, name)) for part in _included(name, file))
            self._counts[name] = included if file.include else cells * file.seed_count
        return self._counts[name]

    def build(self, name: str, make_runner: Callable[[StudyFile], Runner] | None = None) -> StudySpec:
        if name not in self._studies:
            file = self._files[name]
            included = tuple(self.build(part) for part in _included(name, file))
            self._studies[name] = _build(name, file, included, make_runner, self._variation)
        return self._studies[name]

    def _read(self, name: str) -> dict[str, Any]:
        try:
            if name.endswith(".toml"):
                return read_toml(name, max(MAX_BYTES, _BYTES_PER_RUN * MAX_RUNS))
            if name not in (names := study_names()):
                hint = did_you_mean(name, [*names, *map(str, Path().glob("*.toml"))])
                shipped = f"shipped are {', '.join(names)}"
                raise StudyError(f"no study is named {name!r}{hint or '; give a .toml file'} ({shipped})")
            return parse_toml(_studies()[name].read_text(), name)
        except TooLargeError as error:
            raise StudyError(f"{error}: make several studies of it") from None
        except TomlError as error:
            raise StudyError(f"{error}; give a study's name or a .toml file") from None


def _included(name: str, file: StudyFile) -> list[str]:
    """Return the names of the studies that a file includes: a path is relative to the file's folder."""
    folder = Path(name).parent if name.endswith(".toml") else Path()
    return [str(folder / part) if part.endswith(".toml") else part for part in file.include]


def _check_parts(name: str, file: StudyFile) -> None:
    """Refuse a study with parts of its own that also includes others."""
    own = (file.preset, file.runner, file.run, file.factors, file.cells, file.seeds, file.vary, file.metrics,
           file.sequential, file.sources, file.repeat > 1)  # fmt: skip
    if file.include and (any(own) or "engine" in file.model_fields_set):
        raise StudyError(
            f"{name}: a study that includes others runs nothing itself: it has no preset, run, runner, "
            "factors, cells, seeds, vary, metrics, sequential or engine"
        )
    if file.factors and file.cells:
        raise StudyError(f"{name}: give factors (crossed) or cells (a list), not both")


def _build(
    name: str,
    file: StudyFile,
    included: tuple[StudySpec, ...],
    make_runner: Callable[[StudyFile], Runner] | None,
    variation: Variation,
) -> StudySpec:
    title = variation.name(Path(name).stem if name.endswith(".toml") else name)
    words = ", ".join(variation.words)
    try:
        if make_runner is not None:
            runner = make_runner(file)
        else:
            runner = included[0].runner if included else _runner(name, file)
        if file.vary:
            runner = runner.driving(file.vary)
        settings = variation.replaced(file.settings, runner)
        cells = () if included else study_cells(name, file.model_copy(update={"settings": settings}), runner)
        audit = _named_as_cells(file.audit, runner)
        if audit is not None and included and audit.group == "study":
            audit = audit.model_copy(update={"baseline": variation.name(audit.baseline)})
        if audit is not None and file.repeat > 1:
            audit = audit.model_copy(update={"block": (*audit.blocks, REPEAT)})
    except RunnerError as error:
        raise StudyError(f"{name}: {error}") from None
    study = StudySpec(
        name=title,
        title=f"{file.title} ({words})" if file.title and words else file.title or title,
        runner=runner,
        cells=cells,
        seeds=file.seed_list,
        audit=audit,
        included=included,
        metrics=tuple(spec.metric(metric) for metric, spec in file.metrics.items()),
        file=file,
    )
    _check_audit(name, study)
    _check_sequential(name, study)
    return study


def _runner(name: str, file: StudyFile) -> Runner:
    if file.plugin is not None:
        return _plugin(file.plugin, file).located(str(Path(name).parent) if name.endswith(".toml") else "")
    if file.run is None and file.runner is None:
        raise RunnerError("nothing to run: give [run] with a command, or name a runner")
    if not file.promised and not (file.revisions and file.audit is None):  # any number will do
        raise RunnerError("nothing is measured; name a metric under [metrics], or in audit.value")
    for metric in file.promised:
        if metric.name in (*COLUMNS, "dataset"):
            raise RunnerError(f"metrics.{metric.name}: the name is reserved; rename the metric")
    run, path = file.run or RunSpec(), Path(name).absolute()
    folder = (path.resolve() if ".." in path.parts else path).parent  # the same, however it is named
    known: Any = {"promised": file.promised, "inputs": run.inputs, "environment": run.environment}
    known["randomness"] = file.randomness
    sources = tuple(filter(None, (spec.source(metric) for metric, spec in file.metrics.items())))
    if file.runner is not None:
        if run.timeout is not None:
            raise RunnerError("run.timeout is for a program; a function has none")
        if run.revisions:
            raise RunnerError("run.revisions is for a program, such as python train.py; a function has none")
        if sources:
            where = f"metrics.{sources[0].metric}"
            raise RunnerError(f"{where}: regex and file are for a program; return the value")
        return FunctionRunner(PythonFunction.from_name(file.runner, folder), **known)
    command = Command(run.command or (), str(folder), run.timeout)
    revisions = Revisions.of(folder, run.revisions, run.setup, str(path)) if run.revisions else None
    return ProgramRunner(command, sources, revisions, **known)


def _plugin(name: str, file: StudyFile) -> Runner:
    try:
        runner: Runner = load_plugin("runners", name)()
    except PluginError as error:
        raise RunnerError(f"runner: {error}; or name a function, as module:function") from None
    if file.metrics and runner.metrics:
        raise RunnerError(f"metrics: those of {name} are known; leave them out")
    if file.sources or file.repeat > 1:
        raise RunnerError(f"sources and repeat are for a program or a function; {name} has its own")
    return runner


def _named_as_cells(audit: AuditSpec | None, runner: Runner) -> AuditSpec | None:
    """Return the audit with factors named as in the cells, whichever names the file uses."""
    if audit is None:
        return None

    def short(name: str) -> str:
        try:
            return runner.short_name(runner.full_name(name))
        except AmbiguousNameError:
            raise
        except RunnerError:
            return name  # not a parameter: `study`, or a mistake that is refused below

    by = tuple(map(short, audit.strata))
    changes: dict[str, Any] = {
        "group": short(audit.group),
        "block": tuple(map(short, audit.blocks)),
        "by": by if len(by) > 1 else next(iter(by), None),
    }
    if "value" not in audit.model_fields_set and runner.metrics and "accuracy" not in runner.metrics:
        changes["value"] = runner.metrics[0]
    return audit.model_copy(update=changes)


def _check_audit(name: str, study: StudySpec) -> None:
    audit = study.audit
    if audit is None:
        return
    levels: dict[str, set[str]] = {"study": {part.name for part in study.parts}} if study.included else {}
    for factor, level in (pair for part in study.parts for cell in part.cells for pair in cell.levels):
        levels.setdefault(factor, set()).add(level_name(level))
    for wanted in audit.factors:
        if wanted not in levels:
            raise StudyError(
                f"{name}: audit names {wanted!r}, which is not a factor{did_you_mean(wanted, levels)} "
                f"(factors are {', '.join(sorted(levels))})"
            )
    metrics: dict[str, None] = {}
    for part in study.parts:
        metrics |= dict.fromkeys((*part.runner.metrics, *(declared.name for declared in part.metrics)))
    for value in audit.values:
        if value not in metrics:
            known = f"{did_you_mean(value, metrics)} (there are {', '.join(metrics)})"
            raise StudyError(f"{name}: audit.value {value!r} is not a metric{known}")
    if not study.included:
        _check_pooled(name, audit, study)
    compared = levels[audit.group]
    if audit.baseline not in compared:
        hint = did_you_mean(audit.baseline, compared)
        raise StudyError(f"{name}: audit.baseline {audit.baseline!r} is not a level of {audit.group}{hint}")


def _check_pooled(name: str, audit: AuditSpec, study: StudySpec) -> None:
    """Refuse an audit that would pool different cells as seeds of one group, or that lacks a cell."""
    places: dict[tuple[str, ...], dict[str, Level]] = {}
    for cell in (dict(cell.levels) for cell in study.cells):
        absent = [factor for factor in audit.factors if factor not in cell]
        if absent:
            raise StudyError(f"{name}: audit names {absent[0]!r}, which the cell {cell} does not set")
        other = places.setdefault(tuple(level_name(cell[factor]) for factor in audit.factors), cell)
        differ = [factor for factor in {**other, **cell} if other.get(factor) != cell.get(factor)]
        if differ:
            what = f'"{differ[0]}"' if len(differ) == 1 else f"[{', '.join(repr(d) for d in differ)}]"
            raise StudyError(
                f"{name}: audit would pool runs that differ in {' and '.join(differ)}: write by = {what} to "
                f"compare them apart, or block = {what} to compare across them, seed by seed"
            )


def _check_sequential(name: str, study: StudySpec) -> None:
    """Refuse to compare sequential studies with each other: they end separately, with different seeds."""
    ending = [part.name for part in study.parts if part.sequential is not None]
    if study.included and study.audit is not None and ending:
        raise StudyError(
            f"{name}: audit would compare studies with different seeds, since {ending[0]} is sequential and "
            "ends by itself: make them levels of a factor in one study, or leave out this [audit]"
        )
