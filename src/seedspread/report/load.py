"""What a page is made from, read from a store or from a table with one row per run."""

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from seedspread.analysis.audit import audit
from seedspread.analysis.audit_result import AuditResult, Comparison
from seedspread.analysis.churn import churn
from seedspread.analysis.curves import curves
from seedspread.analysis.sequential import looks_of
from seedspread.analysis.words import devices_note
from seedspread.errors import SeedspreadError, did_you_mean, require_extra
from seedspread.report.extension import (
    Extension,
    Point,
    ReportData,
    ReportError,
    Scale,
    Setting,
    extension_of,
    ordered,
    publication_order,
    relative,
    slug,
)
from seedspread.report.layers import layer_bands
from seedspread.runs.files import UNREADABLE
from seedspread.runs.levels import Levels, joined_levels, level_name, setting_name, stratum_name
from seedspread.runs.metrics import SCORED, Better, Metric, metric_of
from seedspread.runs.run import Run
from seedspread.runs.store import FINISHED, RunState, Store, devices
from seedspread.runs.studies import AuditSpec, RecordedCell, RecordedStudy, load_studies
from seedspread.tables.from_store import crashed_rows, read_runs, shared_runs
from seedspread.tables.question import Rows, TableError
from seedspread.tables.run_table import MOST_PAIRS
from seedspread.version import __version__

StatusCallback = Callable[[str], None]
_Row = dict[str, Any]
# A finished run as a row to audit and as a point.
_Finished = list[tuple[_Row, Point]]
_FILES_SHOWN = 20
_SAME_RUNS = "its arms are the same runs: what is compared makes no difference to this way of training"


def load_table(
    source: "str | Path",
    value: str | None,
    group: str | None,
    baseline: str | None,
    block: Sequence[str] | None,
    seed: str | None,
    by: "str | Sequence[str] | None",
    better: Better | None = None,
    **rows: Unpack[Rows],
) -> ReportData:
    """Return a setting for each level of `by`; the report lacks what a table does not contain."""
    rows["command"] = "report"
    result = audit(source, value, group, baseline, block, seed, by, better=better, **rows)
    if len(result.comparisons) > MOST_PAIRS:
        raise TableError(
            f"{len(result.comparisons):,} comparisons; a page shows up to {MOST_PAIRS:,}: choose some with "
            "--where, or use seedspread audit"
        )
    path = Path(source)
    strata = list(dict.fromkeys(strip.stratum for strip in result.values))
    return ReportData(
        title=f"{result.value} by {result.group}",
        source=relative(path),
        settings=ordered([_setting_of_table(result, stratum, path) for stratum in strata]),
        across=result if result.forests else None,
        notes=result.notes,
        provenance=(
            ("made by", f"seedspread {__version__}"),
            ("data", f"{result.rows:,} rows of {relative(path)}"),
        ),
    )


def _setting_of_table(result: AuditResult, stratum: Levels, path: Path) -> Setting:
    strips = [s for s in result.values if s.stratum == stratum]
    arms = tuple(s.group for s in strips if s.group != result.baseline)
    comparisons = tuple(c for c in result.comparisons if c.stratum == stratum)
    name = stratum_name(result.by, stratum) if stratum else path.stem
    return Setting(
        id=slug(name),
        title=name,
        name=name,
        study="",
        arms=(*arms, result.baseline) if result.baseline else arms,
        group=result.group,
        block_factors=result.blocks,
        metric=result.metric,
        runs=tuple(
            Point(strip.group, block, seed, value)
            for strip in strips
            for value, block, seed in zip(strip.values, strip.blocks, strip.seeds, strict=True)
        ),
        comparisons=comparisons,
        audit=result,
        why="" if comparisons else f"it has no {result.baseline or 'second level'} run, or nothing else",
        scale=Scale(f"from {relative(path)}"),
        levels=tuple(zip(result.by, stratum, strict=True)),
    )


