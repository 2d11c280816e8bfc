"""Gradients of one batch by each implementation, and how far apart they are."""

from typing import Any

import torch
from torch import Tensor, nn

from seedspread.cff.data.dataset import load
from seedspread.cff.data.loader import Batch, Loader
from seedspread.cff.model import ViT
from seedspread.cff.training.fast import FastTrainer
from seedspread.cff.training.layerwise import EpochSums, LayerwiseModel
from seedspread.cff.training.trainers import AutogradTrainer

from .tiny import tiny

CPU = torch.device("cpu")


def batch(seed: int = 0, images: int = 24) -> Batch:
    """Two augmented views of real images."""
    config = tiny().data
    dataset = load(config)
    mean, std = dataset.info.mean, dataset.info.std
    loader = Loader(dataset.train, (), mean, std, images, views=2, order_seed=seed)
    batch = next(loader.epoch(0))
    noise = torch.randn(batch.images.shape, generator=torch.Generator().manual_seed(seed))
    return Batch(batch.images + 0.1 * noise, batch.labels, batch.index)


def model(seed: int = 0, **changes: Any) -> LayerwiseModel:
    """The same weights every time, away from their initial values, where norms and biases are trivial."""
    config = tiny(**changes)
    torch.manual_seed(seed)
    vit = ViT.from_config(config.model)
    for parameter in vit.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return LayerwiseModel(config, vit)


def sums_of(one: LayerwiseModel) -> EpochSums:
    return EpochSums.empty(one.config.model.depth, CPU)


def plain_gradients(one: LayerwiseModel, data: Batch) -> tuple[dict[str, Tensor], EpochSums]:
    sums = sums_of(one)
    AutogradTrainer(one).step(data, 0, sums, update=False)
    named = one.vit.layers.named_parameters()
    return {name: p.grad.float() for name, p in named if p.grad is not None}, sums


def fast_gradients(one: LayerwiseModel, data: Batch) -> tuple[dict[str, Tensor], EpochSums]:
    sums = sums_of(one)
    FastTrainer(one).step(data, 0, sums, update=False)
    named = one.vit.layers.named_parameters()
    return {name: p.grad for name, p in named if p.grad is not None}, sums


def distance(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """The largest difference of a parameter's gradient, in its norm; key biases have none but rounding."""
    assert a.keys() == b.keys()
    floor = 1e-4 * nn.utils.get_total_norm(b.values())
    return max(float((a[name] - y).norm() / torch.maximum(y.norm(), floor)) for name, y in b.items())


def assert_alike(sums: EpochSums, plain_sums: EpochSums) -> None:
    """What was recorded of a step, to rounding."""
    means = ("loss", "gradient_norm", "block_gradient_norm", "positive_pairs", "possible_pairs", "batches")
    for name in means:
        torch.testing.assert_close(sums.tensors()[name], plain_sums.tensors()[name], rtol=1e-5, atol=1e-6)
    # A similarity on a bin's edge may be rounded to either side.
    torch.testing.assert_close(sums.rate, plain_sums.rate, rtol=0, atol=5e-3)
    assert (sums.histogram - plain_sums.histogram).abs().sum() <= 4
