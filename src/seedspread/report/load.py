"""Read the data of a page from a store, or from a table with one row per run."""

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from seedspread.analysis.audit import audit
from seedspread.analysis.audit_result import AuditResult, Comparison
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
from seedspread.runs.store import FINISHED, Store, devices
from seedspread.runs.studies import AuditSpec, RecordedCell, RecordedStudy, load_studies
from seedspread.tables.columns import MOST_PAIRS
from seedspread.tables.from_store import crashed_rows, read_runs, shared_runs
from seedspread.tables.question import Rows, TableError
from seedspread.version import __version__

# Settings of a study before the audit, by the levels of the factors of its `by`.
_Drafts = dict[Levels, Setting]
_SAME_RUNS = "its groups are the same runs: what is compared makes no difference to this way of training"


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
    """Return a setting for each level of `by`; whatever the table does not contain is left out."""
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
        across=result if result.averages else None,
        notes=result.notes,
        provenance=(("made by", f"seedspread {__version__}"), ("data", f"{result.rows:,} rows")),
    )


def _setting_of_table(result: AuditResult, stratum: Levels, path: Path) -> Setting:
    strips = [s for s in result.values if s.stratum == stratum]
    groups = tuple(s.group for s in strips if s.group != result.baseline)
    comparisons = tuple(c for c in result.in_order if c.stratum == stratum)
    name = stratum_name(result.by, stratum) if stratum else path.stem
    return Setting(
        id=slug(name),
        title=name,
        name=name,
        study="",
        groups=(*groups, result.baseline) if result.baseline else groups,
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
    tell: Callable[[str], None] = lambda _: None,
) -> ReportData:
    """Return the results of a store; missing runs and unreadable files are reported, and are no error.

    By default, read all recorded studies, each with its own metrics. `tell` is called before every step.
    """
    require_extra("report", "a report")
    if not path.is_dir():
        raise ReportError(f"{path} is not a folder of runs; make one with: {_run_command(path)}")
    store = Store(path)
    tell("looking for studies")
    recorded, problems = _studies(store, studies)
    extensions = {study.runner: extension_of(study.runner) for study in recorded}
    parts: list[tuple[RecordedStudy, _Drafts, str]] = []
    for study in recorded:
        tell(f"reading {study.name}")
        for name in [value] if value else study.audit.values if study.audit else ["accuracy"]:
            points, metric, lacking = _finished(store, study, extensions[study.runner], name, problems)
            drafts = _drafts(store, study, extensions[study.runner], metric, points, len(recorded) == 1)
            parts.append((study, drafts, lacking))
    if all(lacking for _, _, lacking in parts):
        raise ReportError(parts[0][2])
    tell("checking files")
    finished = dict.fromkeys(key for study in recorded for key in study.keys if store.is_done(key))
    problems += [*store.problems(), *filter(None, map(store.verified, finished))]
    tell("auditing")
    every = [draft for _, drafts, _ in parts for draft in drafts.values()]
    across, judged = _judge_together(every, list(extensions.values()))
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
        settings=ordered(_shown_once([s for part in parts for s in _audited(*part, judged)])),
        across=across,
        notes=tuple(dict.fromkeys(notes)),
        problems=tuple(dict.fromkeys(_relative_to(path, line) for line in problems)),
        provenance=_provenance(store, recorded),
        extensions=tuple(extensions.values()),
    )


def _run_command(store: Path) -> str:
    return shlex.join(["seedspread", "run", "STUDY", "--store", str(store)])


def _shown_once(settings: list[Setting]) -> list[Setting]:
    """Show the same comparison of the same runs in two studies once, under both names."""
    unique: dict[tuple[object, ...], Setting] = {}
    for s in settings:
        comparison = (frozenset(s.states), s.group, s.groups, s.block, s.metric.name)
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

    The extension of a study's runner reads the parameters of its cells.
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


def levels_compared(cells: Sequence[RecordedCell], spec: AuditSpec | None) -> tuple[str, ...]:
    """Return the levels to compare, the baseline last."""
    if spec is None:
        return tuple(dict.fromkeys(cell.title for cell in cells))
    there = dict.fromkeys(level_name(cell.levels[spec.group]) for cell in cells)
    return (*(a for a in there if a != spec.baseline), spec.baseline)


def _share_runs(cells: Sequence[RecordedCell], spec: AuditSpec | None) -> bool:
    """Return whether groups have a run in common, so that they cannot be compared."""
    if spec is None:
        return False
    runs: dict[str, set[str]] = {}
    for cell in cells:
        runs.setdefault(level_name(cell.levels[spec.group]), set()).update(cell.runs.values())
    return sum(map(len, runs.values())) > len(set().union(*runs.values()))


