"""Bad input, no positives, half precision, small temperatures, and what a call reports."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.loss import peak_memory
from seedspread import SupConLoss
from seedspread.cff.loss import Implementation, LabelGroups, positive_mask
from seedspread.cff.margins import MARGIN_TYPES, STABILITY_MODES

from .batches import batches, random_batch

IMPLEMENTATIONS: list[Implementation] = ["plain", "fast"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"margin": -0.1}, "margin"),
        ({"margin": math.nan}, "margin"),
        ({"margin_type": "clip"}, "margin_type.*'clamp'"),
        ({"stability": "detatch"}, "stability.*'detach'"),
        ({"reduction": "max"}, "reduction"),
        ({"implementation": "slow"}, "implementation"),
        ({"on_no_positives": "ignore"}, "on_no_positives"),
        ({"block_size": 0}, "block_size"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}"):
        SupConLoss(**arguments)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    "changed",
    [
        {"margin": 0.2},
        {"temperature": 0.5},
        {"margin_type": "shift"},
        {"margin_type": "soft_clamp", "margin_sharpness": 5.0},
        {"stability": "direct"},
        {"reduction": "sum"},
    ],
    ids=str,
)
def test_a_loss_that_is_changed_is_a_new_one(changed: dict[str, Any], implementation: Implementation) -> None:
    features, labels = random_batch(24, 8, 3, seed=0)
    loss = SupConLoss(implementation=implementation)
    before, _ = loss(features, labels, return_statistics=True)
    for name, value in changed.items():
        setattr(loss, name, value)
        assert getattr(loss, name) == value
    after, seen = loss(features, labels, return_statistics=True)
    new, expected = SupConLoss(**changed, implementation=implementation)(
        features, labels, return_statistics=True
    )
    assert torch.equal(after, new)
    assert seen.margin == expected.margin
    assert seen.clamp_activation_rate == expected.clamp_activation_rate
    assert torch.equal(after, before) == (changed == {"stability": "direct"})


@pytest.mark.parametrize(
    "wrong", [{"margin": -0.1}, {"temperature": 0}, {"margin_type": "clip"}, {"implementation": "slow"}]
)
def test_a_bad_change_is_refused_and_leaves_the_loss_alone(wrong: dict[str, Any]) -> None:
    loss = SupConLoss()
    (name, value), *_ = wrong.items()
    before = getattr(loss, name)
    with pytest.raises(ValueError, match=name):
        setattr(loss, name, value)
    assert getattr(loss, name) == before


@pytest.mark.parametrize(
    ("features", "labels", "named"),
    [
        (torch.randn(4), torch.zeros(4, dtype=torch.long), "features"),
        (torch.randn(0, 3), torch.zeros(0, dtype=torch.long), "features"),
        (torch.randint(0, 5, (4, 3)), torch.zeros(4, dtype=torch.long), "features"),
        (torch.randn(4, 3), torch.zeros(2, dtype=torch.long), "labels"),
        (torch.randn(4, 3), torch.zeros(4, 1, dtype=torch.long), "labels"),
        (torch.randn(4, 3), torch.zeros(4), "labels"),
    ],
)
def test_a_bad_batch_is_named(features: Tensor, labels: Tensor, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}"):
        SupConLoss()(features, labels)


def test_features_that_are_not_finite_are_refused_on_request() -> None:
    features, labels = random_batch(6, 3, 2, seed=0)
    features[4, 1] = torch.nan
    with pytest.raises(ValueError, match="features: 1 of 6 rows are not finite, the first is row 4"):
        SupConLoss(check_finite=True)(features, labels)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_anchors_without_a_positive_are_left_out_and_counted(
    implementation: Implementation,
) -> None:
    features, labels = random_batch(12, 5, 3, seed=1)
    labels[3], labels[8] = 50, 60
    x = features.requires_grad_()
    loss = SupConLoss(0.2, 0.3, "none", implementation=implementation)
    value, seen = loss(x, labels, return_statistics=True)
    assert seen.anchors_without_positive == 2
    # They are still negatives of the others: the value is that of the mean over the ten others.
    z = torch.nn.functional.normalize(features, dim=1)
    logits = (z @ z.T / 0.2).masked_fill(torch.eye(12, dtype=torch.bool), -torch.inf)
    log_p = logits.log_softmax(1)
    others = [-log_p[u][positive_mask(labels)[u]].mean().item() for u in range(12) if u not in (3, 8)]
    assert value.item() == pytest.approx(sum(others) / 10, rel=1e-12)
    value.backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_batch_without_any_positive_is_an_error_or_zero(n: int, implementation: Implementation) -> None:
    features = torch.full((n, 3), torch.inf).requires_grad_()
    with pytest.raises(ValueError, match="none of the"):
        SupConLoss(implementation=implementation)(features, torch.arange(n))
    loss = SupConLoss(implementation=implementation, on_no_positives="zero")
    value, seen = loss(features, torch.arange(n), return_statistics=True)
    value.backward()
    assert value.item() == 0
    assert features.grad is not None
    assert (features.grad == 0).all()
    assert math.isnan(seen.clamp_activation_rate)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("margin_type", MARGIN_TYPES)
@pytest.mark.parametrize("tau", [0.01, 0.07])
def test_small_temperatures_stay_finite_and_right(
    tau: float, margin_type: str, implementation: Implementation
) -> None:
    # Opposite pairs, coinciding pairs and unrelated ones: logits from -1/tau to (1 + m)/tau.
    features = torch.eye(6).repeat(2, 1)
    features[6:] *= torch.tensor([1, 1, 1, -1, -1, -1])[:, None]
    labels = torch.arange(6).repeat(2)
    for stability in STABILITY_MODES:
        loss = SupConLoss(tau, 0.4, margin_type, stability, implementation=implementation)
        single = features.clone().requires_grad_()
        double = features.double().requires_grad_()
        value, reference = loss(single, labels), loss(double, labels)
        torch.autograd.backward([value, reference])
        assert value.item() == pytest.approx(reference.item(), rel=1e-5)
        assert single.grad is not None
        assert double.grad is not None
        torch.testing.assert_close(single.grad, double.grad.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_worked_on_in_float32(dtype: torch.dtype, implementation: Implementation) -> None:
    features, labels = random_batch(40, 8, 4, seed=2, dtype=dtype)
    loss = SupConLoss(0.02, implementation=implementation)
    half = (100 * features).requires_grad_()  # squares overflow float16
    value = loss(half, labels)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(loss(half.detach().float(), labels).item(), rel=1e-6)
    value.backward()
    assert half.grad is not None
    assert half.grad.dtype == dtype
    assert half.grad.isfinite().all()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_autocast_does_not_reach_the_core(implementation: Implementation) -> None:
    features, labels = random_batch(40, 8, 4, seed=3, dtype=torch.float32)
    loss = SupConLoss(implementation=implementation)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = loss(features, labels)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, loss(features, labels))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@settings(deadline=None, max_examples=40)
@given(batch=batches(), m=st.floats(0.0, 1.0), block=st.integers(1, 50))
def test_a_call_reports_what_it_saw(
    implementation: Implementation, batch: tuple[Tensor, Tensor], m: float, block: int
) -> None:
    features, labels = batch
    loss = SupConLoss(margin=m, implementation=implementation, block_size=block)
    value, seen = loss(features, labels, return_statistics=True)
    assert torch.equal(value, loss(features, labels))

    z = torch.nn.functional.normalize(features, dim=1)
    positive = positive_mask(labels)
    s = (z @ z.T)[positive].clamp(max=1)
    assert seen.anchors == len(labels)
    assert seen.positive_pairs == positive.sum() == LabelGroups.of(labels).pairs
    assert seen.anchors_without_positive == (~positive.any(1)).sum()
    assert seen.histogram.sum() == seen.positive_pairs
    near_edge = ((s + m - 1).abs() < 1e-12).sum()
    assert abs(seen.saturated_pairs - (s + m > 1).sum()) <= near_edge
    for margin in (0.1, 0.25, 0.4, 1.0):
        within_a_bin = ((s + margin - 1).abs() < 1.1e-3).sum()
        exact = (s + margin > 1).sum()
        assert abs(seen.rate_at(margin) * seen.positive_pairs - exact) <= within_a_bin + 1e-6


def test_auto_is_fast_and_plain_inside_torch_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = random_batch(16, 4, 3, seed=4, dtype=torch.float32)
    loss = SupConLoss()
    expected = loss(features, labels)
    torch.testing.assert_close(torch.compile(loss, backend="eager")(features, labels), expected)
    monkeypatch.setattr("seedspread.cff.loss.fast_loss", lambda *_: torch.tensor(-1.0))
    assert loss(features, labels) == -1
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(loss(features, labels), expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e25])
def test_features_of_any_scale_are_normalised(scale: float, implementation: Implementation) -> None:
    features, labels = random_batch(20, 6, 3, seed=7, dtype=torch.float32)
    loss = SupConLoss(implementation=implementation)
    scaled = (scale * features).requires_grad_()
    value = loss(scaled, labels)
    torch.testing.assert_close(value, loss(features, labels))
    value.backward()
    assert scaled.grad is not None
    assert scaled.grad.abs().max() > 0


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_zero_row_is_finite_and_gets_no_gradient(implementation: Implementation) -> None:
    features, labels = random_batch(20, 6, 3, seed=8, dtype=torch.float32)
    features[5] = 0
    x = features.requires_grad_()
    value = SupConLoss(implementation=implementation)(x, labels)
    value.backward()
    assert value.isfinite()
    assert x.grad is not None
    assert (x.grad[5] == 0).all()
    assert 0 < x.grad.norm() < 100


@pytest.mark.soak
def test_memory_grows_with_n_and_not_with_its_square() -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("only Linux lets a process reset its peak of memory")
    peak = peak_memory(8192)
    assert peak is not None
    assert peak < 160e6  # an 8192 x 8192 matrix of float32 alone is 268 MB


def test_the_fast_gradient_works_under_torch_func() -> None:
    features, labels = random_batch(16, 4, 3, seed=5)
    gradients = [
        torch.func.grad(lambda x, i=i: SupConLoss(implementation=i)(x, labels))(features)
        for i in IMPLEMENTATIONS
    ]
    torch.testing.assert_close(*gradients)


def test_only_plain_can_be_differentiated_twice() -> None:
    features, labels = random_batch(8, 3, 2, seed=6)
    assert torch.autograd.gradgradcheck(
        lambda x: SupConLoss(0.5, 0.1, "none", implementation="plain")(x, labels),
        features.requires_grad_(),
    )
    (first,) = torch.autograd.grad(
        SupConLoss(implementation="fast")(features, labels), features, create_graph=True
    )
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        first.sum().backward()  # type: ignore[no-untyped-call]


def test_it_prints_its_definition() -> None:
    assert "margin_type='shift', stability='direct'" in repr(
        SupConLoss(margin_type="shift", stability="direct")
    )
