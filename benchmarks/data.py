"""Augmented views per second: this package, the same pipeline image by image, and kornia's modules."""

import random
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from rich.table import Table
from torch import Tensor

from benchmarks.script import AsJson, Rounds, main
from benchmarks.timing import interleaved, show, table
from seedspread.cff.config import (
    PIPELINES,
    ColorJitter,
    DataConfig,
    HorizontalFlip,
    RandomCrop,
    RandomErasing,
    RandomRotation,
    Step,
)
from seedspread.cff.data.dataset import Split, load
from seedspread.cff.data.loader import Loader

BATCH = 512
NAMES = ("cifar", "svhn-medium", "svhn-hard")
MEAN, STD = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)


def run(rounds: Rounds = 15, as_json: AsJson = False) -> None:
    """Compare augmented views per second with the same pipeline image by image, and with kornia's modules."""
    images = load(DataConfig()).train.at(np.arange(BATCH))
    rows = [_compare(name, images, rounds) for name in NAMES]
    show({"rounds": rounds, "batch": BATCH, "pipelines": rows}, as_json, _lines)


def _compare(name: str, split: Split, rounds: int) -> dict[str, Any]:
    steps = PIPELINES[name]
    loader = Loader(split, steps, MEAN, STD, BATCH)
    epochs = iter(range(10**9))
    jobs: dict[str, Callable[[], object]] = {
        "ours": lambda: next(loader.epoch(next(epochs))),
        "one by one": _one_by_one(split, steps),
    }
    if find_spec("kornia"):
        jobs["kornia"] = _kornia(split, steps)
    times = interleaved(jobs, rounds, name)
    ours = times["ours"].median
    return {
        "pipeline": name,
        "ours_ms": 1e3 * ours,
        "ours_images_per_second": BATCH / ours,
        "one_by_one_ms": 1e3 * times["one by one"].median,
        "one_by_one_over_ours": times["one by one"].median / ours,
        "kornia_ms": 1e3 * times["kornia"].median if "kornia" in times else None,
        "kornia_over_ours": times["kornia"].median / ours if "kornia" in times else None,
    }


def _one_by_one(split: Split, steps: tuple[Step, ...]) -> Callable[[], Tensor]:
    """Return the usual way: one Pillow image at a time, as with torchvision's transforms."""
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in split.images]
    rng = random.Random(0)

    def one(picture: Image.Image) -> Tensor:
        for step in steps:
            picture = _pillow(step, picture, rng)
        tensor = torch.from_numpy(np.array(picture)).permute(2, 0, 1).to(torch.float32).div_(255)
        return tensor.sub_(0.5).div_(0.5)

    return lambda: torch.stack([one(picture) for picture in pictures])


def _pillow(step: Step, picture: Image.Image, rng: random.Random) -> Image.Image:
    if isinstance(step, RandomCrop):
        top, left = rng.randint(0, 2 * step.padding), rng.randint(0, 2 * step.padding)
        window = (left, top, left + picture.width, top + picture.height)
        return ImageOps.expand(picture, step.padding).crop(window)
    if isinstance(step, HorizontalFlip):
        return ImageOps.mirror(picture) if rng.random() < step.p else picture
    if isinstance(step, RandomRotation):
        return picture.rotate(rng.uniform(-step.degrees, step.degrees))
    if isinstance(step, RandomErasing):
        if rng.random() < step.p:
            picture = picture.copy()
            side = int((sum(step.scale) / 2 * picture.width * picture.height) ** 0.5)
            top, left = rng.randint(0, picture.height - side), rng.randint(0, picture.width - side)
            picture.paste((0, 0, 0), (left, top, left + side, top + side))
        return picture
    if isinstance(step, ColorJitter):
        return _pillow_jitter(step, picture, rng)
    raise TypeError(f"not compared: {step!r}")


def _pillow_jitter(step: ColorJitter, picture: Image.Image, rng: random.Random) -> Image.Image:
    for which in rng.sample(range(4), 4):
        if which == 3 and step.hue:
            h, s, v = picture.convert("HSV").split()
            moved = np.array(h) + np.uint8(int(255 * rng.uniform(-step.hue, step.hue)) % 256)
            picture = Image.merge("HSV", (Image.fromarray(moved), s, v)).convert("RGB")
        elif which < 3:
            enhance = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[which]
            reach = (step.brightness, step.contrast, step.saturation)[which]
            picture = enhance(picture).enhance(rng.uniform(1 - reach, 1 + reach))
    return picture


def _kornia(split: Split, steps: tuple[Step, ...]) -> Callable[[], Tensor]:
    """Return kornia's augmentation modules on a batch of floats."""
    modules = import_module("kornia.augmentation")
    size = tuple(split.images.shape[-2:])
    made = [_kornia_module(modules, step, size) for step in steps]
    made.append(modules.Normalize(torch.tensor(MEAN), torch.tensor(STD)))
    pipeline = torch.nn.Sequential(*made)
    return lambda: pipeline(split.images.to(torch.float32).div_(255))


def _kornia_module(modules: Any, step: Step, size: tuple[int, ...]) -> Any:
    if isinstance(step, RandomCrop):
        return modules.RandomCrop(size, padding=step.padding)
    if isinstance(step, HorizontalFlip):
        return modules.RandomHorizontalFlip(p=step.p)
    if isinstance(step, RandomRotation):
        return modules.RandomRotation(step.degrees, resample="nearest", p=1.0)
    if isinstance(step, RandomErasing):
        return modules.RandomErasing(scale=step.scale, ratio=step.ratio, p=step.p)
    if isinstance(step, ColorJitter):
        return modules.ColorJiggle(step.brightness, step.contrast, step.saturation, step.hue, p=1.0)
    raise TypeError(f"not compared: {step!r}")


def _lines(result: dict[str, Any]) -> Iterator[str | Table]:
    yield table(
        f"One augmented view of {result['batch']} images",
        ("pipeline", "ours", "images/s", "one by one", "ratio", "kornia", "ratio"),
        [
            (
                row["pipeline"],
                f"{row['ours_ms']:.1f} ms",
                f"{row['ours_images_per_second']:,.0f}",
                f"{row['one_by_one_ms']:.0f} ms",
                f"{row['one_by_one_over_ours']:.1f}x",
                f"{row['kornia_ms']:.0f} ms" if row["kornia_ms"] else "not installed",
                f"{row['kornia_over_ours']:.1f}x" if row["kornia_ms"] else "",
            )
            for row in result["pipelines"]
        ],
    )
    yield "One by one: the same steps on Pillow images. kornia: its augmentation modules."


if __name__ == "__main__":
    main(run)
