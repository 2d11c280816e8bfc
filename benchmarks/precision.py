"""Errors of a step's gradients in float32 and bf16 compared with float64, by parameter."""

import re
import statistics
from collections.abc import Iterator
from typing import Annotated, Any

import torch
import typer
from rich.table import Table
from torch import Tensor

from benchmarks.script import AsJson, main
from benchmarks.timing import show, table
from benchmarks.train import random_batch
from seedspread.cff.config import RuntimeConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.model import ViT
from seedspread.cff.presets import read_config
from seedspread.cff.training.layerwise import EpochSums, LayerwiseModel
from seedspread.cff.training.native import why_not
from seedspread.cff.training.trainers import trainer_of

WAYS = [(precision, way) for precision in ("fp32", "bf16") for way in ("plain", "fast", "native")]


def gradients(preset: str, images: int, precision: str, way: str) -> dict[str, Tensor]:
    """Return the gradients of one batch by parameter, with perturbed weights; `fp64` is the reference."""
    runtime: dict[str, Any] = {"precision": precision.replace("fp64", "fp32"), "implementation": way}
    config = read_config(preset).model_copy(update={"runtime": RuntimeConfig(**runtime)})
    torch.manual_seed(0)
    vit, batch = ViT.from_config(config.model), random_batch(images, config.model)
    for parameter in vit.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    if precision == "fp64":
        vit, batch = vit.double(), Batch(batch.images.double(), batch.labels, batch.index)
    sums = EpochSums.empty(config.model.depth, torch.device("cpu"))
    trainer_of(LayerwiseModel(config, vit)).step(batch, 0, sums, update=False)
    named = vit.layers.named_parameters()
    return {name: p.grad.double() for name, p in named if p.grad is not None}


def run(
    preset: Annotated[str, typer.Option(help="Preset of the model.")] = "small/cifar10",
    images: Annotated[int, typer.Option(min=2, help="Images in the batch.")] = 128,
    as_json: AsJson = False,
) -> None:
    """Measure errors of gradients against float64: the norm of the error over that of the gradient."""
    truth = gradients(preset, images, "fp64", "plain")
    kinds = dict.fromkeys(re.sub(r"^(\d+\.)+", "", name) for name in truth)
    errors: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
    ways = [(p, way) for p, way in WAYS if not (way == "native" and why_not(bf16=p == "bf16"))]
    for precision, way in ways:
        found = gradients(preset, images, precision, way)
        for kind in kinds:
            layers = [name for name in truth if name.endswith(f".{kind}")]
            errors[kind][f"{way}, {precision}"] = statistics.median(
                float((found[name] - truth[name]).norm() / truth[name].norm()) for name in layers
            )
    show({"preset": preset, "images": images, "errors": errors}, as_json, _lines)


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    errors = result["errors"]
    ways = list(next(iter(errors.values())))
    yield table(
        f"Error of a gradient over its norm: {result['preset']}, {result['images']} images, two views",
        ("parameter", *ways),
        [(kind, *(f"{errors[kind][way]:.1e}" for way in ways)) for kind in errors],
    )
    yield "Medians over the layers."


if __name__ == "__main__":
    main(run)
