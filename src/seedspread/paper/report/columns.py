"""The paper's printed values beside one's own, in its tables over several settings."""

from collections.abc import Sequence

from seedspread.paper.printed import printed
from seedspread.paper.report.setting import PaperSetting
from seedspread.report.material.settings import ReportData, Setting
from seedspread.report.tables.beside import Beside


def is_published(material: ReportData) -> bool:
    """Whether a report is on the paper's own numbers."""
    return any(isinstance(s.published, PaperSetting) and s.published.judge for s in material.settings)


def of_paper(material: ReportData, name: str) -> Setting | None:
    """The setting that stands for one of the paper's; at the paper's scale if there are several."""
    matches = [s for s in material.settings if s.beside is not None and s.beside.name == name]
    return min(matches, key=lambda s: s.scale.same is not True, default=None)


def name_of(s: Setting) -> str:
    """The paper's name for it."""
    return s.published.name if s.published is not None else ""


class PaperColumns(Beside):
    """The paper's values for several settings, with one heading."""

    def __init__(self, material: ReportData, *settings: Setting) -> None:
        super().__init__(*settings)
        self.judge = is_published(material)

    def printed(self, table: int, on: Sequence[str], method: str) -> str:
        """What the paper prints of any published values."""
        return printed(table, tuple(on), method, judge=self.judge) or "-"

    def in_table(self, table: int, methods: Sequence[str], s: Setting, *arms: str) -> list[str]:
        """What a table prints of a setting's arms, by method; a dash if nothing."""
        if not self.is_known:
            return ["-"] * len(methods)
        return [self.printed(table, [f"{name_of(s)}/{arm}" for arm in arms], m) for m in methods]
