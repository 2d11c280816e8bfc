"""RandAugment: every operation by an independent formula, with torchvision's magnitudes; and its draws."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from seedspread.cff.config import RandAugment, RunConfig
from seedspread.cff.data.augment import augment, draws
from seedspread.cff.data.rand_augment import OPERATIONS, SIGNED, UNSIGNED, operate

from .pictures import pictures

NAMES = [*SIGNED, *UNSIGNED]
Pixels = NDArray[np.uint8]
# Torchvision's linspace(0, largest, 31)[magnitude].
MAGNITUDES = [0, 1, 14, 30]


def blended(image: Pixels, other: NDArray[np.float64], factor: float) -> Pixels:
    return np.clip(other + factor * (image - other), 0, 255).astype(np.uint8)


def gray(image: Pixels) -> NDArray[np.float64]:
    if len(image) == 1:
        return image.astype(float)
    r, g, b = image.astype(int)
    return np.asarray((19595 * r + 38470 * g + 7471 * b + 32768) >> 16, float)[None]


def taken_from(image: Pixels, x: NDArray[np.float64], y: NDArray[np.float64]) -> Pixels:
    """The pixels at the places (x, y) of the image, black outside."""
    column, row = np.floor(x).astype(int), np.floor(y).astype(int)
    inside = (column >= 0) & (column < image.shape[2]) & (row >= 0) & (row < image.shape[1])
    columns, rows = np.clip(column, 0, image.shape[2] - 1), np.clip(row, 0, image.shape[1] - 1)
    return np.asarray(image[:, rows, columns] * inside.astype(np.uint8))


def equalized(channel: Pixels) -> Pixels:
    """The cumulative histogram, without its last step, spread over 0 to 255."""
    counts = np.bincount(channel.ravel(), minlength=256)
    if np.count_nonzero(counts) <= 1:
        return channel
    step = (counts.sum() - counts[counts.nonzero()[0][-1]]) // 255
    if not step:
        return channel
    table = (step // 2 + np.concatenate([[0], counts.cumsum()[:-1]])) // step
    return np.asarray(np.minimum(table, 255)[channel], np.uint8)


def stretched(channel: Pixels) -> Pixels:
    low, high = int(channel.min()), int(channel.max())
    if high <= low:
        return channel
    scale = 255.0 / (high - low)
    return np.asarray(np.clip((channel * scale - low * scale).astype(int), 0, 255), np.uint8)


def expected(name: str, image: Pixels, magnitude: int, sign: int) -> Pixels:
    """What torchvision documents, with numpy; smoothing alone is Pillow's."""
    part = sign * magnitude / 30
    height, width = image.shape[1:]
    y, x = np.mgrid[:height, :width] + 0.5
    if name in ("brightness", "color", "contrast", "sharpness"):
        others = {
            "brightness": np.zeros((1, 1, 1)),
            "color": gray(image),
            "contrast": np.full((1, 1, 1), np.floor(gray(image).mean() + 0.5)),
            "sharpness": smooth(image),
        }
        return blended(image, others[name], 1 + 0.9 * part)
    if name == "rotate":
        turn = math.radians(30 * part)
        from_x, from_y = x - width / 2, y - height / 2
        back_x = math.cos(turn) * from_x - math.sin(turn) * from_y + width / 2
        return taken_from(image, back_x, math.sin(turn) * from_x + math.cos(turn) * from_y + height / 2)
    moved = {
        "identity": (x, y),
        "shear_x": (x + 0.3 * part * y, y),
        "shear_y": (x, y + 0.3 * part * x),
        "translate_x": (x - int(150 / 331 * width * part), y),
        "translate_y": (x, y - int(150 / 331 * height * part)),
    }
    if name in moved:
        return taken_from(image, *moved[name])
    if name == "posterize":
        return image & np.uint8(256 - 2 ** round(4 * magnitude / 30))
    if name == "solarize":
        return np.where(image < 255 * (1 - magnitude / 30), image, 255 - image)
    return np.stack([(stretched if name == "auto_contrast" else equalized)(channel) for channel in image])


def smooth(image: Pixels) -> NDArray[np.float64]:
    channels = [Image.fromarray(channel).filter(ImageFilter.SMOOTH) for channel in image]
    return np.stack([np.asarray(channel, float) for channel in channels])


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("magnitude", MAGNITUDES)
@pytest.mark.parametrize("name", NAMES)
def test_every_operation_is_what_it_is_called(name: str, magnitude: int, channels: int) -> None:
    for negative in (False, True):
        sign = -1 if negative and name in SIGNED else 1
        for image in pictures(2, 8)[:, :channels, :, :20].numpy():
            got = operate(image, [NAMES.index(name)], [negative], magnitude)
            wanted = expected(name, image, magnitude, sign)
            assert got.shape == image.shape
            far = np.abs(got.astype(int) - wanted) > 1
            # A place that falls between two pixels may be read from either.
            assert far.mean() <= (0.02 if name in ("rotate", "shear_x", "shear_y") else 0), name


def test_there_are_torchvisions_14_and_each_is_drawn_as_often() -> None:
    assert len(OPERATIONS) == 14
    step, many = RandAugment(num_ops=3, magnitude=14), 7000
    uniform = draws([step], 0, 0, 0, many)
    assert uniform.shape == (many, 6)
    counts = torch.bincount((uniform[:, ::2] * 14).long().flatten(), minlength=14)
    assert ((counts - many * 3 / 14).abs() < 5 * math.sqrt(many * 3 / 14)).all()


def test_operations_follow_each_other_as_drawn() -> None:
    images = pictures(1, 16)
    step = RandAugment(num_ops=3, magnitude=14)
    uniform = draws([step], 5, 1, 0, len(images))
    seen = augment(images, [step], uniform)
    for image, row, got in zip(images.numpy(), uniform.tolist(), seen.numpy(), strict=True):
        by_hand = image
        for choice, sign in zip(row[::2], row[1::2], strict=True):
            by_hand = operate(by_hand, [int(choice * 14)], [sign <= 0.5], 14)
        assert np.array_equal(got, by_hand)
    assert torch.equal(augment(images[3:4], [step], uniform[3:4]), seen[3:4])  # whatever the batch


@pytest.mark.parametrize("op", ["rand_augment", "color_jitter"])
def test_it_is_for_gray_or_color(op: str) -> None:
    with pytest.raises(ValueError, match=f"{op} is for images of 1 or 3 channels; got 4"):
        RunConfig.model_validate({"data": {"augment": [{"op": op}]}, "model": {"channels": 4}})
