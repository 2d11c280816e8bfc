"""Random batches, away from the places where two exact implementations may part by a rounding error."""

import torch
from hypothesis import strategies as st
from torch import Tensor


def random_batch(
    n: int,
    d: int,
    classes: int,
    seed: int,
    *,
    common: float = 1.0,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Features that share a direction (so that some pairs saturate) and random labels."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, d, generator=generator, dtype=torch.float64)
    features += common * torch.randn(1, d, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, classes, (n,), generator=generator)
    return features.to(dtype), labels


@st.composite
def batches(draw: st.DrawFn, min_n: int = 2, max_n: int = 40) -> tuple[Tensor, Tensor]:
    """Batches of any size and class count in which at least one anchor has a positive."""
    n = draw(st.integers(min_n, max_n))
    features, labels = random_batch(
        n,
        d=draw(st.integers(2, 8)),
        classes=draw(st.integers(1, n)),
        seed=draw(st.integers(0, 2**32)),
        common=draw(st.sampled_from([0.0, 1.0, 3.0])),
    )
    labels[-1] = labels[0]
    return features, labels
