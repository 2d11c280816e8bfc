"""What the draws depend on, and that they have the distributions that the steps promise."""

import numpy as np
import pytest
import torch
from scipy import stats

from seedspread.cff.config import (
    PIPELINES,
    ColorJitter,
    HorizontalFlip,
    RandomCrop,
    RandomErasing,
    RandomRotation,
)
from seedspread.cff.data import augment as pixels
from seedspread.cff.data.augment import apply, augment, draws, erasing_rectangle
from seedspread.cff.data.loader import epoch_order
from seedspread.cff.randomness import derive, stream

from .pictures import pictures

HARD = PIPELINES["svhn-hard"]

GOLDEN_DRAWS = [0.9010821, 0.5644217, 0.6164916, 0.5146737]
GOLDEN_ORDER = [2, 1, 5, 7, 6, 4, 3, 0]
GOLDEN_SEED = 5543689242915832256


def test_the_papers_pipelines() -> None:
    """Section 5.1: every number of the five pipelines."""
    assert PIPELINES["cifar"] == PIPELINES["svhn-easy"] == (RandomCrop(padding=12), HorizontalFlip(p=0.5))
    assert PIPELINES["fashion-mnist"] == (RandomCrop(padding=4), HorizontalFlip(p=0.5))
    assert PIPELINES["svhn-medium"] == (
        RandomCrop(padding=4),
        RandomRotation(degrees=10),
        ColorJitter(brightness=0.2, contrast=0.2, saturation=0.2, hue=0),
    )
    assert PIPELINES["svhn-hard"] == (
        RandomCrop(padding=6),
        HorizontalFlip(p=0.5),
        RandomRotation(degrees=15),
        RandomErasing(p=0.5, scale=(0.1, 0.3)),
        ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1),
    )


def test_an_images_draws_depend_on_seed_epoch_image_and_view_alone() -> None:
    drawn = draws(HARD, seed=3, epoch=5, view=0, images=100)
    assert torch.equal(drawn, draws(HARD, 3, 5, 0, 100))
    assert torch.equal(drawn[:40], draws(HARD, 3, 5, 0, 40))  # however many images there are
    for other in (draws(HARD, 4, 5, 0, 100), draws(HARD, 3, 6, 0, 100), draws(HARD, 3, 5, 1, 100)):
        assert (drawn != other).double().mean() > 0.99
    assert len(torch.unique(drawn[:, 0])) == 100  # and images differ from each other


def test_an_image_is_augmented_alike_whatever_batch_it_is_in() -> None:
    images = pictures(0, count=40)
    uniform = draws(HARD, 1, 2, 0, 40)
    together = augment(images, HARD, uniform)
    some = torch.tensor([31, 2, 17])
    assert torch.equal(augment(images[some], HARD, uniform[some]), together[some])


def test_crop_offsets_are_uniform_and_reach_both_ends() -> None:
    step = RandomCrop(padding=3)
    n = 7000
    images = torch.zeros(n, 3, 8, 8, dtype=torch.uint8)
    images[:, :, 4, 4] = 255
    moved = apply(step, images, draws([step], 0, 0, 0, n))
    rows = moved[:, 0].amax(2).argmax(1)  # the bright pixel went to row 4 + 3 - top
    counts = np.bincount(rows.numpy(), minlength=8)[1:]
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > 1e-3


def test_rows_and_columns_are_cropped_apart() -> None:
    step = RandomCrop(padding=3)
    images = pictures(1, count=40)
    uniform = draws([step], 0, 0, 0, 40)
    top, left = (uniform * 7).long().unbind(1)
    assert (top != left).any()
    assert torch.equal(apply(step, images, uniform), pixels.crop(images, top, left, 3))


def test_rotations_go_both_ways_by_up_to_the_degrees() -> None:
    step = RandomRotation(degrees=15)
    images = pictures(2, count=40)
    uniform = draws([step], 0, 0, 0, 40)
    degrees = 30 * uniform[:, 0] - 15
    assert degrees.min() < -10
    assert degrees.max() > 10
    assert torch.equal(apply(step, images, uniform), pixels.rotate(images, degrees))


@pytest.mark.parametrize("which", ["brightness", "contrast", "saturation", "hue"])
def test_each_kind_of_jitter_is_its_own_adjustment(which: str) -> None:
    step = ColorJitter.model_validate({which: 0.4})
    images = pictures(3, count=40)
    uniform = draws([step], 0, 0, 0, 40)
    slot = ["brightness", "contrast", "saturation", "hue"].index(which)
    offset = 0.8 * uniform[:, slot] - 0.4
    factor = offset if which == "hue" else 1 + offset
    difference = (apply(step, images, uniform).int() - getattr(pixels, which)(images, factor).int()).abs()
    assert difference.max() <= 1  # a factor on the edge of a rounding
    assert (difference > 0).double().mean() < 0.01
    assert not torch.equal(apply(step, images, uniform), images)


