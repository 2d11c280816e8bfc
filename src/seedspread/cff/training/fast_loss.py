"""The losses of several runs at once, with their gradient in closed form and without waiting for the device.

Each run has features, labels and a margin of its own; temperature, stability and reduction are shared. The
formulas are those of `cff/loss.py`, on whole rows: some anchors meet all others at once, so one
pass gives its share of the loss and of the gradient, in memory that grows with N. Nothing is sorted, counted
on the host or indexed by a mask, which would stop a GPU's queue.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from seedspread.cff.loss import HISTOGRAM_BINS
from seedspread.cff.margins import LossSpec, Margin

# Similarities of one run in a tile: 4 MB.
_TILE_SIZE = 2**20
# As in torch.nn.functional.normalize.
_SHORTEST = 1e-12


@dataclass(frozen=True)
class LossRules:
    """What the specs of a layer's losses come to, one spec per run; made once, it stays on the device."""

    margin: Tensor  # `(R, 1, 1)`
    of_positives: tuple[Margin, ...]  # what each run's margin does
    temperature: float  # tau, of all runs
    direct: bool  # whether the gradient flows through the row maximum
    summed: bool  # over an anchor's positives, instead of their mean

    @classmethod
    def of(cls, specs: Sequence[LossSpec], dtype: torch.dtype, device: torch.device) -> "LossRules":
        """Build the rules; refuse specs that cannot be stacked."""
        shared = {(spec.temperature, spec.stability, spec.reduction) for spec in specs}
        if len(shared) > 1:
            raise ValueError("stacked runs must share temperature, stability and reduction")
        if any(spec.of_positives.constant for spec in specs):
            raise ValueError("a margin that only adds a constant is trained as none: give margin_type 'none'")
        (temperature, stability, reduction) = shared.pop()
        margins = torch.tensor([spec.margin for spec in specs], dtype=dtype, device=device)
        return cls(
            margin=margins[:, None, None],
            of_positives=tuple(spec.of_positives for spec in specs),
            temperature=temperature,
            direct=stability == "direct",
            summed=reduction == "sum",
        )


@dataclass(frozen=True)
class StackedPairs:
    """Who is whose positive, in every run; shared by all layers."""

    labels: Tensor  # `(R, N)`
    positives: Tensor  # `(R, N, 1)` float, |P_u|, but at least 1
    weights: Tensor  # `(R, N, 1)` float, what an anchor counts for in its run's loss; 0 without a positive
    anchors: Tensor  # `(R,)` float, how many have one
    divisor: Tensor  # `(R, 1, 1)` float, n tau
    pairs: Tensor  # `(R, 1)` int64, ordered positive pairs

    @classmethod
    def of(cls, labels: Tensor, rules: LossRules) -> "StackedPairs":
        same = [
            (labels[:, rows, None] == labels[:, None]).sum(dim=2, dtype=torch.int32, keepdim=True)
            for rows in _tile_rows(labels.shape[1])
        ]
        count = torch.cat(same, dim=1) - 1
        positives = count.to(rules.margin.dtype)
        has_positive = (positives > 0).to(positives.dtype)
        anchors = has_positive.sum(dim=(1, 2))
        return cls(
            labels=labels,
            positives=positives.clamp(min=1),
            weights=positives if rules.summed else has_positive,
            anchors=anchors,
            divisor=(anchors * rules.temperature)[:, None, None],
            pairs=count.sum(dim=1),
        )

    def tiles(self) -> "Iterable[_Tile]":
        """Return tiles of all pairs. A single tile is kept for the next layer, several are rebuilt."""
        rows = _tile_rows(self.labels.shape[1])
        return [self._whole] if len(rows) == 1 else map(self._tile, rows)

    @cached_property
    def _whole(self) -> "_Tile":
        return self._tile(slice(0, self.labels.shape[1]))

    def _tile(self, rows: slice) -> "_Tile":
        mask = self.labels[:, rows, None] == self.labels[:, None]
        mask.diagonal(offset=rows.start, dim1=1, dim2=2).fill_(False)
        positives, weights = self.positives[:, rows], self.weights[:, rows]
        return _Tile(
            rows,
            by_run=list(zip(mask.unbind(), (~mask).unbind(), strict=True)),
            positive=mask,
            pulls=mask.to(weights.dtype),
            counts=mask.to(torch.int64).flatten(1),
            weights=weights,
            positives=positives,
            pull_weights=weights / positives,
        )


class _Tile(NamedTuple):
    """Some anchors, r of them, against all."""

    rows: slice
    by_run: list[tuple[Tensor, Tensor]]  # (r, N) each, True for a positive pair, and for all else
    positive: Tensor  # (R, r, N), True for a positive pair
    pulls: Tensor  # (R, r, N) float, 1 for a positive pair
    counts: Tensor  # (R, r N) int64, likewise
    weights: Tensor  # (R, r, 1), as in `StackedPairs`
    positives: Tensor  # (R, r, 1), likewise
    pull_weights: Tensor  # (R, r, 1), the one divided by the other


@dataclass(frozen=True)
class StackedLoss:
    loss: Tensor  # `(R,)`
    gradient: Tensor  # `(R, N, d)`, of each run's loss by its features
    saturated: Tensor  # `(R,)` int64, ordered positive pairs with s + m > 1
    histogram: Tensor  # `(R, 2000)` int64, as in `PairStatistics`


