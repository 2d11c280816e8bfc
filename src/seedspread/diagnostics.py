"""Does the clamp saturate, how large are the layers' gradients, how many positive pairs are there?

For any PyTorch training loop: nothing here needs the rest of the package's training.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from seedspread.advice import Advice, advise
from seedspread.objective import LossSpec, PairStatistics, SupConLoss
from seedspread.objective.fast import TILE_ROWS
from seedspread.objective.loss import at_least_float32, check_batch, unit_vectors
from seedspread.objective.pairs import LabelGroups, PairCollector


@torch.no_grad()
def pair_statistics(features: Tensor, labels: Tensor, margin: float) -> PairStatistics:
    """What there is to know of the positive pairs of `(N, d)` features and `(N,)` labels."""
    check_batch(features, labels)
    LossSpec(margin=margin)  # refuses a margin that is none
    groups = LabelGroups.of(labels.to(features.device))
    collector = PairCollector(margin, features.device)
    with torch.autocast(features.device.type, enabled=False):
        z = unit_vectors(at_least_float32(features))[groups.permutation]
        for rows, columns in groups.tiles(TILE_ROWS):
            collector.add(z[rows] @ z[columns].T, groups.positive_mask(rows, columns))
    return collector.result(groups)


def clamp_activation_rate(features: Tensor, labels: Tensor, margin: float) -> float:
    """The share of positive pairs with s + m > 1 (Eq. car).

    Under a clamp of this margin it is the rate of saturation. Of features trained in another way it is
    the *would-be* rate, and the two can differ greatly.

    Args:
        features: `(N, d)`, normalised here.
        labels: `(N,)` integers.
        margin: m >= 0.

    Returns:
        a number from 0 to 1; NaN where no two rows have the same label.
    """
    return pair_statistics(features, labels, margin).clamp_activation_rate


def gradient_norm(layer: nn.Module | Iterable[Tensor]) -> float:
    """The l2 norm of the whole gradient of a layer's parameters (Eq. grad_norm), after `backward`.

    Parameters without a gradient count as zero; a layer in which none has one is an error.
    """
    parameters = layer.parameters() if isinstance(layer, nn.Module) else layer
    gradients = [at_least_float32(p.grad) for p in parameters if p.grad is not None]
    if not gradients:
        raise ValueError("layer: no parameter has a gradient; call backward() on its loss first")
    return float(nn.utils.get_total_norm(gradients))


def expected_positive_pairs(
    class_counts: Sequence[int], batch_size: int, *, views: int = 1, balanced: bool = False
) -> float:
    """The expected number of ordered positive pairs in a batch drawn without replacement.

    Two different images of a batch are of one class with probability sum_c n_c (n_c - 1) / (n (n - 1)).
    With v views of each image every such pair counts v^2 times, and an image's own views are
    v (v - 1) pairs more. Halve it for unordered pairs.

    Args:
        class_counts: images per class in the data that batches are drawn from.
        batch_size: images per batch.
        views: views per image.
        balanced: batches that hold every class in exact proportion instead of random ones.
    """
    total = sum(class_counts)
    if min(class_counts, default=-1) < 0 or total == 0:
        raise ValueError(f"class_counts must be counts >= 0 of some images; got {class_counts!r}")
    if not 1 <= batch_size <= total:
        raise ValueError(f"batch_size must be from 1 to {total} (the images); got {batch_size!r}")
    if views < 1:
        raise ValueError(f"views must be at least 1; got {views!r}")
    if balanced:
        shares = [batch_size * count / total for count in class_counts]
        images = sum(share * max(share - 1, 0.0) for share in shares)
    elif total == 1:
        images = 0.0
    else:
        same = sum(count * (count - 1) for count in class_counts) / (total * (total - 1))
        images = batch_size * (batch_size - 1) * same
    return views**2 * images + batch_size * views * (views - 1)


@dataclass
class _Tally:
    """Pair counts of one layer over a stretch of time; the rate is the mean over its batches."""

    rates: list[float] = field(default_factory=list)
    positive_pairs: int = 0
    possible_pairs: int = 0

    def rate(self) -> float:
        finite = [rate for rate in self.rates if not math.isnan(rate)]
        return sum(finite) / len(finite) if finite else math.nan


class ClampMonitor:
    """Keeps per-layer clamp activation rates over time, and says what the paper would advise.

    Feed it features (`update`), or let it listen to the layers' losses (`watch`). `end_epoch` closes
    a stretch of time, over whose batches rates are averaged.

    Example:
        >>> monitor = ClampMonitor()
        >>> loss = monitor.watch(SupConLoss(margin=0.4, margin_type="clamp"))
        >>> _ = loss(torch.eye(4), torch.tensor([0, 1, 0, 1]))
        >>> monitor.end_epoch()
        >>> monitor.rates(layer=0)
        [0.0]
    """

    def __init__(self) -> None:
        self._now: dict[int, _Tally] = {}
        self._past: list[dict[int, _Tally]] = []
        self._clamps: dict[int, bool] = {}

    def update(
        self, features: Tensor, labels: Tensor, margin: float, *, layer: int = 0, clamp: bool = True
    ) -> float:
        """Adds a batch of `(N, d)` features and `(N,)` labels; returns its rate.

        Args:
            features: what the layer's loss sees, before normalisation.
            labels: the classes.
            margin: the layer's margin.
            layer: which layer this is.
            clamp: whether the run is trained with the clamp; otherwise the rate is a would-be rate.
        """
        statistics = pair_statistics(features, labels, margin)
        self._add(statistics, layer, clamp)
        return statistics.clamp_activation_rate

    def watch(self, loss: SupConLoss, *, layer: int = 0) -> SupConLoss:
        """Listens to every call of `loss` in training mode, at no second pass; returns the same loss."""
        loss.observe(partial(self._add, layer=layer, clamp=loss.spec.of_positives.saturates))
        return loss

    def _add(self, statistics: PairStatistics, layer: int, clamp: bool) -> None:
        if self._clamps.setdefault(layer, clamp) != clamp:
            raise ValueError(
                f"layer {layer} was fed with clamp={not clamp} before; use a monitor for each run"
            )
        tally = self._now.setdefault(layer, _Tally())
        tally.rates.append(statistics.clamp_activation_rate)
        tally.positive_pairs += statistics.positive_pairs
        tally.possible_pairs += statistics.anchors * (statistics.anchors - 1)

    def end_epoch(self) -> None:
        """Closes a stretch of time; does nothing if nothing was fed since the last."""
        if self._now:
            self._past.append(self._now)
            self._now = {}

    @property
    def layers(self) -> list[int]:
        """The layers that were fed, in order."""
        return sorted(self._clamps)

    def rates(self, layer: int = 0) -> list[float]:
        """The layer's rate in each stretch of time, the open one last; NaN where it was not fed."""
        if layer not in self._clamps:
            fed = ", ".join(map(str, self.layers)) or "none"
            raise ValueError(f"layer {layer} was never fed; layers seen: {fed}")
        missing = _Tally()
        return [stretch.get(layer, missing).rate() for stretch in self._stretches()]

    def is_would_be(self, layer: int = 0) -> bool:
        """Whether the layer's rate is only what a clamp would have cut."""
        return not self._clamps.get(layer, True)

    def advice(self, accuracy: float | None = None) -> Advice:
        """The paper's advice from the last rate of layer 0 and, where known, the test accuracy (0 to 1)."""
        last = next((s[0] for s in reversed(self._stretches()) if 0 in s), _Tally())
        share = last.positive_pairs / last.possible_pairs if last.possible_pairs else None
        return advise(last.rate(), clamp=not self.is_would_be(0), accuracy=accuracy, pair_share=share)

    def _stretches(self) -> list[dict[int, _Tally]]:
        return [*self._past, self._now] if self._now else self._past