def load_store(
    path: Path,
    studies: Iterable[RecordedStudy] = (),
    value: str | None = None,
    tell: StatusCallback = lambda _: None,
) -> ReportData:
    """Return everything a store holds; what is missing is reported, and is no error.

    By default of the studies that it records, each by its own metric. `tell` hears of every step.
    """
    require_extra("report", "a report")
    if not path.is_dir():
        raise ReportError(f"{path} is not a folder of runs; make one with: {_run_command(path)}")
    store = Store(path)
    tell("looking for studies")
    recorded, problems = _studies(store, studies)
    extensions = {study.runner: extension_of(study.runner) for study in recorded}
    parts = [
        _StudyMetric(study, extensions[study.runner], store, name, tell, problems, alone=len(recorded) == 1)
        for study in recorded
        for name in ([value] if value else study.audit.values if study.audit else ["accuracy"])
    ]
    if all(part.lacking for part in parts):
        raise ReportError(parts[0].lacking)
    tell("checking files")
    finished = dict.fromkeys(key for study in recorded for key in study.keys if store.is_done(key))
    problems += [*store.problems(), *filter(None, map(store.verified, finished))]
    drafts = [draft for part in parts for draft in part.drafts.values()]
    across, judged = _judge_together(drafts, list(extensions.values()), tell)
    settings = ordered(_shown_once([s for part in parts for s in part.settings(judged)]))
    titles = [study.title for study in recorded]
    name = relative(path.absolute())
    notes = [
        line
        for study in recorded
        for line in (*study.asked, *([study.note] if study.note else []), *shared_runs(study))
    ]
    notes += devices_note(devices(str(store.folder(key)) for key in finished))
    return ReportData(
        title=titles[0] if len(titles) == 1 else f"{len(titles)} studies in {name}",
        source=name,
        settings=settings,
        across=across,
        notes=tuple(dict.fromkeys(notes)),
        problems=tuple(dict.fromkeys(_relative_to(path, line) for line in problems)),
        provenance=_provenance(store, recorded, settings),
        extensions=tuple(extensions.values()),
    )


def _run_command(store: Path) -> str:
    return shlex.join(["seedspread", "run", "STUDY", "--store", str(store)])


def _shown_once(settings: list[Setting]) -> list[Setting]:
    """Show the same comparison of the same runs in two studies once, under both names."""
    unique: dict[tuple[object, ...], Setting] = {}
    for s in settings:
        comparison = (frozenset(s.states), s.group, s.arms, s.block, s.metric.name)
        first = unique.setdefault(comparison, s)
        if first is not s:
            studies = f"{first.study}, {s.study}"
            unique[comparison] = replace(first, title=f"{first.name} ({studies})", study=studies)
    return list(unique.values())


def _relative_to(store: Path, line: str) -> str:
    """Name files by their place in the store: a page that others see names no folder of this machine."""
    for folder in (str(store.absolute()), str(store)):
        line = line.replace(f"{folder}/", "")
    return line


def _studies(store: Store, requested: Iterable[RecordedStudy]) -> tuple[list[RecordedStudy], list[str]]:
    """Return the studies to report on, and a line on each record that cannot be read.

    The parameters of their cells are as the package of their runner reads them.
    """
    studies, problems = list(requested), list[str]()
    if not studies:
        studies, problems = load_studies(store)
    out = []
    for study in studies:
        read = extension_of(study.runner).parameters
        try:
            cells = tuple(replace(cell, parameters=read(cell.parameters)) for cell in study.cells)
        except SeedspreadError as error:
            problems.append(f"the record of {study.name} cannot be used: {error}")
        else:
            out.append(replace(study, cells=cells))
    if not out:
        why = "; ".join(problems) or f"{store.path} holds no record of a study"
        raise ReportError(f"{why}; name its study with --study, or run one with: {_run_command(store.path)}")
    return out, problems


def strata(spec: AuditSpec | None) -> tuple[str, ...]:
    """Return the factors of a study whose levels are audited separately."""
    return tuple(name for name in spec.strata if name != "study") if spec is not None else ()


def arms_of(cells: Sequence[RecordedCell], spec: AuditSpec | None) -> tuple[str, ...]:
    """Return what is compared, the baseline last."""
    if spec is None:
        return tuple(dict.fromkeys(cell.title for cell in cells))
    there = dict.fromkeys(level_name(cell.levels[spec.group]) for cell in cells)
    return (*(a for a in there if a != spec.baseline), spec.baseline)


