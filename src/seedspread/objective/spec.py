"""What one layer's loss is: the symbols of the paper's Section 4, checked."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from seedspread.errors import one_of

MarginType = Literal["none", "clamp", "subtract", "shift"]
Stability = Literal["detach", "direct"]
Reduction = Literal["mean", "sum"]

MARGIN_TYPES: tuple[MarginType, ...] = get_args(MarginType)
STABILITY_MODES: tuple[Stability, ...] = get_args(Stability)
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)


@dataclass(frozen=True)
class LossSpec:
    """The definition of a supervised contrastive loss, apart from how it is computed.

    Attributes:
        temperature: tau > 0 of Eq. base_logits.
        margin: m >= 0, in units of cosine similarity.
        margin_type: `clamp` is min(s + m, 1) (Eq. clamp_margin), `subtract` is log p - m (Eq.
            subtract_margin), `shift` is s + m without the cap, `none` is s. All on positive pairs only.
        stability: whether the gradient flows through the row maximum (Eq. stability_modes).
        reduction: `mean` over an anchor's positives (Eq. supcon_loss) or their `sum`.
    """

    temperature: float = 0.15
    margin: float = 0.4
    margin_type: MarginType = "clamp"
    stability: Stability = "detach"
    reduction: Reduction = "mean"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature must be a positive number; got {self.temperature!r}")
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise ValueError(f"margin must be a number >= 0; got {self.margin!r}")
        one_of("margin_type", self.margin_type, MARGIN_TYPES)
        one_of("stability", self.stability, STABILITY_MODES)
        one_of("reduction", self.reduction, REDUCTIONS)

    @property
    def shift(self) -> float:
        """What is added to a positive pair's similarity before the softmax."""
        return self.margin if self.margin_type in ("clamp", "shift") else 0.0

    @property
    def saturates(self) -> bool:
        """Whether the clamp can cut a pair. With m = 0 it cannot: s is at most 1, but for rounding."""
        return self.margin_type == "clamp" and self.margin > 0

    @property
    def highest(self) -> float:
        """The largest modified similarity there can be."""
        return 1 + self.margin if self.margin_type == "shift" else 1.0
