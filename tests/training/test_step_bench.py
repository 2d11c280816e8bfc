"""What the benchmark of a step stands on: its count of operations, and whose step it is."""

from pathlib import Path

import pytest

from seedspread.benchmarks.reference import CheckoutError, reference_step
from seedspread.benchmarks.step import count_flops, our_step
from seedspread.benchmarks.train import random_batch
from seedspread.config import ModelConfig


@pytest.mark.parametrize("runtime", [{}, {"slice_images": 32}])
def test_a_layers_operations_are_those_of_its_products(runtime: dict[str, int]) -> None:
    """Forward 2 N T (3dd + dd + 2 d 2d) + 2 (2 N T T d), three times over; the loss adds little."""
    n, t, d = 2 * 32, 64, 128
    batch = random_batch(32)
    one, two = (count_flops(our_step(batch, ModelConfig(depth=depth), runtime)) for depth in (1, 2))
    forward = 2 * n * t * (3 * d * d + d * d + 2 * d * 2 * d) + 2 * (2 * n * t * t * d)
    assert two - one == pytest.approx(3 * forward, rel=0.01)


def test_recomputing_costs_a_third_more() -> None:
    batch = random_batch(32)
    kept = count_flops(our_step(batch, ModelConfig(depth=1), {"slice_images": 32}))
    again = count_flops(our_step(batch, ModelConfig(depth=1), {"slice_images": 32, "recompute": True}))
    assert again / kept == pytest.approx(4 / 3, rel=0.02)


def test_a_folder_that_is_no_checkout_is_one_line(tmp_path: Path) -> None:
    batch = random_batch(2)
    with pytest.raises(CheckoutError, match="ContrastiveFF"):
        reference_step(tmp_path, batch.images, batch.labels)
