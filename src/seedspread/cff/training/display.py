"""For the person watching: a live display on a terminal, plain lines elsewhere."""

import time

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from seedspread.cff.config import RunConfig
from seedspread.cff.training.run import Callback
from seedspread.render.terminal import Terminal

# Plain lines come at most this often, so that a log of 600 epochs stays readable.
_SECONDS_BETWEEN_LINES = 2.0
_ROWS = {
    "loss": "loss",
    "clamp_activation_rate": "clamped",
    "would_be_rate": "would-be clamp rate",
    "gradient_norm": "gradient",
}


class Display(Callback):
    """Shows stage, epoch, images per second, time left, per-layer loss and rate, validation accuracy."""

    def __init__(self, config: RunConfig, console: Terminal) -> None:
        self._console = console
        probe = config.probe
        self._epochs = {"encoder": config.training.epochs, "probe": probe.epochs * probe.repeats}
        self._progress = Progress(
            TextColumn("{task.description:<8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks = {
            stage: self._progress.add_task(stage, total=epochs, speed="")
            for stage, epochs in self._epochs.items()
        }
        self._images, self._since, self._line_at = 0, time.monotonic(), 0.0
        self._latest: dict[str, list[float]] = {}
        self._live = Live(self._screen(), console=console, transient=True, refresh_per_second=4)

    def __enter__(self) -> "Display":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live.is_started:
            self._live.stop()

    def on_batch(self, stage: str, epoch: int, batch: int, images: int) -> None:
        self._images += images

    def on_epoch(self, stage: str, epoch: int, values: dict[str, list[float]]) -> None:
        self._latest |= values
        now, done, epochs = time.monotonic(), epoch + 1, self._epochs[stage]
        speed = f"{self._images / max(now - self._since, 1e-9):,.0f} images/s"
        if self._console.is_terminal:
            self._progress.update(self._tasks[stage], completed=done, speed=speed)
            self._live.update(self._screen())
        elif now - self._line_at >= _SECONDS_BETWEEN_LINES or done == epochs:
            self._line_at = now
            numbers = {name: " ".join(_number(name, value) for value in of) for name, of in values.items()}
            shown = "  ".join(f"{name} {text}" for name, text in numbers.items())
            self._console.print(f"{stage} {done}/{epochs}  {speed}  {shown}", soft_wrap=True)

    def _screen(self) -> Group:
        table = Table(box=None, pad_edge=False)
        table.add_column("layer")
        for layer in range(len(self._latest.get("loss", []))):
            table.add_column(str(layer), justify="right")
        for name, title in _ROWS.items():
            if name in self._latest:
                table.add_row(title, *(_number(name, value) for value in self._latest[name]))
        accuracy = self._latest.get("validation_accuracy")
        note = f"validation accuracy {accuracy[-1]:.1%}" if accuracy else ""
        return Group(self._progress, table, note)


def _number(name: str, value: float) -> str:
    return f"{value:.1%}" if name.endswith(("rate", "accuracy")) else f"{value:.3f}"
