"""What a run is: frozen, validated, serialisable."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from seedspread.errors import one_of


class Part(BaseModel):
    """A piece of a run's description: immutable, and nothing unknown in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Share = Annotated[float, Field(ge=0, le=1)]


class RandomCrop(Part):
    """Zero padding on all sides, then a window of the old size at a random place."""

    op: Literal["random_crop"] = "random_crop"
    padding: int = Field(ge=0)


class HorizontalFlip(Part):
    """Left and right exchanged with probability `p`."""

    op: Literal["horizontal_flip"] = "horizontal_flip"
    p: Share = 0.5


class RandomRotation(Part):
    """A turn by up to `degrees` either way; nearest pixel, black corners."""

    op: Literal["random_rotation"] = "random_rotation"
    degrees: float = Field(ge=0, le=180)


class RandomErasing(Part):
    """A black rectangle, with probability `p`, of a share of the area and a ratio of height to width."""

    op: Literal["random_erasing"] = "random_erasing"
    p: Share = 0.5
    scale: tuple[Share, Share] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)

    @field_validator("scale", "ratio")
    @classmethod
    def _a_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not 0 < value[0] <= value[1]:
            raise ValueError(f"must be a range of positive numbers, smaller first; got {value}")
        return value


class ColorJitter(Part):
    """Brightness, contrast, saturation by a factor in [1 - x, 1 + x], hue by a shift in [-x, x] of a turn.

    The four are applied in an order drawn for each image; those that are 0 are left out.
    """

    op: Literal["color_jitter"] = "color_jitter"
    brightness: float = Field(default=0, ge=0)
    contrast: float = Field(default=0, ge=0)
    saturation: float = Field(default=0, ge=0)
    hue: float = Field(default=0, ge=0, le=0.5)


Step = Annotated[
    RandomCrop | HorizontalFlip | RandomRotation | RandomErasing | ColorJitter, Field(discriminator="op")
]

# The paper's five, in the order in which it lists their steps. Normalisation comes last and belongs to
# the dataset.
PIPELINES: dict[str, tuple[Step, ...]] = {
    "cifar": (RandomCrop(padding=12), HorizontalFlip()),
    "svhn-easy": (RandomCrop(padding=12), HorizontalFlip()),
    "svhn-medium": (
        RandomCrop(padding=4),
        RandomRotation(degrees=10),
        ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2),
    ),
    "svhn-hard": (
        RandomCrop(padding=6),
        HorizontalFlip(p=0.5),
        RandomRotation(degrees=15),
        RandomErasing(p=0.5, scale=(0.1, 0.3)),
        ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1),
    ),
    "fashion-mnist": (RandomCrop(padding=4), HorizontalFlip()),
}

DATASETS = ("cifar10", "cifar100", "svhn", "fashion-mnist", "fashion-mnist-sample")


class DataConfig(Part):
    """Which images a run sees, and how.

    Attributes:
        name: one of `DATASETS`; the default is the sample inside the package.
        labels: CIFAR-100's 100 `fine` or 20 `coarse` classes.
        allow_partial: use a dataset of which only a part is there.
        limit_per_class: at most so many training images of each class, before the split.
        test_limit_per_class: likewise of the test images.
        validation_share: the share of each class held out of the training images.
        split_seed: decides the split and the subsets; apart from the run's seed.
        order: `shuffled`, or `balanced`: batches that hold the classes in proportion.
        augment: a pipeline's name, a list of steps, or None for the dataset's own pipeline.
    """

    name: str = "fashion-mnist-sample"
    labels: Literal["fine", "coarse"] = "fine"
    allow_partial: bool = False
    limit_per_class: int | None = Field(default=None, ge=2)
    test_limit_per_class: int | None = Field(default=None, ge=1)
    validation_share: float = Field(default=0.1, gt=0, lt=1)
    split_seed: int = Field(default=0, ge=0)
    order: Literal["shuffled", "balanced"] = "shuffled"
    augment: str | tuple[Step, ...] | None = None

    @field_validator("name")
    @classmethod
    def _known_dataset(cls, value: str) -> str:
        one_of("name", value, DATASETS)
        return value

    @field_validator("augment")
    @classmethod
    def _known_pipeline(cls, value: str | tuple[Step, ...] | None) -> str | tuple[Step, ...] | None:
        if isinstance(value, str):
            one_of("augment", value, PIPELINES)
        return value
