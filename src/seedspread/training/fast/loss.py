"""The losses of several runs at once, with their gradient in closed form and without waiting for the device.

Each run has features, labels and a margin of its own; temperature, stability and reduction are shared. The
formulas are those of `objective/fast.py`, on whole rows: some anchors meet all others at once, so one
pass gives its share of the loss and of the gradient, in memory that grows with N. Nothing is sorted, counted
on the host or indexed by a mask, which would stop a GPU's queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seedspread.objective.loss import unit_vectors
from seedspread.objective.margins import Margin
from seedspread.objective.pairs import HISTOGRAM_BINS
from seedspread.objective.spec import LossSpec

# Similarities of one run in a tile: 4 MB.
_TILE_SIZE = 2**20


@dataclass(frozen=True)
class StackedPairs:
    """Who is whose positive, in every run; shared by all layers.

    Attributes:
        labels: `(R, N)`.
        positives: `(R, N)` float, |P_u|.
        anchors: `(R,)` float, how many have a positive.
    """

    labels: Tensor
    positives: Tensor
    anchors: Tensor

    @classmethod
    def of(cls, labels: Tensor, dtype: torch.dtype) -> "StackedPairs":
        """Counts `(R, N)` labels."""
        same = [
            (labels[:, rows, None] == labels[:, None]).sum(dim=2, dtype=torch.int32)
            for rows in _tile_rows(labels.shape[1])
        ]
        positives = (torch.cat(same, dim=1) - 1).to(dtype)
        return cls(labels, positives, (positives > 0).to(dtype).sum(dim=1))

    @property
    def pairs(self) -> Tensor:
        """`(R,)` int64, ordered positive pairs."""
        return self.positives.to(torch.int64).sum(dim=1)

    def mask(self, rows: slice) -> Tensor:
        """`(R, r, N)`, True for a positive pair."""
        mask = self.labels[:, rows, None] == self.labels[:, None]
        mask.diagonal(offset=rows.start, dim1=1, dim2=2).fill_(False)
        return mask


@dataclass(frozen=True)
class StackedLoss:
    """What a layer's losses came to.

    Attributes:
        loss: `(R,)`.
        gradient: `(R, N, d)`, of each run's loss by its features.
        saturated: `(R,)` int64, ordered positive pairs with s + m > 1.
        histogram: `(R, 2000)` int64, as in `PairStatistics`.
    """

    loss: Tensor
    gradient: Tensor
    saturated: Tensor
    histogram: Tensor


@torch.no_grad()
def stacked_loss(features: Tensor, pairs: StackedPairs, specs: Sequence[LossSpec]) -> StackedLoss:
    """The losses of `(R, N, d)` float32 features, one spec per run.

    An anchor without a positive is left out; where no anchor has one, the loss is not a number.
    """
    runs, n, _ = features.shape
    z = unit_vectors(features.flatten(0, 1)).view(features.shape)
    rules = _Rules.of(specs, z)
    grad_z = torch.zeros_like(z)
    per_anchor = []
    saturated = torch.zeros(runs, dtype=torch.int64, device=z.device)
    # The last bin takes what is no positive pair.
    histogram = torch.zeros(runs, HISTOGRAM_BINS + 1, dtype=torch.int64, device=z.device)
    for rows in _tile_rows(n):
        s = torch.bmm(z[:, rows], z.transpose(1, 2))
        positive = pairs.mask(rows)
        saturated += _count(s, positive, rules.margin, histogram)
        loss, grad_s = _loss_of_tile(s, positive, pairs.positives[:, rows], rules, rows.start)
        per_anchor.append(loss)
        grad_s /= (pairs.anchors * rules.temperature)[:, None, None]
        grad_z[:, rows] += torch.bmm(grad_s, z)
        grad_z += torch.bmm(grad_s.transpose(1, 2), z[:, rows])
    total = torch.cat(per_anchor, dim=1).sum(dim=1) / pairs.anchors
    return StackedLoss(total, _through_norm(grad_z, z, features), saturated, histogram[:, :-1])


@dataclass(frozen=True)
class _Rules:
    """What the runs' specs come to: margins `(R,)`, what each does, and what all share."""

    margin: Tensor
    of_positives: tuple[Margin, ...]
    temperature: float
    direct: bool
    summed: bool

    @classmethod
    def of(cls, specs: Sequence[LossSpec], like: Tensor) -> "_Rules":
        shared = {(spec.temperature, spec.stability, spec.reduction) for spec in specs}
        if len(shared) > 1:
            raise ValueError("stacked runs must share temperature, stability and reduction")
        if any(spec.of_positives.constant for spec in specs):
            raise ValueError("a margin that only adds a constant is trained as none: give margin_type 'none'")
        (temperature, stability, reduction) = shared.pop()

        def numbers(values: list[float]) -> Tensor:
            return torch.tensor(values, dtype=like.dtype).to(like.device, non_blocking=True)

        return cls(
            margin=numbers([spec.margin for spec in specs]),
            of_positives=tuple(spec.of_positives for spec in specs),
            temperature=temperature,
            direct=stability == "direct",
            summed=reduction == "sum",
        )


