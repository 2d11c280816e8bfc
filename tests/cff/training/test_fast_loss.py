"""The fast loss against the definition."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seedspread.cff.loss import SupConLoss, pair_statistics
from seedspread.cff.margins import MARGIN_TYPES, LossSpec, margin_named
from seedspread.cff.training import fast_loss as module
from seedspread.cff.training.fast_loss import FastLoss, Pairs, fast_loss
from tests.cff.batches import batches, random_batch

SPECS = st.builds(
    LossSpec,
    temperature=st.just(0.15),
    margin=st.floats(0, 0.8),
    margin_type=st.sampled_from([name for name in MARGIN_TYPES if not margin_named(name, 0.1).constant]),
    stability=st.sampled_from(["detach", "direct"]),
    reduction=st.sampled_from(["mean", "sum"]),
)


def plain(features: Tensor, labels: Tensor, spec: LossSpec) -> tuple[Tensor, Tensor]:
    """The loss and its gradient, as the equations are written."""
    features = features.clone().requires_grad_()
    loss = SupConLoss(
        spec.temperature,
        spec.margin,
        spec.margin_type,
        spec.stability,
        spec.reduction,
        implementation="plain",
    )(features, labels)
    return loss.detach(), torch.autograd.grad(loss, features)[0]


def fast(features: Tensor, labels: Tensor, spec: LossSpec | None = None) -> FastLoss:
    spec = spec or LossSpec()
    return fast_loss(features[None], Pairs.of(labels, spec, features.dtype), spec)


@settings(deadline=None)
@given(batches(), SPECS)
def test_loss_gradient_and_counts(batch: tuple[Tensor, Tensor], spec: LossSpec) -> None:
    x, y = batch
    found = fast(x, y, spec)
    loss, gradient = plain(x, y, spec)
    torch.testing.assert_close(found.loss, loss)
    torch.testing.assert_close(found.gradient[0], gradient, rtol=1e-7, atol=1e-9)
    statistics = pair_statistics(x, y, spec.margin)
    assert Pairs.of(y, spec, x.dtype).pairs == statistics.positive_pairs
    assert found.saturated == statistics.saturated_pairs
    assert torch.equal(found.histogram, statistics.histogram)


def test_blocks_of_anchors_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_batch(50, 8, 5, seed=1)
    spec = LossSpec(margin=0.3, margin_type="clamp", stability="direct")
    whole = fast(x, y, spec)
    monkeypatch.setattr(module, "_TILE_SIZE", 7 * 50)
    parts = fast(x, y, spec)
    torch.testing.assert_close(parts.loss, whole.loss)
    torch.testing.assert_close(parts.gradient, whole.gradient)
    assert torch.equal(parts.histogram, whole.histogram)


def test_a_zero_row_gets_no_gradient() -> None:
    x, y = random_batch(12, 4, 2, seed=0)
    x[3] = 0
    found = fast(x, y)
    assert found.gradient.isfinite().all()
    assert found.gradient[0, 3].abs().sum() == 0


def test_huge_and_tiny_features() -> None:
    x, y = random_batch(12, 4, 2, seed=0, dtype=torch.float32)
    usual = fast(x, y)
    for scale in (1e30, 1e-30):
        scaled = fast(scale * x, y)
        torch.testing.assert_close(scaled.loss, usual.loss)
        torch.testing.assert_close(scaled.gradient * scale, usual.gradient)


def test_a_margin_that_only_adds_a_constant_is_refused() -> None:
    x, y = random_batch(12, 4, 2, seed=0)
    with pytest.raises(ValueError, match="is trained as none"):
        fast(x, y, LossSpec(margin_type="subtract"))
