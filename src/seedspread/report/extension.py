"""What a page is made from, and what packages add to it, found by the name of their runner."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seedspread.analysis.audit_result import AuditResult, Comparison
from seedspread.errors import SeedspreadError
from seedspread.render.chart import COLORS, Chart
from seedspread.render.table import Table
from seedspread.report.layers import LayerBand, LayerBands, RunLayers, read_layers
from seedspread.runs.levels import Levels, block_name, group_name, in_order
from seedspread.runs.metrics import Metric
from seedspread.runs.plugins import load_plugin, plugins
from seedspread.runs.store import RunState, State
from seedspread.runs.studies import AuditSpec, RecordedCell, SequentialRecord

Exhibit = Table | Chart


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        id: anchor on the page.
        words: paragraphs; the first is the verdict.
        folds: what only a thorough reader wants, each under a heading of its own.
    """

    id: str
    title: str
    words: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    folds: "tuple[Section, ...]" = ()

    @property
    def all(self) -> tuple[Exhibit, ...]:
        return (*self.exhibits, *(e for fold in self.folds for e in fold.all))


@dataclass(frozen=True)
class Scale:
    """On what data and at what size runs were made, and how that compares with published runs.

    Attributes:
        remark: how it compares, such as "not the paper's scale".
        same: whether it is the published scale; None if that cannot be told.
    """

    data: str = ""
    size: str = ""
    remark: str = ""
    same: bool | None = None