def test_the_streams_are_pinned() -> None:
    """Numbers that every machine and every version must give again; a change is a new NUMERICS_VERSION."""
    drawn = draws((RandomCrop(padding=4),), seed=3, epoch=5, view=1, images=2)
    assert drawn.flatten().tolist() == pytest.approx(GOLDEN_DRAWS, abs=1e-7)
    order = epoch_order(np.zeros(8, dtype=np.int64), "shuffled", seed=3, epoch=5)
    assert order.tolist() == GOLDEN_ORDER
    assert derive(1, 2, 3) == GOLDEN_SEED


def test_streams_of_large_seeds_do_not_run_into_each_other() -> None:
    numbers = {stream(1, *path).random() for path in [(5, 3), (5 + (3 << 32), 0), (5, 0), (3, 5), (0, 5)]}
    assert len(numbers) == 5


def test_flips_and_rotations_have_their_distribution() -> None:
    n = 4000
    images = torch.arange(8, dtype=torch.uint8).expand(n, 3, 8, 8)
    flip = HorizontalFlip(p=0.3)
    flipped = apply(flip, images, draws([flip], 0, 0, 0, n))[:, 0, 0, 0] == 7
    assert stats.binomtest(int(flipped.sum()), n, 0.3).pvalue > 1e-3
    never = HorizontalFlip(p=0)
    assert torch.equal(apply(never, images, draws([never], 0, 0, 0, n)), images)
    still = RandomRotation(degrees=0)
    assert torch.equal(apply(still, images, draws([still], 0, 0, 0, n)), images)


def test_erased_rectangles_are_as_torchvision_defines_them() -> None:
    step = RandomErasing(p=0.5, scale=(0.1, 0.3))
    n = 20_000
    top, left, height, width = erasing_rectangle(step, 32, 32, draws([step], 0, 0, 0, n).numpy())
    erased = height > 0
    assert stats.binomtest(int(erased.sum()), n, 0.5).pvalue > 1e-3
    assert ((width > 0) == erased).all()
    top, left, height, width = (side[erased] for side in (top, left, height, width))
    assert height.max() == width.max() == 31  # strictly inside
    assert (top >= 0).all()
    assert ((top + height) <= 32).all()
    assert ((left + width) <= 32).all()
    assert (top + height).max() == 32
    # Area and the logarithm of the shape are uniform, but for rounding and the few that do not fit.
    share, shape = height * width / 1024, np.log(height / width)
    assert share.mean() == pytest.approx(0.2, abs=0.005)
    assert share.min() > 0.085
    assert share.max() < 0.32
    middle = np.log(0.3 * 3.3) / 2
    assert shape.mean() == pytest.approx(middle, abs=5 * shape.std() / np.sqrt(len(shape)))
    # Places are uniform among those at which the rectangle fits, down and across.
    for corner, side in ((top, height), (left, width)):
        assert stats.kstest((corner + 0.5) / (32 - side + 1), "uniform").statistic < 0.03


def test_jitter_factors_stay_in_their_range_and_zero_does_nothing() -> None:
    n = 3000
    grey = torch.full((n, 3, 2, 2), 100, dtype=torch.uint8)
    step = ColorJitter(brightness=0.4)
    values = apply(step, grey, draws([step], 0, 0, 0, n))[:, 0, 0, 0].double().numpy()
    assert values.min() >= 60
    assert values.max() <= 140
    assert stats.kstest((values + 0.5 - 60) / 80, "uniform").statistic < 0.03
    strong = ColorJitter(brightness=1.5)  # factors from 0, not from -0.5
    values = apply(strong, grey, draws([strong], 0, 0, 0, n))[:, 0, 0, 0].double().numpy()
    assert stats.kstest((values + 0.5) / 250, "uniform").statistic < 0.03
    nothing = ColorJitter()
    images = pictures(4)
    assert torch.equal(apply(nothing, images, draws([nothing], 0, 0, 0, len(images))), images)


def test_the_orders_of_jitter_are_all_alike_likely() -> None:
    step = ColorJitter(brightness=0.1)
    order = draws([step], 0, 0, 0, 24_000)[:, 4:].argsort(dim=1)
    _, counts = torch.unique(order, dim=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3
