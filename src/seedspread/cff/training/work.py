"""How much work a run is, for estimates and progress: counted in images of stage 1."""

from dataclasses import dataclass

from seedspread.cff.config import RunConfig
from seedspread.cff.datasets import dataset_info

# What a forward pass costs of a step.
_FORWARD = 0.45


@dataclass(frozen=True)
class Work:
    """Images' worth of stage-1 work: of the encoder's training, and of all that follows it."""

    encoder: float
    probe: float

    @classmethod
    def of(cls, config: RunConfig) -> "Work":
        """Of a run on the whole of its dataset."""
        data, info = config.data, dataset_info(config.data.name)
        images = _at_most(info.train_size, data.limit_per_class, len(info.classes))
        test = _at_most(info.test_size, data.test_limit_per_class, len(info.classes))
        held_out = images * data.validation_fraction
        training = images - held_out
        passes = config.probe.epochs * config.probe.repeats if config.probe.features == "augmented" else 1
        # A step of stage 1 sees two views, and so does the look at the final weights, forward only. The probe
        # and the tests see one view.
        single = training * passes + held_out + test
        return cls(training * config.training.epochs, (training + single / 2) * _FORWARD)

    @property
    def total(self) -> float:
        """All of it."""
        return self.encoder + self.probe


def _at_most(images: int, per_class: int | None, classes: int) -> float:
    return float(images if per_class is None else min(images, per_class * classes))