def _stratum(study: RecordedStudy, levels: Mapping[str, Any]) -> Levels:
    return tuple(level_name(levels[name]) for name in strata(study.audit))


def _finished(
    store: Store, study: RecordedStudy, extension: Extension, name: str, problems: list[str]
) -> tuple[list[Point], Metric, str]:
    """Return the finished runs, the metric for display, and an error message if no run has it."""
    read, unread = read_runs(store, [study], [name])
    problems += unread
    states, judged = store.states(study.keys), frozenset(study.at_last_look.keys)
    runs = [(run, run.row([name])) for run in read if states[run.key].state in FINISHED]
    # The unit is inferred from all values together; shares are displayed in percent.
    values = np.array([row[name] for _, row in runs if math.isfinite(row.get(name, math.nan))])
    declared = {metric.name: metric for metric in study.metrics}
    metric, factor = (declared.get(name) or metric_of(name, values)).for_display
    if runs and not any(name in row for _, row in runs):
        return [], metric, f"no run of {study.name} has {name!r}{did_you_mean(name, SCORED)}"
    cells, spec = {cell.name: cell for cell in study.cells}, study.audit
    out = []
    for run, row in runs:
        if run.key not in judged:
            continue
        if not math.isfinite(row.get(name, math.nan)):
            problems.append(f"{run.folder}: it has no {name} that is a number, and is left out")
            continue
        scaled = {column: factor * row[column] for column in (name, f"chance.{name}") if column in row}
        cell = cells[run.cell_name]
        layers = extension.layers(Path(run.folder), cell.parameters)
        if isinstance(layers, str):
            problems.append(layers)
        point = Point(
            group=level_name(cell.levels[spec.group]) if spec else cell.title,
            block=tuple(level_name(cell.levels[block]) for block in spec.blocks) if spec else (),
            seed=str(run.seed),
            value=scaled[name],
            key=run.key,
            collapsed=row["collapsed"],
            layers=None if isinstance(layers, str) else layers,
            row=row | scaled,
        )
        out.append(point)
    return out, metric, ""


def _drafts(
    store: Store, study: RecordedStudy, extension: Extension, metric: Metric, runs: list[Point], alone: bool
) -> _Drafts:
    """Return the settings of a study for one of its metrics, not audited yet."""
    spec, crashed = study.audit, crashed_rows(store, study.at_last_look)
    states = {
        key: replace(state, message=_relative_to(store.path, state.message))
        for key, state in store.states(study.keys).items()
    }
    by_stratum: dict[Levels, list[RecordedCell]] = {}
    for cell in study.cells:
        by_stratum.setdefault(_stratum(study, cell.levels), []).append(cell)
    out = {}
    for stratum, cells in by_stratum.items():
        points = [point for point in runs if _stratum(study, point.row) == stratum]
        partial = any("partial" in str(point.row["dataset"]) for point in points)
        published = extension.published(cells, spec, metric.name, partial)
        groups = levels_compared(cells, spec)
        profiles, curves = layer_bands(points, groups)
        levels = tuple(extension.level(name, level_name(cells[0].levels[name])) for name in strata(spec))
        label = setting_name(levels)
        several = [metric.name] if spec is not None and len(spec.values) > 1 else []
        name = ", ".join([label or (published.title if published else study.name), *several])
        with_study = (published and not label) or (label and not alone)
        out[stratum] = Setting(
            id=slug(" ".join([study.name, label, *several])),
            title=f"{name} ({study.name})" if with_study else name,
            name=name,
            study=study.name,
            groups=groups,
            group=spec.group if spec else "",
            block_factors=spec.blocks if spec else (),
            metric=metric,
            runs=tuple(points),
            why=_SAME_RUNS if _share_runs(cells, spec) else "",
            published=published,
            parameters=tuple(cell.parameters for cell in cells),
            scale=extension.scale(cells, published, partial),
            profiles=profiles,
            curves=curves,
            states={key: state for cell in cells for key, state in cell.named(states).items()},
            levels=levels,
            crashed=tuple(row for row in crashed if _stratum(study, row) == stratum) if spec else (),
            # interim looks are taken at the first metric only
            sequential=study.sequential if spec and metric.name == spec.values[0] else None,
        )
    return out


def _audited(
    study: RecordedStudy, drafts: _Drafts, lacking: str, judged: Mapping[int, Comparison]
) -> Iterator[Setting]:
    """Audit the settings; `judged` has the comparisons of settings that are judged together."""
    together = {stratum: judged[id(s)] for stratum, s in drafts.items() if id(s) in judged}
    result = _audit(study, list(drafts.values()), lacking, together)
    for stratum, s in drafts.items():
        if isinstance(result, str) or s.why:
            yield replace(s, why=s.why or str(result))
            continue
        comparisons = tuple(c for c in result.in_order if c.stratum == stratum)
        why = "" if comparisons else "a group has no finished run yet"
        yield replace(s, comparisons=comparisons, audit=result, why=why)


