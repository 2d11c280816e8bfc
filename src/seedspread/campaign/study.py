"""A study as data: what is run, factors, seeds, and the comparison that is to be audited. Needs no torch."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seedspread.campaign.study_file import SEED_LIMIT, CampaignSpec, Cell, RunSpec, StudyFile, explain
from seedspread.errors import SeedspreadError, did_you_mean, there_are
from seedspread.metrics import Metric
from seedspread.runners.cff import CffRunner
from seedspread.runners.command import COLUMNS, Command
from seedspread.runners.contract import AmbiguousNameError, Level, Runner, RunnerError
from seedspread.runners.function import FunctionRunner
from seedspread.runners.program import ProgramRunner
from seedspread.runs.levels import level_name
from seedspread.runs.studies import AuditSpec
from seedspread.toml_text import MAX_BYTES, TomlError, TooLargeError, parse_toml, read_toml

# Runs that a study may name unless more are asked for.
MAX_RUNS = 20_000
_RAISES = "--max-runs, or max_runs from Python, raises"
_BYTES_PER_RUN = 50
_INCLUDE_DEPTH = 16


class StudyError(SeedspreadError):
    """A study that cannot be: the message names the file and the field."""


@dataclass(frozen=True)
class StudyCell:
    """A cell of a study: the levels of its factors, and the parameters that its runs share."""

    levels: tuple[tuple[str, Level], ...]
    parameters: Any


@dataclass(frozen=True)
class StudySpec:
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
        metrics: those that it declares.
        origin: the file or function that it is of, if it runs one's own code.
    """

    name: str
    title: str
    runner: Runner
    cells: tuple[StudyCell, ...]
    seeds: tuple[int, ...]
    audit: AuditSpec | None
    note: str = ""
    included: tuple["StudySpec", ...] = ()
    campaign: CampaignSpec = field(default_factory=CampaignSpec)
    metrics: tuple[Metric, ...] = ()
    origin: str = ""

    @classmethod
    def from_file(cls, name: "str | Path", max_runs: int = MAX_RUNS) -> "StudySpec":
        """A shipped study by name (`mini/cifar10-factorial`), or a .toml file.

        `StudyError` if it names more than `max_runs` runs, all that it includes among them.
        """
        files = _StudyFiles(max_runs)
        files.check_count(str(name))
        return files.build(str(name))

    @classmethod
    def from_values(
        cls, name: str, values: dict[str, Any], runner: Runner, max_runs: int = MAX_RUNS
    ) -> "StudySpec":
        """A single study from what could stand in a file, run by a runner."""
        files = _StudyFiles(max_runs)
        files.add(name, values)
        files.check_count(name)
        return files.build(name, runner)

    @property
    def parts(self) -> tuple["StudySpec", ...]:
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
        self._max_runs = max_runs
        self._files: dict[str, StudyFile] = {}
        self._counts: dict[str, int] = {}
        self._studies: dict[str, StudySpec] = {}

    def add(self, name: str, values: dict[str, Any]) -> None:
        """What would stand in a file of that name."""
        try:
            self._files[name] = StudyFile.model_validate(values)
        except ValidationError as error:
            raise StudyError(f"{name}: {explain(error)}") from None

    def check_count(self, name: str) -> None:
        """Refuses a study that names too many runs."""
        runs = self._count(name)
        if runs > self._max_runs:
            count = f"{runs:,}" if runs < 10**15 else "more than 10^15"
            limit = f"the limit is {self._max_runs:,}, which {_RAISES}"
            raise StudyError(f"{name} names {count} runs; {limit}")

    def _count(self, name: str, within: tuple[str, ...] = ()) -> int:
        """How many runs a study names; `within` are the files that have led to it."""
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
            included = sum(self._count(part, (*within, name)) for part in file.include)
            self._counts[name] = included if file.include else cells * file.seed_count
        return self._counts[name]

    def build(self, name: str, runner: Runner | None = None) -> StudySpec:
        """A study that has been counted."""
        if name not in self._studies:
            included = tuple(self.build(part) for part in self._files[name].include)
            self._studies[name] = _build(name, self._files[name], included, runner)
        return self._studies[name]

    def _read(self, name: str) -> dict[str, Any]:
        try:
            if name.endswith(".toml"):
                return read_toml(name, max(MAX_BYTES, _BYTES_PER_RUN * self._max_runs))
            return parse_toml(_shipped(name), name)
        except TooLargeError as error:
            raise StudyError(f"{error}, which {_RAISES}") from None
        except TomlError as error:
            raise StudyError(f"{error}; give a study's name or a .toml file") from None


def _shipped(name: str) -> str:
    names = study_names()
    if name not in names:
        raise StudyError(f"no study is named {name!r}; {there_are(name, names)}; or give a .toml file")
    return (files("seedspread.studies") / f"{name}.toml").read_text()


def _check_parts(name: str, file: StudyFile) -> None:
    """A study has parts of its own, or includes others."""
    own = (file.preset, file.runner, file.run, file.factors, file.cells, file.seeds, file.vary, file.metrics)
    if file.include and (any(own) or "campaign" in file.model_fields_set):
        raise StudyError(
            f"{name}: a study that includes others runs nothing itself: it has no preset, run, runner, "
            "factors, cells, seeds, vary, metrics or campaign"
        )
    if file.factors and file.cells:
        raise StudyError(f"{name}: give factors (crossed) or cells (a list), not both")


