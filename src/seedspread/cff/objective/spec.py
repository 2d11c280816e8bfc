"""What one layer's loss is: the symbols of the paper's Section 4, checked."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from seedspread.cff.objective.margins import MARGIN_TYPES, Margin, margin_named
from seedspread.errors import one_of

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
        margin_type: one of `MARGIN_TYPES` (`margins.py` says what each does), on positive pairs only.
        stability: whether the gradient flows through the row maximum (Eq. stability_modes).
        reduction: `mean` over an anchor's positives (Eq. supcon_loss) or their `sum`.
        margin_sharpness: beta > 0 of `soft_clamp`.
    """

    temperature: float = 0.15
    margin: float = 0.4
    margin_type: str = "clamp"
    stability: Stability = "detach"
    reduction: Reduction = "mean"
    margin_sharpness: float = 20.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature must be a positive number; got {self.temperature!r}")
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise ValueError(f"margin must be a number >= 0; got {self.margin!r}")
        if not (math.isfinite(self.margin_sharpness) and self.margin_sharpness > 0):
            raise ValueError(f"margin_sharpness must be a positive number; got {self.margin_sharpness!r}")
        one_of("margin_type", self.margin_type, MARGIN_TYPES)
        one_of("stability", self.stability, STABILITY_MODES)
        one_of("reduction", self.reduction, REDUCTIONS)

    @cached_property
    def of_positives(self) -> Margin:
        """What the margin does."""
        return margin_named(self.margin_type, self.margin, self.margin_sharpness)