def _audit(
    study: RecordedStudy, settings: list[Setting], lacking: str, judged: Mapping[Levels, Comparison]
) -> "AuditResult | str":
    """Return the audit, or the reason why there is none."""
    spec, metric = study.audit, settings[0].metric
    if spec is None:
        return "the study names no comparison, so there is no audit"
    if not any(s.runs for s in settings):
        return lacking or "no run is finished yet"
    rows = [point.row for s in settings for point in s.runs] + [row for s in settings for row in s.crashed]
    try:
        return audit(
            pd.DataFrame(rows), metric.name, spec.group, spec.baseline, list(spec.blocks) or None,
            by=strata(spec), metric=metric, look=looks_of(study.sequential), judged_with=judged,
        )  # fmt: skip
    except TableError as error:
        return str(error)


def _judge_together(
    drafts: list[Setting], extensions: Iterable[Extension]
) -> tuple[AuditResult | None, dict[int, Comparison]]:
    """Audit settings that answer one question together, each a stratum; return comparisons by object id.

    A setting with failing runs has no ratio to adjust or to pool, and is judged by itself.
    """
    candidates = sorted((s for s in drafts if not s.why), key=publication_order)
    while True:
        family = [s for extension in extensions for s in extension.judged_together(candidates)]
        if len(family) < 2:
            return None, {}
        value, group, block = family[0].metric.name, family[0].group, family[0].block or "block"
        frame = pd.DataFrame(
            {value: row.get(value), f"chance.{value}": row.get(f"chance.{value}"), group: row[group],
             block: joined_levels(tuple(row[name] for name in s.block_factors)) or "one",
             "seed": row["seed"], "collapsed": row["collapsed"], "dataset": _dataset(s)}
            for s in family
            for row in (*(point.row for point in s.runs), *s.crashed)
        )  # fmt: skip
        try:
            metric, baseline = family[0].metric, family[0].groups[-1]
            across = audit(frame, value, group, baseline, block, by="dataset", metric=metric)
        except TableError:
            return None, {}
        by_dataset = {c.stratum[0]: c for c in across.comparisons}
        failing = [s for s in family if _dataset(s) not in by_dataset or by_dataset[_dataset(s)].failures]
        if not failing:
            return across, {id(s): by_dataset[_dataset(s)] for s in family}
        candidates = [s for s in candidates if not any(s is failed for failed in failing)]


def _dataset(s: Setting) -> str:
    return s.published.title if s.published is not None else s.name


def _provenance(store: Store, studies: list[RecordedStudy]) -> tuple[tuple[str, str], ...]:
    """Return the facts at the foot of the page: the software, machine, data and time of its runs."""
    seen: dict[str, Counter[str]] = {}
    for key in dict.fromkeys(key for study in studies for key in study.keys):
        for name, value in _facts(store.folder(key)):
            seen.setdefault(name, Counter())[value] += 1
    facts = [("made by", f"seedspread {__version__}")]
    accepted = {key for study in studies for key in study.accepted.values()}
    if accepted:
        facts.append(("made with other inputs than now", f"{len(accepted)} runs, kept by --accept-changed"))
    ended = seen.pop("ended", Counter())
    for name, counts in seen.items():
        several = "; ".join(f"{value} ({times} runs)" for value, times in counts.most_common())
        facts.append((name, several if len(counts) > 1 else next(iter(counts))))
    return (*facts, *([("last run ended", max(ended))] if ended else []))


def _facts(folder: Path) -> list[tuple[str, str]]:
    try:
        run = Run.read(str(folder))
        facts = run.provenance
        fingerprint, command = run.result.get("fingerprint"), facts.get("command")
        where = facts.get("gpu") or facts.get("device")
        machine = [facts["platform"], facts.get("processor"), where, f"threads per run: {facts['threads']}"]
        versions = {"Python": facts["python"]} | facts["versions"]
        return [
            *([("data", f"{run.dataset}, fingerprint {fingerprint}")] if fingerprint else []),
            *([("command", shlex.join(command))] if command else []),
            ("run with", ", ".join(f"{k} {v}" for k, v in sorted(versions.items()))),
            ("machine", ", ".join(str(part) for part in machine if part)),
            ("ended", str(facts["ended"])[:19].replace("T", " ") + " UTC"),
        ]
    except UNREADABLE:
        return []
