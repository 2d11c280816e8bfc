"""A setting's own values and published ones, side by side."""

from collections.abc import Sequence

from seedspread.render.table import Column
from seedspread.report.extension import Published
from seedspread.report.material.settings import Setting


def digits(value: float | None, places: int) -> str:
    """A number with so many places; a dash where there is none."""
    return "-" if value is None else f"{value:.{places}f}"


def heading(published: Sequence[Published]) -> str:
    """What stands over the published columns of several rows."""
    headings = {p.heading for p in published}
    return headings.pop() if len(headings) == 1 else published[0].mixed_heading


class Beside:
    """Published values for one setting, or for several with one heading."""

    def __init__(self, *settings: Setting) -> None:
        self._published = [s.beside for s in settings if s.beside is not None]
        self.is_known = len(self._published) == len(settings)

    def values(self, kind: str, methods: Sequence[str], *arms: str) -> list[str]:
        """What is printed of these arms (`clamp`, `clamp/detach`), by method; a dash if nothing."""
        return self._published[0].values(kind, methods, *arms) if self.is_known else ["-"] * len(methods)

    def columns(self, names: Sequence[str]) -> tuple[Column, ...]:
        """The headings of both groups; the published one only where there is something."""
        if not self.is_known:
            return tuple(Column(name) for name in names)
        groups = self._published[0].own_heading, heading(self._published)
        return tuple(Column(name, group) for group in groups for name in names)

    def row(self, head: Sequence[str], own: Sequence[str], published: Sequence[str]) -> tuple[str, ...]:
        """A row under those headings."""
        return (*head, *own, *(published if self.is_known else ()))
