"""A study for whoever watches it run: a bar and its cells on a terminal, a line now and then elsewhere."""

import time

from rich.console import Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from seedspread.analysis.look_tables import last_look
from seedspread.errors import abridged
from seedspread.render.live import LiveDisplay
from seedspread.render.terminal import Terminal
from seedspread.runs.sequential import SequentialRecord
from seedspread.runs.time_left import duration
from seedspread.study.executor import CellProgress, StudyProgress
from seedspread.study.plan import Plan
from seedspread.study.sequential import Watcher, named

_SECONDS_BETWEEN_LINES = 10.0
_CELLS_SHOWN, _CELLS_IN_A_LINE = 12, 4
_SEEDS_SHOWN = 8
_LINE_WIDTH = 100


class Progressing(Watcher):
    """Tells how a running study goes."""

    def __init__(self, console: Terminal) -> None:
        self._console = console
        self._has_bar = console.is_terminal or console.is_jupyter
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task("runs", total=None)
        self._live = LiveDisplay(self._progress, console=console, transient=True)
        self._line, self._line_at = "", 0.0
        self._reported: set[str] = set()
        self._tenths = 0

    def __enter__(self) -> "Progressing":
        if self._has_bar:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_bar:
            self._live.stop()

    def tell(self, progress: StudyProgress) -> None:
        """Something has changed."""
        for key, message in progress.failed.items():
            if key not in self._reported:
                self._reported.add(key)
                line = f"failed: {progress.title(key)}: {message}"
                self._console.print(Text(line, style="red"), soft_wrap=True)
        if self._has_bar:
            self._draw(progress)
        else:
            self._print(progress)

    def looked(self, plan: Plan, name: str, record: SequentialRecord) -> None:
        """Prints a line that stays."""
        self._say(named(plan, name, last_look(record)))

    def simulated(self, share: float) -> None:
        """Prints a line for every tenth."""
        if int(10 * share) > self._tenths:
            self._tenths = int(10 * share)
            self._say(f"simulating the levels of the looks, once for their numbers: {self._tenths}0%")

    def _say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def _draw(self, progress: StudyProgress) -> None:
        ended, planned = progress.before + progress.ended, progress.before + progress.total
        self._progress.update(self._task, total=planned, completed=ended)
        facts = [Text(", ".join(_facts(progress)))] if _facts(progress) else []
        self._live.update(Group(self._progress, *facts, *_cell_lines(progress.cells)))

    def _print(self, progress: StudyProgress) -> None:
        """A line, unless the last one is fresh or says the same."""
        line, now = _as_line(progress), time.monotonic()
        is_over = not progress.left
        if line != self._line and (is_over or now - self._line_at >= _SECONDS_BETWEEN_LINES):
            self._line, self._line_at = line, now
            self._console.print(Text(line), soft_wrap=True)


def _facts(progress: StudyProgress) -> list[str]:
    """`1 failed`, `1,234 images/s`, `about 40 s left`."""
    facts = [f"{len(progress.failed)} failed"] if progress.failed else []
    if progress.left and progress.images_per_second:
        facts.append(f"{progress.images_per_second:,.0f} images/s")
    if progress.left and progress.seconds_left is not None:
        facts.append(f"about {duration(progress.seconds_left)} left")
    return facts


def _as_line(progress: StudyProgress) -> str:
    ended, planned = progress.before + progress.ended, progress.before + progress.total
    parts = [f"{ended}/{planned} runs", *_facts(progress)]
    if not progress.left:
        return ", ".join(parts)
    at_work = [cell for cell in progress.cells if cell.seeds]
    shown = [f"{cell.name}: {cell.ended}/{cell.planned}{_where(cell)}" for cell in at_work[:_CELLS_IN_A_LINE]]
    more = len(at_work) - _CELLS_IN_A_LINE
    return "; ".join([", ".join(parts), *shown, *([f"{more} more cells"] if more > 0 else [])])


def _where(cell: CellProgress) -> str:
    return f" ({abridged(cell.where, _LINE_WIDTH)})" if cell.where else ""


def _cell_lines(cells: tuple[CellProgress, ...]) -> list[Text]:
    """A line for each cell, those first that are at work; all fit a screen."""
    in_order = sorted(cells, key=lambda cell: not cell.seeds) if len(cells) > _CELLS_SHOWN else list(cells)
    shown = [(cell, f"{cell.ended}/{cell.planned}") for cell in in_order[:_CELLS_SHOWN]]
    name = max((len(cell.name) for cell, _ in shown), default=0)
    wide = max((len(count) for _, count in shown), default=0)
    lines = [f"{cell.name:<{name}}  {count:>{wide}}  {_at_work(cell)}" for cell, count in shown]
    if len(cells) > _CELLS_SHOWN:
        lines.append(f"... and {len(cells) - _CELLS_SHOWN} more cells")
    return [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]


def _at_work(cell: CellProgress) -> str:
    """`seeds 3, 4: encoder, epoch 2 of 5`."""
    words = [f"{cell.failed} failed"] if cell.failed else []
    if cell.seeds:
        some = ", ".join(map(str, cell.seeds[:_SEEDS_SHOWN]))
        more = " ..." if len(cell.seeds) > _SEEDS_SHOWN else ""
        where = f": {abridged(cell.where, _LINE_WIDTH)}" if cell.where else ""
        words.append(f"seed{'s' * (len(cell.seeds) > 1)} {some}{more}{where}")
    return "; ".join(words)
