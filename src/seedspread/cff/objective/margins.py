"""What a margin does to a positive pair: one class for each type, and the only place that knows them by name.

Needs no torch to be imported: tensors come with their own methods.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

# torch's, unnamed: whoever plans or reports runs asks margins too, and has no torch.
Tensor: TypeAlias = Any


@dataclass(frozen=True)
class Margin:
    """A margin m >= 0 on the similarities s of positive pairs; this one does nothing with it.

    Attributes:
        m: in units of cosine similarity.
        sharpness: beta > 0, of margins that have one.
        is_inert: whether it moves no gradient, so that a run does not depend on m.
        saturates: whether pairs with s + m > 1 lose most of their pull, and the rate at which that happens is
            its own; of any other margin that rate is only what a clamp *would* cut.
        is_sharp: whether `sharpness` means something.
    """

    m: float = 0.0
    sharpness: float = 20.0

    is_inert: ClassVar[bool] = True
    saturates: ClassVar[bool] = False
    is_sharp: ClassVar[bool] = False

    @property
    def rate_name(self) -> str:
        """What the share of positive pairs with s + m > 1 is called."""
        return "clamp activation rate" if self.saturates else "would-be clamp rate"

    @property
    def constant(self) -> float:
        """What it adds to the loss of every positive pair, whatever the similarities."""
        return 0.0

    @property
    def max_similarity(self) -> float:
        """The largest similarity that any pair can have once it is applied."""
        return 1.0

    @property
    def moves(self) -> bool:
        """Whether it changes similarities at all."""
        return False

    def modified(self, s: Tensor) -> Tensor:
        """The similarities of positive pairs as the softmax sees them."""
        return s

    def slope(self, s: Tensor) -> Tensor | None:
        """The derivative of `modified` by s; None where it is 1 throughout."""
        return None


class Clamp(Margin):
    """min(s + m, 1), Eq. clamp_margin. With m = 0 nothing is cut: s is at most 1, but for rounding."""

    is_inert = False
    saturates = True

    @property
    def moves(self) -> bool:
        """With a margin."""
        return self.m > 0

    def modified(self, s: Tensor) -> Tensor:
        """Cut at 1."""
        return (s + self.m).clamp(max=1)

    def slope(self, s: Tensor) -> Tensor | None:
        """1 up to the cut, 0 beyond."""
        return (s + self.m <= 1).to(s.dtype) if self.moves else None


class SoftClamp(Margin):
    """1 - softplus(beta (1 - s - m)) / beta: a clamp with a round corner, whose slope never ends.

    Where s + m > 1 the slope is below one half; for beta to infinity it is the clamp.
    """

    is_inert = False
    saturates = True
    is_sharp = True

    @property
    def moves(self) -> bool:
        """Also without a margin: the corner is round."""
        return True

    def modified(self, s: Tensor) -> Tensor:
        """Near s + m below the corner, near 1 above."""
        x = self.sharpness * (1 - self.m - s)
        return 1 - x.logaddexp(x.new_zeros(())) / self.sharpness

    def slope(self, s: Tensor) -> Tensor | None:
        """The logistic function of the distance to the corner."""
        return (self.sharpness * (1 - self.m - s)).sigmoid()


class Shift(Margin):
    """s + m, uncapped."""

    is_inert = False

    @property
    def max_similarity(self) -> float:
        """Beyond 1."""
        return 1 + self.m

    @property
    def moves(self) -> bool:
        """With a margin."""
        return self.m > 0

    def modified(self, s: Tensor) -> Tensor:
        """Shifted."""
        return s + self.m


class Subtract(Margin):
    """log p - m, Eq. subtract_margin: it moves the loss by a constant, and no gradient."""

    @property
    def constant(self) -> float:
        """The margin itself."""
        return self.m


_TYPES: dict[str, type[Margin]] = {
    "none": Margin,
    "clamp": Clamp,
    "soft_clamp": SoftClamp,
    "subtract": Subtract,
    "shift": Shift,
}
MARGIN_TYPES = tuple(_TYPES)


def margin_named(name: str, m: float = 0.0, sharpness: float = 20.0) -> Margin:
    """A margin by the name of its type."""
    return _TYPES[name](m, sharpness)