def _tile_rows(n: int) -> list[slice]:
    """Anchors of each tile; they follow from N alone, so that a run's numbers do not depend on the stack."""
    size = max(1, min(n, _TILE_SIZE // n))
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


def _count(s: Tensor, positive: Tensor, margin: Tensor, histogram: Tensor) -> Tensor:
    """Adds a tile's positive pairs to the histogram; returns how many a clamp cuts, `(R,)`."""
    inside = torch.where(positive, s.clamp(max=1), -torch.inf)  # rounding can exceed 1
    cut = torch.count_nonzero(inside + margin[:, None, None] > 1, dim=(1, 2))
    bins = inside.add_(1).mul_(HISTOGRAM_BINS / 2).to(torch.int64).clamp_(0, HISTOGRAM_BINS - 1)
    bins.masked_fill_(~positive, HISTOGRAM_BINS)
    ones = torch.ones((), dtype=torch.int64, device=s.device).expand(bins.flatten(1).shape)
    histogram.scatter_add_(1, bins.flatten(1), ones)
    return cut


def _loss_of_tile(
    s: Tensor, positive: Tensor, positives: Tensor, rules: _Rules, start: int
) -> tuple[Tensor, Tensor]:
    """A tile's weighted loss per anchor `(R, r)`, and n tau times its derivative by the similarities.

    Uses `s` up.
    """
    pulls = positive.to(s.dtype)
    slopes = _apply(rules.of_positives, s, positive)
    logits = s.div_(rules.temperature)
    # exp of it is 0, as of -inf, but 0 times it is 0.
    logits.diagonal(offset=start, dim1=1, dim2=2).fill_(torch.finfo(s.dtype).min / 2)
    log_p = logits.log_softmax(dim=2)
    counts = positives.clamp(min=1)
    weight = positives if rules.summed else (positives > 0).to(s.dtype)
    pulled = (log_p * pulls).sum(dim=2) / counts
    p = log_p.exp_()
    residual = 1 - p.sum(dim=2) if rules.direct else None
    grad_s = p.mul_(weight[:, :, None])
    if residual is not None:
        _through_maximum(grad_s, logits, weight * residual)
    grad_s.addcmul_(pulls, (weight / counts)[:, :, None], value=-1)
    for run, slope in slopes.items():
        grad_s[run].mul_(slope)
    return -weight * pulled, grad_s


def _apply(margins: Sequence[Margin], s: Tensor, positive: Tensor) -> dict[int, Tensor]:
    """Applies each run's margin to its positives in `s`; returns the slopes that are not 1 throughout.

    Run by run: functions such as exp may round otherwise at the end of a vector than inside, and where a
    run's numbers end must not depend on the runs beside it.
    """
    slopes = {}
    for run, margin in enumerate(margins):
        if margin.moves:
            own, mask = s[run], positive[run]
            slope = margin.slope(own)
            if slope is not None:
                slopes[run] = slope.masked_fill_(~mask, 1)
            own.copy_(torch.where(mask, margin.modified(own), own))
    return slopes


def _through_maximum(grad_s: Tensor, logits: Tensor, residual: Tensor) -> None:
    """Sends what rounding leaves of w (1 - sum p) to the row's maximum; a saturated one takes nothing."""
    grad_s.scatter_add_(2, logits.argmax(dim=2, keepdim=True), residual[:, :, None])


def _through_norm(grad_z: Tensor, z: Tensor, features: Tensor) -> Tensor:
    """From the derivative by z = f / |f| to that by f; a zero row has none."""
    largest = features.abs().amax(dim=2, keepdim=True)
    safe = largest.masked_fill(largest == 0, 1)
    length = (features / safe).square().sum(dim=2, keepdim=True).sqrt() * safe
    across = grad_z - z * (z * grad_z).sum(dim=2, keepdim=True)
    return torch.where(largest == 0, 0, across / length.masked_fill(largest == 0, 1))
