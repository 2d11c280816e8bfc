"""What a package adds to the page of its runner's runs, found by the runner's name (`runs/plugins.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedspread.runs.plugins import load_plugin, plugins
from seedspread.runs.record import Record
from seedspread.runs.studies import AuditSpec, RecordedCell, RecordedStudy

if TYPE_CHECKING:
    from seedspread.render.chart import Chart
    from seedspread.render.table import Table
    from seedspread.report.material.layers import RunLayers
    from seedspread.report.material.settings import ReportData, Setting
    from seedspread.report.page.sections import Section


@dataclass(frozen=True)
class Scale:
    """Where runs stand: on what data, what was trained, and how that compares with published runs.

    Attributes:
        data: in words.
        size: of what was trained.
        remark: how it stands to published runs, such as "not the paper's scale".
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
        name: of the setting in the publication.
        title: for people.
        order: its place among the publication's settings.
        same_question: whether the setting compares what the publication compares; only then values stand
            beside its own.
        own_heading: over the setting's own columns.
        heading: over the publication's.
        mixed_heading: the same where settings of several scales share a table.
    """

    name: str
    title: str
    order: int = 0
    same_question: bool = True
    own_heading: str = "these runs"
    heading: str = "published"
    mixed_heading: str = "published (scale differs by row)"

    def follows(self, kind: str) -> str:
        """The publication's table or figure of that kind, `the paper's Table 5`; empty if there is none."""
        return ""

    def note(self, kind: str) -> str:
        """What to know of its values in a table of that kind."""
        return ""

    def values(self, kind: str, methods: Sequence[str], *arms: str) -> list[str]:
        """What it prints of these arms (`clamp`, `clamp/detach`), by method; a dash if nothing."""
        return ["-"] * len(methods)

    def runs(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """Every run that it prints, by arm and block; under no block those of its first one."""
        return {}


class Extension:
    """What a package adds to the page of its runs; every method may be left out."""

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """A cell's stored parameters as the package's own object, which the other methods are given."""
        return values

    def study_of_runs(self, records: Mapping[str, Record], name: str) -> RecordedStudy | None:
        """A study made of finished runs, by key, where none is recorded; None if they make none."""
        return None

    def level(self, factor: str, level: str) -> tuple[str, str]:
        """A factor and its level as people read them."""
        return factor, level

    def typical(self, cells: Sequence[RecordedCell]) -> Any:
        """The parameters that stand for a setting's cells."""
        return cells[0].parameters if cells else None

    def layers(self, folder: Path, parameters: Any) -> "RunLayers | str | None":
        """What a run recorded by layer, or what is wrong with its files; None if it has no layers."""
        return None

    def saturates(self, parameters: Any) -> bool:
        """Whether a run's rates are of saturation, or only what would be cut."""
        return False

    def published(
        self, cells: Sequence[RecordedCell], audit: AuditSpec | None, metric: str, partial: bool
    ) -> Published | None:
        """Published values of a setting with these cells; `partial` if its runs saw part of their data."""
        return None

    def scale(self, parameters: Any, published: Published | None, partial: bool) -> Scale:
        """Where its runs stand."""
        return Scale()

    def beside(self, settings: "Sequence[Setting]") -> dict[str, tuple[str, str]]:
        """By a setting's id, another whose rates are drawn beside its own: name of the line, id."""
        return {}

    def judged_together(self, settings: "Sequence[Setting]") -> "list[Setting]":
        """Settings that answer one question and are adjusted together, each with published values."""
        return []

    def advice(self, setting: "Setting") -> list[str]:
        """What to do, as the package sees it."""
        return []

    def exhibits(self, material: "ReportData") -> "dict[str, list[Table | Chart | None]]":
        """Further tables and charts, by the id of the section that they belong to."""
        return {}

    def sections(self, material: "ReportData") -> "list[Section]":
        """Sections of its own; they stand before what was run."""
        return []

    def glossary(self, material: "ReportData") -> tuple[tuple[str, str], ...]:
        """Its words."""
        return ()

    def badge(self, material: "ReportData") -> str:
        """A word or two beside the title."""
        return ""

    def missing(self, material: "ReportData", sections: "Sequence[Section]") -> list[str]:
        """What this page cannot have, and what it would take."""
        return []


def extension_of(runner: str) -> Extension:
    """What a package adds for that runner's runs; nothing if none does."""
    if runner not in plugins("reports"):
        return Extension()
    extension: Extension = load_plugin("reports", runner)()
    return extension
