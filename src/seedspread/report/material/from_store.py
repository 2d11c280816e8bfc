"""A report's material from a store: by its record of studies, by given studies, or by its runs alone."""

import math
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seedspread.analysis.audit import audit
from seedspread.analysis.comparison import AuditResult, Comparison
from seedspread.analysis.looks import looks_of
from seedspread.errors import did_you_mean, require_extra
from seedspread.report.extension import extension_of
from seedspread.report.material import cells as cells_of
from seedspread.report.material.layers import RunLayers
from seedspread.report.material.provenance import provenance
from seedspread.report.material.settings import (
    ReportData,
    Run,
    Setting,
    arm_curves,
    arm_profiles,
    ordered,
    relative,
    slug,
    try_audit,
)
from seedspread.report.material.studies import ReportError, studies_of
from seedspread.runs.levels import joined_levels, level_name, setting_name
from seedspread.runs.metrics import SCORED, Metric, metric_of
from seedspread.runs.store import FINISHED, RunState, Store
from seedspread.runs.studies import RecordedCell, RecordedStudy
from seedspread.tables.errors import TableError
from seedspread.tables.from_store import CellRun, crashed_rows, read_runs, shared_runs

StatusCallback = Callable[[str], None]


def from_store(
    path: Path,
    studies: Iterable[RecordedStudy] = (),
    value: str | None = None,
    tell: StatusCallback = lambda _: None,
) -> ReportData:
    """Everything a store holds; what is missing is reported, and is no error.

    Args:
        path: the store.
        studies: which ones; by default those that the store records.
        value: the metric; by default each study's own.
        tell: called with a line of status.
    """
    require_extra("report", "a report")
    if not path.is_dir():
        command = shlex.join(["seedspread", "run", "STUDY", "--store", str(path)])
        raise ReportError(f"{path} is not a folder of runs; make one with: {command}")
    store = Store(path)
    tell("looking for studies")
    recorded, problems = studies_of(store, studies)
    readings = [
        _Reading(study, store, name, tell, problems, alone=len(recorded) == 1)
        for study in recorded
        for name in ([value] if value else study.audit.values if study.audit else ["accuracy"])
    ]
    settings = [setting for reading in readings for setting in reading.settings()]
    lacking = [reading.lacking for reading in readings]
    if all(lacking):
        raise ReportError(lacking[0])
    reported = ordered(_once(settings))
    extensions = tuple({study.runner: extension_of(study.runner) for study in recorded}.values())
    together = [s for extension in extensions for s in extension.judged_together(reported)]
    across = _across(together, tell)
    reported = _adjusted(reported, across, together)
    return ReportData(
        title=_title(recorded, path),
        source=relative(path.absolute()),
        settings=reported,
        across=across,
        notes=tuple(dict.fromkeys(line for study in recorded for line in _notes(study))),
        problems=tuple(dict.fromkeys(_inside(path, line) for line in [*problems, *store.problems()])),
        provenance=provenance(store, recorded, reported),
        extensions=extensions,
    )


def _notes(study: RecordedStudy) -> list[str]:
    return [*study.asked, *([study.note] if study.note else []), *shared_runs(study)]


def _once(settings: list[Setting]) -> list[Setting]:
    """The same comparison of the same runs in two studies is shown once, under both names."""
    unique: dict[tuple[object, ...], Setting] = {}
    for s in settings:
        comparison = (frozenset(s.states), s.group, s.arms, s.block, s.metric.name)
        first = unique.setdefault(comparison, s)
        if first is not s:
            studies = f"{first.study}, {s.study}"
            unique[comparison] = replace(first, title=f"{first.name} ({studies})", study=studies)
    return list(unique.values())


def _inside(store: Path, line: str) -> str:
    """A page travels: it names files by their place in the store, and nobody's folders."""
    for folder in (str(store.absolute()), str(store)):
        line = line.replace(f"{folder}/", "")
    return line


def _title(studies: list[RecordedStudy], path: Path) -> str:
    titles = [study.title for study in studies]
    return titles[0] if len(titles) == 1 else f"{len(titles)} studies in {relative(path.absolute())}"


