"""A console that nothing from a file can steer.

Titles, levels, names of files and failures come from others. Without their control characters they are
text and nothing else; styles are the program's own.
"""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from seedspread.errors import printable


class Terminal(Console):
    """rich's console; what it shows is text, in which no control character and no markup works."""

    def __init__(self, **options: Any) -> None:
        own = {"markup": False, "emoji": False, "highlight": False}
        if "file" in options:  # in a notebook rich would show what is meant for the file
            own["force_jupyter"] = False
        super().__init__(**(own | options))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments, of which those with `control` are rich's own and the others are text."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
