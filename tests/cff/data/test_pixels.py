"""Every image operation against Pillow, one image at a time."""

import math
from collections.abc import Callable
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from seedspread.cff.data import augment as pixels
from seedspread.cff.data.augment import jitter
from seedspread.cff.data.dataset import enlarge

from .pictures import pictures


def one_by_one(images: Tensor, change: Callable[[Image.Image, int], Image.Image]) -> Tensor:
    changed = [
        np.array(change(Image.fromarray(image.permute(1, 2, 0).numpy()), i)) for i, image in enumerate(images)
    ]
    return torch.from_numpy(np.stack(changed)).permute(0, 3, 1, 2)


seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=20)
@given(seed=seeds, padding=st.integers(0, 40))
def test_crop_is_pillows_to_the_pixel(seed: int, padding: int) -> None:
    images = pictures(seed)
    corner = torch.from_numpy(np.random.default_rng(seed).integers(0, 2 * padding + 1, (2, len(images))))

    def cropped(picture: Image.Image, i: int) -> Image.Image:
        top, left = corner[:, i].tolist()
        return ImageOps.expand(picture, padding, fill=0).crop((left, top, left + 32, top + 32))

    assert torch.equal(pixels.crop(images, corner[0], corner[1], padding), one_by_one(images, cropped))


@settings(deadline=None, max_examples=10)
@given(seed=seeds)
def test_flip_is_pillows_to_the_pixel(seed: int) -> None:
    images = pictures(seed)
    flipped = torch.from_numpy(np.random.default_rng(seed).random(len(images)) < 0.5)
    expected = one_by_one(images, lambda picture, i: ImageOps.mirror(picture) if flipped[i] else picture)
    assert torch.equal(pixels.flip(images, flipped), expected)


@settings(deadline=None, max_examples=20)
@given(seed=seeds)
def test_erasing_is_pillows_to_the_pixel(seed: int) -> None:
    images = pictures(seed)
    sides = torch.from_numpy(np.random.default_rng(seed).integers(0, 32, (4, len(images))))

    def erased(picture: Image.Image, i: int) -> Image.Image:
        top, left, height, width = sides[:, i].tolist()
        picture.paste((0, 0, 0), (left, top, left + width, top + height))
        return picture

    assert torch.equal(pixels.erase(images, *sides), one_by_one(images, erased))


@settings(deadline=None, max_examples=20)
@given(seed=seeds, reach=st.sampled_from([10, 15, 180]))
def test_rotation_is_pillows_except_between_two_pixels(seed: int, reach: int) -> None:
    images = pictures(seed)
    degrees = torch.from_numpy(np.random.default_rng(seed).uniform(-reach, reach, len(images)))
    ours = pixels.rotate(images, degrees)
    reference = one_by_one(images, lambda picture, i: picture.rotate(degrees[i].item()))
    # Where the sample point is (in exact arithmetic), and how far from the line between two pixels.
    turn = torch.deg2rad(degrees)[:, None, None]
    y, x = torch.meshgrid(torch.arange(32) - 15.5, torch.arange(32) - 15.5, indexing="ij")
    info = torch.stack([turn.cos() * x - turn.sin() * y, turn.sin() * x + turn.cos() * y])
    between = ((info - info.round()).abs() < 2e-3).any(dim=0)[:, None]
    assert between.double().mean() < 0.05
    assert torch.equal(ours.masked_fill(between, 0), reference.masked_fill(between, 0))


def test_a_quarter_turn_is_anticlockwise() -> None:
    images = pictures(0)
    assert torch.equal(pixels.rotate(images, torch.full((len(images),), 90.0)), images.rot90(1, (2, 3)))


def shifted_hue(picture: Image.Image, turn: float) -> Image.Image:
    """What torchvision does to a Pillow image: the 8-bit hue plus a whole number of steps, modulo 256."""
    h, s, v = picture.convert("HSV").split()
    moved = (np.array(h, dtype=np.int32) + math.trunc(turn * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(moved.astype(np.uint8)), s, v)).convert("RGB")