def _share_runs(cells: Sequence[RecordedCell], spec: AuditSpec | None) -> bool:
    """Return whether arms have a run in common, so that they cannot be compared."""
    if spec is None:
        return False
    runs: dict[str, set[str]] = {}
    for cell in cells:
        runs.setdefault(level_name(cell.levels[spec.group]), set()).update(cell.runs.values())
    return sum(map(len, runs.values())) > len(set().union(*runs.values()))


@dataclass(frozen=True, eq=False)
class _Draft:
    """A setting before it is audited, with the rows of its finished and of its crashed runs."""

    setting: Setting
    rows: list[_Row]
    crashed: list[_Row]
    arms_share_runs: bool


class _StudyMetric:
    """A study by one of its metrics.

    Attributes:
        drafts: its settings before they are audited, by the levels of the factors it is audited by.
        lacking: an error message if its finished runs lack the metric.
    """

    def __init__(
        self,
        study: RecordedStudy,
        extension: Extension,
        store: Store,
        name: str,
        tell: StatusCallback,
        problems: list[str],
        *,
        alone: bool,
    ) -> None:
        self._study, self._spec, self._extension = study, study.audit, extension
        self._store, self._name, self._tell, self._problems = store, name, tell, problems
        self._alone, self.lacking = alone, ""
        tell(f"reading {study.name}")
        states = {
            key: replace(state, message=_relative_to(store.path, state.message))
            for key, state in store.states(study.keys).items()
        }
        self._metric, runs = self._finished(states)
        crashed = crashed_rows(store, study.at_last_look)
        cells: dict[Levels, list[RecordedCell]] = {}
        for cell in study.cells:
            cells.setdefault(self._stratum(cell.levels), []).append(cell)
        self.drafts = {
            stratum: self._draft(
                some,
                [pair for pair in runs if self._stratum(pair[0]) == stratum],
                [row for row in crashed if self._stratum(row) == stratum],
                states,
            )
            for stratum, some in cells.items()
        }

    def _stratum(self, levels: Mapping[str, Any]) -> Levels:
        return tuple(level_name(levels[name]) for name in strata(self._spec))

    def _finished(self, states: dict[str, RunState]) -> tuple[Metric, _Finished]:
        """Return the metric as people read it, and each finished run as a row to audit and as a point."""
        name, judged = self._name, frozenset(self._study.at_last_look.keys)
        read, problems = read_runs(self._store, [self._study], [name])
        self._problems += problems
        runs = [(run, run.row([name])) for run in read if states[run.key].state in FINISHED]
        if runs and not any(name in row for _, row in runs):
            self.lacking = f"no run of {self._study.name} has {name!r}{did_you_mean(name, SCORED)}"
        # The unit follows from all values together; people read shares in per cent.
        values = np.array([row[name] for _, row in runs if math.isfinite(row.get(name, math.nan))])
        declared = {metric.name: metric for metric in self._study.metrics}
        metric, factor = (declared.get(name) or metric_of(name, values)).for_display
        cells, spec = {cell.name: cell for cell in self._study.cells}, self._spec
        out = []
        for run, row in runs if not self.lacking else ():
            if run.key not in judged:
                continue
            if not math.isfinite(row.get(name, math.nan)):
                self._problems.append(f"{run.folder}: it has no {name} that is a number, and is left out")
                continue
            scaled = {column: factor * row[column] for column in (name, f"chance.{name}") if column in row}
            cell = cells[run.cell_name]
            layers = self._extension.layers(Path(run.folder), cell.parameters)
            if isinstance(layers, str):
                self._problems.append(layers)
            point = Point(
                arm=level_name(cell.levels[spec.group]) if spec else cell.title,
                block=tuple(level_name(cell.levels[block]) for block in spec.blocks) if spec else (),
                seed=str(run.seed),
                value=scaled[name],
                key=run.key,
                collapsed=row["collapsed"],
                clamps=self._extension.saturates(cell.parameters),
                layers=None if isinstance(layers, str) else layers,
            )
            out.append((row | scaled, point))
        return metric, out

    def _draft(
        self, cells: list[RecordedCell], runs: _Finished, crashed: list[_Row], states: dict[str, RunState]
    ) -> _Draft:
        study, spec, extension = self._study, self._spec, self._extension
        rows, points = [row for row, _ in runs], [point for _, point in runs]
        partial = any("partial" in str(row["dataset"]) for row in rows)
        parameters = extension.typical(cells)
        published = extension.published(cells, spec, self._name, partial)
        arms = arms_of(cells, spec)
        profiles, curves = layer_bands(points, arms)
        levels = tuple(extension.level(name, level_name(cells[0].levels[name])) for name in strata(spec))
        label = setting_name(levels)
        several = [self._name] if spec is not None and len(spec.values) > 1 else []
        name = ", ".join([label or (published.title if published else study.name), *several])
        title = f"{name} ({study.name})" if (published and not label) or (label and not self._alone) else name
        setting = Setting(
            id=slug(" ".join([study.name, label, *several])),
            title=title,
            name=name,
            study=study.name,
            arms=arms,
            group=spec.group if spec else "",
            block_factors=spec.blocks if spec else (),
            metric=self._metric,
            runs=tuple(points),
            published=published,
            parameters=parameters,
            all_parameters=tuple(cell.parameters for cell in cells),
            scale=extension.scale(parameters, published, partial),
            profiles=profiles,
            curves=curves,
            states={key: state for cell in cells for key, state in cell.named(states).items()},
            levels=levels,
            crashed=tuple((row[spec.group], str(row["seed"])) for row in crashed) if spec else (),
            # the interim looks are at the first metric
            sequential=study.sequential if spec and self._name == spec.values[0] else None,
        )
        return _Draft(setting, rows, crashed, _share_runs(cells, spec))

    def settings(self, judged: Mapping[_Draft, Comparison]) -> Iterator[Setting]:
        """Audit the settings; `judged` has the comparisons of drafts that are judged together with others."""
        result = self._audit({stratum: judged[d] for stratum, d in self.drafts.items() if d in judged})
        for stratum, draft in self.drafts.items():
            audited = None if isinstance(result, str) or draft.arms_share_runs else result
            comparisons = tuple(c for c in audited.comparisons if c.stratum == stratum) if audited else ()
            why = result if isinstance(result, str) else "an arm has no finished run yet"
            why = _SAME_RUNS if draft.arms_share_runs else why
            found = self._behavior(draft.rows) if comparisons else {"why": why}
            yield replace(draft.setting, comparisons=comparisons, audit=audited, **found)

    def _behavior(self, rows: list[_Row]) -> dict[str, Any]:
        """Return the churn and the curves of runs that kept predictions, or logged their metric by step."""
        runs, spec, found = pd.DataFrame(rows), self._spec, dict[str, Any]()
        if spec is None:
            return found
        with suppress(TableError, *UNREADABLE):
            found["training"] = curves(runs, self._name, spec.group, spec.blocks)
        if self._name == spec.values[0]:  # once, whatever number of metrics there is
            with suppress(TableError, *UNREADABLE):
                found["churn"] = churn(runs, "accuracy", spec.group, spec.baseline, spec.blocks)
        return found

    def _audit(self, judged: Mapping[Levels, Comparison]) -> "AuditResult | str":
        """Return the audit, or why there is none."""
        spec, metric = self._spec, self._metric
        if spec is None:
            return "the study names no comparison, so there is no audit"
        if not any(draft.setting.runs for draft in self.drafts.values()):
            return self.lacking or "no run is finished yet"
        self._tell("auditing")
        drafts = self.drafts.values()
        rows = [row for d in drafts for row in d.rows] + [row for d in drafts for row in d.crashed]
        try:
            return audit(
                pd.DataFrame(rows), metric.name, spec.group, spec.baseline, list(spec.blocks) or None,
                by=strata(spec), metric=metric, look=looks_of(self._study.sequential), judged_with=judged,
            )  # fmt: skip
        except TableError as error:
            return str(error)


