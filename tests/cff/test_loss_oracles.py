"""The loss against the paper's equations written as loops, other libraries, and closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import SupConLoss as TheirSupConLoss
from torch import Tensor

from seedspread import SupConLoss
from seedspread.cff.loss import Implementation
from seedspread.cff.margins import (
    MARGIN_TYPES,
    REDUCTIONS,
    STABILITY_MODES,
    Reduction,
    Stability,
    margin_named,
)

from .batches import batches, random_batch

IMPLEMENTATIONS: list[Implementation] = ["plain", "fast"]


def by_hand(
    features: Tensor,
    labels: Tensor,
    tau: float,
    m: float,
    margin_type: str,
    reduction: Reduction,
) -> float:
    """Section 4 of the paper, one pair at a time; what a margin is, `test_margins.py` tells."""
    margin = margin_named(margin_type, m)
    rows = [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in features.tolist()]
    y = labels.tolist()
    terms = []
    for u, z_u in enumerate(rows):
        positives = [v for v in range(len(y)) if v != u and y[v] == y[u]]
        if not positives:
            continue
        logits = {}
        for v, z_v in enumerate(rows):
            s = sum(a * b for a, b in zip(z_u, z_v, strict=True))
            if v in positives:
                s = margin.modified(torch.tensor(s, dtype=torch.float64)).item()
            if v != u:
                logits[v] = s / tau
        denominator = math.log(math.fsum(math.exp(logit) for logit in logits.values()))
        log_p = [logits[v] - denominator for v in positives]
        log_p = [value - margin.constant for value in log_p]
        terms.append(-math.fsum(log_p) / (len(positives) if reduction == "mean" else 1))
    return math.fsum(terms) / len(terms)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("margin_type", MARGIN_TYPES)
@settings(deadline=None, max_examples=25)
@given(batch=batches(max_n=12), tau=st.floats(0.05, 2.0), m=st.floats(0.0, 1.0))
def test_equals_the_equations_written_as_loops(
    implementation: Implementation,
    reduction: Reduction,
    margin_type: str,
    batch: tuple[Tensor, Tensor],
    tau: float,
    m: float,
) -> None:
    features, labels = batch
    for stability in STABILITY_MODES:
        loss = SupConLoss(tau, m, margin_type, stability, reduction, implementation=implementation)
        expected = by_hand(features, labels, tau, m, margin_type, reduction)
        assert loss(features, labels).item() == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=60)
@given(batch=batches(min_n=4), tau=st.floats(0.05, 2.0))
def test_equals_pytorch_metric_learning_in_value_and_gradient(
    implementation: Implementation, batch: tuple[Tensor, Tensor], tau: float
) -> None:
    features, labels = batch
    labels[0], labels[1], labels[-1] = 0, 1, 0  # the reference returns 0 where there is only one class
    ours, reference = features.clone().requires_grad_(), features.clone().requires_grad_()
    our_loss = SupConLoss(tau, margin_type="none", implementation=implementation)(ours, labels)
    their_loss = TheirSupConLoss(temperature=tau)(reference, labels)
    torch.autograd.backward([our_loss, their_loss])
    assert our_loss.item() == pytest.approx(their_loss.item(), abs=1e-10)
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad, reference.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("n", [2, 5, 300])
def test_coinciding_features_give_log_of_n_minus_one(n: int, implementation: Implementation) -> None:
    features = torch.ones(n, 3, dtype=torch.float64)
    loss = SupConLoss(margin_type="none", implementation=implementation)
    assert loss(features, torch.zeros(n, dtype=torch.long)).item() == pytest.approx(
        math.log(n - 1), abs=1e-12
    )


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("stability", STABILITY_MODES)
@pytest.mark.parametrize("margin_type", MARGIN_TYPES)
def test_gradcheck(
    margin_type: str,
    stability: Stability,
    reduction: Reduction,
    implementation: Implementation,
) -> None:
    features, labels = random_batch(9, 4, 3, seed=1)
    labels[0] = 7  # an anchor without a positive
    loss = SupConLoss(
        0.5, 0.3, margin_type, stability, reduction, implementation=implementation, block_size=4
    )
    _, seen = loss(features, labels, return_statistics=True)
    assert 0 < seen.saturated_pairs.item() < seen.positive_pairs  # both sides of the clamp are checked
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), features.requires_grad_())