def _build(name: str, file: StudyFile, included: tuple[StudySpec, ...], runner: Runner | None) -> StudySpec:
    title = Path(name).stem if name.endswith(".toml") else name
    try:
        runner = runner or _runner(name, file)
        if file.vary:
            runner = _driving(runner, file.vary)
        cells = () if included else _study_cells(name, file, runner)
        audit = _named_as_cells(file.audit, runner)
    except RunnerError as error:
        raise StudyError(f"{name}: {error}") from None
    study = StudySpec(
        name=title,
        title=file.title or title,
        runner=runner,
        cells=cells,
        seeds=file.seed_list,
        audit=audit,
        note=file.note,
        included=included,
        campaign=file.campaign,
        metrics=tuple(spec.metric(metric) for metric, spec in file.metrics.items()),
        origin=runner.origin,
    )
    _check_audit(name, study)
    return study


def _runner(name: str, file: StudyFile) -> Runner:
    """What runs a study, by what its file asks for."""
    if file.run is None and file.runner is None:
        if file.metrics:
            raise RunnerError("metrics: those of the paper's training are known; leave them out")
        return CffRunner()
    if not file.promised:
        raise RunnerError("nothing is measured; name a metric under [metrics], or in audit.value")
    for metric in file.promised:
        if metric.name in (*COLUMNS, "dataset"):
            raise RunnerError(f"metrics.{metric.name} has a meaning of its own; call the metric otherwise")
    run, folder = file.run or RunSpec(), Path(name).absolute().parent
    if file.runner is not None:
        if run.timeout is not None:
            raise RunnerError("run.timeout is for a program; a function has none")
        return FunctionRunner.from_name(file.runner, folder, file.promised, run.inputs, run.environment)
    command = Command(run.command or (), str(folder), run.timeout)
    return ProgramRunner(command, file.promised, run.inputs, run.environment)


def _driving(runner: Runner, streams: tuple[str, ...]) -> Runner:
    for stream in streams:
        if stream not in runner.streams:
            there = f"there are {', '.join(runner.streams)}" if runner.streams else "its runs have one seed"
            raise RunnerError(f"vary: no stream is called {stream!r}; {there}")
    return runner.driving(streams)


def _study_cells(name: str, file: StudyFile, runner: Runner) -> tuple[StudyCell, ...]:
    if not file.seeds:
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
    if not file.factors and not file.cells:
        raise StudyError(f"{name}: there is nothing to compare; give factors or cells")
    for factor, levels in file.factors.items():
        if not levels:
            raise StudyError(f"{name}: factors.{factor} has no levels")
        _refuse_repeats(f"{name}: factors.{factor}", levels)
    crossed = [dict(zip(file.factors, levels, strict=True)) for levels in product(*file.factors.values())]
    cells = list(file.cells) or crossed
    named = [frozenset((field, level_name(level)) for field, level in cell.items()) for cell in cells]
    times = Counter(named)
    repeated = [cell for cell, levels in zip(cells, named, strict=True) if times[levels] > 1]
    if repeated:
        raise StudyError(f"{name}: cells has {repeated[0]} twice")
    for factor, level in (pair for cell in cells for pair in cell.items()):
        if not level_name(level):
            raise StudyError(f"{name}: {factor} has {level!r}, which no table tells from a missing value")
    if len({tuple(sorted(cell)) for cell in cells}) > 1:
        raise StudyError(f"{name}: every cell must set the same fields")
    return cells


def _refuse_repeats(where: str, values: Sequence[Level]) -> None:
    """By their names: 1 and 1.0, or 1 and "1", could not be told apart in a table."""
    times = Counter(map(level_name, values))
    repeated = [value for value in values if times[level_name(value)] > 1]
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


def _named_as_cells(audit: AuditSpec | None, runner: Runner) -> AuditSpec | None:
    """The comparison with its factors by the names that cells have, whichever names the file uses."""
    if audit is None:
        return None

    def short(name: str) -> str:
        try:
            return runner.short_name(runner.full_name(name))
        except AmbiguousNameError:
            raise
        except RunnerError:
            return name  # no parameter: `study`, or a mistake that is told below

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
                f"{name}: audit names {wanted!r}, which is no factor{did_you_mean(wanted, levels)} "
                f"(factors are {', '.join(sorted(levels))})"
            )
    metrics = list(dict.fromkeys(metric for part in study.parts for metric in part.runner.metrics))
    for value in audit.values:
        if value not in metrics:
            hint = did_you_mean(value, metrics)
            raise StudyError(
                f"{name}: audit.value {value!r} is no metric{hint} (there are {', '.join(metrics)})"
            )
    compared = levels[audit.group]
    if audit.reference not in compared:
        hint = did_you_mean(audit.reference, compared)
        raise StudyError(f"{name}: audit.reference {audit.reference!r} is no level of {audit.group}{hint}")
