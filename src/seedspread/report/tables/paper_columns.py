"""One's own values and the paper's, side by side."""

from collections.abc import Sequence

from seedspread.paper.printed import printed
from seedspread.render.table import Column
from seedspread.report.material.settings import ReportData, Setting


def digits(value: float | None, places: int) -> str:
    """A number as the paper prints it; a dash where there is none."""
    return "-" if value is None else f"{value:.{places}f}"


def mark(material: ReportData, settings: Sequence[Setting]) -> str:
    """What stands over the paper's columns: whether it is the same scale, of every row."""
    if material.is_published:
        return "printed"
    same = {s.scale.same for s in settings}
    return settings[0].scale.mark if len(same) == 1 else "paper (scale differs by row)"


class PaperColumns:
    """The paper's values for one setting, or for several with one heading."""

    def __init__(self, material: ReportData, *settings: Setting) -> None:
        self.judge, self._setting = material.is_published, settings[0]
        self.is_known = all(s.is_the_papers for s in settings)
        self._paper_group = mark(material, settings)
        self._own_group = "computed" if material.is_published else "these runs"

    def values(self, table: int | None, methods: Sequence[str], *arms: str) -> list[str]:
        """What the paper prints of these arms (`clamp`, `clamp/detach`), by method; a dash if nothing."""
        if not self.is_known or table is None:
            return ["-"] * len(methods)
        return [self.printed(table, [f"{self._setting.paper}/{arm}" for arm in arms], m) for m in methods]

    def printed(self, table: int, on: Sequence[str], method: str) -> str:
        """What the paper prints of any published values."""
        return printed(table, tuple(on), method, judge=self.judge) or "-"

    def columns(self, names: Sequence[str]) -> tuple[Column, ...]:
        """The headings of both groups; the paper's only where it has the setting."""
        groups = (self._own_group, self._paper_group) if self.is_known else ("",)
        return tuple(Column(name, group) for group in groups for name in names)

    def row(self, head: Sequence[str], own: Sequence[str], paper: Sequence[str]) -> tuple[str, ...]:
        """A row under those headings."""
        return (*head, *own, *(paper if self.is_known else ()))
