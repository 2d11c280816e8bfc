"""The content of a page, and the extensions by which packages add to it, found by their runner's name."""

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
        folds: details for thorough readers, each folded under its own heading.
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
    """The data and size of runs, and how they compare with published runs.

    Attributes:
        remark: how it compares, such as "not the paper's scale".
        same: whether it is the published scale; None if unknown.
    """

    data: str = ""
    size: str = ""
    remark: str = ""
    same: bool | None = None


@dataclass(frozen=True)
class Published:
    """Values that a publication prints for a setting, shown beside the setting's own.

    Kinds of tables and charts: factorial, pooled, per-seed, spread, profiles.

    Attributes:
        order: place among the publication's settings.
        same_question: whether the setting and the publication compare the same groups; if not, its values
            are not shown.
        heading: heading over its columns.
    """

    name: str
    title: str
    order: int = 0
    same_question: bool = True
    heading: str = "published"

    def follows(self, kind: str) -> str:
        """Return the name of its table or figure of that kind, `the paper's Table 5`, or an empty text."""
        return ""

    def values(self, kind: str, methods: Sequence[str], *groups: str) -> list[str]:
        """Return its printed values for groups (`clamp`, `clamp/detach`) by method; a dash if not printed."""
        return ["-"] * len(methods)

    def parameters(self) -> Any:
        """Return the parameters of its runs, as the extension reads them; None if it does not print them."""
        return None

    def runs(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """Return every printed run by group and block; an empty block has the runs of the first one."""
        return {}


class Extension:
    """A package's additions to the page of its runs; overriding any method is optional."""

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Return a cell's stored parameters as the package's own object, for the other methods."""
        return values

    def level(self, factor: str, level: str) -> tuple[str, str]:
        """Return a factor and its level, named for display."""
        return factor, level

    def layers(self, folder: Path, parameters: Any) -> "RunLayers | str | None":
        """Return a run's records by layer, or an error message; None if it has no layers.

        The default reads what the run's code logged with `seedspread.log(layer=...)`.
        """
        return read_layers(folder)

    def published(
        self, cells: Sequence[RecordedCell], audit: AuditSpec | None, metric: str, partial: bool
    ) -> Published | None:
        """Return published values for these cells; `partial` is whether runs saw only part of the data."""
        return None

    def scale(self, cells: Sequence[RecordedCell], published: Published | None, partial: bool) -> Scale:
        """Return the data and size of a setting's runs."""
        return Scale()

    def further_rates(self, s: "Setting", settings: "Sequence[Setting]") -> dict[str, LayerBand]:
        """Return further lines for a setting's figure of rates, by name."""
        return {}

    def judged_together(self, settings: "Sequence[Setting]") -> "list[Setting]":
        """Return settings, not audited yet, that answer one question and are judged together."""
        return []

    def advice(self, setting: "Setting") -> list[str]:
        """Return the package's advice on what to do next."""
        return []

    def exhibits(self, data: "ReportData") -> dict[str, list[Exhibit | None]]:
        """Return further tables and charts, by section id."""
        return {}


def extension_of(runner: str) -> Extension:
    """Return the extension for a runner's runs; one that adds nothing if no package has one."""
    if runner not in plugins("reports"):
        return Extension()
    extension: Extension = load_plugin("reports", runner)()
    return extension


class ReportError(SeedspreadError):
    """There is nothing to report on, or the report cannot be written."""


@dataclass(frozen=True)
class Point:
    """A finished run: its condition, its value in the report's units, and its layers if measured.

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
    """A place in which groups are compared: a study, a table, or one level of the factors of `by`.

    Attributes:
        title: distinct from that of every other setting of the report.
        name: shorter than the title, without the study if that is clear.
        study: names of the studies that share the setting, joined; empty for a table.
        groups: levels of `group`, the baseline last.
        block_factors: factors varied within a seed.
        why: reason why there is no comparison.
        parameters: the parameters of its cells, as its runner's extension reads them.
        profiles: `rate` and `gradient` by layer and group, with the final weights.
        curves: `rate` and `gradient` by layer and group, over training.
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
        """Return the groups in the order of tables and figures: numbers are sorted."""
        return in_order(self.groups)

    def group_title(self, group: str) -> str:
        return group_name(self.group, group)

    @property
    def block(self) -> str:
        """Return the factors varied within a seed, as a heading."""
        return ", ".join(self.block_factors)

    def block_title(self, block: Levels) -> str:
        return block_name(self.block_factors, block)

    def condition(self, group: str, block: Levels) -> str:
        """Return `clamp, detach`."""
        return ", ".join(part for part in (self.group_title(group), self.block_title(block)) if part)

    def label(self, run: Point) -> str:
        """Return the hover text of a run."""
        lines = [f"{self.condition(run.group, run.block)}, seed {run.seed}", f"{run.value:.4g}"]
        lines += [f"run {run.key}"] if run.key else []
        lines += ["collapsed"] if run.collapsed else []
        return "\n".join(lines)

    @property
    def beside(self) -> Published:
        """Return the published values of the same question; if there are none, they are empty and unnamed."""
        return self.published if self.published and self.published.same_question else Published("", "")

    @property
    def blocks(self) -> tuple[Levels, ...]:
        return tuple(dict.fromkeys(run.block for run in self.runs))

    def of(self, group: str, block: Levels | None = None) -> list[Point]:
        """Return the runs of a group, by seed."""
        runs = [r for r in self.runs if r.group == group and block in (None, r.block)]
        return sorted(runs, key=lambda r: (r.seed.isdigit() and int(r.seed), r.seed, r.block))

    def color(self, group: str) -> str:
        """Return the color of a group, the same in every figure; the baseline has the first color."""
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
    """All data of a page.

    Attributes:
        source: the store or table that was read.
        settings: published ones first, in the publication's order.
        across: audit of the settings judged together.
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
    """Return the line under a table or figure: the data of the settings, and each size once."""
    data: dict[str, list[str]] = {}
    for scale in (s.scale for s in settings if s.scale.data):
        about = "; ".join(filter(None, (scale.size, scale.remark)))
        data.setdefault(about, []).append(scale.data)
    named = ((about, "; ".join(dict.fromkeys(names))) for about, names in data.items())
    return ". ".join(f"{names} ({about})" if about else names for about, names in named)


def publication_order(s: Setting) -> float:
    """Return the sort key of a setting: published ones come first, others keep the order of their study."""
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


# Ids of the page's own sections.
_RESERVED = ("layers", "datasets", "trust", "setup")


def _unique(names: list[str], reserved: tuple[str, ...] = ()) -> list[str]:
    """Number repeated names: on a page or in a folder, one would hide the other."""
    out: list[str] = []
    for name in names:
        candidates = (name, *(f"{name}-{number}" for number in range(2, len(names) + len(reserved) + 2)))
        out.append(next(c for c in candidates if c not in out and c not in reserved))
    return out


def slug(text: str) -> str:
    """Return a name that is safe in a URL and in a file name."""
    kept = "".join(c if c.isalnum() and c.isascii() else "-" for c in text.lower())
    return "-".join(part for part in kept.split("-") if part)[:60] or "setting"


def relative(path: Path) -> str:
    """Return a file's name without its folders: others may see the page."""
    return path.name or str(path)
