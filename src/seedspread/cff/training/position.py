"""Where a run is."""

from dataclasses import dataclass
from typing import Literal

from seedspread.cff.config import RunConfig
from seedspread.cff.training.work import Work


@dataclass(frozen=True)
class Position:
    """Where a run is; its fields, in this order, stand in checkpoints.

    Attributes:
        stage: training of the encoder, then of the probe.
        epoch: from 0, of the stage or of the probe's repeat.
        batch: how many of the epoch's are done.
        repeat: of the probe, from 0.
    """

    stage: Literal["encoder", "probe"] = "encoder"
    epoch: int = 0
    batch: int = 0
    repeat: int = 0

    def __str__(self) -> str:
        return f"{self.stage} epoch {self.epoch + 1}"

    def share(self, config: RunConfig, batches: int) -> float:
        """The share of the run's work that is done, where a stage's epoch has `batches`."""
        work = Work.of(config)
        if self.stage == "encoder":
            stage = min((self.epoch + self.batch / batches) / config.training.epochs, 1.0)
            return work.encoder * stage / work.total
        probe = config.probe
        stage = (self.repeat + min((self.epoch + self.batch / batches) / probe.epochs, 1.0)) / probe.repeats
        return (work.encoder + work.probe * min(stage, 1.0)) / work.total

    def words(self, config: RunConfig) -> str:
        """`encoder, epoch 3 of 5`."""
        epochs = config.training.epochs if self.stage == "encoder" else config.probe.epochs
        return f"{self.stage}, epoch {min(self.epoch + 1, epochs)} of {epochs}"
