"""Images that are hard to augment exactly."""

import numpy as np
import torch
from torch import Tensor


def pictures(seed: int, count: int = 12) -> Tensor:
    """Noise, smooth gradients, greys and saturated colors, `(count, 3, 32, 32)`."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    images[1::4] = np.linspace(0, 255, 32, dtype=np.uint8) * rng.random((1, 3, 1, 1))
    images[2::4] = images[2::4, :1]
    images[3::4] = np.where(images[3::4] > 127, 255, 0)
    return torch.from_numpy(images)
