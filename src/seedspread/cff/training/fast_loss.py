"""The loss of a layer with its gradient in closed form, without waiting for the device.

The formulas are those of `cff/loss.py`, on whole rows: a tile pairs some anchors with all others, so one pass
gives its share of the loss and of the gradient, in memory that grows with N. Nothing is sorted, counted on
the host or indexed by a mask, which would stop a GPU's queue.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from seedspread.cff.loss import HISTOGRAM_BINS
from seedspread.cff.margins import LossSpec, Margin

# Similarities in a tile: 4 MB.
_TILE_SIZE = 2**20
# As in torch.nn.functional.normalize.
_SHORTEST = 1e-12


@dataclass(frozen=True)
class Pairs:
    """The positive pairs of a batch; shared by all layers."""

    labels: Tensor  # `(N,)`
    positives: Tensor  # `(N, 1)` float, |P_u|, but at least 1
    weights: Tensor  # `(N, 1)` float, weight of an anchor in the loss; 0 without a positive
    anchors: Tensor  # `()` float, number n of anchors with a positive
    divisor: Tensor  # `()` float, n tau
    pairs: Tensor  # `()` int64, number of ordered positive pairs

    @classmethod
    def of(cls, labels: Tensor, spec: LossSpec, dtype: torch.dtype) -> "Pairs":
        same = [
            (labels[rows, None] == labels).sum(dim=1, dtype=torch.int32, keepdim=True)
            for rows in _tile_rows(len(labels))
        ]
        count = torch.cat(same) - 1
        positives = count.to(dtype)
        has_positive = (positives > 0).to(dtype)
        anchors = has_positive.sum()
        return cls(
            labels=labels,
            positives=positives.clamp(min=1),
            weights=positives if spec.reduction == "sum" else has_positive,
            anchors=anchors,
            divisor=anchors * spec.temperature,
            pairs=count.sum(),
        )

    def tiles(self) -> "Iterable[_Tile]":
        """Return tiles of all pairs. A single tile is kept for the next layer, several are rebuilt."""
        rows = _tile_rows(len(self.labels))
        return [self._whole] if len(rows) == 1 else map(self._tile, rows)

    @cached_property
    def _whole(self) -> "_Tile":
        return self._tile(slice(0, len(self.labels)))

    def _tile(self, rows: slice) -> "_Tile":
        mask = self.labels[rows, None] == self.labels
        mask.diagonal(offset=rows.start).fill_(False)
        positives, weights = self.positives[rows], self.weights[rows]
        return _Tile(
            rows,
            positive=mask,
            others=~mask,
            pulls=mask.to(weights.dtype),
            counts=mask.to(torch.int64).flatten(),
            weights=weights,
            positives=positives,
            pull_weights=weights / positives,
        )


class _Tile(NamedTuple):
    """Some anchors, r of them, paired with all N."""

    rows: slice
    positive: Tensor  # (r, N), True for a positive pair
    others: Tensor  # (r, N), True for all else
    pulls: Tensor  # (r, N) float, 1 for a positive pair
    counts: Tensor  # (r N,) int64, likewise
    weights: Tensor  # (r, 1), as in `Pairs`
    positives: Tensor  # (r, 1), likewise
    pull_weights: Tensor  # (r, 1), `weights / positives`


@dataclass(frozen=True)
class FastLoss:
    loss: Tensor  # a scalar; NaN if no anchor has a positive
    gradient: Tensor  # `(1, N, d)`, with respect to the features
    saturated: Tensor  # a scalar int64, ordered positive pairs with s + m > 1
    histogram: Tensor  # `(2000,)` int64, as in `PairStatistics`


@torch.no_grad()
def fast_loss(features: Tensor, pairs: Pairs, spec: LossSpec) -> FastLoss:
    """Return the loss of `(1, N, d)` features; an anchor without a positive is left out.

    The first axis makes products batched ones: plain ones may round differently, and published runs depend on
    the bits.
    """
    if spec.of_positives.constant:
        raise ValueError("a margin that only adds a constant is trained as none: give margin_type 'none'")
    rows = _Rows.of(features)
    z, grad_z = rows.z, torch.zeros_like(rows.z)
    per_anchor = []
    saturated = torch.zeros((), dtype=torch.int64, device=z.device)
    histogram = torch.zeros(HISTOGRAM_BINS, dtype=torch.int64, device=z.device)
    for tile in pairs.tiles():
        own = z[:, tile.rows]
        s = torch.bmm(own, z.mT)
        saturated += _count(s, tile, spec.margin, histogram)
        loss, grad_s = _loss_of_tile(s, tile, spec)
        per_anchor.append(loss)
        grad_s /= pairs.divisor
        grad_z[:, tile.rows].add_(torch.bmm(grad_s, z))
        grad_z.add_(torch.bmm(grad_s.mT, own))
    loss = torch.cat(per_anchor, dim=1).sum().neg_().div_(pairs.anchors)
    return FastLoss(loss, rows.gradient(grad_z), saturated, histogram)


def _tile_rows(n: int) -> list[slice]:
    size = max(1, min(n, _TILE_SIZE // n))
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def _count(s: Tensor, tile: _Tile, margin: float, histogram: Tensor) -> Tensor:
    """Add a tile's positive pairs to the histogram; return how many a clamp cuts."""
    inside = s.clamp(max=1)  # rounding can exceed 1
    cut = (inside + margin > 1).logical_and_(tile.positive).sum()
    bins = inside.add_(1).mul_(HISTOGRAM_BINS / 2).to(torch.int64).clamp_(0, HISTOGRAM_BINS - 1)
    histogram.scatter_add_(0, bins.flatten(), tile.counts)
    return cut