@torch.no_grad()
def stacked_loss(features: Tensor, pairs: StackedPairs, rules: LossRules) -> StackedLoss:
    """The losses of `(R, N, d)` float32 features.

    An anchor without a positive is left out; where no anchor has one, the loss is not a number.
    """
    rows = _Rows.of(features)
    z, grad_z = rows.z, torch.zeros_like(rows.z)
    per_anchor = []
    saturated = torch.zeros(len(z), dtype=torch.int64, device=z.device)
    histogram = torch.zeros(len(z), HISTOGRAM_BINS, dtype=torch.int64, device=z.device)
    for tile in pairs.tiles():
        own = z[:, tile.rows]
        s = torch.bmm(own, z.mT)
        saturated += _count(s, tile, rules.margin, histogram)
        loss, grad_s = _loss_of_tile(s, tile, rules)
        per_anchor.append(loss)
        grad_s /= pairs.divisor
        grad_z[:, tile.rows].add_(torch.bmm(grad_s, z))
        grad_z.add_(torch.bmm(grad_s.mT, own))
    loss = torch.cat(per_anchor, dim=1).sum(dim=(1, 2)).neg_().div_(pairs.anchors)
    return StackedLoss(loss, rows.gradient(grad_z), saturated, histogram)


def _tile_rows(n: int) -> list[slice]:
    """Return the anchors of each tile; N alone decides, so a run's numbers do not depend on the stack."""
    size = max(1, min(n, _TILE_SIZE // n))
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def _count(s: Tensor, tile: _Tile, margin: Tensor, histogram: Tensor) -> Tensor:
    """Add a tile's positive pairs to the histogram; return how many a clamp cuts, `(R,)`."""
    inside = s.clamp(max=1)  # rounding can exceed 1
    cut = (inside + margin > 1).logical_and_(tile.positive).sum(dim=(1, 2))
    bins = inside.add_(1).mul_(HISTOGRAM_BINS / 2).to(torch.int64).clamp_(0, HISTOGRAM_BINS - 1)
    histogram.scatter_add_(1, bins.flatten(1), tile.counts)
    return cut


def _loss_of_tile(s: Tensor, tile: _Tile, rules: LossRules) -> tuple[Tensor, Tensor]:
    """What a tile's anchors take off the loss, `(R, r, 1)`, and n tau times its derivative by s.

    Uses `s` up.
    """
    slopes = _apply(rules.of_positives, s, tile)
    logits = s.div_(rules.temperature)
    # exp of it is 0, as of -inf, but 0 times it is 0.
    logits.diagonal(offset=tile.rows.start, dim1=1, dim2=2).fill_(torch.finfo(s.dtype).min / 2)
    log_p = logits.log_softmax(dim=2)
    pulled = (log_p * tile.pulls).sum(dim=2, keepdim=True) / tile.positives
    p = log_p.exp_()
    residual = 1 - p.sum(dim=2, keepdim=True) if rules.direct else None
    grad_s = p.mul_(tile.weights)
    if residual is not None:
        _through_maximum(grad_s, logits, tile.weights * residual)
    grad_s.addcmul_(tile.pulls, tile.pull_weights, value=-1)
    for run, slope in slopes.items():
        grad_s[run].mul_(slope)
    return tile.weights * pulled, grad_s


def _apply(margins: Sequence[Margin], s: Tensor, tile: _Tile) -> dict[int, Tensor]:
    """Applies each run's margin to its positives in `s`; returns the slopes that are not 1 throughout.

    Run by run: functions such as exp may round otherwise at the end of a vector than inside, and where a
    run's numbers end must not depend on the runs beside it.
    """
    slopes = {}
    for run, margin in enumerate(margins):
        if margin.moves:
            own, (positive, others) = s[run], tile.by_run[run]
            slope = margin.slope(own)
            if slope is not None:
                slopes[run] = slope.masked_fill_(others, 1)
            torch.where(positive, margin.modified(own), own, out=own)
    return slopes


def _through_maximum(grad_s: Tensor, logits: Tensor, residual: Tensor) -> None:
    """Send what rounding leaves of w (1 - sum p) to the row's maximum; a saturated one takes nothing."""
    grad_s.scatter_add_(2, logits.argmax(dim=2, keepdim=True), residual)


class _Rows(NamedTuple):
    """Features scaled to length 1, as `unit_vectors` does it; a zero row stays zero."""

    z: Tensor  # (R, N, d)
    zero: Tensor  # (R, N, 1), whether a row is
    largest: Tensor  # (R, N, 1), its largest entry; 1 of a zero row
    scaled: Tensor  # (R, N, d), the features divided by it

    @classmethod
    def of(cls, features: Tensor) -> "_Rows":
        largest = features.abs().amax(dim=2, keepdim=True)
        zero = largest == 0
        largest = largest.masked_fill_(zero, 1)
        scaled = (features / largest).masked_fill_(zero, 0)
        z = scaled / torch.linalg.vector_norm(scaled, dim=2, keepdim=True).clamp_min_(_SHORTEST)
        return cls(z, zero, largest, scaled)

    def gradient(self, grad_z: Tensor) -> Tensor:
        """Turn the derivative by z = f / |f| into that by f; a zero row has none."""
        length = self.scaled.square().sum(dim=2, keepdim=True).sqrt() * self.largest
        across = grad_z - self.z * (self.z * grad_z).sum(dim=2, keepdim=True)
        return (across / length).masked_fill_(self.zero, 0)
