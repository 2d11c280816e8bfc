"""`SupConLoss`, the supervised contrastive loss of one layer, and measures of its pairs and gradients.

`loss_from_similarities` is the definition: the loss as the paper writes it, differentiated by autograd.
`fast_loss` is the same loss with its gradient in closed form, computed in tiles. With p the softmax
over k != u and n the number of anchors that have a positive, the derivative of the loss with respect to the
modified similarity of the ordered pair (u, v) is

    w_u (p_uv - M_uv / |P_u|) / (n tau),      w_u = 1 (mean), |P_u| (sum), 0 (no positive)

and with respect to the similarity itself, that times the slope of the margin there (0 if a clamp has
saturated). Both orders of a pair share one similarity, so each is computed once: a tile pairs some anchors
with themselves and all later anchors, and counts for its rows and, mirrored, for its columns. The first pass
sums each anchor's denominator; the second turns a tile into derivatives and multiplies them out.

The batch is sorted by label first: a tile's positives are then in its first few columns, and the margin,
the mask and the statistics touch only those. Small batches keep their tiles between the passes; large ones
recompute them, so that memory grows with N and not with its square.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, overload

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from seedspread.cff.losses import LocalLoss
from seedspread.cff.margins import LossSpec, Margin, MarginType, Reduction, Stability
from seedspread.errors import one_of
from seedspread.runs.metrics import rate_from_histogram

# Similarities are counted in bins of 0.001, so that margins with three decimals fall on an edge.
HISTOGRAM_BINS = 2000


@dataclass(frozen=True)
class LabelGroups:
    """A batch sorted by label, so that an anchor's positives stand side by side."""

    permutation: Tensor  # `(N,)`, the indices that sort the batch
    ids: Tensor  # `(N,)` int32, the class index of each sorted row
    first: Tensor  # `(N,)`, where the class of each sorted row begins
    end: Tensor  # `(N,)`, where it ends
    positives: Tensor  # `(N,)`, the number of positives of each sorted row, `|P_u|`
    pairs: int  # the number of ordered positive pairs
    n_without_positive: int  # the number of anchors that have no positive

    @classmethod
    def of(cls, labels: Tensor) -> "LabelGroups":
        ordered, permutation = labels.sort(stable=True)
        _, ids, counts = torch.unique_consecutive(ordered, return_inverse=True, return_counts=True)
        end = counts.cumsum(0)
        pairs, n_without_positive = torch.stack([(counts * (counts - 1)).sum(), (counts == 1).sum()]).tolist()
        return cls(
            permutation=permutation,
            ids=ids.to(torch.int32),  # narrower is faster to compare
            first=(end - counts)[ids],
            end=end[ids],
            positives=(counts - 1)[ids],
            pairs=pairs,
            n_without_positive=n_without_positive,
        )

    def tiles(self, rows: int) -> Iterator[tuple[slice, slice]]:
        """Yield `rows` sorted anchors at a time, with the span of columns that holds all their positives."""
        n = len(self.permutation)
        begins = range(0, n, rows)
        ends = [min(begin + rows, n) for begin in begins]
        spans = torch.stack([self.first[list(begins)], self.end[[stop - 1 for stop in ends]]], dim=1).tolist()
        for begin, stop, (left, right) in zip(begins, ends, spans, strict=True):
            yield slice(begin, stop), slice(left, right)

    def positive_mask(self, rows: slice, columns: slice) -> Tensor:
        """Return the paper's `M` for a tile: True where two different rows have one class."""
        mask = self.ids[rows, None] == self.ids[None, columns]
        mask.diagonal(offset=rows.start - columns.start).fill_(False)
        return mask


