"""A run's four streams of randomness: init, order, augment, probe. All is drawn on the CPU."""

from collections.abc import Callable
from typing import TypeVar

import torch

from seedspread.cff.streams import derive

T = TypeVar("T")

# Keeps the streams apart that are made from one seed.
_INIT, _PROBE = 0x1A, 0x9B


def drawn_from(seed: int, make: Callable[[], T]) -> T:
    """Calls `make` with torch's CPU generator at a seed, and puts the generator back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def init_seed(stream: int) -> int:
    """Of the encoder's weights."""
    return derive(_INIT, stream)


def probe_seeds(stream: int, repeat: int) -> tuple[int, int]:
    """Of a probe's order and its augmentation."""
    return derive(_PROBE, stream, repeat, 0), derive(_PROBE, stream, repeat, 1)


def head_seed(stream: int, repeat: int, layer: int) -> int:
    """Of the weights of one layer's classifier, whichever other layers are probed."""
    return derive(_PROBE, stream, repeat, 2, layer)
