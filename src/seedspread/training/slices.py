"""A layer's training step in slices: the same gradients, in less memory and, on a CPU, in less time.

The loss needs the pooled features of the whole batch and nothing else of it. So the batch goes through
the layer in slices whose activations stay in cache, the loss gives the gradient by all pooled features
at once, and each slice takes its part of it back through the layer.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from seedspread.objective import PairStatistics

LossOf = Callable[[Tensor], tuple[Tensor, PairStatistics]]


def train_in_slices(
    block: nn.Module,
    tokens: Tensor,
    size: int,
    loss_of: LossOf,
    autocast: Callable[[], AbstractContextManager[object]],
    *,
    recompute: bool,
) -> tuple[Tensor, Tensor, PairStatistics]:
    """Adds a layer's gradients, and returns its output, its loss and what the loss saw.

    Args:
        block: the layer.
        tokens: `(N, ...)`, its input, detached.
        size: rows of a slice.
        loss_of: from `(N, d)` pooled features to the loss and its statistics.
        autocast: the precision of the layer's products.
        recompute: keep no slice's graph; work it out again for the backward pass, to the same bits.

    Returns:
        the output `(N, T, d)`, detached; the loss; the statistics.
    """
    slices: tuple[Tensor, ...] = torch.split(tokens, size)
    with torch.set_grad_enabled(not recompute):
        outputs = [_forward(block, one, autocast) for one in slices]
    pooled = torch.cat([one.detach().mean(dim=1) for one in outputs]).requires_grad_()
    loss, seen = loss_of(pooled)
    torch.autograd.backward(loss)
    gradient = pooled.grad if pooled.grad is not None else torch.zeros_like(pooled)
    handed_on = torch.cat([one.detach() for one in outputs])
    for place, (one, part) in enumerate(zip(slices, torch.split(gradient, size), strict=True)):
        output = _forward(block, one, autocast) if recompute else outputs[place]
        torch.autograd.backward(output.mean(dim=1), part)
        outputs[place] = output.detach()[:0]  # its graph is freed now, and not with the last one's
    return handed_on, loss.detach(), seen


def _forward(
    block: nn.Module, tokens: Tensor, autocast: Callable[[], AbstractContextManager[object]]
) -> Tensor:
    with autocast():
        output: Tensor = block(tokens)
    return output
