"""What a package adds to the page of its runner's runs, found by the runner's name (`runs/plugins.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedspread.runs.plugins import load_plugin, plugins
from seedspread.runs.run import Run
from seedspread.runs.studies import AuditSpec, RecordedCell, RecordedStudy

if TYPE_CHECKING:
    from seedspread.render.chart import Chart
    from seedspread.render.table import Table
    from seedspread.report.data import ReportData, Setting
    from seedspread.report.layers import RunLayers
    from seedspread.report.sections import Section


@dataclass(frozen=True)
class Scale:
    """On what data and at what size runs were made, and how that compares with published runs.

    Attributes:
        remark: how it compares, such as "not the paper's scale".
        broader: a remark that is true as well, and enough beside other runs of this size that have it.
        same: whether it is the published scale; None if that cannot be told.
    """

    data: str = ""
    size: str = ""
    remark: str = ""
    broader: str = ""
    same: bool | None = None


@dataclass(frozen=True)
class Published:
    """Values that a publication prints for a setting, to stand beside its own.

    Kinds are those of tables and charts: factorial, pooled, variance-tests, per-seed, normality, spread,
    profiles.

    Attributes:
        order: place among the publication's settings.
        same_question: whether the setting compares what the publication compares; only then do the values
            stand beside its own.
        own_heading: heading over the setting's own columns.
        mixed_heading: heading over the publication's if settings of several scales share a table.
    """

    name: str
    title: str
    order: int = 0
    same_question: bool = True
    own_heading: str = "these runs"
    heading: str = "published"
    mixed_heading: str = "published (scale differs by row)"

    def follows(self, kind: str) -> str:
        """Return its table or figure of that kind, `the paper's Table 5`; empty if there is none."""
        return ""

    def note(self, kind: str) -> str:
        """Return what to know of its values in a table of that kind."""
        return ""

    def values(self, kind: str, methods: Sequence[str], *arms: str) -> list[str]:
        """Return what it prints of these arms (`clamp`, `clamp/detach`), by method; a dash if nothing."""
        return ["-"] * len(methods)

    def runs(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """Return every run that it prints, by arm and block; under no block those of its first one."""
        return {}


class Extension:
    """What a package adds to the page of its runs; every method may be left out."""

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Return a cell's stored parameters as the package's own object, for the other methods."""
        return values

    def study_of_runs(self, runs: Mapping[str, Run], name: str) -> RecordedStudy | None:
        """Return a study made of finished runs, by key, if none is recorded; None if they make none."""
        return None

    def level(self, factor: str, level: str) -> tuple[str, str]:
        """Return a factor and its level as people read them."""
        return factor, level

    def typical(self, cells: Sequence[RecordedCell]) -> Any:
        """Return the parameters that stand for a setting's cells."""
        return cells[0].parameters if cells else None

    def layers(self, folder: Path, parameters: Any) -> "RunLayers | str | None":
        """Return what a run recorded by layer, or what is wrong with its files; None if it has no layers."""
        return None

    def saturates(self, parameters: Any) -> bool:
        """Return whether a run's rates are of saturation, or only what would be cut."""
        return False

    def published(
        self, cells: Sequence[RecordedCell], audit: AuditSpec | None, metric: str, partial: bool
    ) -> Published | None:
        """Return published values of a setting of these cells; `partial`: runs saw part of their data."""
        return None

    def scale(self, parameters: Any, published: Published | None, partial: bool) -> Scale:
        """Return on what data and at what size its runs were made."""
        return Scale()

    def rates_to_compare(self, settings: "Sequence[Setting]") -> dict[str, tuple[str, str]]:
        """Return by a setting's id a further line of its figure of rates: its name, and whose they are."""
        return {}

    def judged_together(self, settings: "Sequence[Setting]") -> "list[Setting]":
        """Return settings that answer one question and are judged together, before they are audited."""
        return []

    def advice(self, setting: "Setting") -> list[str]:
        """Return what to do, as the package sees it."""
        return []

    def exhibits(self, data: "ReportData") -> "dict[str, list[Table | Chart | None]]":
        """Return further tables and charts, by the id of their section."""
        return {}

    def sections(self, data: "ReportData") -> "list[Section]":
        """Return further sections; they stand before what was run."""
        return []

    def glossary(self, data: "ReportData") -> tuple[tuple[str, str], ...]:
        """Return further words and their meanings."""
        return ()

    def badge(self, data: "ReportData") -> str:
        """Return a word or two beside the title."""
        return ""

    def missing(self, data: "ReportData", sections: "Sequence[Section]") -> list[str]:
        """Return what this page cannot have, and what it would take."""
        return []


def extension_of(runner: str) -> Extension:
    """Return what a package adds for that runner's runs; nothing if none does."""
    if runner not in plugins("reports"):
        return Extension()
    extension: Extension = load_plugin("reports", runner)()
    return extension
