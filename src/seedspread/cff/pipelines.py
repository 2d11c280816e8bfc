"""Augmentation as data: the steps of a pipeline, and the paper's pipelines by name."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from seedspread.runs.frozen import FrozenConfig, Share


class RandomCrop(FrozenConfig):
    """Zero padding on all sides, then a window of the old size at a random place."""

    op: Literal["random_crop"] = "random_crop"
    padding: int = Field(ge=0, le=1000)


class HorizontalFlip(FrozenConfig):
    """Left and right exchanged with probability `p`."""

    op: Literal["horizontal_flip"] = "horizontal_flip"
    p: Share = 0.5


class RandomRotation(FrozenConfig):
    """A turn by up to `degrees` either way; nearest pixel, black corners."""

    op: Literal["random_rotation"] = "random_rotation"
    degrees: float = Field(ge=0, le=180)


class RandomErasing(FrozenConfig):
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


class ColorJitter(FrozenConfig):
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