def _judge_together(
    drafts: list[_Draft], extensions: Iterable[Extension], tell: StatusCallback
) -> tuple[AuditResult | None, dict[_Draft, Comparison]]:
    """Audit settings that answer one question together, a stratum each.

    A setting whose runs fail has no ratio to adjust or to pool, and is judged by itself.
    """
    candidates = [d for d in drafts if not d.arms_share_runs]
    candidates.sort(key=lambda d: publication_order(d.setting))
    while True:
        settings = [d.setting for d in candidates]
        family = [s for extension in extensions for s in extension.judged_together(settings)]
        if len(family) < 2:
            return None, {}
        members = {_dataset(s): next(d for d in candidates if d.setting is s) for s in family}
        tell("auditing the datasets together")
        value, group, block = family[0].metric.name, family[0].group, family[0].block or "block"
        frame = pd.DataFrame(
            {value: row.get(value), f"chance.{value}": row.get(f"chance.{value}"), group: row[group],
             block: joined_levels(tuple(row[name] for name in d.setting.block_factors)) or "one",
             "seed": row["seed"], "collapsed": row["collapsed"], "dataset": dataset}
            for dataset, d in members.items()
            for row in (*d.rows, *d.crashed)
        )  # fmt: skip
        try:
            metric, baseline = family[0].metric, family[0].arms[-1]
            across = audit(frame, value, group, baseline, block, by="dataset", metric=metric)
        except TableError:
            return None, {}
        found = {c.stratum[0]: c for c in across.comparisons}
        failing = [d for name, d in members.items() if name not in found or found[name].failures]
        if not failing:
            return across, {d: found[name] for name, d in members.items()}
        candidates = [d for d in candidates if d not in failing]


