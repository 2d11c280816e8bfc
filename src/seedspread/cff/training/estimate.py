"""How long a study will take, from a step that is measured on this machine."""

import time
from collections.abc import Iterable
from statistics import median
from typing import Any

import torch

from seedspread.cff.config import RunConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.datasets import dataset_info
from seedspread.cff.model import ViT
from seedspread.cff.stacking import stack_of, worthwhile
from seedspread.cff.training.choice import trainer_of
from seedspread.cff.training.layerwise import LayerwiseModel
from seedspread.cff.training.records import EpochSums
from seedspread.cff.training.run import cpu_threads, device_of
from seedspread.cff.training.work import Work

# Images of the step that is measured where models are so large that cost per image hardly depends on it.
_IMAGES = 32
# A study over a thousand shapes is not to be trained before it is planned.
_MEASURED_SHAPES = 8
# The first step warms up; the median counts.
_STEPS = 3
# Seconds per image and size of the model, by shape.
_measured: dict[tuple[Any, ...], tuple[float, int]] = {}


def seconds_per_run(configs: Iterable[RunConfig], threads: int) -> list[float]:
    """One estimate per config; a shape is measured once, and of many shapes the first few.

    The others are told from the last one that was measured: time goes with tokens and weights.
    """
    per_run: dict[int, float] = {}  # runs of one cell share their config
    chosen = list(configs)
    with cpu_threads(threads):
        for config in chosen:
            if id(config) not in per_run:
                per_run[id(config)] = _per_image(config, threads) * Work.of(config).total
    return [per_run[id(config)] for config in chosen]


def _per_image(config: RunConfig, threads: int) -> float:
    objective = config.objective.margin_type
    shape = (
        config.model,
        config.training.rule,
        objective,
        config.training.batch_size,
        config.runtime,
        threads,
    )
    if shape not in _measured and len(_measured) < _MEASURED_SHAPES:
        _measured[shape] = _seconds_per_image(config, threads), _size(config)
    seconds, size = _measured.get(shape, next(reversed(_measured.values())))
    return seconds * _size(config) / size


def _size(config: RunConfig) -> int:
    return config.model.tokens * config.model.parameters


def _seconds_per_image(config: RunConfig, threads: int) -> float:
    """Of one run as a study would train it: with the whole batch, beside others, where that is faster.

    On a CPU the seconds are those of a core, whatever else the machine does meanwhile.
    """
    device = device_of(config)
    together = stack_of(config, threads, device.type) is not None
    runs = worthwhile(config) if together else 1
    images = config.training.batch_size if runs > 1 else min(_IMAGES, config.training.batch_size)
    classes = len(dataset_info(config.data.name).classes)
    models = [LayerwiseModel(config, ViT.from_config(config.model, classes).to(device)) for _ in range(runs)]
    batches = [_random_batch(config, model.views, images, classes, device) for model in models]
    trainer = trainer_of(models)
    sums = [EpochSums.empty(config.model.depth, device) for _ in models]
    clock = time.thread_time if device.type == "cpu" and threads == 1 else time.perf_counter
    times = []
    for _ in range(_STEPS):
        start = clock()
        trainer.step(batches, 0, sums)
        float(sums[0].loss.sum())  # waits for a device that works on its own
        times.append(clock() - start)
    return median(times) / (runs * images)


def _random_batch(config: RunConfig, views: int, images: int, classes: int, device: torch.device) -> Batch:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(views * images, *config.model.image_shape, generator=generator).to(device)
    labels = torch.arange(images).remainder(classes).repeat(views).to(device)
    return Batch(pixels, labels, torch.arange(images))
