"""A report's material from a store: by its record of studies, by named studies, or by its runs alone."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from seedspread import __version__
from seedspread.campaign.plan import Plan, PlannedRun
from seedspread.campaign.store import RunState, Store
from seedspread.campaign.study import AuditSpec
from seedspread.config import RunConfig
from seedspread.objective.schedule import layer_margins
from seedspread.report.layers import read_layers
from seedspread.report.material import (
    Material,
    Run,
    Setting,
    arm_courses,
    arm_profiles,
    ordered,
    relative,
    slug,
    try_audit,
)
from seedspread.report.plans import ReportError, plans_of
from seedspread.report.scale import TITLES, paper_setting, scale_of
from seedspread.stats.audit import audit
from seedspread.stats.result import AuditResult, Comparison
from seedspread.stats.runs import read_run
from seedspread.stats.table import TableError
from seedspread.stats.verdict import verdict

Tell = Callable[[str], None]
VALUE = "test accuracy (%)"


def from_store(path: Path, studies: Iterable[str], data_dir: Path | None, tell: Tell) -> Material:
    """Everything a store holds; what is missing is said, and is no error."""
    if not path.is_dir():
        raise ReportError(f"{path} is not a folder of runs; make one with: seedspread campaign run STUDY")
    store = Store(path)
    tell("looking for studies")
    plans, problems = plans_of(store, studies, data_dir)
    settings: list[Setting] = []
    for plan in plans:
        settings += _Reading(plan, tell, problems).settings()
    found = ordered(_once(settings))
    across, family = _across(found, tell)
    found = _adjusted(found, across, family)
    return Material(
        title=_title(plans, path),
        source=relative(path.absolute()),
        settings=found,
        across=across,
        notes=tuple(dict.fromkeys(p.study.note for p in plans if p.study.note)),
        problems=tuple(dict.fromkeys(_inside(path, line) for line in [*problems, *store.problems()])),
        provenance=_provenance(store, plans, found),
    )


def _once(settings: list[Setting]) -> list[Setting]:
    """The same comparison of the same runs in two studies is shown once, under both names."""
    first: dict[tuple[object, ...], Setting] = {}
    for s in settings:
        what = (frozenset(s.states), s.group, s.arms, s.block)
        known = first.get(what)
        if known is None:
            first[what] = s
        else:
            studies = f"{known.study}, {s.study}"
            first[what] = replace(known, title=f"{known.name} ({studies})", study=studies)
    return list(first.values())


def _inside(store: Path, line: str) -> str:
    """A page travels: it names files by their place in the store, and nobody's folders."""
    for folder in (str(store.absolute()), str(store)):
        line = line.replace(f"{folder}/", "")
    return line


def _title(plans: list[Plan], path: Path) -> str:
    titles = [plan.study.title for plan in plans]
    return titles[0] if len(titles) == 1 else f"{len(titles)} studies in {relative(path.absolute())}"


