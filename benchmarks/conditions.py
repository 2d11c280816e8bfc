"""Conditions for simulations: designs, shapes of distributions, and experiments drawn from them.

Marginal distributions are exact: correlated normal values are transformed to each shape by its quantiles (a
Gaussian copula), so a correlation does not make tails lighter. If a design is `common`, all runs of a seed
are widened by one factor instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from seedspread.stats.groups import Floats, Group

# How far below the others a failed run scores, in standard deviations of its group.
_DROP = 10.0


def _mixture(*parts: tuple[float, float, float]) -> Callable[[Floats], Floats]:
    """Return the quantile function of a standardized mixture of normals, each a (weight, mean, sd)."""
    grid = np.linspace(-20, 20, 40_001)
    below = sum(weight * ndtr((grid - mean) / sd) for weight, mean, sd in parts)
    size = sum(weight * (mean**2 + sd**2) for weight, mean, sd in parts) ** 0.5
    return lambda p: np.interp(p, below, grid) / size


def _standard(distribution: "stats.rv_continuous") -> Callable[[Floats], Floats]:
    mean, sd = distribution.mean(), distribution.std()
    return lambda p: (distribution.ppf(p) - mean) / sd


# Quantiles of distributions with variance 1.
QUANTILES: dict[str, Callable[[Floats], Floats]] = {
    "normal": _standard(stats.norm()),
    "t5": _standard(stats.t(5)),
    "contaminated": _mixture((0.9, 0.0, 1.0), (0.1, 0.0, 3.0)),
    "skewed": _standard(stats.gamma(2)),
    "bimodal": _mixture((0.5, -0.9, 0.19**0.5), (0.5, 0.9, 0.19**0.5)),
    "exponential": _standard(stats.expon()),
    "t3": _standard(stats.t(3)),
    "lognormal": _standard(stats.lognorm(1.0)),
}


@dataclass(frozen=True)
class Shape:
    """The distributions of the two groups, and the share of failing runs in each."""

    title: str
    names: tuple[str, str]
    failures: tuple[float, float] = (0.0, 0.0)


def alike(name: str) -> Shape:
    """Return a shape with one distribution for both groups."""
    return Shape(name, (name, name))


SHAPES = tuple(map(alike, ("normal", "t5", "contaminated", "skewed", "bimodal", "exponential")))
PLAIN = tuple(map(alike, ("normal", "t5", "contaminated", "skewed")))
UNLIKE = (
    Shape("normal vs t3", ("normal", "t3")),
    Shape("normal vs lognormal", ("normal", "lognormal")),
    Shape("10% fail in the first group", ("normal", "normal"), (0.1, 0.0)),
    Shape("10% fail in both", ("normal", "normal"), (0.1, 0.1)),
)


@dataclass(frozen=True)
class Design:
    """The design of an experiment: its seeds, its blocks and the correlations of its runs.

    Attributes:
        title: description.
        shared: whether the groups have the same seeds.
        pairs: correlation of the two groups' runs of one seed.
        blocks: runs per seed in each group.
        same_seed: correlation of same-seed runs, in each group.
        extra: seeds of the baseline per seed of the first group.
        shapes: distributions to draw from.
        common: whether all runs of a seed share its width: normal values times one factor per seed.
        is_slow: whether only half as many experiments are simulated.
    """

    title: str
    shared: bool = False
    pairs: float = 0.0
    blocks: int = 1
    same_seed: tuple[float, float] = (0.0, 0.0)
    extra: int = 1
    shapes: tuple[Shape, ...] = PLAIN
    common: bool = False
    is_slow: bool = False


INDEPENDENT = Design("independent runs, each group with its own seeds", shapes=SHAPES)
HALF = Design("unbalanced: the baseline has twice the seeds", extra=2, is_slow=True)
UNBALANCED = Design("unbalanced: the baseline has four times the seeds", extra=4, is_slow=True)
PAIRS = Design("pairs: shared seeds, r = 0.6", shared=True, pairs=0.6, shapes=SHAPES)
COMMON = Design("pairs with r = 0.6 that share their tails", True, 0.6, shapes=PLAIN[1:3], common=True)
IDLE_PAIRS = Design("pairs with r = 0", shared=True)
IDLE_TWINS = Design("two blocks, same-seed runs with r = 0", blocks=2, is_slow=True)
SAME_SEED = Design("two blocks, same-seed runs with r = 0.85", blocks=2, same_seed=(0.85, 0.85), is_slow=True)
UNEQUAL_TWINS = Design(
    "two blocks, shared seeds, same-seed runs with r = 0.83 and 0", True, 0.0, 2, (0.83, 0.0)
)
UNLIKE_GROUPS = Design("unlike groups, independent runs", shapes=UNLIKE)
DESIGNS = (
    INDEPENDENT,
    HALF,
    UNBALANCED,
    PAIRS,
    COMMON,
    IDLE_PAIRS,
    IDLE_TWINS,
    SAME_SEED,
    UNEQUAL_TWINS,
    UNLIKE_GROUPS,
)


def draw(
    design: Design, shape: Shape, n: int, ratio: float, draws: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (draws, seeds, 2, blocks) values at a ratio of variances, and which of them are runs."""
    seeds = n * design.extra
    same_seed = (
        np.maximum(design.same_seed, design.pairs)[:, None] if design.blocks > 1 else np.array(design.pairs)
    )
    shared, group, own = (
        rng.standard_normal((draws, seeds, *rest)) for rest in ((1, 1), (2, 1), (2, design.blocks))
    )
    latent = (
        design.pairs**0.5 * shared + (same_seed - design.pairs) ** 0.5 * group + (1 - same_seed) ** 0.5 * own
    )
    if design.common:
        values = latent * _factors(shape.title, (draws, seeds), rng)[..., None, None]
    else:
        chances = ndtr(latent)
        values = np.stack([QUANTILES[name](chances[:, :, k]) for k, name in enumerate(shape.names)], axis=2)
    failed = rng.random(values.shape) < np.array(shape.failures)[:, None]
    values = np.where(failed, values - _DROP, values)
    values[:, :, 0] *= ratio**0.5
    present = np.ones(values.shape[1:], bool)
    present[n:, 0] = False
    return values, present


def _factors(name: str, size: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Return factors that turn normal values into t5 or contaminated values with variance 1."""
    out: Floats = np.where(rng.random(size) < 0.1, 3.0, 1.0) / 1.8**0.5
    if name == "t5":
        out = np.sqrt(3 / rng.chisquare(5, size))
    return out


def groups_of(design: Design, values: Floats, present: NDArray[np.bool_]) -> tuple[Group, Group]:
    """Return an experiment with values (seeds, 2, blocks) as two groups."""
    names = tuple((str(b),) for b in range(design.blocks))
    out = []
    for k, name in enumerate(("a", "b")):
        seeds, blocks = np.nonzero(present[:, k])
        first = 0 if design.shared else k * len(values)
        out.append(Group(name, values[seeds, k, blocks], blocks, seeds + first, names))
    return out[0], out[1]


def simulate(
    design: Design, name: str, n: int, ratio: float, rng: np.random.Generator
) -> tuple[Group, Group]:
    """Draw one experiment in which both groups have the named shape."""
    values, present = draw(design, alike(name), n, ratio, 1, rng)
    return groups_of(design, values[0], present)
