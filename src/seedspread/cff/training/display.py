"""Progress of a run in plain lines, for the person watching."""

import time

from seedspread.cff.config import RunConfig
from seedspread.cff.training.run import Callback
from seedspread.render.terminal import Terminal

# Time between two lines at least, so that a log of 600 epochs stays readable.
_SECONDS_BETWEEN_LINES = 2.0
_WORDS = {
    "loss": "loss",
    "clamp_activation_rate": "clamped",
    "rate_if_clamped": "rate if clamped",
    "gradient_norm": "gradient norm",
    "validation_accuracy": "validation accuracy",
}


class Display(Callback):
    """Prints stage, epoch, images per second and the values of the layers, first layer first."""

    def __init__(self, config: RunConfig, console: Terminal) -> None:
        self._console = console
        probe = config.probe
        self._epochs = {"encoder": config.training.epochs, "probe": probe.epochs * probe.repeats}
        self._images, self._since, self._line_at = 0, time.monotonic(), 0.0

    def on_batch(self, stage: str, epoch: int, batch: int, images: int) -> None:
        self._images += images

    def on_epoch(self, stage: str, epoch: int, values: dict[str, list[float]]) -> None:
        now, done, epochs = time.monotonic(), epoch + 1, self._epochs[stage]
        if now - self._line_at < _SECONDS_BETWEEN_LINES and done < epochs:
            return
        self._line_at = now
        speed = f"{self._images / max(now - self._since, 1e-9):,.0f} images/s"
        shown = [f"{_WORDS[name]} {' '.join(_number(name, v) for v in of)}" for name, of in values.items()]
        self._console.print(f"{stage} {done}/{epochs}  {speed}  {'  '.join(shown)}", soft_wrap=True)


def _number(name: str, value: float) -> str:
    return f"{value:.3f}" if name in ("loss", "gradient_norm") else f"{value:.1%}"
