"""Choose the trainer of a run, by its config."""

from collections.abc import Sequence

from seedspread.cff.config import RunConfig
from seedspread.cff.implementations import features_of
from seedspread.cff.training.autograd import AutogradTrainer
from seedspread.cff.training.fast import StackedTrainer
from seedspread.cff.training.layerwise import LayerwiseModel
from seedspread.cff.training.native.trainer import NativeTrainer
from seedspread.cff.training.trainer import Trainer

_TRAINERS: dict[str, type[Trainer]] = {
    kind.features.name: kind for kind in (AutogradTrainer, StackedTrainer, NativeTrainer)
}


def trainer_class(config: RunConfig) -> type[Trainer]:
    """Return the class that trains a run."""
    return _TRAINERS[features_of(config).name]


def trainer_of(models: Sequence[LayerwiseModel]) -> Trainer:
    """Return the trainer of these models: several only if they may be stacked."""
    return trainer_class(models[0].config).of(models)
