"""`SupConLoss`: the module that goes into a training loop."""

from collections.abc import Callable
from typing import Literal, get_args, overload

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from seedspread.cff.objective.fast import fast_loss
from seedspread.cff.objective.pairs import LabelGroups, PairCollector, PairStatistics
from seedspread.cff.objective.plain import loss_from_similarities, positive_mask
from seedspread.cff.objective.spec import LossSpec, Reduction, Stability
from seedspread.errors import one_of

Implementation = Literal["auto", "plain", "fast"]
OnNoPositives = Literal["raise", "zero"]


class SupConLoss(nn.Module):
    """The supervised contrastive loss of one layer, with a margin on its positive pairs.

    For unit vectors z, similarities s = z z^T, modified similarities s~ (see `margin_type`) and
    p_uv = exp(s~_uv / tau) / sum_{k != u} exp(s~_uk / tau), the loss is the mean over the anchors u
    that have positives of -1/|P_u| sum_{v in P_u} log p_uv. The defaults are the paper's layer 0.

    Args:
        temperature: tau > 0.
        margin: m >= 0.
        margin_type: `clamp`: s~ = min(s + m, 1); `shift`: s~ = s + m; `subtract`: log p - m, which
            moves no gradient; `soft_clamp`: 1 - softplus(beta (1 - s - m)) / beta, a clamp with a round
            corner; `none`. All on positive pairs only.
        stability: `detach` or `direct`, whether the gradient flows through the row maximum that is
            taken off before exp. In exact arithmetic it makes no difference (`docs/method.md`).
        reduction: over an anchor's positives, `mean` or `sum`.
        implementation: `plain` goes through autograd as the equations are written, in O(N^2) memory;
            `fast` has the gradient in closed form, in O(N) memory; `auto` is `fast`, and `plain`
            inside `torch.compile`. Only `plain` can be differentiated twice.
        on_no_positives: what a batch in which no anchor has a positive does: `raise` a `ValueError`
            or give `zero`.
        check_finite: refuse features that are not finite. This reads them once more.
        block_size: anchors per tile of `fast`; the default suits a CPU's cache.
        margin_sharpness: beta of `soft_clamp`.

    Example:
        >>> loss = SupConLoss(temperature=0.15, margin=0.4, margin_type="clamp")
        >>> features = torch.randn(8, 16, requires_grad=True)
        >>> loss(features, torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])).backward()
    """

    def __init__(
        self,
        temperature: float = 0.15,
        margin: float = 0.4,
        margin_type: str = "clamp",
        stability: Stability = "detach",
        reduction: Reduction = "mean",
        *,
        implementation: Implementation = "auto",
        on_no_positives: OnNoPositives = "raise",
        check_finite: bool = False,
        block_size: int | None = None,
        margin_sharpness: float = 20.0,
    ) -> None:
        super().__init__()
        self.spec = LossSpec(temperature, margin, margin_type, stability, reduction, margin_sharpness)
        one_of("implementation", implementation, get_args(Implementation))
        one_of("on_no_positives", on_no_positives, get_args(OnNoPositives))
        if block_size is not None and block_size < 1:
            raise ValueError(f"block_size must be at least 1; got {block_size!r}")
        self.implementation = implementation
        self.on_no_positives = on_no_positives
        self.check_finite = check_finite
        self.block_size = block_size
        self._observers: list[Callable[[PairStatistics], None]] = []

    def observe(self, observer: Callable[[PairStatistics], None]) -> None:
        """Calls `observer` with the statistics of every batch from now on, while in training mode."""
        self._observers.append(observer)

    @overload
    def forward(self, features: Tensor, labels: Tensor) -> Tensor: ...
    @overload
    def forward(
        self, features: Tensor, labels: Tensor, *, return_statistics: Literal[True]
    ) -> tuple[Tensor, PairStatistics]: ...

    def forward(
        self, features: Tensor, labels: Tensor, *, return_statistics: bool = False
    ) -> Tensor | tuple[Tensor, PairStatistics]:
        """The loss of a batch and, on request, what it saw of the positive pairs on the way.

        Args:
            features: `(N, d)`, not normalised; half precision is worked on in float32.
            labels: `(N,)` integers; give the labels twice, `labels.repeat(2)`, for two views.
            return_statistics: also return `PairStatistics`, without a second pass over the pairs.

        Returns:
            a scalar, float32 or better; with `return_statistics`, the scalar and the statistics.
        """
        check_batch(features, labels)
        if self.check_finite:
            _check_finite(features)
        labels = labels.to(features.device)
        groups = LabelGroups.of(labels)
        observers = self._observers if self.training else []
        watched = return_statistics or observers
        collector = PairCollector(self.spec.margin, features.device) if watched else None
        with torch.autocast(features.device.type, enabled=False):
            loss = self._loss(at_least_float32(features), labels, groups, collector)
        if collector is None:
            return loss
        statistics = collector.result(groups)
        for observer in observers:
            observer(statistics)
        return (loss, statistics) if return_statistics else loss

    def _loss(
        self,
        features: Tensor,
        labels: Tensor,
        groups: LabelGroups,
        collector: PairCollector | None,
    ) -> Tensor:
        if groups.pairs == 0:
            if self.on_no_positives == "zero":
                return features[:0].sum()  # zero, with a gradient of zeros whatever the features are
            raise ValueError(
                f"labels: none of the {len(features)} anchors has a positive (every label occurs "
                "once); use larger batches or two views, or SupConLoss(on_no_positives='zero')"
            )
        z = unit_vectors(features)
        if self.implementation == "fast" or (
            self.implementation == "auto" and not torch.compiler.is_compiling()
        ):
            return fast_loss(z, groups, self.spec, self.block_size, collector)
        s, positive = z @ z.T, positive_mask(labels)
        if collector is not None:
            collector.add(s, positive)
        return loss_from_similarities(s, positive, self.spec)

    def extra_repr(self) -> str:
        """The definition, for `print(loss)`."""
        spec = self.spec
        return (
            f"temperature={spec.temperature}, margin={spec.margin}, margin_type={spec.margin_type!r}, "
            f"stability={spec.stability!r}, reduction={spec.reduction!r}, "
            f"implementation={self.implementation!r}"
        )


def check_batch(features: Tensor, labels: Tensor) -> None:
    """Raises a `ValueError` unless these are `(N, d)` real features and `(N,)` integer labels."""
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"features must have shape (N, d); got {tuple(features.shape)}")
    if not features.is_floating_point():
        raise ValueError(f"features must be floating point; got {features.dtype}")
    if labels.shape != features.shape[:1]:
        raise ValueError(
            f"labels must have shape ({len(features)},), one per row of features; got {tuple(labels.shape)}"
        )
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"labels must be integers; got {labels.dtype}")


def unit_vectors(features: Tensor) -> Tensor:
    """`(N, d)` rows scaled to length 1, whatever their scale; a zero row stays zero and gets no gradient.

    Dividing by the largest entry first keeps squares from overflowing or vanishing.
    """
    largest = features.detach().abs().amax(dim=1, keepdim=True)
    zero = largest == 0
    scaled = (features / largest.masked_fill(zero, 1)).masked_fill(zero, 0)
    return normalize(scaled, dim=1)


def at_least_float32(features: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 as they are."""
    return features.to(torch.promote_types(features.dtype, torch.float32))


def _check_finite(features: Tensor) -> None:
    bad = (~features.isfinite()).any(dim=1).nonzero()
    if len(bad):
        raise ValueError(
            f"features: {len(bad)} of {len(features)} rows are not finite, the first is row {int(bad[0])}"
        )
