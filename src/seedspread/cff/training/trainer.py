"""What trains layerwise models, and which way does."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from seedspread.cff.data.loader import Batch
from seedspread.cff.identity import is_fast, is_native
from seedspread.cff.training.autograd import AutogradTrainer
from seedspread.cff.training.fast import StackedTrainer
from seedspread.cff.training.layerwise import LayerwiseModel
from seedspread.cff.training.native.trainer import NativeTrainer
from seedspread.cff.training.records import EpochSums


class Trainer(Protocol):
    """Trains models, each on its own batch; the optimisers and their state are its own."""

    def step(
        self, batches: Sequence[Batch], number: int, sums: Sequence[EpochSums], *, update: bool = True
    ) -> None:
        """Trains on one batch each and adds to the epochs' sums; without `update` it only looks."""

    def state_dict(self, run: int) -> dict[str, Tensor]:
        """What a run's checkpoint needs of the optimisers."""

    def load_state_dict(self, run: int, state: dict[str, Tensor]) -> None:
        """Puts a run's part of the optimisers back."""


def trainer_of(models: Sequence[LayerwiseModel]) -> Trainer:
    """What trains these, of which there may be several if they are to be trained the fast way."""
    if is_native(models[0].config):
        return NativeTrainer(models[0])
    return StackedTrainer(models) if is_fast(models[0].config) else AutogradTrainer(models[0])
