"""Independent streams of random numbers from whole numbers, the same on every device. Needs no torch."""

import numpy as np


def stream(tag: int, *numbers: int) -> np.random.Generator:
    """A generator that follows from its tag and numbers alone; other numbers give an independent one.

    Every number takes two words of 32 bits, so that no two lists of numbers run into each other.
    """
    words = [word for number in (tag, *numbers) for word in (number & 0xFFFFFFFF, number >> 32)]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def derive(tag: int, *numbers: int) -> int:
    """A seed of 63 bits that follows from its tag and numbers alone."""
    return int(stream(tag, *numbers).integers(2**63))