@dataclass(frozen=True)
class PairStatistics:
    """Statistics of the positive pairs in one call of the loss.

    Attributes:
        margin: the margin of the rate below.
        anchors: N, rows of the batch.
        positive_pairs: ordered pairs, `sum_u |P_u|`.
        anchors_without_positive: anchors left out of the loss.
        saturated_pairs: a scalar tensor, the ordered pairs with s + m > 1.
        histogram: `(2000,)` int64, positive pairs by similarity, in equal bins over [-1, 1].
    """

    margin: float
    anchors: int
    positive_pairs: int
    anchors_without_positive: int
    saturated_pairs: Tensor
    histogram: Tensor

    @property
    def clamp_activation_rate(self) -> float:
        """The share of positive pairs with s + m > 1 (Eq. car).

        NaN if there is no pair, or if a pair's similarity is NaN.

        In a loss with `margin_type="clamp"` this is the rate of saturation. In any other it is the
        rate if clamped: the share that a clamp of this margin would have cut.
        """
        if self.positive_pairs == 0 or self.histogram.sum() < self.positive_pairs:
            return math.nan
        return self.saturated_pairs.item() / self.positive_pairs

    def rate_at(self, margin: float) -> float:
        """Return the rate for any other margin, from the histogram; linear inside a bin."""
        return rate_from_histogram(self.histogram.cpu(), margin)


class PairCollector:
    """Accumulates `PairStatistics` tile by tile."""

    def __init__(self, margin: float, device: torch.device) -> None:
        self._margin = margin
        self._saturated = torch.zeros((), dtype=torch.int64, device=device)
        self._histogram = torch.zeros(HISTOGRAM_BINS, dtype=torch.int64, device=device)

    def add(self, similarities: Tensor, mask: Tensor, times: int = 1) -> None:
        """Add `(r, c)` unmodified similarities with their positive mask; each pair counts `times`."""
        values = similarities.detach()[mask].clamp_(max=1)  # rounding can exceed 1
        values = values[~values.isnan()]
        self._saturated += times * (values + self._margin > 1).sum()
        bins = ((values + 1) * (HISTOGRAM_BINS / 2)).to(torch.int32).clamp_(0, HISTOGRAM_BINS - 1)
        self._histogram += times * torch.bincount(bins, minlength=HISTOGRAM_BINS)

    def result(self, groups: LabelGroups) -> PairStatistics:
        return PairStatistics(
            margin=self._margin,
            anchors=len(groups.permutation),
            positive_pairs=groups.pairs,
            anchors_without_positive=groups.n_without_positive,
            saturated_pairs=self._saturated,
            histogram=self._histogram,
        )


def positive_mask(labels: Tensor) -> Tensor:
    """Return `M`, `(N, N)`: M_uv is True iff y(u) = y(v) and u != v."""
    same = labels[:, None] == labels[None, :]
    return same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)


def loss_from_similarities(s: Tensor, positive: Tensor, spec: LossSpec) -> Tensor:
    """Return the loss as a function of `(N, N)` cosine similarities and the `(N, N)` positive mask.

    Anchors without a positive are left out of the mean over anchors; at least one anchor must have one.
    """
    itself = torch.eye(len(s), dtype=torch.bool, device=s.device)

    margin = spec.of_positives
    if margin.moves:  # such as Eq. clamp_margin
        s = torch.where(positive, margin.modified(s), s)

    b = (s / spec.temperature).masked_fill(itself, -torch.inf)  # Eq. base_logits; k != u from here on
    alpha = b.max(dim=1, keepdim=True).values
    g = b - (alpha.detach() if spec.stability == "detach" else alpha)  # Eq. stability_modes
    log_p = g - g.exp().sum(dim=1, keepdim=True).log()  # Eq. logprob_def

    if margin.constant:  # Eq. subtract_margin
        log_p = torch.where(positive, log_p - margin.constant, log_p)

    positives = positive.sum(dim=1)
    per_anchor = -torch.where(positive, log_p, 0).sum(dim=1)  # Eq. supcon_loss
    if spec.reduction == "mean":
        per_anchor = per_anchor / positives.clamp(min=1)
    return per_anchor.sum() / (positives > 0).sum()


# Anchors per tile: at N = 1024 a tile then stays in a CPU's cache; thinner ones make slow products.
TILE_ROWS = 256
# Tiles are kept between the passes if the N x N matrix would have at most this many numbers.
KEEP = 2**24


