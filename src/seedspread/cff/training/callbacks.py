"""For whoever looks on while runs are trained."""


class Callback:
    """Is told how training goes; a subclass overrides what it wants to hear of."""

    def on_batch(self, stage: str, epoch: int, batch: int, images: int) -> None:
        """A batch was trained on."""

    def on_epoch(self, stage: str, epoch: int, values: dict[str, list[float]]) -> None:
        """An epoch has ended, with these values by layer."""


class CallbackList(Callback):
    """Tells several."""

    def __init__(self, *callbacks: Callback) -> None:
        self._callbacks = callbacks

    def on_batch(self, stage: str, epoch: int, batch: int, images: int) -> None:
        """Tells all."""
        for callback in self._callbacks:
            callback.on_batch(stage, epoch, batch, images)

    def on_epoch(self, stage: str, epoch: int, values: dict[str, list[float]]) -> None:
        """Tells all."""
        for callback in self._callbacks:
            callback.on_epoch(stage, epoch, values)
