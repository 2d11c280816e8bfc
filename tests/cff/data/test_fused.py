"""Views in few operations: the same pixels as step by step, and how many operations they take."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.operations import OperationCounter
from seedspread.cff.config import (
    PIPELINES,
    ColorJitter,
    HorizontalFlip,
    RandomCrop,
    RandomErasing,
    RandomRotation,
    Step,
)
from seedspread.cff.data import augment as pixels
from seedspread.cff.data import fused
from seedspread.cff.data.augment import augment, draws
from seedspread.cff.data.dataset import Split
from seedspread.cff.data.loader import Loader

from .pictures import pictures

HARD = PIPELINES["svhn-hard"]
SHARE = st.sampled_from([0.0, 0.3, 0.5])
STEPS = st.one_of(
    st.builds(RandomCrop, padding=st.integers(0, 40)),
    st.builds(HorizontalFlip),
    st.builds(RandomRotation, degrees=st.sampled_from([0.0, 15.0, 180.0])),
    st.builds(RandomErasing, p=st.just(0.9)),
    st.builds(ColorJitter, brightness=SHARE, contrast=SHARE, saturation=SHARE, hue=SHARE),
)


def in_few(images: torch.Tensor, steps: tuple[Step, ...], uniform: torch.Tensor) -> torch.Tensor:
    chosen = fused.parameters(steps, uniform, *images.shape[-2:])
    return fused.transform(images, steps, chosen)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(STEPS, max_size=5).map(tuple), st.integers(0, 10**6), st.sampled_from([(3, 32), (1, 28), (3, 7)])
)
def test_the_same_pixels_to_the_bit(steps: tuple[Step, ...], seed: int, shape: tuple[int, int]) -> None:
    channels, size = shape
    images = pictures(seed, count=24)[:, :channels, :size, :size].contiguous()
    uniform = draws(steps, seed, 0, 0, len(images))
    assert torch.equal(in_few(images, steps, uniform), augment(images, steps, uniform))


def test_every_pipeline_and_every_order_of_jitter() -> None:
    images = pictures(3, count=500)
    for steps in PIPELINES.values():
        uniform = draws(steps, 1, 2, 0, len(images))
        assert torch.equal(in_few(images, steps, uniform), augment(images, steps, uniform))


def test_hue_of_all_kinds_of_colors() -> None:
    values = torch.arange(0, 256, 5, dtype=torch.uint8)
    colors = torch.cartesian_prod(values, values, values).T.reshape(1, 3, len(values) ** 2, -1)
    for step in (-127, -26, 0, 1, 127):
        turn = torch.tensor([step / 255 + 1e-4 * (step > 0) - 1e-4 * (step < 0)])
        constants = fused._colors(3, colors.device)
        padded = torch.nn.functional.pad(colors, (0, 0, 0, 0, 0, 1), value=1).float()
        steps = (turn * 255).to(torch.int64)[:, None, None, None]
        shifted = fused._shifted_hue(padded, padded[:, :3], steps, constants)
        assert torch.equal(shifted.to(torch.uint8), pixels.hue(colors, turn))


def loader(steps: tuple[Step, ...] = HARD, device: str = "cpu") -> Loader:
    images = pictures(0, count=50)
    split = Split(images, torch.arange(50) % 5, torch.arange(50)).to(device)
    return Loader(split, steps, (0.5,) * 3, (0.5,) * 3, batch_size=16, views=2, order_seed=1, augment_seed=2)


def test_a_loaders_batches_are_the_same() -> None:
    one = loader()
    by_view = [draws(HARD, 2, 3, view, 50) for view in range(2)]
    for start in (0, 2):
        usual = list(one.epoch(3, start))
        few = list(one.fused_batches(one.indices(3, start), by_view))
        assert len(usual) == len(few) == 4 - start
        for a, b in zip(usual, few, strict=True):
            assert torch.equal(a.images, b.images)
            assert torch.equal(a.labels, b.labels)
            assert torch.equal(a.index, b.index)


def count_batch(steps: tuple[Step, ...]) -> OperationCounter:
    """Of a batch of two views, on tensors without values; no reading of one would pass."""
    one = loader(steps, device="meta")
    chosen = torch.stack([fused.parameters(steps, draws(steps, 2, 3, v, 50), 32, 32) for v in range(2)])
    index, chosen = torch.empty(16, dtype=torch.int64, device="meta"), chosen.to("meta")
    one.fused_batch(index, chosen)  # tables are made once
    counter = OperationCounter("meta")
    with counter:
        one.fused_batch(index, chosen)
    return counter


def test_a_view_of_the_hardest_pipeline_takes_at_most_60_operations() -> None:
    bare = count_batch(()).operations.total()  # indexing, normalising, labels
    assert count_batch(HARD).operations.total() - bare <= 2 * 60
    assert count_batch(PIPELINES["cifar"]).operations.total() - bare <= 2 * 10


def test_no_batch_copies_between_host_and_device() -> None:
    for steps in PIPELINES.values():
        assert not count_batch(steps).elsewhere