class _Reading:
    """The settings of one study; `lacking` is an error message if its finished runs lack the metric."""

    def __init__(
        self,
        study: RecordedStudy,
        store: Store,
        value: str,
        tell: StatusCallback,
        problems: list[str],
        alone: bool,
    ) -> None:
        self._alone = alone
        self._study, self._store, self._tell, self._problems = study, store, tell, problems
        self._spec, self._extension = study.audit, extension_of(study.runner)
        self._stored = value
        self._metric, self._factor = self._declared(None).for_display
        self._crashed: list[dict[str, Any]] = []
        self._judged = frozenset(study.looked_at.keys)
        self.lacking = ""

    def _declared(self, values: "NDArray[np.float64] | None") -> Metric:
        """The metric as the study declares it, or as its name and values tell."""
        declared = {metric.name: metric for metric in self._study.metrics}
        return declared.get(self._stored) or metric_of(self._stored, values)

    @property
    def _value_if_several(self) -> list[str]:
        """What tells the settings of one study apart that is reported by several metrics."""
        return [self._stored] if self._spec is not None and len(self._spec.values) > 1 else []

    def settings(self) -> list[Setting]:
        states = {
            key: replace(state, message=_inside(self._store.path, state.message))
            for key, state in self._store.states(self._study.keys).items()
        }
        levels: dict[str, list[RecordedCell]] = {}
        for cell in self._study.cells:
            levels.setdefault(cells_of.stratum(cell, self._spec), []).append(cell)
        self._tell(f"reading {self._study.name}")
        rows: dict[str, list[tuple[dict[str, Any], Run]]] = {level: [] for level in levels}
        for run, row in self._finished(states):
            if run.key in self._judged and (pair := self._row(run, row)) is not None:
                rows[cells_of.stratum(run.cell, self._spec)].append(pair)
        finished = [row for pairs in rows.values() for row, _ in pairs]
        self._crashed = crashed_rows(self._store, self._study.looked_at)
        result = self._audit(pd.DataFrame([*finished, *self._crashed] if finished else []))
        return [self._setting(level, levels[level], rows[level], states, result) for level in levels]

    def _finished(self, states: dict[str, RunState]) -> list[tuple[CellRun, dict[str, Any]]]:
        """Every finished run with its row; the metric's unit follows from all values together."""
        name = self._stored
        read, problems = read_runs(self._store, [self._study], [name])
        self._problems += problems
        runs = [(run, run.row()) for run in read if states[run.key].state in FINISHED]
        values = np.array([row[name] for _, row in runs if math.isfinite(row.get(name, math.nan))])
        if runs and not any(name in row for _, row in runs):
            self.lacking = f"no run of {self._study.name} has {name!r}{did_you_mean(name, SCORED)}"
        # People read shares in per cent.
        self._metric, self._factor = self._declared(values).for_display
        return runs

    def _audit(self, frame: pd.DataFrame) -> "AuditResult | str":
        if self._spec is None:
            return "the study names no comparison, so there is no audit"
        if frame.empty:
            return self.lacking or "no run is finished yet"
        strata, looks = cells_of.strata(self._spec), looks_of(self._study.sequential)
        return try_audit(frame, self._metric, self._spec, strata, self._tell, looks)

    def _row(self, found: CellRun, row: dict[str, Any]) -> tuple[dict[str, Any], Run] | None:
        """A finished run as a row of the table to audit and as a run of the report; None if it is no use."""
        cell, name, folder = found.cell, self._stored, self._store.folder(found.key)
        if self.lacking:
            return None
        if not math.isfinite(row.get(name, math.nan)):
            self._problems.append(f"{folder}: it has no {name} that is a number, and is left out")
            return None
        value = self._factor * row[name]
        scaled = {name: value}
        if f"chance.{name}" in row:
            scaled[f"chance.{name}"] = self._factor * row[f"chance.{name}"]
        run = Run(
            arm=level_name(cell.levels[self._spec.group]) if self._spec else cell.title,
            block=cells_of.block(cell, self._spec),
            seed=str(found.seed),
            value=value,
            key=found.key,
            collapsed=row["collapsed"],
            clamps=self._extension.saturates(cell.parameters),
            layers=self._layers(folder, cell.parameters),
        )
        return row | scaled, run

    def _layers(self, folder: Path, parameters: Any) -> RunLayers | None:
        layers = self._extension.layers(folder, parameters)
        if isinstance(layers, str):
            self._problems.append(layers)
            return None
        return layers

    def _setting(
        self,
        level: str,
        cells: list[RecordedCell],
        rows: list[tuple[dict[str, Any], Run]],
        states: dict[str, RunState],
        result: "AuditResult | str",
    ) -> Setting:
        study, spec = self._study, self._spec
        runs = [run for _, run in rows]
        partial = any("partial" in str(row["dataset"]) for row, _ in rows)
        parameters = self._extension.typical(cells)
        published = self._extension.published(cells, spec, self._stored, partial)
        arms = cells_of.arms(cells, spec)
        same = cells_of.are_the_same_runs(cells, spec)
        audited = None if isinstance(result, str) or same else result
        comparisons = tuple(c for c in audited.comparisons if c.stratum == level) if audited else ()
        levels = cells_of.levels(cells[0], spec, self._extension)
        label = setting_name(levels)
        name = ", ".join([label or (published.title if published else study.name), *self._value_if_several])
        title = f"{name} ({study.name})" if (published and not label) or (label and not self._alone) else name
        return Setting(
            id=slug(" ".join([study.name, label, *self._value_if_several])),
            title=title,
            name=name,
            study=study.name,
            arms=arms,
            group=spec.group if spec else "",
            block=", ".join(spec.blocks) if spec else "",
            metric=self._metric,
            runs=tuple(runs),
            comparisons=comparisons,
            audit=audited,
            why=_why(result, comparisons, same),
            published=published,
            parameters=parameters,
            all_parameters=tuple(cell.parameters for cell in cells),
            scale=self._extension.scale(parameters, published, partial),
            profiles=arm_profiles(runs, arms),
            curves=arm_curves(runs, arms),
            states={key: state for cell in cells for key, state in cell.named(states).items()},
            levels=levels,
            crashed=self._crashed_in(level),
            # the looks are at the first metric
            growing=study.sequential if spec and self._stored == spec.values[0] else None,
        )

    def _crashed_in(self, level: str) -> tuple[tuple[str, str], ...]:
        """Arm and seed of the runs of a setting that ended with an error of their own."""
        spec = self._spec
        if spec is None:
            return ()
        strata = cells_of.strata(spec)
        inside = [r for r in self._crashed if joined_levels([r[name] for name in strata]) == level]
        return tuple((row[spec.group], str(row["seed"])) for row in inside)


