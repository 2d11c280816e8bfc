"""What is measured of a batch or a layer: clamp activation rate, gradient norm, positive pairs."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from seedspread.cff.objective import LossSpec, PairStatistics
from seedspread.cff.objective.fast import TILE_ROWS
from seedspread.cff.objective.loss import at_least_float32, check_batch, unit_vectors
from seedspread.cff.objective.pairs import LabelGroups, PairCollector


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