def _loss_of_tile(s: Tensor, tile: _Tile, spec: LossSpec) -> tuple[Tensor, Tensor]:
    """Return each anchor's share of -n times the loss, `(1, r, 1)`, and n tau times the derivative by s.

    Overwrites `s`.
    """
    slope = _apply_margin(spec.of_positives, s, tile)
    logits = s.div_(spec.temperature)
    # Its exp is 0, like that of -inf, but 0 times it is 0.
    logits.diagonal(offset=tile.rows.start, dim1=1, dim2=2).fill_(torch.finfo(s.dtype).min / 2)
    log_p = logits.log_softmax(dim=2)
    pulled = (log_p * tile.pulls).sum(dim=2, keepdim=True) / tile.positives
    p = log_p.exp_()
    residual = 1 - p.sum(dim=2, keepdim=True) if spec.stability == "direct" else None
    grad_s = p.mul_(tile.weights)
    if residual is not None:
        # What rounding leaves of w (1 - sum p) is added at the row's maximum, unless that is saturated.
        grad_s.scatter_add_(2, logits.argmax(dim=2, keepdim=True), tile.weights * residual)
    grad_s.addcmul_(tile.pulls, tile.pull_weights, value=-1)
    if slope is not None:
        grad_s.mul_(slope)
    return tile.weights * pulled, grad_s


def _apply_margin(margin: Margin, s: Tensor, tile: _Tile) -> Tensor | None:
    """Apply the margin to the positives in `s`; return its slopes, None if they are 1 throughout."""
    if not margin.moves:
        return None
    slope = margin.slope(s)
    torch.where(tile.positive, margin.modified(s), s, out=s)
    return None if slope is None else slope.masked_fill_(tile.others, 1)


class _Rows(NamedTuple):
    """Features scaled to length 1, as in `unit_vectors`; a zero row stays zero."""

    z: Tensor  # (1, N, d)
    zero: Tensor  # (1, N, 1), whether a row is zero
    largest: Tensor  # (1, N, 1), a row's largest entry; 1 for a zero row
    scaled: Tensor  # (1, N, d), the features divided by `largest`

    @classmethod
    def of(cls, features: Tensor) -> "_Rows":
        largest = features.abs().amax(dim=2, keepdim=True)
        zero = largest == 0
        largest = largest.masked_fill_(zero, 1)
        scaled = (features / largest).masked_fill_(zero, 0)
        z = scaled / torch.linalg.vector_norm(scaled, dim=2, keepdim=True).clamp_min_(_SHORTEST)
        return cls(z, zero, largest, scaled)

    def gradient(self, grad_z: Tensor) -> Tensor:
        """Turn the derivative with respect to z = f / |f| into that with respect to f; 0 for a zero row."""
        length = self.scaled.square().sum(dim=2, keepdim=True).sqrt() * self.largest
        across = grad_z - self.z * (self.z * grad_z).sum(dim=2, keepdim=True)
        return (across / length).masked_fill_(self.zero, 0)
