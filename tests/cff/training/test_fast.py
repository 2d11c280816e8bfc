"""The fast way is held to the plain one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from seedspread.cff.data.loader import Batch
from seedspread.cff.identity import run_key
from seedspread.cff.margins import MARGIN_TYPES
from seedspread.cff.model import ViT
from seedspread.cff.training.evaluation import features
from seedspread.cff.training.fast import FastTrainer
from seedspread.cff.training.layerwise import LayerwiseModel
from seedspread.cff.training.run import train

from .gradients import assert_alike, batch, distance, fast_gradients, model, plain_gradients, sums_of
from .tiny import files, tiny


@pytest.mark.parametrize("margin_type", MARGIN_TYPES)
@pytest.mark.parametrize("size", [2, 7, 64, 1000])
def test_the_fast_way_has_the_gradients_of_the_plain_one(margin_type: str, size: int) -> None:
    changes: dict[str, Any] = {"objective__margin_type": margin_type, "runtime__micro_batch_size": size}
    plain, plain_sums = plain_gradients(model(**changes), batch())
    fast, sums = fast_gradients(model(**changes), batch())
    assert len(fast) > 30
    assert distance(fast, plain) < 1e-5
    assert_alike(sums, plain_sums)


@pytest.mark.parametrize(
    "changes",
    [
        {"objective__stability": "direct", "objective__reduction": "sum"},
        {"model__dim": 20, "model__heads": 5, "model__depth": 1},
        {"model__patch_size": 4, "model__heads": 1},
    ],
)
def test_of_every_shape(changes: dict[str, Any]) -> None:
    plain, _ = plain_gradients(model(**changes), batch())
    fast, _ = fast_gradients(model(**changes), batch())
    assert distance(fast, plain) < 1e-5


def test_it_is_nearer_to_the_truth_than_the_plain_way() -> None:
    far = {"plain": 0.0, "fast": 0.0}
    for seed in range(5):
        changes: dict[str, Any] = {"seed": seed, "objective__margin_type": "subtract"}
        exact, data = model(**changes), batch(seed)
        exact.vit.double()
        truth, _ = plain_gradients(exact, Batch(data.images.double(), data.labels, data.index))
        plain, _ = plain_gradients(model(**changes), data)
        fast, _ = fast_gradients(model(**changes), data)
        far["plain"] += distance(plain, truth)
        far["fast"] += distance(fast, truth)
    assert far["fast"] < far["plain"]


def test_the_distance_sees_a_gradient_that_is_a_little_wrong() -> None:
    plain, _ = plain_gradients(model(), batch())
    wrong = {name: gradient * (1 + 2e-5) for name, gradient in plain.items()}
    assert distance(wrong, plain) > 1e-5


def test_parameters_are_in_the_order_in_which_they_are_stacked() -> None:
    """Checkpoints number them by it, and the kernels unpack them by it."""
    modules = ("attention.0", "attention.1.qkv", "attention.1.proj", "mlp.0", "mlp.1", "mlp.3")
    block = [f"{module}.{kind}" for module in modules for kind in ("weight", "bias")]
    first, second, *_ = [[name for name, _ in layer.named_parameters()] for layer in model().vit.layers]
    assert first == [
        *("0.position", "0.project.weight", "0.project.bias"),
        *(f"1.{name}" for name in block),
    ]
    assert second == block


def test_features_are_the_models() -> None:
    fast, plain = model(), model(runtime__implementation="plain")
    images = batch().images
    for actual, expected in zip(features(fast, images), features(plain, images), strict=True):
        torch.testing.assert_close(actual, expected)


def test_recomputing_gives_the_same_bits(tmp_path: Path) -> None:
    kept = train(tiny(runtime__micro_batch_size=8), tmp_path / "kept")
    again = train(
        tiny(runtime__micro_batch_size=8, runtime__activation_checkpointing=True), tmp_path / "again"
    )
    assert kept.key == again.key
    assert files(tmp_path / "kept") == files(tmp_path / "again")


def test_what_is_part_of_a_runs_identity() -> None:
    fast, plain = run_key(tiny()), run_key(tiny(runtime__implementation="plain"))
    assert fast != plain
    assert run_key(tiny(runtime__activation_checkpointing=True)) == fast
    assert run_key(tiny(runtime__micro_batch_size=8)) != fast
    assert run_key(tiny(runtime__micro_batch_size=8, runtime__implementation="plain")) == plain
    other = run_key(tiny(training__rule="end_to_end"))
    assert run_key(tiny(training__rule="end_to_end", runtime__implementation="plain")) == other


def test_bf16_is_bf16() -> None:
    plain, _ = plain_gradients(model(runtime__precision="bf16"), batch())
    fast, _ = fast_gradients(model(runtime__precision="bf16"), batch())
    exact, _ = fast_gradients(model(), batch())
    assert all(gradient.dtype == torch.float32 for gradient in fast.values())
    together = [torch.cat([g.flatten() for g in one.values()]) for one in (fast, plain, exact)]
    size = together[2].norm()
    assert (together[0] - together[1]).norm() < 0.05 * size
    assert 1e-4 * size < (together[0] - together[2]).norm() < 0.05 * size


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_never_waits_for_the_device(precision: str) -> None:
    """Fake tensors have no values: whatever reads one, counts or indexes by a mask, is an error."""
    with FakeTensorMode():
        config = tiny(runtime__precision=precision)
        one = LayerwiseModel(config, ViT.from_config(config.model))
        data = Batch(torch.empty(16, 3, 32, 32), torch.empty(16, dtype=torch.int64), torch.empty(8))
        FastTrainer(one).step(data, 0, sums_of(one))


def test_fake_tensors_notice_a_wait() -> None:
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        torch.empty(3).sum().item()
