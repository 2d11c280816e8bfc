"""A study as data: what is run, factors, seeds, and the comparison that is to be audited. Needs no torch."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seedspread.errors import did_you_mean, there_are
from seedspread.runners.command import COLUMNS, Command
from seedspread.runners.contract import AmbiguousNameError, Runner, RunnerError
from seedspread.runners.function import FunctionRunner
from seedspread.runners.program import ProgramRunner
from seedspread.runs.levels import level_name
from seedspread.runs.metrics import Metric
from seedspread.runs.plugins import PluginError, load_plugin
from seedspread.runs.sequential import SequentialSpec
from seedspread.runs.studies import AuditSpec
from seedspread.runs.toml_text import MAX_BYTES, TomlError, TooLargeError, parse_toml, read_toml
from seedspread.study.cells import StudyCell, StudyError, study_cells
from seedspread.study.file import EngineSpec, RunSpec, StudyFile, explain
from seedspread.study.shipped import study_names, study_text

__all__ = ["MAX_RUNS", "StudyCell", "StudyError", "StudySpec"]

# Runs that a study may name unless more are asked for.
MAX_RUNS = 20_000
_RAISES = "--max-runs, or max_runs from Python, raises"
_BYTES_PER_RUN = 50
_INCLUDE_DEPTH = 16


@dataclass(frozen=True)
class StudySpec:
    """A study, or a collection of studies.

    Attributes:
        name: by which it is called.
        title: what it is about.
        runner: what runs it.
        cells: what is compared; none in a collection.
        seeds: with which every cell is run; of a growing study, at most.
        audit: the comparison that it is about.
        note: what to know about it.
        question: what it is to answer.
        prediction: what was expected of it before it ran.
        included: the studies of a collection, each with its own comparison; none in a single study.
        engine: how its runs are run.
        metrics: those that it declares.
        origin: the file or function that it is of, if it runs one's own code.
        implementation: how its runs are computed, where a command has said so.
        sequential: when it is looked at while it grows, and what ends it.
    """

    name: str
    title: str
    runner: Runner = field(repr=False)
    cells: tuple[StudyCell, ...] = field(repr=False)
    seeds: tuple[int, ...] = field(repr=False)
    audit: AuditSpec | None = field(repr=False)
    note: str = field(default="", repr=False)
    question: str = field(default="", repr=False)
    prediction: str = field(default="", repr=False)
    included: tuple["StudySpec", ...] = ()
    engine: EngineSpec = field(default_factory=EngineSpec, repr=False)
    metrics: tuple[Metric, ...] = field(default=(), repr=False)
    origin: str = ""
    implementation: str | None = None
    sequential: SequentialSpec | None = field(default=None, repr=False)

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
            included = sum(self._count(part, (*within, name)) for part in _included(name, file))
            self._counts[name] = included if file.include else cells * file.seed_count
        return self._counts[name]

    def build(self, name: str, runner: Runner | None = None) -> StudySpec:
        """A study that has been counted."""
        if name not in self._studies:
            file = self._files[name]
            included = tuple(self.build(part) for part in _included(name, file))
            self._studies[name] = _build(name, file, included, runner)
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


def _included(name: str, file: StudyFile) -> list[str]:
    """Names of the studies that a file includes: a path is relative to the file's folder."""
    folder = Path(name).parent if name.endswith(".toml") else Path()
    return [str(folder / part) if part.endswith(".toml") else part for part in file.include]


def _shipped(name: str) -> str:
    names = study_names()
    if name not in names:
        raise StudyError(f"no study is named {name!r}; {there_are(name, names)}; or give a .toml file")
    return study_text(name)


def _check_parts(name: str, file: StudyFile) -> None:
    """A study has parts of its own, or includes others."""
    own = (file.preset, file.runner, file.run, file.factors, file.cells, file.seeds, file.vary, file.metrics,
           file.sequential)  # fmt: skip
    if file.include and (any(own) or "engine" in file.model_fields_set):
        raise StudyError(
            f"{name}: a study that includes others runs nothing itself: it has no preset, run, runner, "
            "factors, cells, seeds, vary, metrics, sequential or engine"
        )
    if file.factors and file.cells:
        raise StudyError(f"{name}: give factors (crossed) or cells (a list), not both")


def _build(name: str, file: StudyFile, included: tuple[StudySpec, ...], runner: Runner | None) -> StudySpec:
    title = Path(name).stem if name.endswith(".toml") else name
    try:
        runner = runner or (included[0].runner if included else _runner(name, file))
        if file.vary:
            runner = runner.driving(file.vary)
        cells = () if included else study_cells(name, file, runner)
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
        question=file.question,
        prediction=file.prediction,
        included=included,
        engine=file.engine,
        metrics=tuple(spec.metric(metric) for metric, spec in file.metrics.items()),
        origin=runner.origin,
        sequential=file.sequential,
    )
    _check_audit(name, study)
    _check_growing(name, study)
    return study


def _runner(name: str, file: StudyFile) -> Runner:
    """What runs a study, by what its file asks for."""
    if file.plugin is not None:
        runner = _plugin(file.plugin)
        if file.metrics and runner.metrics:
            raise RunnerError(f"metrics: those of {file.plugin} are known; leave them out")
        return runner
    if file.run is None and file.runner is None:
        raise RunnerError("nothing to run: give [run] with a command, or name a runner")
    if not file.promised:
        raise RunnerError("nothing is measured; name a metric under [metrics], or in audit.value")
    for metric in file.promised:
        if metric.name in (*COLUMNS, "dataset"):
            raise RunnerError(f"metrics.{metric.name} has a meaning of its own; call the metric otherwise")
    run, path = file.run or RunSpec(), Path(name).absolute()
    folder = (path.resolve() if ".." in path.parts else path).parent  # the same from wherever it is named
    if file.runner is not None:
        if run.timeout is not None:
            raise RunnerError("run.timeout is for a program; a function has none")
        return FunctionRunner.from_name(file.runner, folder, file.promised, run.inputs, run.environment)
    command = Command(run.command or (), str(folder), run.timeout)
    return ProgramRunner(command, file.promised, run.inputs, run.environment)


def _plugin(name: str) -> Runner:
    """A runner that a package brings."""
    try:
        runner: Runner = load_plugin("runners", name)()
    except PluginError as error:
        raise RunnerError(f"runner: {error}; or name a function, as module:function") from None
    return runner


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
    metrics = list(
        dict.fromkeys(
            metric
            for part in study.parts
            for metric in (*part.runner.metrics, *(declared.name for declared in part.metrics))
        )
    )
    for value in audit.values:
        if value not in metrics:
            hint = did_you_mean(value, metrics)
            raise StudyError(
                f"{name}: audit.value {value!r} is no metric{hint} (there are {', '.join(metrics)})"
            )
    compared = levels[audit.group]
    if audit.baseline not in compared:
        hint = did_you_mean(audit.baseline, compared)
        raise StudyError(f"{name}: audit.baseline {audit.baseline!r} is no level of {audit.group}{hint}")


def _check_growing(name: str, study: StudySpec) -> None:
    """Studies that grow end each by itself, and then have different seeds."""
    growing = [part.name for part in study.parts if part.sequential is not None]
    if study.included and study.audit is not None and growing:
        raise StudyError(
            f"{name}: audit would compare studies with different seeds, since {growing[0]} is sequential and "
            "ends by itself: make them levels of a factor in one study, or leave out this [audit]"
        )