def _why(result: "AuditResult | str", comparisons: tuple[Comparison, ...], same: bool) -> str:
    """Why there is no comparison; empty if there is one."""
    if comparisons:
        return ""
    if same:
        return "its arms are the same runs: what is compared makes no difference to this way of training"
    return result if isinstance(result, str) else "an arm has no finished run yet"


def _across(together: list[Setting], tell: StatusCallback) -> AuditResult | None:
    """One audit of settings that are judged together: a stratum each, by its published title."""
    if len(together) < 2:
        return None
    first = together[0]
    rows = [
        {first.metric.name: r.value, first.group: r.arm, first.block or "block": r.block or "one",
         "seed": r.seed, "dataset": _stratum(s)}
        for s in together
        for r in s.runs
    ]  # fmt: skip
    tell("auditing the datasets together")
    value, block = first.metric.name, first.block or "block"
    try:
        return audit(pd.DataFrame(rows), value, first.group, first.arms[-1], block, by="dataset")
    except TableError:
        return None


def _stratum(s: Setting) -> str:
    return s.published.title if s.published is not None else s.name


def _adjusted(
    settings: tuple[Setting, ...], across: AuditResult | None, together: list[Setting]
) -> tuple[Setting, ...]:
    """Comparisons that are one of several datasets know it: they are judged with all of them."""
    if across is None:
        return settings
    judged = {c.stratum: c for c in across.comparisons}
    family = {s.id for s in together}
    out = []
    for s in settings:
        if s.id not in family:
            out.append(s)
            continue
        c, found = s.comparisons[0], judged[_stratum(s)]
        headline = replace(c.headline, adjusted_interval=found.headline.adjusted_interval)
        c = replace(c, p_holm=found.p_holm, word=found.word, headline=headline, family=len(family))
        out.append(replace(s, comparisons=(c,)))
    return tuple(out)
