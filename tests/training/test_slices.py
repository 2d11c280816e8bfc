"""Slices are held to the plain step: the same gradients, parameter by parameter."""

from pathlib import Path

import pytest
import torch
from torch import nn

from seedspread.benchmarks.train import random_batch
from seedspread.config import RunConfig
from seedspread.data.loader import Batch
from seedspread.identity import run_key
from seedspread.model import ViT
from seedspread.training.encoder import Encoder
from seedspread.training.records import EpochSums
from seedspread.training.run import train
from tests.training.tiny import files, tiny


def encoder(**changes: object) -> Encoder:
    """The same weights every time."""
    torch.manual_seed(0)
    return Encoder(tiny(**changes), ViT(patch_size=8, dim=16, depth=3, heads=2))


def gradients(one: Encoder, batch: Batch) -> tuple[list[torch.Tensor], EpochSums]:
    sums = EpochSums.empty(3, torch.device("cpu"))
    one.step(batch, 0, sums, update=False)
    parameters = [p for layer in one.model.layers for p in layer.parameters()]
    return [p.grad for p in parameters if p.grad is not None], sums


def distance(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    """The largest difference of a parameter's gradient, in its norm; key biases have none but rounding."""
    floor = 1e-6 * nn.utils.get_total_norm(b)
    return max(float((x - y).norm() / torch.maximum(y.norm(), floor)) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("margin_type", ["clamp", "subtract", "shift"])
@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_slices_have_the_gradients_of_the_whole_batch(margin_type: str, size: int) -> None:
    batch = random_batch(24)
    plain, plain_sums = gradients(encoder(objective__margin_type=margin_type), batch)
    sliced, sums = gradients(encoder(objective__margin_type=margin_type, runtime__slice_images=size), batch)
    assert len(sliced) == len(plain) > 20
    assert distance(sliced, plain) < 1e-5
    torch.testing.assert_close(sums.loss, plain_sums.loss)
    torch.testing.assert_close(sums.gradient_norm, plain_sums.gradient_norm)
    torch.testing.assert_close(sums.positive_pairs, plain_sums.positive_pairs)


def test_the_distance_sees_a_gradient_that_is_a_little_wrong() -> None:
    plain, _ = gradients(encoder(), random_batch(24))
    wrong = [g * (1 + 2e-5) for g in plain]
    assert distance(wrong, plain) > 1e-5


def test_recomputing_gives_the_same_bits(tmp_path: Path) -> None:
    kept = train(tiny(runtime__slice_images=8), tmp_path / "kept")
    again = train(tiny(runtime__slice_images=8, runtime__recompute=True), tmp_path / "again")
    assert kept.key == again.key
    assert files(tmp_path / "kept") == files(tmp_path / "again")


def test_slicing_is_part_of_a_runs_identity_and_recomputing_is_not() -> None:
    plain = run_key(tiny())
    assert run_key(tiny(runtime__recompute=True)) == plain
    assert run_key(tiny(runtime__slice_images=8)) != plain
    assert run_key(tiny(runtime__slice_images=8)) != run_key(tiny(runtime__slice_images=16))
    whole = tiny(runtime__slice_images=8, training__rule="end_to_end")
    assert run_key(whole) == run_key(tiny(training__rule="end_to_end"))


def test_bf16_in_slices_is_bf16() -> None:
    batch = random_batch(8)
    plain, _ = gradients(encoder(runtime__precision="bf16"), batch)
    sliced, _ = gradients(encoder(runtime__precision="bf16", runtime__slice_images=4), batch)
    exact, _ = gradients(encoder(), batch)
    assert distance(sliced, plain) < 0.1
    assert distance(sliced, exact) > 1e-4


def test_keys_of_runs_that_are_not_sliced_have_not_changed() -> None:
    """Stores made before there were slices are still found."""
    assert run_key(RunConfig()) == KEY


KEY = "cf19b818e4c0682f2a3a"
