"""The definition of a layer's loss: its margin types, one class each, its settings, and margins by layer.

A user's own margin type is named `package.module:Name`. Needs no torch: tensors come with their own methods.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from seedspread.errors import RunnerError, described, one_of

if TYPE_CHECKING:  # without pydantic the loss is imported faster
    from seedspread.cff.config import RunConfig

# torch.Tensor, not imported: planning and reports use margins without torch.
Tensor: TypeAlias = Any


@dataclass(frozen=True)
class Margin:
    """A margin m >= 0 on the similarities s of positive pairs; this base class leaves them unchanged.

    Args:
        m: the margin.
        sharpness: beta of margins with a smooth corner.

    Example:
        >>> Margin(0.4).m
        0.4
    """

    m: float = 0.0  # in units of cosine similarity
    sharpness: float = 20.0  # beta > 0, of margins that have one

    is_inert: ClassVar[bool] = True  # whether it changes no gradient, so that a run does not depend on m
    # whether pairs with s + m > 1 lose most of their pull, so that their share is a rate of saturation; for
    # any other margin that share is only what a clamp *would* cut
    saturates: ClassVar[bool] = False
    is_sharp: ClassVar[bool] = False  # whether `sharpness` has an effect

    @property
    def rate_name(self) -> str:
        """Name of the share of positive pairs with s + m > 1."""
        return "clamp activation rate" if self.saturates else "rate if clamped"

    @property
    def constant(self) -> float:
        """The constant it adds to the loss of every positive pair."""
        return 0.0

    @property
    def max_similarity(self) -> float:
        """The largest similarity that a pair can have after it is applied."""
        return 1.0

    @property
    def moves(self) -> bool:
        """True if it changes similarities: m > 0, and it is not inert."""
        return self.m > 0 and not self.is_inert

    def modified(self, s: Tensor) -> Tensor:
        """Return the similarities of positive pairs as the softmax sees them."""
        return s

    def slope(self, s: Tensor) -> Tensor | None:
        """Return the derivative of `modified` by s; None if it is 1 throughout."""
        return None


class Clamp(Margin):
    """min(s + m, 1), Eq. clamp_margin. With m = 0 nothing is cut: s is at most 1, but for rounding."""

    is_inert = False
    saturates = True

    def modified(self, s: Tensor) -> Tensor:
        return (s + self.m).clamp(max=1)

    def slope(self, s: Tensor) -> Tensor | None:
        return (s + self.m <= 1).to(s.dtype) if self.moves else None


class SoftClamp(Margin):
    """1 - softplus(beta (1 - s - m)) / beta: a clamp with a smooth corner, whose slope is never 0.

    The slope is below one half if s + m > 1; as beta goes to infinity, this becomes the clamp.
    """

    is_inert = False
    saturates = True
    is_sharp = True

    @property
    def moves(self) -> bool:
        """True even without a margin, because of the smooth corner."""
        return True

    def modified(self, s: Tensor) -> Tensor:
        x = self.sharpness * (1 - self.m - s)
        return 1 - x.logaddexp(x.new_zeros(())) / self.sharpness

    def slope(self, s: Tensor) -> Tensor | None:
        return (self.sharpness * (1 - self.m - s)).sigmoid()


class Shift(Margin):
    """s + m, uncapped."""

    is_inert = False

    @property
    def max_similarity(self) -> float:
        return 1 + self.m

    def modified(self, s: Tensor) -> Tensor:
        return s + self.m


class Subtract(Margin):
    """log p - m, Eq. subtract_margin: it changes the loss by a constant, and no gradient."""

    @property
    def constant(self) -> float:
        return self.m


_TYPES: dict[str, type[Margin]] = {
    "none": Margin,
    "clamp": Clamp,
    "soft_clamp": SoftClamp,
    "subtract": Subtract,
    "shift": Shift,
}
MARGIN_TYPES = tuple(_TYPES)


def margin_named(kind: "MarginType", m: float = 0.0, sharpness: float = 20.0) -> Margin:
    """Return a margin by name, of a subclass of `Margin`, or like an object, whose other fields are kept."""
    margin: Any = _TYPES.get(kind, kind) if isinstance(kind, str) else kind
    if isinstance(margin, str):
        from seedspread.cff.user_code import load_named  # noqa: PLC0415 - only a user's own margin needs it

        margin = load_named(margin)
    is_class = isinstance(margin, type) and issubclass(margin, Margin)
    if not (is_class or isinstance(margin, Margin)):
        raise RunnerError(
            f"margin_type {kind}: it must be a subclass of seedspread.Margin, or an object of one"
        )
    try:
        placed: Margin = margin(m, sharpness) if is_class else replace(margin, m=m, sharpness=sharpness)
    except TypeError as error:
        raise RunnerError(
            f"margin_type {kind}: it must take m and sharpness, and have fields of its own as a frozen "
            f"dataclass with defaults ({described(error)})"
        ) from error
    return placed


MarginType: TypeAlias = str | type[Margin] | Margin


Stability = Literal["detach", "direct"]
Reduction = Literal["mean", "sum"]

STABILITY_MODES: tuple[Stability, ...] = get_args(Stability)
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)


@dataclass(frozen=True)
class LossSpec:
    """The definition of a supervised contrastive loss, apart from how it is computed.

    Attributes:
        temperature: tau > 0 of Eq. base_logits.
        margin: m >= 0, in units of cosine similarity.
        margin_type: one of `MARGIN_TYPES` (their classes define them), on positive pairs only; or a margin
            of your own: its dotted name, its class or an object.
        stability: whether the gradient flows through the row maximum (Eq. stability_modes).
        reduction: `mean` over an anchor's positives (Eq. supcon_loss) or their `sum`.
        margin_sharpness: beta > 0 of `soft_clamp`.
    """

    temperature: float = 0.15
    margin: float = 0.4
    margin_type: MarginType = "clamp"
    stability: Stability = "detach"
    reduction: Reduction = "mean"
    margin_sharpness: float = 20.0

    def __post_init__(self) -> None:
        for name in ("temperature", "margin", "margin_sharpness"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"{name} must be a number; got {value!r}")
        _check_positive("temperature", self.temperature)
        _check_not_negative("margin", self.margin)
        _check_positive("margin_sharpness", self.margin_sharpness)
        if not isinstance(self.margin_type, str):
            _ = self.of_positives  # raises if it is not a margin
        elif ":" not in self.margin_type:
            one_of("margin_type", self.margin_type, MARGIN_TYPES)
        one_of("stability", self.stability, STABILITY_MODES)
        one_of("reduction", self.reduction, REDUCTIONS)

    @cached_property
    def of_positives(self) -> Margin:
        """The margin, applied to positive pairs."""
        return margin_named(self.margin_type, self.margin, self.margin_sharpness)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}")


def _check_not_negative(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a number >= 0; got {value!r}")


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
    """Return the margins of all layers, from `first` at layer 0 to `last` at the top.

    `linear` is the paper's Eq. margin_schedule and has no exponent; `parabolic`, `cosine` and
    `exponential` are the other shapes of the public CFF code. A single layer gets `first`.

    Args:
        first: the margin of layer 0.
        last: the margin of the last layer.
        layers: number of layers.
        shape: one of `SCHEDULES`.
        exponent: k > 0, how soon the margin falls; ignored by `linear`.

    Returns:
        One margin per layer.

    Example:
        >>> [round(margin, 2) for margin in margin_schedule(0.4, 0.1, layers=4)]
        [0.4, 0.3, 0.2, 0.1]
    """
    one_of("shape", shape, SCHEDULES)
    if layers < 1:
        raise ValueError(f"layers must be at least 1; got {layers!r}")
    _check_not_negative("first", first)
    _check_not_negative("last", last)
    _check_positive("exponent", exponent)
    if shape == "exponential" and min(first, last) == 0:
        raise ValueError(f"an exponential schedule needs first > 0 and last > 0; got {first!r} and {last!r}")
    if layers == 1:
        return [first]
    margin = _SHAPES[shape]
    return [margin(first, last, layer / (layers - 1), exponent) for layer in range(layers)]


def layer_margins(config: "RunConfig") -> list[float]:
    o = config.objective
    shape, exponent = o.margin_schedule, o.margin_exponent
    return margin_schedule(o.margin_first, o.margin_last, config.model.depth, shape, exponent)
