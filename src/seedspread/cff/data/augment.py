"""Augmentation of whole batches, with draws that depend on the image and not on the batch.

The draws for an image are a function of (augment seed, epoch, image, view): an epoch's uniform numbers for
all images come from one generator, a row per image, and row i is the same however many rows are drawn.
They are made on the CPU, so that every device sees the same.
"""

from collections.abc import Sequence
from functools import singledispatch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seedspread.cff.data import pixels
from seedspread.cff.pipelines import (
    ColorJitter,
    HorizontalFlip,
    RandomCrop,
    RandomErasing,
    RandomRotation,
    Step,
)
from seedspread.cff.streams import stream

# Keeps this stream apart from others that are made from the same seed.
_AUGMENT_STREAM = 0xA6
# torchvision draws a rectangle up to ten times until it fits into the image.
_ERASE_TRIES = 10

# Numbers that a step draws for an image.
WIDTHS = {
    RandomCrop: 2,
    HorizontalFlip: 1,
    RandomRotation: 1,
    RandomErasing: 3 + 2 * _ERASE_TRIES,
    ColorJitter: 8,
}


def draws(steps: Sequence[Step], seed: int, epoch: int, view: int, images: int) -> Tensor:
    """Uniform numbers in [0, 1), `(images, slots)` float32: all that an epoch's augmentation draws."""
    slots = sum(WIDTHS[type(step)] for step in steps)
    rng = stream(_AUGMENT_STREAM, seed, epoch, view)
    return torch.from_numpy(rng.random((images, slots), dtype=np.float32))


def augment(images: Tensor, steps: Sequence[Step], uniform: Tensor) -> Tensor:
    """Applies the steps, in order, to `(B, 3, H, W)` uint8 images with their draws, `(B, slots)`."""
    at = 0
    for step in steps:
        width = WIDTHS[type(step)]
        images = apply(step, images, uniform[:, at : at + width])
        at += width
    return images


@singledispatch
def apply(step: Step, images: Tensor, uniform: Tensor) -> Tensor:
    """One step, with `(B, slots)` uniform numbers."""
    raise TypeError(f"no such augmentation step: {step!r}")


@apply.register
def _(step: RandomCrop, images: Tensor, uniform: Tensor) -> Tensor:
    top, left = whole(uniform, 2 * step.padding + 1).unbind(1)
    return pixels.crop(images, top.to(images.device), left.to(images.device), step.padding)


@apply.register
def _(step: HorizontalFlip, images: Tensor, uniform: Tensor) -> Tensor:
    return pixels.flip(images, (uniform[:, 0] < step.p).to(images.device))


@apply.register
def _(step: RandomRotation, images: Tensor, uniform: Tensor) -> Tensor:
    return pixels.rotate(images, (step.degrees * (2 * uniform[:, 0] - 1)).to(images.device))


@apply.register
def _(step: RandomErasing, images: Tensor, uniform: Tensor) -> Tensor:
    rectangle = erasing_rectangle(step, images.shape[-2], images.shape[-1], uniform.numpy())
    return pixels.erase(images, *(torch.from_numpy(side).to(images.device) for side in rectangle))


@apply.register
def _(step: ColorJitter, images: Tensor, uniform: Tensor) -> Tensor:
    return jitter(images, *jitter_factors(step, uniform))


def jitter_factors(step: ColorJitter, uniform: Tensor) -> tuple[Tensor, Tensor, list[bool]]:
    """Of brightness, contrast, saturation and hue: `(B, 4)` factors, their `(B, 4)` order, which are made."""
    reach = torch.tensor([step.brightness, step.contrast, step.saturation, step.hue])
    # Factors are even over [max(0, 1 - x), 1 + x]; hue is not a factor but a shift, even over [-x, x].
    low = (1 - reach).clamp(min=0)
    low[3] -= 1
    high = 1 + reach
    high[3] -= 1
    factors = low + (high - low) * uniform[:, :4]
    return factors, uniform[:, 4:].argsort(dim=1), (reach > 0).tolist()


def jitter(images: Tensor, factors: Tensor, order: Tensor, active: list[bool]) -> Tensor:
    """Brightness, contrast, saturation and hue, `(B, 4)` factors, each image in its own `(B, 4)` order.

    At each place of the order the batch is sorted by whose turn it is, so that every adjustment is made on
    a slice of it. Factors and order stay on the CPU: nothing waits for the device.
    """
    adjustments = (pixels.brightness, pixels.contrast, pixels.saturation, pixels.hue)
    rows = torch.arange(len(images))
    for place in range(4):
        turns, move = order[rows, place].sort(stable=True)
        rows = rows[move]
        sizes = torch.bincount(turns, minlength=4).tolist()
        slices = torch.split(images.index_select(0, move.to(images.device)), sizes)
        mine = torch.split(factors[rows].to(images.device), sizes)
        images = torch.cat(
            [
                adjust(part, mine[which][:, which]) if active[which] else part
                for which, (part, adjust) in enumerate(zip(slices, adjustments, strict=True))
            ]
        )
    return images.index_select(0, rows.argsort().to(images.device))


def erasing_rectangle(
    step: RandomErasing, height: int, width: int, uniform: NDArray[np.float32]
) -> tuple[NDArray[np.int64], ...]:
    """Top, left, height and width `(B,)` of what is erased; a size of 0 where nothing is.

    Area and shape (its logarithm) are uniform; the first of ten tries that fits strictly inside the image
    is taken, as in torchvision.
    """
    happens, down, across = uniform[:, 0] < step.p, uniform[:, 1], uniform[:, 2]
    share, shape = uniform[:, 3::2].astype(np.float64), uniform[:, 4::2].astype(np.float64)
    area = height * width * (step.scale[0] + (step.scale[1] - step.scale[0]) * share)
    log_low, log_high = np.log(step.ratio)
    ratio = np.exp(log_low + (log_high - log_low) * shape)
    tall = np.rint(np.sqrt(area * ratio)).astype(np.int64)
    wide = np.rint(np.sqrt(area / ratio)).astype(np.int64)
    fits = (tall < height) & (wide < width)
    first = fits.argmax(axis=1)[:, None]
    erased = happens & fits.any(axis=1)
    tall = np.where(erased, np.take_along_axis(tall, first, 1)[:, 0], 0)
    wide = np.where(erased, np.take_along_axis(wide, first, 1)[:, 0], 0)
    top = np.floor(down * (height - tall + 1)).astype(np.int64)
    left = np.floor(across * (width - wide + 1)).astype(np.int64)
    return top, left, tall, wide


def whole(uniform: Tensor, count: int) -> Tensor:
    """Uniform whole numbers from 0 to count - 1."""
    return (uniform * count).to(torch.int64).clamp_(max=count - 1)
