"""Studies that grow, simulated: what the headline says at each look."""

from collections.abc import Iterator, Sequence

import numpy as np

from seedspread.stats.arms import Floats
from seedspread.stats.scale.posterior import Posterior, posterior_of
from seedspread.stats.scale.ratio import FEWEST_PAIRS

SHAPES = ("normal", "t5", "contaminated")


def drawn(shape: str, draws: int, seeds: int, rng: np.random.Generator) -> Floats:
    """(draws, seeds, 2, 1) values of two arms that share seeds and do not correlate, of one variance."""
    size = draws, seeds, 2, 1
    if shape == "t5":
        return rng.standard_t(5, size)
    wide = rng.random(size) < (0.1 if shape == "contaminated" else 0.0)
    return rng.standard_normal(size) * np.where(wide, 3.0, 1.0)


def posteriors(values: Floats, sizes: Sequence[int], shared: bool = True) -> Iterator[Posterior]:
    """Of (draws, seeds, 2, blocks) values: at each look, of the first so many seeds."""
    for n in sizes:
        seen = values[:, :n]
        yield posterior_of(seen, np.ones(seen.shape[1:], bool), shared and n >= FEWEST_PAIRS)


def p_paths(values: Floats, sizes: Sequence[int], shared: bool = True) -> Floats:
    """(draws, looks) the p values of the true ratio, 1."""
    return np.stack([found.p for found in posteriors(values, sizes, shared)], axis=1)
