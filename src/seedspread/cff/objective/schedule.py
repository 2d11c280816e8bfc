"""How the margin changes from layer to layer."""

import math
from collections.abc import Callable

from seedspread.cff.config import RunConfig
from seedspread.errors import one_of

# Each shape gives the margin at x = l / (L - 1), from x = 0 (m_0) to x = 1 (m_last), with exponent k.
_SHAPES: dict[str, Callable[[float, float, float, float], float]] = {
    "linear": lambda m0, m1, x, k: m0 + (m1 - m0) * x,
    "parabolic": lambda m0, m1, x, k: m1 + (m0 - m1) * (1 - x) ** (2 * k),
    "cosine": lambda m0, m1, x, k: m1 + (m0 - m1) * (1 + math.cos(math.pi * x**k)) / 2,
    "exponential": lambda m0, m1, x, k: m0 * (m1 / m0) ** (x**k),
}
SCHEDULES = tuple(_SHAPES)


def margin_schedule(
    first: float, last: float, layers: int, shape: str = "linear", exponent: float = 1.0
) -> list[float]:
    """The margins of all layers, from `first` at layer 0 to `last` at the top.

    `linear` is the paper's Eq. margin_schedule and has no exponent; `parabolic`, `cosine` and
    `exponential` are the other shapes of the public CFF code. A single layer gets `first`.

    Args:
        first: the margin of layer 0.
        last: the margin of the last layer.
        layers: how many layers there are.
        shape: one of `SCHEDULES`.
        exponent: k > 0, how soon the margin falls; ignored by `linear`.
    """
    one_of("shape", shape, SCHEDULES)
    if layers < 1:
        raise ValueError(f"layers must be at least 1; got {layers!r}")
    for name, value in (("first", first), ("last", last)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a number >= 0; got {value!r}")
    if not (math.isfinite(exponent) and exponent > 0):
        raise ValueError(f"exponent must be a positive number; got {exponent!r}")
    if shape == "exponential" and min(first, last) == 0:
        raise ValueError(f"an exponential schedule needs first > 0 and last > 0; got {first!r} and {last!r}")
    if layers == 1:
        return [first]
    margin = _SHAPES[shape]
    return [margin(first, last, layer / (layers - 1), exponent) for layer in range(layers)]


def layer_margins(config: RunConfig) -> list[float]:
    """The margin of each layer."""
    objective = config.objective
    return margin_schedule(
        objective.margin_first,
        objective.margin_last,
        config.model.depth,
        objective.margin_schedule,
        objective.margin_exponent,
    )
