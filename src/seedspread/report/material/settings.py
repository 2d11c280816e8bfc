"""What a report is made of, whatever it comes from: settings with their runs, audits and layers."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from seedspread.analysis.audit import audit
from seedspread.analysis.comparison import AuditResult, Comparison
from seedspread.report.extension import Extension, Published, Scale
from seedspread.report.material.layers import Profile, RunLayers, TrainingCurve, profile, training_curve
from seedspread.runs.levels import arm_name, block_name
from seedspread.runs.metrics import Metric
from seedspread.runs.sequential import SequentialRecord
from seedspread.runs.store import RunState, State
from seedspread.runs.studies import AuditSpec
from seedspread.stats.result import Looks
from seedspread.tables.errors import TableError


@dataclass(frozen=True)
class Run:
    """A finished run: its condition, its value in the report's units, and its layers if they were measured.

    `clamps` is whether its rates are of saturation, or only what its margins would cut.
    """

    arm: str
    block: str
    seed: str
    value: float
    key: str = ""
    collapsed: bool = False
    clamps: bool = True
    layers: RunLayers | None = None


@dataclass(frozen=True)
class Setting:
    """One place where arms are compared: a study, or one level of the factor that it audits apart.

    Attributes:
        id: short and stable.
        title: for people; no two settings of a report have the same.
        name: shorter, without the study, where that is clear.
        study: the names of the studies that share it, joined; empty for a table.
        published: what a publication prints for it, if anything.
        levels: of the factors that its study is audited by, which tell it from the study's other settings.
        arms: the groups, the baseline last.
        group: the factor that is compared.
        block: the factors in which a seed is run again, joined.
        metric: what is measured, as it is shown.
        runs: those that are finished.
        comparisons: the audit's.
        audit: the whole of it; None where there is none.
        why: why there is none, or what is wrong with it.
        parameters: those that stand for it, as its runner's package has them.
        all_parameters: of every cell.
        scale: on what data, what was trained, and how that stands to published runs.
        profiles: `rate` and `gradient` by arm, with the final weights.
        curves: the same over training.
        states: of its planned runs, by key.
        crashed: arm and seed of runs that ended with an error of their own.
        growing: the rule and the looks of its study, if that grows until its answer is in.
    """

    id: str
    title: str
    name: str
    study: str
    arms: tuple[str, ...]
    group: str
    block: str
    metric: Metric
    runs: tuple[Run, ...]
    comparisons: tuple[Comparison, ...] = ()
    audit: AuditResult | None = None
    why: str = ""
    published: Published | None = None
    parameters: Any = None
    all_parameters: tuple[Any, ...] = ()
    scale: Scale = field(default_factory=Scale)
    profiles: dict[str, dict[str, Profile]] = field(default_factory=dict)
    curves: dict[str, dict[str, TrainingCurve]] = field(default_factory=dict)
    states: dict[str, RunState] = field(default_factory=dict)
    levels: tuple[tuple[str, str], ...] = ()
    crashed: tuple[tuple[str, str], ...] = ()
    growing: SequentialRecord | None = None

    def arm_title(self, arm: str) -> str:
        """`clamp`, `depth = 2`."""
        return arm_name(self.group, arm)

    def block_title(self, block: str) -> str:
        """`detach`, `batch = 32`."""
        return block_name(self.block.split(", "), block)

    def condition(self, arm: str, block: str) -> str:
        """`clamp, detach`."""
        return ", ".join(part for part in (self.arm_title(arm), self.block_title(block)) if part)

    def label(self, run: Run) -> str:
        """Hover text of a run."""
        lines = [f"{self.condition(run.arm, run.block)}, seed {run.seed}", f"{run.value:.4g}"]
        lines += [f"run {run.key}"] if run.key else []
        lines += ["collapsed"] if run.collapsed else []
        return "\n".join(lines)

    def crashed_seeds(self, arm: str) -> set[str]:
        """Seeds of an arm that have a run which ended with an error."""
        return {seed for of, seed in self.crashed if of == arm}

    @property
    def value(self) -> str:
        """What is measured, for an axis or a sentence."""
        return self.metric.label

    @property
    def beside(self) -> Published | None:
        """Published values that stand beside its own: those of the same question."""
        return self.published if self.published is not None and self.published.same_question else None

    def follows(self, kind: str) -> str:
        """The published table or figure of that kind; empty if there is none."""
        return self.beside.follows(kind) if self.beside is not None else ""

    @property
    def blocks(self) -> tuple[str, ...]:
        """The levels in which seeds are repeated."""
        return tuple(dict.fromkeys(run.block for run in self.runs))

    def of(self, arm: str, block: str | None = None) -> list[Run]:
        """The runs of an arm, by seed."""
        runs = [r for r in self.runs if r.arm == arm and block in (None, r.block)]
        return sorted(runs, key=lambda r: (r.seed.isdigit() and int(r.seed), r.seed, r.block))

    @property
    def counts(self) -> Counter[State]:
        """How many of its planned runs are in each state."""
        return Counter(state.state for state in self.states.values())

    @property
    def origin(self) -> str:
        """Where its numbers come from, for under a table or a figure."""
        return origins([self])


@dataclass(frozen=True)
class ReportData:
    """Everything a page is made from.

    Attributes:
        title: what the report is about.
        source: what was read.
        settings: published ones first, in the publication's order, then the rest.
        across: the audit of settings that are judged together.
        notes: what a reader should know of the whole.
        problems: files that could not be read.
        provenance: facts for the foot of the page, in order.
        extensions: what packages add to the page of their runs.
    """

    title: str
    source: str
    settings: tuple[Setting, ...]
    across: AuditResult | None = None
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    provenance: tuple[tuple[str, str], ...] = ()
    extensions: tuple[Extension, ...] = ()


def origins(settings: list[Setting]) -> str:
    """Where the numbers of several settings come from: data and, once for all that share it, size."""
    sizes: dict[tuple[str, str], list[str]] = {}
    every = {(s.scale.size, s.scale.remark) for s in settings}
    for s in (s.scale for s in settings):
        if s.data:
            broader = (s.size, s.broader)
            sizes.setdefault(broader if broader in every else (s.size, s.remark), []).append(s.data)
    said = {what: "; ".join(part for part in what if part) for what in sizes}
    parts = (
        "; ".join(dict.fromkeys(data)) + (f" ({said[w]})" if said[w] else "") for w, data in sizes.items()
    )
    return ". ".join(parts)


def ordered(settings: list[Setting]) -> tuple[Setting, ...]:
    """Published ones first, in the publication's order; each with an id, a title and a name of its own.

    The settings of one study keep the study's order.
    """
    in_order = sorted(settings, key=lambda s: s.published.order if s.published and not s.levels else math.inf)
    ids, titles = _unique([s.id for s in in_order], _RESERVED), _unique([s.title for s in in_order])
    names = Counter(s.name for s in in_order)
    return tuple(
        replace(s, id=unique, title=title, name=s.name if names[s.name] == 1 else title)
        for s, unique, title in zip(in_order, ids, titles, strict=True)
    )


# Ids of the page's own parts.
_RESERVED = ("layers", "datasets", "trust", "setup", "paper-check")


def _unique(names: list[str], reserved: tuple[str, ...] = ()) -> list[str]:
    """Repeated names get numbers: on a page, and in a folder, one would hide the other."""
    out: list[str] = []
    for name in names:
        candidates = (name, *(f"{name}-{number}" for number in range(2, len(names) + len(reserved) + 2)))
        out.append(next(c for c in candidates if c not in out and c not in reserved))
    return out


def try_audit(
    frame: pd.DataFrame,
    metric: Metric,
    spec: AuditSpec,
    by: tuple[str, ...],
    tell: Callable[[str], None],
    looks: Looks | None = None,
) -> AuditResult | str:
    """An audit of a metric, or why there cannot be one."""
    try:
        tell("auditing")
        block = list(spec.blocks) or None
        return audit(frame, metric.name, spec.group, spec.baseline, block, by=by, metric=metric, look=looks)
    except TableError as error:
        return str(error)


def arm_profiles(runs: list[Run], arms: tuple[str, ...]) -> dict[str, dict[str, Profile]]:
    """`rate` and `gradient` with the final weights, by arm."""
    out: dict[str, dict[str, Profile]] = {"rate": {}, "gradient": {}}
    for arm, seeds, layers, would_be in _with_layers(runs, arms):
        out["rate"][arm] = profile(seeds, [x.rate for x in layers], would_be)
        out["gradient"][arm] = profile(seeds, [x.gradient for x in layers], would_be)
    return out


def arm_curves(runs: list[Run], arms: tuple[str, ...]) -> dict[str, dict[str, TrainingCurve]]:
    """The same over training."""
    out: dict[str, dict[str, TrainingCurve]] = {"rate": {}, "gradient": {}}
    for arm, seeds, layers, would_be in _with_layers(runs, arms):
        epochs = [x.epochs for x in layers]
        out["rate"][arm] = training_curve(seeds, epochs, [x.rates for x in layers], would_be)
        out["gradient"][arm] = training_curve(seeds, epochs, [x.gradients for x in layers], would_be)
    return out


def _with_layers(
    runs: list[Run], arms: tuple[str, ...]
) -> Iterator[tuple[str, list[str], list[RunLayers], bool]]:
    """By arm that has any: seeds, layers, and whether any of its rates is only would-be."""
    for arm in arms:
        measured = [r for r in runs if r.arm == arm and r.layers is not None]
        if measured:
            layers = [r.layers for r in measured if r.layers is not None]
            yield arm, [r.seed for r in measured], layers, not all(r.clamps for r in measured)


def slug(text: str) -> str:
    """A name that can stand in an address and in a file's name."""
    kept = "".join(c if c.isalnum() and c.isascii() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part)[:60] or "setting"


def relative(path: Path) -> str:
    """A file's name for a page that travels: nobody's home directory."""
    return path.name or str(path)
