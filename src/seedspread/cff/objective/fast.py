"""The same loss with its gradient in closed form, worked through in tiles.

With p the softmax over k != u and n the number of anchors that have a positive, the derivative of
the loss by the modified similarity of the ordered pair (u, v) is

    w_u (p_uv - M_uv / |P_u|) / (n tau),      w_u = 1 (mean), |P_u| (sum), 0 (no positive)

and by the similarity itself that times the slope of the margin there (0 where a clamp has saturated).
Both orders of a pair share one similarity, so each is computed once: a tile holds some anchors against
themselves and all later anchors, and serves the rows and, mirrored, the columns. The first pass adds
up each anchor's denominator, the second turns a tile into derivatives and multiplies it out.

The batch is sorted by label first: a tile's positives then lie in its first few columns, and the
margin, the mask and the statistics touch only those. Small batches keep their tiles between the
passes; large ones make them again, so that memory grows with N and not with its square.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seedspread.cff.objective.pairs import LabelGroups, PairCollector
from seedspread.cff.objective.spec import LossSpec

# Anchors per tile: at N = 1024 a tile then stays in a CPU's cache; thinner ones make slow products.
TILE_ROWS = 256
# Tiles are kept between the passes while the N x N matrix would have at most this many numbers.
KEEP = 2**24


def fast_loss(
    z: Tensor,
    groups: LabelGroups,
    spec: LossSpec,
    block_size: int | None = None,
    collector: PairCollector | None = None,
) -> Tensor:
    """The loss of `(N, d)` unit vectors; one anchor at least must have a positive."""
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
    """grad_output * gradient; it stands on the graph's path to z only to say that it ends there."""

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
    # (r, c), b of the paper less the largest there can be; hugely negative where an anchor meets itself
    logits: Tensor
    positive: Tensor  # (r, near), 1 for a positive pair; all of them are among the first columns
    slope: Tensor | None  # (r, near), of the margin: 0 for a saturated pair; None where it is 1 throughout

    @property
    def rows(self) -> slice:
        """The tile's anchors, among all."""
        return slice(self.begin, self.stop)

    @property
    def later(self) -> slice:
        """The anchors after them, among all."""
        return slice(self.stop, None)

    @property
    def mirrored(self) -> slice:
        """The tile's columns for those later anchors: they stand for pairs (v, u) as well."""
        return slice(self.stop - self.begin, None)


def _tiles(
    z: Tensor,
    groups: LabelGroups,
    spec: LossSpec,
    rows: int,
    collector: PairCollector | None = None,
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
        # Measured from the largest logit there can be, which keeps the digits of those near it.
        logits = s.sub_(margin.max_similarity).mul_(1 / spec.temperature)
        # exp of it is 0, as of -inf, but 0 times it is 0 and it may be the maximum of its row
        logits.diagonal().fill_(torch.finfo(s.dtype).min / 2)
        yield _Tile(anchors.start, anchors.stop, logits, positive, slope)


class _Anchors:
    """Sums over the pairs of every anchor, in sorted order: first its denominator, then its gradient."""

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
        """The first pass: adds a tile to the sums of its rows and of its mirrored columns."""
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
        """The loss, once every tile has been met."""
        per_anchor = self.log_total - self.positive_sum / self.positives
        if self.spec.of_positives.constant:  # it moves the loss and no gradient
            per_anchor = per_anchor + self.spec.of_positives.constant
        return (self.weight * per_anchor).sum() / self.count

    def gradient(self, tiles: Iterable[_Tile], z: Tensor) -> Tensor:
        """The second pass: dL/dz, `(N, d)`, for the sorted unit vectors; uses the tiles up."""
        gradient = torch.zeros_like(z)
        # w p = exp(b - (log_total - log w)); no weight gives exp(-inf)
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
        """Sends what rounding leaves of w (1 - sum p) to the row's maximum; a saturated one takes nothing."""
        residual = residual * self.top_slope
        gradient.addcmul_(z[self.top_at], residual[:, None])
        gradient.index_add_(0, self.top_at, z * residual[:, None])
