"""How long a campaign will take, from a step that is measured on this machine."""

import time
from collections.abc import Iterable
from typing import Any

import torch

from seedspread.config import RunConfig
from seedspread.data.loader import Batch
from seedspread.datasets import dataset_info
from seedspread.model import ViT
from seedspread.training.layerwise import LayerwiseModel
from seedspread.training.records import EpochSums
from seedspread.training.run import choose_device, cpu_threads
from seedspread.training.trainer import trainer_of

# Images of the step that is measured; cost per image hardly depends on it.
_IMAGES = 32
# A study over a thousand shapes is not to be trained before it is planned.
_MEASURED_SHAPES = 8
# A forward pass costs about a third of a step.
_FORWARD = 1 / 3


def seconds_per_run(configs: Iterable[RunConfig], threads: int) -> list[float]:
    """One estimate per config; configs of one shape are measured once, and of many shapes the first few.

    The others are told from the last one that was measured: time goes with tokens and weights.
    """
    per_image: dict[tuple[Any, ...], float] = {}
    per_work = 0.0
    seconds = []
    with cpu_threads(threads):
        for config in configs:
            shape = (config.model, config.training.rule, config.objective.margin_type, config.runtime)
            if shape not in per_image and len(per_image) < _MEASURED_SHAPES:
                per_image[shape] = _seconds_per_image(config)
                per_work = per_image[shape] / _work(config)
            seconds.append(per_image.get(shape, per_work * _work(config)) * _images(config))
    return seconds


def _work(config: RunConfig) -> int:
    return config.model.tokens * config.model.parameters


def _images(config: RunConfig) -> float:
    """How many images' worth of stage-1 work a run is."""
    info = dataset_info(config.data.name)
    training: float = info.train_size
    if config.data.limit_per_class is not None:
        training = min(training, config.data.limit_per_class * len(info.classes))
    training *= 1 - config.data.validation_fraction
    passes = config.probe.epochs if config.probe.features == "augmented" else 1
    # Two views a step in stage 1 (that is what is measured); single views forward only in the probe.
    probe = training * passes * config.probe.repeats * _FORWARD / 2
    return float(training * (config.training.epochs + _FORWARD) + probe)


def _seconds_per_image(config: RunConfig) -> float:
    device = choose_device(config.runtime.device)
    shape = config.model
    classes = len(dataset_info(config.data.name).classes)
    model = LayerwiseModel(config, ViT.from_config(shape, classes).to(device))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(model.views * _IMAGES, *shape.image_shape, generator=generator).to(device)
    labels = torch.arange(_IMAGES).remainder(classes).repeat(model.views).to(device)
    batch = Batch(images, labels, torch.arange(_IMAGES))
    trainer, sums = trainer_of([model]), EpochSums.empty(shape.depth, device)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        trainer.step([batch], 0, [sums])
        float(sums.loss.sum())  # waits for a device that works on its own
        times.append(time.perf_counter() - start)
    return min(times) / _IMAGES