class _Reading:
    """The settings of one study."""

    def __init__(self, plan: Plan, tell: Tell, problems: list[str]) -> None:
        self._plan, self._tell, self._problems = plan, tell, problems
        self._spec = plan.study.audit

    def settings(self) -> list[Setting]:
        spec, name = self._spec, self._plan.study.name
        states = self._plan.states()
        levels: dict[str, list[PlannedRun]] = {}
        for run in self._plan.runs:
            by = str(dict(run.named.cell)[spec.by]) if spec and spec.by and spec.by != "study" else ""
            levels.setdefault(by, []).append(run)
        self._tell(f"reading {name}")
        rows = {level: self._rows(runs, states) for level, runs in levels.items()}
        frame = pd.DataFrame([row for found in rows.values() for row, _ in found])
        found = self._audit(frame)
        return [self._setting(level, levels[level], rows[level], states, found) for level in levels]

    def _audit(self, frame: pd.DataFrame) -> "AuditResult | str":
        if self._spec is None:
            return "the study names no comparison, so there is no audit"
        if frame.empty:
            return "no run is finished yet"
        frame.attrs["store"] = str(self._plan.store.path)
        by = "level" if self._spec.by and self._spec.by != "study" else None
        result: AuditResult | str = try_audit(frame, self._spec, by, self._tell)
        return result

    def _rows(self, runs: list[PlannedRun], states: dict[str, RunState]) -> list[tuple[dict[str, Any], Run]]:
        out = []
        spec = self._spec
        for planned in runs:
            if states[planned.key].state not in ("done", "collapsed"):
                continue
            folder = self._plan.store.folder(planned.key)
            row = read_run(folder)
            if isinstance(row, str):
                self._problems.append(row)
                continue
            if not math.isfinite(row["accuracy"]):
                self._problems.append(f"{folder}: its accuracy is not a number, and it is left out")
                continue
            layers = read_layers(folder, tuple(layer_margins(planned.named.config)))
            if isinstance(layers, str):
                self._problems.append(layers)
            cell = dict(planned.named.cell)
            value = 100 * row["accuracy"]
            named = {k: str(v) for k, v in cell.items()} | {"seed": planned.named.seed}
            level = str(cell[spec.by]) if spec and spec.by and spec.by != "study" else ""
            arm = str(cell[spec.group]) if spec else planned.named.title.rsplit(", seed", 1)[0]
            block = ", ".join(str(cell[b]) for b in spec.block) if spec else ""
            run = Run(
                arm, block, str(planned.named.seed), value, planned.key, row["collapsed"],
                _clamps(planned.named.config),
                None if isinstance(layers, str) else layers,
            )  # fmt: skip
            shares = {"accuracy": value, "majority": 100 * row["majority"]}
            out.append((row | named | shares | {"level": level}, run))
        return out

    def _setting(
        self,
        level: str,
        planned: list[PlannedRun],
        rows: list[tuple[dict[str, Any], Run]],
        states: dict[str, RunState],
        found: "AuditResult | str",
    ) -> Setting:
        study, spec = self._plan.study, self._spec
        runs = [run for _, run in rows]
        config = _typical(planned)
        paper = paper_setting(config) if spec and spec.group == "margin_type" else None
        partial = any("partial" in str(row["dataset"]) for row, _ in rows)
        arms = _arms(planned, spec)
        audited = None if isinstance(found, str) or _same_runs(planned, spec) else found
        comparisons = tuple(c for c in audited.comparisons if c.stratum == level) if audited else ()
        name = TITLES[paper] if paper else f"{study.name}: {level}" if level else study.name
        return Setting(
            id=slug(f"{study.name} {level}"),
            title=f"{name} ({study.name})" if paper else name,
            name=name,
            study=study.name,
            paper=paper,
            arms=arms,
            group=spec.group if spec else "",
            block=", ".join(spec.block) if spec else "",
            value=VALUE,
            runs=tuple(runs),
            comparisons=comparisons,
            audit=audited,
            why=_why(found, comparisons, planned, spec),
            config=config,
            configs=tuple({r.named.cell: r.named.config for r in planned}.values()),
            scale=scale_of(config, paper, partial),
            profiles=arm_profiles(runs, arms),
            courses=arm_courses(runs, arms),
            states={r.key: states[r.key] for r in planned},
        )


def _why(
    found: "AuditResult | str",
    comparisons: tuple[Comparison, ...],
    planned: list[PlannedRun],
    spec: AuditSpec | None,
) -> str:
    """Why there is no comparison; empty if there is one."""
    if comparisons:
        return ""
    if _same_runs(planned, spec):
        return "its arms are the same runs: what is compared makes no difference to this way of training"
    return found if isinstance(found, str) else "an arm has no finished run yet"


def _same_runs(planned: list[PlannedRun], spec: AuditSpec | None) -> bool:
    """Arms that share a run cannot be compared: cross entropy, for one, has no margin."""
    if spec is None:
        return False
    arms: dict[str, set[str]] = {}
    for run in planned:
        arms.setdefault(str(dict(run.named.cell)[spec.group]), set()).add(run.key)
    return sum(map(len, arms.values())) > len(set().union(*arms.values()))


def _clamps(config: RunConfig) -> bool:
    return config.objective.margin_type == "clamp" and config.training.rule != "cross_entropy"


def _typical(planned: list[PlannedRun]) -> RunConfig:
    """A run that clamps, if there is one: its margins are the setting's."""
    clamps = [r for r in planned if r.named.config.objective.margin_type == "clamp"]
    return (clamps or planned)[0].named.config


