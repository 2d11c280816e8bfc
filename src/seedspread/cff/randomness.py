"""A run's four sources of randomness (init, order, augment, probe): independent streams from whole numbers.

Everything is drawn on the CPU, so that it is the same on every device.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch


def stream(tag: int, *numbers: int) -> np.random.Generator:
    """Return a generator that depends on its tag and numbers alone; other numbers give an independent one.

    Every number takes two words of 32 bits, so that different lists of numbers give different words.
    """
    words = [word for number in (tag, *numbers) for word in (number & 0xFFFFFFFF, number >> 32)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def derive(tag: int, *numbers: int) -> int:
    """Return a seed of 63 bits that depends on its tag and numbers alone."""
    return int(stream(tag, *numbers).integers(2**63))


T = TypeVar("T")

# Tags that keep apart the streams of one seed.
_INIT, _PROBE, _LOSS, _STEP = 0x1A, 0x9B, 0x105, 0x57E


def drawn_from(seed: int, make: Callable[[], T]) -> T:
    """Call `make` with torch's CPU generator set to a seed, then restore the generator's state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def init_seed(stream: int) -> int:
    """Return the seed of the encoder's weights."""
    return derive(_INIT, stream)


def step_seed(augment: int, epoch: int, batch: int) -> int:
    """Return the seed of random numbers, such as dropout's, that layers draw in a training step."""
    return derive(_STEP, augment, epoch, batch)


def probe_seeds(stream: int, repeat: int) -> tuple[int, int]:
    """Return the seeds of a probe's order and of its augmentation."""
    return derive(_PROBE, stream, repeat, 0), derive(_PROBE, stream, repeat, 1)


def head_seed(stream: int, repeat: int, layer: int) -> int:
    """Return the seed of one layer's classifier, the same whichever other layers are probed."""
    return derive(_PROBE, stream, repeat, 2, layer)


def loss_draws(augment: int, epoch: int, view: int, index: torch.Tensor) -> torch.Tensor:
    """Return a number in [0, 1) for each image of a batch, given the images' indices in the split.

    It is a function of the seed of the augmentation, the epoch, the view and the image.
    """
    of_all = stream(_LOSS, augment, epoch, view).random(int(index.max()) + 1)
    return torch.from_numpy(of_all)[index.cpu()].float().to(index.device)
