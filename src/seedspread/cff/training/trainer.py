"""What a trainer of layerwise models is; `choice.py` chooses one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from torch import Tensor

from seedspread.cff.config import RunConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.diagnostics import pair_statistics
from seedspread.cff.implementations import TrainerFeatures
from seedspread.cff.objective import PairStatistics
from seedspread.cff.training.layerwise import LayerwiseModel
from seedspread.cff.training.records import EpochSums


class Trainer(ABC):
    """Trains models, each on its own batch; the optimisers and their state are its own.

    Attributes:
        features: what it can do and needs.
    """

    features: ClassVar[TrainerFeatures]

    @classmethod  # noqa: B027 - most need nothing
    def prepare(cls, config: RunConfig) -> None:
        """Raise, before a run leaves anything behind, if it cannot be trained here."""

    @classmethod
    def facts(cls) -> dict[str, Any]:
        """Return what a run's provenance says of it."""
        return {}

    @classmethod
    @abstractmethod
    def of(cls, models: Sequence[LayerwiseModel]) -> Self:
        """Return the trainer of these models: one, or several if it stacks."""

    @abstractmethod
    def step(
        self, batches: Sequence[Batch], number: int, sums: Sequence[EpochSums], *, update: bool = True
    ) -> None:
        """Trains on one batch each and adds to the epochs' sums; without `update` it only looks."""

    @abstractmethod
    def state_dict(self, run: int) -> dict[str, Tensor]:
        """What a run's checkpoint needs of the optimisers."""

    @abstractmethod
    def load_state_dict(self, run: int, state: dict[str, Tensor]) -> None:
        """Puts a run's part of the optimisers back."""

    @staticmethod
    @abstractmethod
    def representations(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
        """The mean over tokens after every layer, each `(B, d)` float32, of images `(B, C, H, W)`."""

    @staticmethod
    def pair_statistics(
        features: Tensor, labels: Tensor, margin: float, model: LayerwiseModel
    ) -> PairStatistics:
        """What a layer's loss would see of the positive pairs of its features."""
        return pair_statistics(features, labels, margin)
