"""A report's material from a store: by its record of studies, by named studies, or by its runs alone."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from seedspread import __version__
from seedspread.campaign.plan import Plan, PlannedRun
from seedspread.campaign.record import remembered
from seedspread.campaign.store import RunState, Store
from seedspread.campaign.study import AuditSpec, NamedRun, Study
from seedspread.config import RunConfig
from seedspread.errors import SeedspreadError
from seedspread.objective.schedule import layer_margins
from seedspread.presets import check
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
from seedspread.report.scale import TITLES, paper_setting, scale_of
from seedspread.stats.audit import audit
from seedspread.stats.result import AuditResult
from seedspread.stats.runs import read_run
from seedspread.stats.table import TableError
from seedspread.stats.verdict import verdict

Tell = Callable[[str], None]
VALUE = "test accuracy (%)"


class ReportError(SeedspreadError):
    """There is nothing to report on, or nowhere to write it."""


def from_store(path: Path, studies: Iterable[str], data_dir: Path | None, tell: Tell) -> Material:
    """Everything a store holds; what is missing is said, and is no error."""
    if not path.is_dir():
        raise ReportError(f"{path} is not a folder of runs; make one with: seedspread campaign run STUDY")
    store = Store(path)
    tell("looking for studies")
    plans, problems = _plans(store, studies, data_dir)
    settings: list[Setting] = []
    for plan in plans:
        settings += _Reading(plan, tell, problems).settings()
    found = ordered(_once(settings))
    across = _across(found, tell)
    found = _adjusted(found, across)
    return Material(
        title=_title(plans, path),
        source=relative(path.absolute()),
        settings=found,
        across=across,
        notes=tuple(dict.fromkeys(p.study.note for p in plans if p.study.note)),
        problems=tuple(dict.fromkeys([*problems, *store.problems()])),
        provenance=_provenance(store, plans, found),
    )


def _once(settings: list[Setting]) -> list[Setting]:
    """A setting that two studies share is shown once, under both names."""
    first: dict[frozenset[str], Setting] = {}
    for s in settings:
        known = first.get(frozenset(s.states))
        if known is None or known.arms != s.arms:
            first.setdefault(frozenset(s.states), s)
        else:
            title = f"{known.title.removesuffix(')')}, {s.study})" if s.paper else known.title
            first[frozenset(s.states)] = replace(known, title=title)
    return list(first.values())


def _title(plans: list[Plan], path: Path) -> str:
    titles = [plan.study.title for plan in plans]
    return titles[0] if len(titles) == 1 else f"{len(titles)} studies in {relative(path.absolute())}"


def _plans(store: Store, studies: Iterable[str], data_dir: Path | None) -> tuple[list[Plan], list[str]]:
    named = [Study.from_file(name) for name in studies]
    if named:
        return [part.plan(store, data_dir) for study in named for part in study.parts], []
    plans, problems = remembered(store)
    if not plans:
        plans = [_plan_of_runs(store)]
    return plans, problems


def _plan_of_runs(store: Store) -> Plan:
    """Where no study is known, the finished runs themselves say in what they differ."""
    configs: dict[str, RunConfig] = {}
    for key in store.keys():  # noqa: SIM118 - not a dict
        row = read_run(store.folder(key)) if store.is_done(key) else None
        if isinstance(row, dict):
            try:
                configs[key] = check(
                    json.loads((store.folder(key) / "provenance.json").read_text())["config"]
                )
            except (OSError, ValueError, KeyError, SeedspreadError):
                continue
    if not configs:
        raise ReportError(
            f"{store.path} holds no finished run and no record of a study; name its study with --study, "
            "or run one with: seedspread campaign run STUDY --store DIR"
        )
    name = relative(store.path.absolute())
    runs = []
    cells = _cells(configs)
    for key, config in configs.items():
        runs.append(PlannedRun(NamedRun(name, cells[key], config.seeds.run, config), key))
    factors = {factor for cell in cells.values() for factor, _ in cell}
    spec = None
    levels = {dict(cell).get("margin_type") for cell in cells.values()}
    if "subtract" in levels and len(levels) > 1:
        block = ("stability",) if "stability" in factors else ()
        by = "condition" if "condition" in factors else None
        spec = AuditSpec(group="margin_type", reference="subtract", block=block, by=by)
    study = Study(name, f"The finished runs in {name}", tuple(r.named for r in runs), spec)
    return Plan(study, store, None, tuple(runs))


def _cells(configs: dict[str, RunConfig]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Margin type and stability where they vary, and all else that varies as one `condition`."""
    flat = {key: _flat(config) for key, config in configs.items()}
    names = list(dict.fromkeys(name for fields in flat.values() for name in fields))
    vary = [n for n in names if len({fields.get(n) for fields in flat.values()}) > 1]
    own = ("objective.margin_type", "objective.stability")
    out = {}
    for key, fields in flat.items():
        cell = [(n.split(".")[1], str(fields[n])) for n in own if n in vary]
        rest = ", ".join(f"{n}={fields.get(n)}" for n in vary if n not in own)
        out[key] = tuple(cell + ([("condition", rest)] if rest else []))
    return out


