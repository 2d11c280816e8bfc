"""By how much the headline's boundaries must be wider than normal theory's: known, or simulated.

The headline is not exactly normal, and heavy tails make it err more often, at one look as at many. So studies
without a difference are simulated, and the boundaries widened until all looks together err no more often
than one look at the limit does: for normal, t5 and contaminated values alike.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from seedspread.stats.arms import Floats
from seedspread.stats.sequential.boundary import critical, shape
from seedspread.stats.sequential.simulation import SHAPES, drawn, p_paths

TABLE = Path(__file__).with_name("levels.json")
# Levels whose factors are averaged, since each is known from few experiments; the middle one also alone.
_ALPHAS = (0.02, 0.03, 0.05, 0.07, 0.1)
_BATCH = 100
# Studies that are simulated of each shape.
DRAWS = 1000

# Hears which share of a simulation is done.
Progress = Callable[[float], None]


def key(sizes: tuple[int, ...]) -> str:
    """What a design is called in the table: `8 12 16 20`."""
    return " ".join(map(str, sizes))


def tabled_factor(sizes: tuple[int, ...]) -> float | None:
    """Of looks at so many seeds, without a simulation; None if it takes one."""
    return 1.0 if len(sizes) == 1 else _table().get(key(sizes))


def simulated_factor(sizes: tuple[int, ...], progress: Progress = lambda _: None) -> float:
    """Of looks at so many seeds, from simulated studies without a difference: minutes.

    Args:
        sizes: seeds per arm at each look, rising.
        progress: hears how far it is, from 0 to 1.
    """
    return factor_from(sizes, [_paths(name, sizes, progress) for name in SHAPES])


def factor_from(sizes: tuple[int, ...], paths: list[Floats]) -> float:
    """From (draws, looks) p values of studies without a difference, one array per shape; at least 1."""
    return max(1.0, *(_factor(sizes, p) for p in paths))


def _factor(sizes: tuple[int, ...], p: Floats) -> float:
    """The larger of the one at 5 % and the average over levels, of which each is known better together."""
    furthest = np.max(-ndtri(0.5 * p) / shape(sizes), axis=1)
    factors = []
    for alpha in _ALPHAS:
        errors = np.mean(p[:, -1] < alpha)  # of a single look at the limit
        if errors > 0:
            factors.append(np.quantile(furthest, 1 - errors) / critical(alpha, sizes))
    if not factors:
        return 1.0
    return float(np.ceil(1000 * max(np.mean(factors), factors[len(factors) // 2])) / 1000)


def _paths(name: str, sizes: tuple[int, ...], progress: Progress) -> Floats:
    place, batches = SHAPES.index(name), DRAWS // _BATCH
    out = []
    for batch in range(batches):
        rng = np.random.default_rng([place, batch, sizes[-1]])
        out.append(p_paths(drawn(name, _BATCH, sizes[-1], rng), sizes))
        progress((place * batches + batch + 1) / (len(SHAPES) * batches))
    return np.concatenate(out)


@cache
def _table() -> dict[str, float]:
    table: dict[str, float] = json.loads(TABLE.read_text())["factors"]
    return table
