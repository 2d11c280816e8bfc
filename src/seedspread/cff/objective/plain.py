"""The loss as the paper writes it, equation by equation, differentiated by autograd.

This is the definition. `fast.py` computes the same thing sooner and in less memory.
"""

import torch
from torch import Tensor

from seedspread.cff.objective.spec import LossSpec


def positive_mask(labels: Tensor) -> Tensor:
    """`M`, `(N, N)`: M_uv is True iff y(u) = y(v) and u != v."""
    same = labels[:, None] == labels[None, :]
    return same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)


def loss_from_similarities(s: Tensor, positive: Tensor, spec: LossSpec) -> Tensor:
    """The loss as a function of `(N, N)` cosine similarities and the `(N, N)` positive mask.

    Anchors without a positive are left out of the mean over anchors; one at least must have one.
    """
    itself = torch.eye(len(s), dtype=torch.bool, device=s.device)

    margin = spec.of_positives
    if margin.moves:  # Eq. clamp_margin, for one
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