def _flat(config: RunConfig) -> dict[str, str]:
    values = config.model_dump(mode="json", exclude={"seeds", "runtime"})
    return {
        f"{part}.{k}": json.dumps(v) if not isinstance(v, str) else v
        for part, fields in values.items()
        for k, v in fields.items()
    }


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
                planned.named.config.objective.margin_type == "clamp",
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
        config = _typical(planned, spec)
        paper = paper_setting(config) if spec and spec.group == "margin_type" else None
        partial = any("partial" in str(row["dataset"]) for row, _ in rows)
        arms = _arms(planned, spec)
        comparisons = (
            () if isinstance(found, str) else tuple(c for c in found.comparisons if c.stratum == level)
        )
        return Setting(
            id=slug(f"{study.name} {level}"),
            title=_name(study.name, level, paper),
            study=study.name,
            paper=paper,
            arms=arms,
            group=spec.group if spec else "",
            block=", ".join(spec.block) if spec else "",
            value=VALUE,
            runs=tuple(runs),
            comparisons=comparisons,
            audit=None if isinstance(found, str) else found,
            why=found if isinstance(found, str) else "" if comparisons else "an arm has no finished run yet",
            config=config,
            scale=scale_of(config, paper, partial),
            profiles=arm_profiles(runs, arms),
            courses=arm_courses(runs, arms),
            states={r.key: states[r.key] for r in planned},
        )


def _typical(planned: list[PlannedRun], spec: AuditSpec | None) -> RunConfig:
    """A run that clamps, if there is one: its margins are the setting's."""
    clamps = [r for r in planned if r.named.config.objective.margin_type == "clamp"]
    return (clamps or planned)[0].named.config


def _arms(planned: list[PlannedRun], spec: AuditSpec | None) -> tuple[str, ...]:
    if spec is None:
        return tuple(dict.fromkeys(r.named.title.rsplit(", seed", 1)[0] for r in planned))
    levels = dict.fromkeys(str(dict(r.named.cell)[spec.group]) for r in planned)
    return (*(a for a in levels if a != spec.reference), spec.reference)


def _name(study: str, level: str, paper: str | None) -> str:
    if paper:
        return f"{TITLES[paper]} ({study})"
    return f"{study}: {level}" if level else study


def _across(settings: tuple[Setting, ...], tell: Tell) -> AuditResult | None:
    """The paper's comparison on its datasets, adjusted together; each dataset once, at one scale."""
    for same in (True, False):
        chosen = {
            s.paper: s
            for s in reversed(settings)
            if s.is_the_papers
            and s.comparisons
            and s.scale.same is same
            and s.paper in ("cifar10", "cifar100", "svhn", "fashion-mnist")
        }
        if len(chosen) < 2:
            continue
        rows = [
            {"accuracy": r.value, "margin_type": r.arm, "stability": r.block or "one", "seed": r.seed,
             "dataset": TITLES[str(s.paper)]}
            for s in ordered(list(chosen.values()))
            for r in s.runs
        ]  # fmt: skip
        tell("auditing the datasets together")
        try:
            return audit(pd.DataFrame(rows), "accuracy", "margin_type", "subtract", "stability", by="dataset")
        except TableError:
            continue
    return None


def _adjusted(settings: tuple[Setting, ...], across: AuditResult | None) -> tuple[Setting, ...]:
    """Comparisons that are one of several datasets know it: their p value is adjusted over all of them."""
    if across is None:
        return settings
    family = {c.stratum: c.p_holm for c in across.comparisons}
    out = []
    for s in settings:
        name = TITLES.get(str(s.paper))
        if s.is_the_papers and name in family and len(s.comparisons) == 1:
            c = replace(s.comparisons[0], p_holm=family[name])
            s = replace(s, comparisons=(replace(c, verdict=verdict(c, len(family))),))  # noqa: PLW2901
        out.append(s)
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
            ("machine", f"{provenance['platform']}, {provenance['threads']} threads per run"),
            ("ended", str(provenance["ended"])[:19].replace("T", " ") + " UTC"),
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _listed(counts: Counter[str]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({times} runs)" for value, times in counts.most_common())
