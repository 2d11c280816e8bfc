"""Batches: their order, their composition, their two views."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from seedspread.cff.config import PIPELINES, HorizontalFlip, RandomErasing, Step
from seedspread.cff.data import augment as pixels
from seedspread.cff.data.augment import augment, draws
from seedspread.cff.data.dataset import Split
from seedspread.cff.data.loader import Loader, epoch_order
from seedspread.cff.datasets import expected_positive_pairs
from seedspread.cff.loss import LabelGroups

from .pictures import pictures

MEAN = STD = (0.5, 0.5, 0.5)
STEPS = PIPELINES["cifar"]


def part(n: int = 50, classes: int = 5) -> Split:
    return Split(pictures(0, n), torch.arange(n) % classes, torch.arange(n))


def loader(images: Split, **changes: object) -> Loader:
    arguments = {"batch_size": 16, "views": 2, "order_seed": 1, "augment_seed": 2} | changes
    return Loader(images, STEPS, MEAN, STD, **arguments)  # type: ignore[arg-type]


def test_an_epoch_shows_every_image_once_and_keeps_the_short_last_batch() -> None:
    batches = list(loader(part()).epoch(0))
    assert [len(batch.index) for batch in batches] == [16, 16, 16, 2]
    assert len(batches) == len(loader(part()))
    assert sorted(torch.cat([batch.index for batch in batches]).tolist()) == list(range(50))
    for batch in batches:
        assert batch.images.shape == (2 * len(batch.index), 3, 32, 32)
        assert torch.equal(batch.labels, (batch.index % 5).repeat(2))


def epoch(one: Loader, number: int) -> dict[int, torch.Tensor]:
    """Both views of each image in an epoch, by image."""
    seen = {}
    for batch in one.epoch(number):
        first, second = batch.images.chunk(2)
        for i, index in enumerate(batch.index.tolist()):
            seen[index] = torch.stack([first[i], second[i]])
    return seen


def same(one: dict[int, torch.Tensor], other: dict[int, torch.Tensor]) -> bool:
    return all(torch.equal(one[index], other[index]) for index in one.keys() & other.keys())


def test_views_depend_on_the_image_and_not_on_batch_size_or_order() -> None:
    reference = epoch(loader(part()), 3)
    assert same(reference, epoch(loader(part(), batch_size=7), 3))
    assert same(reference, epoch(loader(part(), order_seed=9), 3))
    subset = part().at(np.array([4, 8, 44]))
    assert same({i: reference[j] for i, j in enumerate([4, 8, 44])}, epoch(loader(subset), 3))
    assert not same(reference, epoch(loader(part(), augment_seed=9), 3))
    assert not same(reference, epoch(loader(part()), 4))
    differing = [not torch.equal(*views) for views in reference.values()]
    assert np.mean(differing) > 0.95  # two views of an image differ


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    labels = np.arange(100) % 10
    for order in ("shuffled", "balanced"):
        one = epoch_order(labels, order, 5, 2)
        assert sorted(one) == list(range(100))
        assert (one == epoch_order(labels, order, 5, 2)).all()
        assert (one != epoch_order(labels, order, 5, 3)).any()
        assert (one != epoch_order(labels, order, 6, 2)).any()
    assert (epoch_order(labels, "given", 5, 2) == np.arange(100)).all()


@pytest.mark.parametrize(("batch", "classes"), [(512, 10), (64, 10), (100, 7)])
def test_balanced_batches_have_one_number_of_positive_pairs(batch: int, classes: int) -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(classes), 600))
    order = epoch_order(labels, "balanced", seed=0, epoch=0)
    full = len(labels) // batch
    pairs = {
        LabelGroups.of(torch.from_numpy(labels[order[i * batch : (i + 1) * batch]])).pairs
        for i in range(full)
    }
    assert len(pairs) == 1
    shuffled = epoch_order(labels, "shuffled", seed=0, epoch=0)
    random_pairs = {
        LabelGroups.of(torch.from_numpy(labels[shuffled[i * batch : (i + 1) * batch]])).pairs
        for i in range(full)
    }
    assert len(random_pairs) > 1
    assert pairs.pop() == pytest.approx(
        expected_positive_pairs([600] * classes, batch, balanced=True), rel=0.01
    )


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match="'shuffled'"):
        epoch_order(np.zeros(4, dtype=np.int64), "shufled", 0, 0)


def test_first_views_come_first() -> None:
    (batch,) = loader(part(), batch_size=50, order="given").epoch(3)
    first = augment(part().images, STEPS, draws(STEPS, seed=2, epoch=3, view=0, images=50))
    assert torch.equal(batch.images[:50], pixels.normalize(first, MEAN, STD))


def test_an_epoch_can_be_entered_in_its_midst() -> None:
    whole = list(loader(part()).epoch(2))
    rest = list(loader(part()).epoch(2, start=2))
    assert len(rest) == 2
    assert all(torch.equal(a.images, b.images) for a, b in zip(whole[2:], rest, strict=True))


def test_balanced_batches_of_unequal_classes_hold_them_in_proportion() -> None:
    sizes = [50, 300, 650]
    labels = np.repeat(np.arange(3), sizes)
    order = epoch_order(labels, "balanced", seed=1, epoch=0)
    for start in range(0, 1000, 100):
        counts = np.bincount(labels[order[start : start + 100]], minlength=3)
        assert np.abs(counts - np.array([5, 30, 65])).max() <= 2


def test_without_steps_images_are_only_normalised() -> None:
    images = part()
    plain = Loader(images, (), MEAN, STD, batch_size=50, order="given")
    (batch,) = plain.epoch(0)
    torch.testing.assert_close(batch.images, images.images.float() / 127.5 - 1)


@pytest.mark.parametrize("before", [(), (HorizontalFlip(),)])
def test_erasing_after_normalization_leaves_zeros(before: tuple[Step, ...]) -> None:
    """The same places are erased as before normalization, where they are black."""
    images = Split(pictures(0, 50).clamp(min=1), torch.arange(50) % 5, torch.arange(50))
    after, raw = ((*before, RandomErasing(p=0.7, after_normalization=last)) for last in (True, False))
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.1)
    one, other = (Loader(images, steps, mean, std, 16, views=2, augment_seed=2) for steps in (after, raw))
    black = pixels.normalize(torch.zeros(1, 3, 1, 1, dtype=torch.uint8), mean, std)
    places = 0
    for got, erased, whole in zip(one.epoch(0), other.epoch(0), _without_last(one), strict=True):
        hidden = (erased.images != whole).any(dim=1, keepdim=True).expand_as(whole)
        assert (got.images[hidden] == 0).all()
        assert torch.equal(erased.images[hidden], black.expand_as(whole)[hidden])
        assert torch.equal(got.images[~hidden], whole[~hidden])
        places += int(hidden.sum())
    assert places > 10_000
    for got, few in zip(one.epoch(0), one.fused_batches(one.indices(0), _drawn(one)), strict=True):
        assert torch.equal(got.images, few.images)


def _drawn(one: Loader) -> list[torch.Tensor]:
    return [draws(one.steps, one.augment_seed, 0, view, len(one.split)) for view in range(one.views)]


def _without_last(one: Loader) -> Iterator[torch.Tensor]:
    """The views of the steps but the last, with the numbers that are drawn for all of them."""
    for index in one.indices(0):
        views = [augment(one.split.images[index], one.steps[:-1], drawn[index]) for drawn in _drawn(one)]
        yield pixels.normalize(torch.cat(views), one.mean, one.std)