def _arms(planned: list[PlannedRun], spec: AuditSpec | None) -> tuple[str, ...]:
    if spec is None:
        return tuple(dict.fromkeys(r.named.title.rsplit(", seed", 1)[0] for r in planned))
    levels = dict.fromkeys(str(dict(r.named.cell)[spec.group]) for r in planned)
    return (*(a for a in levels if a != spec.reference), spec.reference)


_DATASETS = ("cifar10", "cifar100", "svhn", "fashion-mnist")


def _across(settings: tuple[Setting, ...], tell: Tell) -> tuple[AuditResult | None, dict[str, str]]:
    """The paper's comparison on its datasets, adjusted together; and which setting is which stratum, by id.

    Each dataset once, all of one size, and none in which runs fail: there is no ratio to adjust or to pool.
    """
    sizes: dict[str, dict[str, Setting]] = {}
    for s in settings:
        sound = len(s.comparisons) == 1 and not s.comparisons[0].collapse.found
        if s.is_the_papers and s.paper in _DATASETS and sound:
            sizes.setdefault(s.scale.size, {}).setdefault(str(s.paper), s)
    chosen = list(max(sizes.values(), key=len, default={}).values())
    if len(chosen) < 2:
        return None, {}
    rows = [
        {"accuracy": r.value, "margin_type": r.arm, "stability": r.block or "one", "seed": r.seed,
         "dataset": TITLES[str(s.paper)]}
        for s in chosen
        for r in s.runs
    ]  # fmt: skip
    tell("auditing the datasets together")
    try:
        found = audit(pd.DataFrame(rows), "accuracy", "margin_type", "subtract", "stability", by="dataset")
    except TableError:
        return None, {}
    return found, {s.id: TITLES[str(s.paper)] for s in chosen}


def _adjusted(
    settings: tuple[Setting, ...], across: AuditResult | None, family: dict[str, str]
) -> tuple[Setting, ...]:
    """Comparisons that are one of several datasets know it: their p value is adjusted over all of them."""
    adjusted = {c.stratum: c.p_holm for c in across.comparisons} if across else {}
    out = []
    for s in settings:
        if s.id not in family:
            out.append(s)
            continue
        c = replace(s.comparisons[0], p_holm=adjusted[family[s.id]])
        out.append(replace(s, comparisons=(replace(c, verdict=verdict(c, len(family))),)))
    return tuple(out)


def _provenance(
    store: Store, plans: list[Plan], settings: tuple[Setting, ...]
) -> tuple[tuple[str, str], ...]:
    """The facts at the foot, from every finished run."""
    seen: dict[str, Counter[str]] = {}
    for key in dict.fromkeys(r.key for plan in plans for r in plan.runs):
        for name, value in _facts(store.folder(key)):
            seen.setdefault(name, Counter())[value] += 1
    facts = [("made by", f"seedspread {__version__}")]
    facts += [(name, _listed(counts)) for name, counts in seen.items() if name != "ended"]
    if seen.get("ended"):
        facts.append(("last run ended", max(seen["ended"])))
    seeds = {s.title: sorted({r.seed for r in s.runs}, key=lambda x: (len(x), x)) for s in settings}
    facts += [(f"seeds of {title}", ", ".join(found) or "none yet") for title, found in seeds.items()]
    return tuple(facts)


def _facts(folder: Path) -> list[tuple[str, str]]:
    try:
        result = json.loads((folder / "result.json").read_bytes())
        provenance = json.loads((folder / "provenance.json").read_bytes())
        versions = ", ".join(f"{k} {v}" for k, v in sorted(provenance["versions"].items()))
        return [
            ("data", f"{result['dataset']}, fingerprint {result['fingerprint']}"),
            ("trained with", versions),
            ("Python", str(provenance["python"])),
            ("machine", _machine(provenance)),
            ("ended", str(provenance["ended"])[:19].replace("T", " ") + " UTC"),
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _machine(provenance: dict[str, Any]) -> str:
    processor = f", {provenance['processor']}" if provenance.get("processor") else ""
    threads = provenance["threads"]
    return f"{provenance['platform']}{processor}, {threads} thread{'' if threads == 1 else 's'} per run"


def _listed(counts: Counter[str]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({times} runs)" for value, times in counts.most_common())