def _dataset(s: Setting) -> str:
    return s.published.title if s.published is not None else s.name


def _provenance(
    store: Store, studies: list[RecordedStudy], settings: tuple[Setting, ...]
) -> tuple[tuple[str, str], ...]:
    """Return the facts at the foot of the page: with what, on what and when its runs were made."""
    seen: dict[str, Counter[str]] = {}
    for key in dict.fromkeys(key for study in studies for key in study.keys):
        for name, value in _facts(store.folder(key)):
            seen.setdefault(name, Counter())[value] += 1
    facts = [("made by", f"seedspread {__version__}")]
    accepted = {key for study in studies for key in study.accepted.values()}
    if accepted:
        facts.append(("made with other inputs than now", f"{len(accepted)} runs, kept by --accept-changed"))
    for name, counts in seen.items():
        several = "; ".join(f"{value} ({times} runs)" for value, times in counts.most_common())
        facts += [(name, several if len(counts) > 1 else next(iter(counts)))] if name != "ended" else []
    if seen.get("ended"):
        facts.append(("last run ended", max(seen["ended"])))
    seeds = {s.title: sorted({r.seed for r in s.runs}, key=lambda x: (len(x), x)) for s in settings}
    facts += [(f"seeds of {title}", ", ".join(numbers) or "none yet") for title, numbers in seeds.items()]
    return tuple(facts)


def _facts(folder: Path) -> list[tuple[str, str]]:
    try:
        run = Run.read(str(folder))
        facts = run.provenance
        processor = f", {facts['processor']}" if facts.get("processor") else ""
        threads = f"{facts['threads']} thread{'' if facts['threads'] == 1 else 's'} per run"
        return [
            *_what_ran(run),
            ("run with", ", ".join(f"{k} {v}" for k, v in sorted(facts["versions"].items()))),
            ("Python", str(facts["python"])),
            ("machine", f"{facts['platform']}{processor}, {threads}"),
            *([("device", str(facts.get("gpu") or facts["device"]))] if "device" in facts else []),
            ("ended", str(facts["ended"])[:19].replace("T", " ") + " UTC"),
        ]
    except UNREADABLE:
        return []


def _what_ran(run: Run) -> list[tuple[str, str]]:
    if "fingerprint" in run.result:
        return [("data", f"{run.dataset}, fingerprint {run.result['fingerprint']}")]
    facts = run.provenance
    files = [(f"content of {name}", f"SHA-256 {digest}") for name, digest in facts.get("inputs", {}).items()]
    variables = facts.get("environment", {}).items()
    return [
        *([("command", shlex.join(facts["command"]))] if "command" in facts else []),
        *files[:_FILES_SHOWN],
        *([("inputs", f"and {len(files) - _FILES_SHOWN} more files")] if len(files) > _FILES_SHOWN else []),
        *((f"${name}", "not set" if value is None else str(value)) for name, value in variables),
    ]
