"""What changes while it is looked at: on a terminal rich's own, in a notebook one output that is updated."""

from html import escape
from importlib import import_module
from io import StringIO
from typing import Any

from rich.console import RenderableType
from rich.live import Live

from seedspread.render.terminal import Terminal

_WIDTH = 100
_HTML = "<pre style='margin:0;line-height:1.4;color:inherit;background:none'>{text}</pre>"


class LiveDisplay(Live):
    """rich's `Live`, which needs ipywidgets in a notebook; this one needs none, and redraws when updated."""

    _output: Any = None  # IPython's handle

    def start(self, refresh: bool = False) -> None:
        """Begins to show it."""
        if self.console.is_jupyter:
            self.refresh()
        else:
            super().start(refresh)

    def update(self, renderable: RenderableType, *, refresh: bool = False) -> None:
        """Shows something else."""
        super().update(renderable, refresh=refresh or self.console.is_jupyter)

    def refresh(self) -> None:
        """Draws it anew."""
        if self.console.is_jupyter:
            self._show(self.get_renderable())
        else:
            super().refresh()

    def stop(self) -> None:
        """Leaves its last state, or nothing if it is transient."""
        if self.console.is_jupyter:
            self._show("" if self.transient else self.get_renderable())
        else:
            super().stop()

    def _show(self, renderable: RenderableType) -> None:
        ipython = import_module("IPython.display")  # this is reached in a notebook only
        paper = Terminal(file=StringIO(), width=_WIDTH, color_system=None, legacy_windows=False)
        paper.print(renderable)
        assert isinstance(paper.file, StringIO)  # noqa: S101 - for the type checker
        lines = [line.rstrip() for line in paper.file.getvalue().rstrip().splitlines()]
        html = ipython.HTML(_HTML.format(text=escape("\n".join(lines))) if lines else "")
        if self._output is None:
            self._output = ipython.display(html, display_id=True)
        else:
            self._output.update(html)
