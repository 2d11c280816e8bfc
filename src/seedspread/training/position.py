"""Where a run is."""

from dataclasses import dataclass
from typing import Literal

from seedspread.config import RunConfig
from seedspread.runs.run_files import Heartbeat


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

    def progress(self, config: RunConfig) -> Heartbeat:
        """How far that is; an epoch of the probe, which sees one view and only forward, is a sixth of one."""
        training, probe = config.training.epochs, config.probe.epochs
        total = training + probe * config.probe.repeats / 6
        if self.stage == "encoder":
            done, epochs = float(self.epoch), training
        else:
            done, epochs = training + (self.repeat * probe + self.epoch) / 6, probe
        return Heartbeat(done / total, f"{self.stage}, epoch {min(self.epoch + 1, epochs)} of {epochs}")