def fast_loss(
    z: Tensor,
    groups: LabelGroups,
    spec: LossSpec,
    block_size: int | None = None,
    collector: PairCollector | None = None,
) -> Tensor:
    """Return the loss of `(N, d)` unit vectors; at least one anchor must have a positive."""
    rows = block_size or TILE_ROWS
    if torch.is_grad_enabled() and z.requires_grad:
        loss, _ = _ClosedForm.apply(z, groups, spec, rows, collector)  # type: ignore[no-untyped-call]
        return loss  # type: ignore[no-any-return]
    anchors = _Anchors(z, groups, spec)
    for tile in _tiles(z[groups.permutation], groups, spec, rows, collector):
        anchors.accumulate(tile)
    return anchors.loss()


class _ClosedForm(torch.autograd.Function):
    @staticmethod
    def forward(
        z: Tensor, groups: LabelGroups, spec: LossSpec, rows: int, collector: PairCollector | None
    ) -> tuple[Tensor, Tensor]:
        ordered = z[groups.permutation]
        anchors = _Anchors(z, groups, spec)
        kept = []
        for tile in _tiles(ordered, groups, spec, rows, collector):
            anchors.accumulate(tile)
            if len(z) ** 2 <= KEEP:
                kept.append(tile)
        gradient = anchors.gradient(kept or _tiles(ordered, groups, spec, rows), ordered)
        return anchors.loss(), torch.empty_like(z).index_copy_(0, groups.permutation, gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        z, gradient = ctx.saved_tensors
        return _NoDoubleBackward.apply(z, grad_output, gradient), None, None, None, None  # type: ignore[no-untyped-call]


class _NoDoubleBackward(torch.autograd.Function):
    """Compute grad_output * gradient; a second differentiation by z ends here with a clear error."""

    @staticmethod
    def forward(z: Tensor, grad_output: Tensor, gradient: Tensor) -> Tensor:
        return grad_output * gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise RuntimeError(
            "the fast loss cannot be differentiated twice; use SupConLoss(implementation='plain')"
        )


@dataclass(frozen=True)
class _Tile:
    """Anchors `begin` to `stop`, r of them, against the c anchors from `begin` on."""

    begin: int
    stop: int
    # (r, c), b of the paper minus its largest possible value; hugely negative for an anchor with itself
    logits: Tensor
    positive: Tensor  # (r, near), 1 for a positive pair; all of them are among the first columns
    slope: Tensor | None  # (r, near), of the margin: 0 for a saturated pair; None if it is 1 throughout

    @property
    def rows(self) -> slice:
        """Indices of the tile's anchors among all."""
        return slice(self.begin, self.stop)

    @property
    def later(self) -> slice:
        """Indices of the anchors after them."""
        return slice(self.stop, None)

    @property
    def mirrored(self) -> slice:
        """The tile's columns for those later anchors, which stand for pairs (v, u) as well."""
        return slice(self.stop - self.begin, None)


def _tiles(
    z: Tensor, groups: LabelGroups, spec: LossSpec, rows: int, collector: PairCollector | None = None
) -> Iterator[_Tile]:
    for anchors, span in groups.tiles(rows):
        s = z[anchors] @ z[anchors.start :].T
        mask = groups.positive_mask(anchors, slice(anchors.start, span.stop))
        near = s[:, : mask.shape[1]]  # a view
        if collector is not None:
            own = anchors.stop - anchors.start
            collector.add(near[:, :own], mask[:, :own])
            collector.add(near[:, own:], mask[:, own:], times=2)
        positive = mask.to(s.dtype)
        margin, slope = spec.of_positives, None
        if margin.moves:
            slope = margin.slope(near)
            if slope is not None:
                slope.masked_fill_(~mask, 1)
            near.copy_(torch.where(mask, margin.modified(near), near))
        # Relative to the largest possible logit, which keeps the digits of logits near it.
        logits = s.sub_(margin.max_similarity).mul_(1 / spec.temperature)
        # Its exp is 0, like that of -inf, but 0 times it is 0, and it may be the maximum of its row.
        logits.diagonal().fill_(torch.finfo(s.dtype).min / 2)
        yield _Tile(anchors.start, anchors.stop, logits, positive, slope)


class _Anchors:
    """Sums over the pairs of every anchor, in sorted order: its denominator first, then its gradient."""

    def __init__(self, like: Tensor, groups: LabelGroups, spec: LossSpec) -> None:
        positives = groups.positives.to(like.dtype)
        self.spec = spec
        self.count = len(positives) - groups.n_without_positive  # anchors that have a positive
        self.positives = positives.clamp(min=1)  # |P_u|; an anchor without any has no weight below
        self.weight = positives if spec.reduction == "sum" else (positives > 0).to(like.dtype)
        self.positive_sum = torch.zeros_like(positives)  # sum_{v in P_u} b_uv
        self.log_total = torch.full_like(positives, -torch.inf)  # log sum_{k != u} exp b_uk
        self.top = self.log_total.clone()  # max_{k != u} b_uk, and where it is: in direct mode only
        self.top_at = torch.zeros_like(groups.permutation)
        self.top_slope = torch.ones_like(positives)

    def accumulate(self, tile: _Tile) -> None:
        """First pass: add a tile to the sums of its rows and of its mirrored columns."""
        near = tile.logits[:, : tile.positive.shape[1]]
        pulled = near * tile.positive
        self.positive_sum[tile.rows] += pulled.sum(dim=1)
        of_later = pulled[:, tile.mirrored].sum(dim=0)
        self.positive_sum[tile.stop : tile.stop + len(of_later)] += of_later
        slope = tile.slope
        self._update_logsumexp(tile.rows, tile.logits, slope, dim=1, offset=tile.begin)
        mirrored = None if slope is None else slope[:, tile.mirrored]
        self._update_logsumexp(tile.later, tile.logits[:, tile.mirrored], mirrored, dim=0, offset=tile.begin)

    def _update_logsumexp(
        self, rows: slice, logits: Tensor, slope: Tensor | None, dim: int, offset: int
    ) -> None:
        top = logits.amax(dim, keepdim=True)
        total = (logits - top).exp_().sum(dim).log_().add_(top.squeeze(dim))
        self.log_total[rows] = torch.logaddexp(self.log_total[rows], total)
        if self.spec.stability == "direct":
            values, at = logits.max(dim)
            higher = values > self.top[rows]
            self.top[rows] = torch.where(higher, values, self.top[rows])
            self.top_at[rows] = torch.where(higher, at + offset, self.top_at[rows])
            if slope is not None:
                slopes = torch.ones_like(logits)
                slopes[:, : slope.shape[1]] = slope
                slope_at_top = slopes.gather(dim, at.unsqueeze(dim)).squeeze(dim)
                self.top_slope[rows] = torch.where(higher, slope_at_top, self.top_slope[rows])

    def loss(self) -> Tensor:
        per_anchor = self.log_total - self.positive_sum / self.positives
        if self.spec.of_positives.constant:  # it changes the loss and no gradient
            per_anchor = per_anchor + self.spec.of_positives.constant
        return (self.weight * per_anchor).sum() / self.count

    def gradient(self, tiles: Iterable[_Tile], z: Tensor) -> Tensor:
        """Second pass: return dL/dz, `(N, d)`, for the sorted unit vectors; overwrites the tiles."""
        gradient = torch.zeros_like(z)
        # w p = exp(b - (log_total - log w)); a weight of 0 gives exp(-inf)
        shift = self.log_total - self.weight.log()
        sum_wp = torch.zeros_like(self.weight)
        for tile in tiles:
            wp = (tile.logits - shift[tile.rows, None]).exp_()
            wp_mirrored = tile.logits.sub_(shift[tile.begin :]).exp_()
            if self.spec.stability == "direct":
                sum_wp[tile.rows] += wp.sum(dim=1)
                sum_wp[tile.later] += wp_mirrored[:, tile.mirrored].sum(dim=0)
            grad_s = wp.add_(wp_mirrored)  # through both orders of the pair
            near = grad_s[:, : tile.positive.shape[1]]
            # Positives are of one class, so w / |P| is the same from either end.
            pull = (2 * self.weight / self.positives)[tile.rows, None]
            near.sub_(tile.positive.mul_(pull))
            if tile.slope is not None:
                near.mul_(tile.slope)
            gradient[tile.rows].addmm_(grad_s, z[tile.begin :])
            gradient[tile.later].addmm_(grad_s[:, tile.mirrored].T, z[tile.rows])
        if self.spec.stability == "direct":
            self._through_maximum(gradient, z, self.weight - sum_wp)
        return gradient.div_(self.count * self.spec.temperature)

    def _through_maximum(self, gradient: Tensor, z: Tensor, residual: Tensor) -> None:
        """Add what rounding leaves of w (1 - sum p) at the row's maximum, unless that is saturated."""
        residual = residual * self.top_slope
        gradient.addcmul_(z[self.top_at], residual[:, None])
        gradient.index_add_(0, self.top_at, z * residual[:, None])


Implementation = Literal["auto", "plain", "fast"]
OnNoPositives = Literal["raise", "zero"]
# Settings of a loss that have a fixed set of values.
_CHOICES = {"implementation": get_args(Implementation), "on_no_positives": get_args(OnNoPositives)}


def _spec_property(name: str) -> Any:
    """Return a property for a field of a loss's `spec`; setting it replaces, and so checks, the spec."""

    def set_to(loss: "SupConLoss", value: Any) -> None:
        loss.spec = replace(loss.spec, **{name: value})

    return property(lambda loss: getattr(loss.spec, name), set_to)


class SupConLoss(LocalLoss):
    """The supervised contrastive loss of one layer, with a margin on its positive pairs.

    For unit vectors z, similarities s = z z^T, modified similarities s~ (see `margin_type`) and
    p_uv = exp(s~_uv / tau) / sum_{k != u} exp(s~_uk / tau), the loss is the mean over the anchors u
    that have positives of -1/|P_u| sum_{v in P_u} log p_uv. The defaults are the paper's layer 0. Every
    argument is an attribute too, which may be set at any time: `loss.margin = 0.2`.

    Args:
        temperature: tau > 0.
        margin: m >= 0.
        margin_type: `clamp`: s~ = min(s + m, 1); `shift`: s~ = s + m; `subtract`: log p - m, which moves no
            gradient; `soft_clamp`: 1 - softplus(beta (1 - s - m)) / beta, a clamp with a smooth corner;
            `none`. All on positive pairs only. Or a `Margin` of your own.
        stability: `detach` or `direct`, whether the gradient flows through the row maximum that is subtracted
            before exp. In exact arithmetic it makes no difference (`docs/method.md`).
        reduction: `mean` or `sum` over an anchor's positives.
        implementation: `plain` goes through autograd as the equations are written, in O(N^2) memory; `fast`
            has the gradient in closed form, in O(N) memory; `auto` is `fast`, and `plain` inside
            `torch.compile`. Only `plain` can be differentiated twice.
        on_no_positives: behavior if no anchor of a batch has a positive: `raise` a `ValueError`, or return
            `zero`.
        check_finite: refuse features that are not finite. This reads them once more.
        block_size: anchors per tile of `fast`; the default suits a CPU's cache.
        margin_sharpness: beta of `soft_clamp`.

    Example:
        >>> loss = SupConLoss(temperature=0.15, margin=0.4, margin_type="clamp")
        >>> features = torch.randn(8, 16, requires_grad=True)
        >>> loss(features, torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])).backward()
    """

    views = 2

    temperature = _spec_property("temperature")
    margin = _spec_property("margin")
    margin_type = _spec_property("margin_type")
    stability = _spec_property("stability")
    reduction = _spec_property("reduction")
    margin_sharpness = _spec_property("margin_sharpness")

    def __init__(
        self,
        temperature: float = 0.15,
        margin: float = 0.4,
        margin_type: MarginType = "clamp",
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
        if isinstance(margin_type, Margin) and margin_type.m not in (0, margin):
            raise ValueError(
                f"margin_type has m = {margin_type.m:g} and margin is {margin:g}: give the margin as margin"
            )
        self.spec = LossSpec(temperature, margin, margin_type, stability, reduction, margin_sharpness)
        self.implementation = implementation
        self.on_no_positives = on_no_positives
        self.check_finite = check_finite
        self.block_size = block_size
        self._observers: list[Callable[[PairStatistics], None]] = []

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CHOICES:
            one_of(name, value, _CHOICES[name])
        if name == "block_size" and value is not None and value < 1:
            raise ValueError(f"block_size must be at least 1; got {value!r}")
        super().__setattr__(name, value)

    def observe(self, observer: Callable[[PairStatistics], None]) -> None:
        """Call `observer` with the statistics of every batch from now on, while in training mode."""
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
        """Return the loss of a batch and, on request, statistics of its positive pairs.

        Args:
            features: `(N, d)`, not normalized; half precision is computed in float32.
            labels: `(N,)` integers; give the labels twice, `labels.repeat(2)`, for two views.
            return_statistics: also return `PairStatistics`, without a second pass over the pairs.

        Returns:
            a scalar, float32 or better; with `return_statistics`, the scalar and the statistics.
        """
        check_batch(features, labels)
        if self.check_finite and len(bad := (~features.isfinite()).any(dim=1).nonzero()):
            raise ValueError(
                f"features: {len(bad)} of {len(features)} rows are not finite, the first is row {int(bad[0])}"
            )
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
        self, features: Tensor, labels: Tensor, groups: LabelGroups, collector: PairCollector | None
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
        names = ("temperature", "margin", "margin_type", "stability", "reduction", "implementation")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


def check_batch(features: Tensor, labels: Tensor) -> None:
    """Raise a `ValueError` unless these are `(N, d)` real features and `(N,)` integer labels."""
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
    """Return `(N, d)` rows scaled to length 1; a zero row stays zero and gets no gradient.

    Dividing by the largest entry first keeps squares from overflowing or vanishing.
    """
    largest = features.detach().abs().amax(dim=1, keepdim=True)
    zero = largest == 0
    scaled = (features / largest.masked_fill(zero, 1)).masked_fill(zero, 0)
    return normalize(scaled, dim=1)


def at_least_float32(features: Tensor) -> Tensor:
    return features.to(torch.promote_types(features.dtype, torch.float32))


@torch.no_grad()
def pair_statistics(features: Tensor, labels: Tensor, margin: float) -> PairStatistics:
    """Return the statistics of the positive pairs of `(N, d)` features and `(N,)` labels."""
    check_batch(features, labels)
    LossSpec(margin=margin)  # raises if the margin is invalid
    groups = LabelGroups.of(labels.to(features.device))
    collector = PairCollector(margin, features.device)
    with torch.autocast(features.device.type, enabled=False):
        z = unit_vectors(at_least_float32(features))[groups.permutation]
        for rows, columns in groups.tiles(TILE_ROWS):
            collector.add(z[rows] @ z[columns].T, groups.positive_mask(rows, columns))
    return collector.result(groups)


def clamp_activation_rate(features: Tensor, labels: Tensor, margin: float) -> float:
    """Return the share of positive pairs with s + m > 1 (Eq. car).

    For features trained with a clamp of this margin it is the rate of saturation; for others it is the
    *rate if clamped*. The two can differ greatly.

    Args:
        features: `(N, d)`, normalized here.
        labels: `(N,)` integers.
        margin: m >= 0.

    Returns:
        a number from 0 to 1; NaN if no two rows have the same label.

    Example:
        >>> clamp_activation_rate(torch.tensor([[1.0, 0.0], [1.0, 0.1]]), torch.tensor([0, 0]), margin=0.4)
        1.0
    """
    return pair_statistics(features, labels, margin).clamp_activation_rate


def gradient_norm(layer: nn.Module | Iterable[Tensor]) -> float:
    """Return the l2 norm of the whole gradient of a layer's parameters (Eq. grad_norm), after `backward`.

    Parameters without a gradient count as zero; a layer without any gradient is an error.
    """
    parameters = layer.parameters() if isinstance(layer, nn.Module) else layer
    gradients = [at_least_float32(p.grad) for p in parameters if p.grad is not None]
    if not gradients:
        raise ValueError("layer: no parameter has a gradient; call backward() on its loss first")
    return float(nn.utils.get_total_norm(gradients))