ENHANCERS: dict[Callable[[Tensor, Tensor], Tensor], Callable[[Image.Image], ImageEnhance._Enhance]] = {
    pixels.brightness: ImageEnhance.Brightness,
    pixels.contrast: ImageEnhance.Contrast,
    pixels.saturation: ImageEnhance.Color,
}


@pytest.mark.parametrize("adjust", ENHANCERS, ids=lambda adjust: adjust.__name__)
@settings(deadline=None, max_examples=20)
@given(seed=seeds)
def test_brightness_contrast_and_saturation_are_pillows(
    adjust: Callable[[Tensor, Tensor], Tensor], seed: int
) -> None:
    images = pictures(seed)
    factor = torch.from_numpy(np.random.default_rng(seed).uniform(0, 2, len(images))).float()
    expected = one_by_one(images, lambda picture, i: ENHANCERS[adjust](picture).enhance(factor[i].item()))
    difference = (adjust(images, factor).int() - expected.int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).double().mean() < 1e-3


@settings(deadline=None, max_examples=20)
@given(seed=seeds)
def test_hue_is_pillows(seed: int) -> None:
    images = pictures(seed)
    turn = torch.from_numpy(np.random.default_rng(seed).uniform(-0.5, 0.5, len(images))).float()
    expected = one_by_one(images, lambda picture, i: shifted_hue(picture, turn[i].item()))
    difference = (pixels.hue(images, turn).int() - expected.int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).double().mean() < 1e-3


def test_jitter_adjusts_each_image_in_its_own_order() -> None:
    rng = np.random.default_rng(0)
    images = pictures(1, count=48)
    factors = torch.from_numpy(rng.uniform(0.6, 1.4, (48, 4))).float()
    factors[:, 3] -= 1
    order = torch.from_numpy(np.stack([rng.permutation(4) for _ in range(48)]))

    def jittered(picture: Image.Image, i: int) -> Image.Image:
        for which in order[i].tolist():
            factor = factors[i, which].item()
            if which == 3:
                picture = shifted_hue(picture, factor)
            else:
                picture = list(ENHANCERS.values())[which](picture).enhance(factor)
        return picture

    difference = (jitter(images, factors, order, [True] * 4).int() - one_by_one(images, jittered).int()).abs()
    # One rounding apart before a change of hue or contrast may be a few apart after it, hence the share.
    assert (difference > 1).double().mean() < 1e-3
    without_hue = jitter(images, factors, order, [True, True, True, False])
    assert not torch.equal(without_hue, jitter(images, factors, order, [True] * 4))


def test_normalisation_is_the_formula() -> None:
    images = pictures(2)
    mean, std = (0.491, 0.482, 0.447), (0.202, 0.199, 0.201)
    expected = images.double() / 255
    expected = (expected - torch.tensor(mean).double()[:, None, None]) / torch.tensor(std).double()[
        :, None, None
    ]
    ours = pixels.normalize(images, mean, std)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), expected, rtol=1e-6, atol=1e-6)


def test_enlarging_is_pillows() -> None:
    grey = np.random.default_rng(3).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    expected = [
        np.array(Image.fromarray(image).resize((32, 32), Image.Resampling.BILINEAR)) for image in grey
    ]
    assert (enlarge(grey, 32) == np.stack(expected)).all()


def test_rotation_and_hue_are_torchvisions() -> None:
    """The same against torchvision itself, where it can be imported."""
    try:
        functional = import_module("torchvision.transforms.functional")
    except Exception as error:  # beside some builds of torch it is installed and fails to load
        pytest.skip(f"torchvision cannot be imported: {error}")
    images = pictures(5)
    turn = torch.linspace(-0.5, 0.5, len(images))
    expected = one_by_one(images, lambda picture, i: functional.adjust_hue(picture, turn[i].item()))
    assert (pixels.hue(images, turn).int() - expected.int()).abs().max() <= 1
    right_angles = torch.arange(len(images)) * 90.0
    expected = one_by_one(images, lambda picture, i: functional.rotate(picture, right_angles[i].item()))
    assert torch.equal(pixels.rotate(images, right_angles), expected)
