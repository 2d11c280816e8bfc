"""Trainings that die in the midst of a batch."""

from seedspread.cff.training.run import Callback


class CrashError(Exception):
    """Stands for a death without warning."""


class CrashAt(Callback):
    """Dies at the n-th batch, before its checkpoint."""

    def __init__(self, batch: int) -> None:
        self.left = batch

    def on_batch(self, stage: str, epoch: int, batch: int, images: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise CrashError