@dataclass(frozen=True)
class Published:
    """Values that a publication prints for a setting, to stand beside its own.

    Kinds are those of tables and charts: factorial, pooled, per-seed, spread, profiles.

    Attributes:
        order: place among the publication's settings.
        same_question: whether the setting compares what the publication compares; only then do the values
            stand beside its own.
        heading: heading over its columns.
    """

    name: str
    title: str
    order: int = 0
    same_question: bool = True
    heading: str = "published"

    def follows(self, kind: str) -> str:
        """Return its table or figure of that kind, `the paper's Table 5`; empty if there is none."""
        return ""

    def values(self, kind: str, methods: Sequence[str], *groups: str) -> list[str]:
        """Return what it prints of these groups (`clamp`, `clamp/detach`), by method; a dash if nothing."""
        return ["-"] * len(methods)

    def parameters(self) -> Any:
        """Return the parameters of its runs, as the extension reads them; None if it does not print them."""
        return None

    def runs(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """Return every run that it prints, by group and block; under no block those of its first one."""
        return {}


class Extension:
    """What a package adds to the page of its runs; every method may be left out."""

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Return a cell's stored parameters as the package's own object, for the other methods."""
        return values

    def level(self, factor: str, level: str) -> tuple[str, str]:
        """Return a factor and its level as people read them."""
        return factor, level

    def layers(self, folder: Path, parameters: Any) -> "RunLayers | str | None":
        """Return what a run recorded by layer, or what is wrong with its files; None if it has no layers.

        By default what its code logged with `seedspread.log(layer=...)`.
        """
        return read_layers(folder)

    def published(
        self, cells: Sequence[RecordedCell], audit: AuditSpec | None, metric: str, partial: bool
    ) -> Published | None:
        """Return published values of a setting of these cells; `partial`: runs saw part of their data."""
        return None

    def scale(self, cells: Sequence[RecordedCell], published: Published | None, partial: bool) -> Scale:
        """Return on what data and at what size its runs were made."""
        return Scale()

    def further_rates(self, s: "Setting", settings: "Sequence[Setting]") -> dict[str, LayerBand]:
        """Return further lines of a setting's figure of rates, by their name."""
        return {}

    def judged_together(self, settings: "Sequence[Setting]") -> "list[Setting]":
        """Return settings that answer one question and are judged together, before they are audited."""
        return []

    def advice(self, setting: "Setting") -> list[str]:
        """Return what to do, as the package sees it."""
        return []

    def exhibits(self, data: "ReportData") -> dict[str, list[Exhibit | None]]:
        """Return further tables and charts, by the id of their section."""
        return {}


def extension_of(runner: str) -> Extension:
    """Return what a package adds for that runner's runs; nothing if none does."""
    if runner not in plugins("reports"):
        return Extension()
    extension: Extension = load_plugin("reports", runner)()
    return extension


class ReportError(SeedspreadError):
    """There is nothing to report on, or nowhere to write it."""


@dataclass(frozen=True)
class Point:
    """A finished run: its condition, its value in the report's units, and its layers if they were measured.

    Attributes:
        row: the run as a row of a table to audit.
    """

    group: str
    block: Levels
    seed: str
    value: float
    key: str = ""
    collapsed: bool = False
    layers: RunLayers | None = None
    row: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """One place where groups are compared: a study, a table, or one level of the factors they are audited by.

    Attributes:
        title: distinct from that of every other setting of the report.
        name: shorter than the title, without the study if that is clear.
        study: names of the studies that share the setting, joined; empty for a table.
        groups: levels of `group`, the baseline last.
        block_factors: factors in which a seed is run again.
        why: reason why there is no comparison.
        parameters: those of its cells, as the package of its runner reads them.
        profiles: `rate` and `gradient` by group, with the final weights.
        curves: `rate` and `gradient` by group, over training.
        levels: factors and levels that distinguish it from the other settings of its study.
        crashed: a row for each run that ended with an error of its own.
        sequential: stopping rule and interim looks of a sequential study.
    """

    id: str
    title: str
    name: str
    study: str
    groups: tuple[str, ...]
    group: str
    block_factors: tuple[str, ...]
    metric: Metric
    runs: tuple[Point, ...]
    comparisons: tuple[Comparison, ...] = ()
    audit: AuditResult | None = None
    why: str = ""
    published: Published | None = None
    parameters: tuple[Any, ...] = ()
    scale: Scale = field(default_factory=Scale)
    profiles: LayerBands = field(default_factory=dict)
    curves: LayerBands = field(default_factory=dict)
    states: dict[str, RunState] = field(default_factory=dict)
    levels: tuple[tuple[str, str], ...] = ()
    crashed: tuple[Mapping[str, Any], ...] = ()
    sequential: SequentialRecord | None = None

    @property
    def in_order(self) -> list[str]:
        """Return the groups as tables and figures list them: numbers in their order."""
        return in_order(self.groups)

    def group_title(self, group: str) -> str:
        return group_name(self.group, group)

    @property
    def block(self) -> str:
        """Return the factors in which a seed is run again, as a heading."""
        return ", ".join(self.block_factors)

    def block_title(self, block: Levels) -> str:
        return block_name(self.block_factors, block)

    def condition(self, group: str, block: Levels) -> str:
        """`clamp, detach`."""
        return ", ".join(part for part in (self.group_title(group), self.block_title(block)) if part)

    def label(self, run: Point) -> str:
        """Return the hover text of a run."""
        lines = [f"{self.condition(run.group, run.block)}, seed {run.seed}", f"{run.value:.4g}"]
        lines += [f"run {run.key}"] if run.key else []
        lines += ["collapsed"] if run.collapsed else []
        return "\n".join(lines)

    @property
    def beside(self) -> Published:
        """Return the published values to print beside the setting's own, if they answer the same question.

        Otherwise there are none, and what is returned has no name.
        """
        return self.published if self.published and self.published.same_question else Published("", "")

    @property
    def blocks(self) -> tuple[Levels, ...]:
        return tuple(dict.fromkeys(run.block for run in self.runs))

    def of(self, group: str, block: Levels | None = None) -> list[Point]:
        """Return the runs of a group, by seed."""
        runs = [r for r in self.runs if r.group == group and block in (None, r.block)]
        return sorted(runs, key=lambda r: (r.seed.isdigit() and int(r.seed), r.seed, r.block))

    def color(self, group: str) -> str:
        """Return the color of a group in every figure; the baseline has the first."""
        return COLORS[self.groups[::-1].index(group) % len(COLORS)]

    @property
    def counts(self) -> Counter[State]:
        """Number of planned runs in each state."""
        return Counter(state.state for state in self.states.values())

    @property
    def origin(self) -> str:
        return origins([self])


@dataclass(frozen=True)
class ReportData:
    """Everything a page is made from.

    Attributes:
        source: store or table that was read.
        settings: published ones first, in the publication's order.
        across: audit of the settings that are judged together.
        problems: files that could not be read.
        provenance: names and values at the foot of the page.
    """

    title: str
    source: str
    settings: tuple[Setting, ...]
    across: AuditResult | None = None
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    provenance: tuple[tuple[str, str], ...] = ()
    extensions: tuple[Extension, ...] = ()


def origins(settings: Sequence[Setting]) -> str:
    """Return the line under a table or figure: the data of several settings and, once, their sizes."""
    data: dict[str, list[str]] = {}
    for scale in (s.scale for s in settings if s.scale.data):
        about = "; ".join(filter(None, (scale.size, scale.remark)))
        data.setdefault(about, []).append(scale.data)
    named = ((about, "; ".join(dict.fromkeys(names))) for about, names in data.items())
    return ". ".join(f"{names} ({about})" if about else names for about, names in named)


def publication_order(s: Setting) -> float:
    """Return the place of a setting on the page: published ones first; a study keeps its own order."""
    return s.published.order if s.published and not s.levels else math.inf


def ordered(settings: list[Setting]) -> tuple[Setting, ...]:
    """Sort settings, and make their ids, titles and names unique."""
    in_order = sorted(settings, key=publication_order)
    ids, titles = _unique([s.id for s in in_order], _RESERVED), _unique([s.title for s in in_order])
    names = Counter(s.name for s in in_order)
    return tuple(
        replace(s, id=unique, title=title, name=s.name if names[s.name] == 1 else title)
        for s, unique, title in zip(in_order, ids, titles, strict=True)
    )


Row = tuple[Setting, Comparison]


def questions(data: ReportData) -> list[list[Row]]:
    """Group the comparisons by question: one baseline of one factor, by one metric."""
    out: dict[tuple[str, str, str], list[Row]] = {}
    for s in data.settings:
        for c in s.comparisons:
            out.setdefault((s.metric.name, s.group, c.baseline), []).append((s, c))
    return list(out.values())


# Ids of the page's own parts.
_RESERVED = ("layers", "datasets", "trust", "setup")


def _unique(names: list[str], reserved: tuple[str, ...] = ()) -> list[str]:
    """Number repeated names: on a page, and in a folder, one would hide the other."""
    out: list[str] = []
    for name in names:
        candidates = (name, *(f"{name}-{number}" for number in range(2, len(names) + len(reserved) + 2)))
        out.append(next(c for c in candidates if c not in out and c not in reserved))
    return out


def slug(text: str) -> str:
    """Return a name that can stand in an address and in a file's name."""
    kept = "".join(c if c.isalnum() and c.isascii() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part)[:60] or "setting"


def relative(path: Path) -> str:
    """Return a file's name for a page that others may see: without the folders of this machine."""
    return path.name or str(path)
