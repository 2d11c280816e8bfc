"""What the paper proves or claims about its loss: tested, and corrected where it does not hold."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seedspread import SupConLoss
from seedspread.cff.loss import (
    Implementation,
    LabelGroups,
    _Anchors,
    _tiles,
    loss_from_similarities,
    positive_mask,
)
from seedspread.cff.margins import MARGIN_TYPES, REDUCTIONS, STABILITY_MODES, LossSpec, Reduction, Stability

from .batches import batches, random_batch

IMPLEMENTATIONS: list[Implementation] = ["plain", "fast"]


def value_and_gradient(loss: SupConLoss, features: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    x = features.clone().requires_grad_()
    value = loss(x, labels)
    value.backward()
    assert x.grad is not None
    return value.item(), x.grad


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@settings(deadline=None, max_examples=30)
@given(batch=batches(), m=st.floats(0.0, 10.0))
def test_subtraction_moves_no_gradient_bit_for_bit_under_either_reduction(
    implementation: Implementation, reduction: Reduction, batch: tuple[Tensor, Tensor], m: float
) -> None:
    """Proposition 4.1, and that it holds for the sum over positives as well.

    The paper says under "Reduction scope" that it fails there. It does not: the loss moves by
    m |P_u| per anchor, which the labels fix and no parameter changes.
    """
    features, labels = batch
    subtract = SupConLoss(0.15, m, "subtract", reduction=reduction, implementation=implementation)
    none = SupConLoss(0.15, m, "none", reduction=reduction, implementation=implementation)
    value, gradient = value_and_gradient(subtract, features, labels)
    reference, reference_gradient = value_and_gradient(none, features, labels)

    assert torch.equal(gradient, reference_gradient)
    positives = positive_mask(labels).sum(1)
    moved = m if reduction == "mean" else m * positives[positives > 0].double().mean().item()
    assert value - reference == pytest.approx(moved, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("stability", STABILITY_MODES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_saturated_similarity_has_no_derivative_through_any_path(
    reduction: Reduction, stability: Stability
) -> None:
    """The paper's "Denominator pathway" paragraph lets gradient through to a saturated similarity.

    There is none. The clamped similarity stands in the denominators of its own two anchors only, and it
    is a constant there too.
    """
    features, labels = random_batch(24, 6, 3, seed=3)
    z = torch.nn.functional.normalize(features, dim=1)
    s = (z @ z.T).requires_grad_()
    positive = positive_mask(labels)
    spec = LossSpec(0.15, 0.4, "clamp", stability, reduction)
    (grad_s,) = torch.autograd.grad(loss_from_similarities(s, positive, spec), s)

    saturated = positive & (s.detach() + spec.margin > 1)
    others = ~saturated & ~torch.eye(24, dtype=torch.bool)
    assert saturated.any()
    assert (grad_s[saturated] == 0).all()
    assert (grad_s[others] != 0).all()


def test_a_similarity_enters_no_other_anchors_row() -> None:
    features, labels = random_batch(10, 6, 2, seed=4)
    z = torch.nn.functional.normalize(features, dim=1)
    positive = positive_mask(labels)
    spec = LossSpec(0.15, 0.4, "clamp")
    s = (z @ z.T).requires_grad_()
    # Anchor 0's term alone: all other anchors lose their positives and with them their weight.
    only = torch.zeros_like(positive)
    only[0] = positive[0]
    (grad_s,) = torch.autograd.grad(loss_from_similarities(s, only, spec), s)
    assert (grad_s[0, 1:] != 0).any()
    assert (grad_s[1:] == 0).all()


def test_a_saturated_pair_still_takes_softmax_mass_from_the_others() -> None:
    """What is left of a saturated pair: as a constant in the denominator it damps the other pairs."""
    s = torch.tensor([[1.0, 0.9, 0.2], [0.9, 1.0, 0.1], [0.2, 0.1, 1.0]], dtype=torch.float64)
    positive = positive_mask(torch.tensor([0, 0, 1]))

    def pushed(margin: float) -> float:
        x = s.clone().requires_grad_()
        loss_from_similarities(x, positive, LossSpec(0.15, margin, "clamp")).backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        assert x.grad[0, 1] == 0
        return x.grad[0, 2].item()

    # The pair (0, 1) is saturated at s = 0.9 by either margin, so its mass is exp(1 / tau) both times.
    expected = 0.5 / 0.15 * torch.softmax(torch.tensor([1.0, 0.2], dtype=torch.float64) / 0.15, 0)[1].item()
    assert pushed(0.2) == pushed(0.5) == pytest.approx(expected, rel=1e-12)


def mode_gradients(
    features: Tensor, labels: Tensor, margin_type: str, implementation: Implementation
) -> tuple[Tensor, Tensor]:
    modes: tuple[Stability, Stability] = ("detach", "direct")
    detach, direct = (
        value_and_gradient(
            SupConLoss(0.15, 0.4, margin_type, mode, implementation=implementation),
            features,
            labels,
        )[1]
        for mode in modes
    )
    return detach, direct


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("margin_type", MARGIN_TYPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 5e-6)])
def test_detach_and_direct_differ_by_rounding_only(
    dtype: torch.dtype, tolerance: float, margin_type: str, implementation: Implementation
) -> None:
    features, labels = random_batch(64, 16, 5, seed=5, common=0.5, dtype=dtype)
    detach, direct = mode_gradients(features, labels, margin_type, implementation)
    difference = (detach - direct).norm() / detach.norm()
    assert difference <= tolerance
    # ... and do differ by it: the maximum is a live path here, not one that was optimised away
    assert difference > 0


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_where_saturated_positives_are_the_maxima_the_modes_are_twins(
    dtype: torch.dtype, implementation: Implementation
) -> None:
    features, labels = random_batch(64, 16, 5, seed=6, common=1.5, dtype=dtype)
    z = torch.nn.functional.normalize(features, dim=1)
    saturated = positive_mask(labels) & (z @ z.T + 0.4 > 1)
    assert saturated.any(dim=1).all()
    assert not saturated[positive_mask(labels)].all()
    detach, direct = mode_gradients(features, labels, "clamp", implementation)
    assert torch.equal(detach, direct)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("margin_type", MARGIN_TYPES)
@settings(deadline=None, max_examples=20)
@given(batch=batches(), data=st.data())
def test_the_order_of_the_batch_and_the_scale_of_features_do_not_matter(
    implementation: Implementation,
    margin_type: str,
    batch: tuple[Tensor, Tensor],
    data: st.DataObject,
) -> None:
    features, labels = batch
    order = torch.tensor(data.draw(st.permutations(range(len(labels)))))
    scale = torch.linspace(0.1, 10, len(labels), dtype=torch.float64)[:, None]
    loss = SupConLoss(margin_type=margin_type, implementation=implementation)
    moved = loss((scale * features)[order], labels[order])
    torch.testing.assert_close(moved, loss(features, labels), rtol=1e-11, atol=1e-11)


def agree(n: int, classes: int | str, block: int | None, spec: LossSpec, dtype: torch.dtype) -> None:
    features, labels = random_batch(n, 16, classes if isinstance(classes, int) else 1, seed=n, dtype=dtype)
    labels[-1] = labels[0]
    if classes == "views":  # all classes distinct, two views of each
        labels = torch.arange(n) % ((n + 1) // 2)
    one, other = (
        SupConLoss(
            spec.temperature,
            spec.margin,
            spec.margin_type,
            spec.stability,
            spec.reduction,
            implementation=implementation,
            block_size=block,
        )
        for implementation in IMPLEMENTATIONS
    )
    plain, plain_gradient = value_and_gradient(one, features, labels)
    fast, fast_gradient = value_and_gradient(other, features, labels)
    rounding = 1e-12 if dtype == torch.float64 else 2e-5
    assert fast == pytest.approx(plain, rel=rounding)
    assert (fast_gradient - plain_gradient).norm() <= rounding * plain_gradient.norm() + 1e-15


VARIANTS = [
    LossSpec(0.15, 0.4, *variant) for variant in itertools.product(MARGIN_TYPES, STABILITY_MODES, REDUCTIONS)
]
# Every margin type, and every pair of mode and reduction with one of them; all of all at 4096 is a soak.
SOME_VARIANTS = [VARIANTS[0], VARIANTS[5], VARIANTS[10], VARIANTS[15], VARIANTS[16]]


@pytest.mark.parametrize("classes", [1, 4, "views"])
@pytest.mark.parametrize(
    ("n", "block"),
    [
        (2, None),
        (2, 1),
        (3, None),
        (3, 2),
        (64, 16),
        (64, 7),
        (257, None),
        (1000, None),
        (1000, 125),
    ],
)
def test_fast_equals_plain(n: int, block: int | None, classes: int | str) -> None:
    for spec in VARIANTS if n < 1000 else SOME_VARIANTS:
        agree(n, classes, block, spec, torch.float64)


def test_some_variants_are_of_every_kind() -> None:
    assert {spec.margin_type for spec in SOME_VARIANTS} == set(MARGIN_TYPES)
    modes = set(itertools.product(STABILITY_MODES, REDUCTIONS))
    assert {(spec.stability, spec.reduction) for spec in SOME_VARIANTS} == modes


@pytest.mark.soak
@pytest.mark.parametrize("spec", SOME_VARIANTS, ids=str)
def test_every_kind_agrees_at_4096(spec: LossSpec) -> None:
    agree(4096, 10, None, spec, torch.float32)


@pytest.mark.parametrize(
    ("classes", "block"), [(1, 1000), pytest.param("views", 512, marks=pytest.mark.soak)]
)
def test_fast_equals_plain_at_4096(classes: int | str, block: int) -> None:
    agree(4096, classes, block, LossSpec(), torch.float32)


@pytest.mark.soak
@pytest.mark.parametrize("spec", VARIANTS, ids=str)
@pytest.mark.parametrize("classes", [1, 10, "views"])
@pytest.mark.parametrize("block", [None, 512, 1000])
def test_every_variant_agrees_at_4096_in_float64(
    spec: LossSpec, classes: int | str, block: int | None
) -> None:
    agree(4096, classes, block, spec, torch.float64)


def test_tiles_made_again_give_the_same_bits_as_tiles_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = random_batch(100, 8, 4, seed=8)
    for spec in VARIANTS:
        loss = SupConLoss(
            spec.temperature, spec.margin, spec.margin_type, spec.stability, spec.reduction, block_size=32
        )
        monkeypatch.setattr("seedspread.cff.loss.KEEP", 2**24)
        kept = value_and_gradient(loss, features, labels)
        monkeypatch.setattr("seedspread.cff.loss.KEEP", 0)
        again = value_and_gradient(loss, features, labels)
        assert kept[0] == again[0]
        assert torch.equal(kept[1], again[1])


@pytest.mark.parametrize("margin_type", MARGIN_TYPES)
def test_direct_sends_what_is_left_to_the_rows_maximum_and_to_no_saturated_one(
    margin_type: str,
) -> None:
    """With a large residual instead of a rounding error: the gradient of sum_u r_u max_k s~_uk."""
    features, labels = random_batch(50, 6, 4, seed=9, common=0.7)
    z = torch.nn.functional.normalize(features, dim=1)
    groups, spec = LabelGroups.of(labels), LossSpec(0.15, 0.4, margin_type, "direct")
    residual = torch.linspace(-1, 1, 50, dtype=torch.float64)

    leaf = z[groups.permutation].requires_grad_()
    s = leaf @ leaf.T
    positive = positive_mask(groups.ids)
    s = torch.where(positive, spec.of_positives.modified(s), s)
    highest = s.masked_fill(torch.eye(50, dtype=torch.bool), -torch.inf).max(dim=1).values
    (expected,) = torch.autograd.grad((residual * highest).sum(), leaf)
    if margin_type == "clamp":
        assert 0 < (highest == 1).sum() < 50

    ordered = leaf.detach()
    anchors = _Anchors(ordered, groups, spec)
    for tile in _tiles(ordered, groups, spec, rows=16):
        anchors.accumulate(tile)
    passed = torch.zeros_like(ordered)
    anchors._through_maximum(passed, ordered, residual)
    torch.testing.assert_close(passed, expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_at_exactly_one_a_pair_is_not_saturated(implementation: Implementation) -> None:
    features = torch.tensor([[1.0, 0, 0, 0], [1.0, 1, 1, 1], [0, 1.0, 0, 0]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1])  # s of the pair is exactly 0.5
    at, beyond = (
        SupConLoss(0.15, margin, "clamp", implementation=implementation) for margin in (0.5, 0.5 + 1e-9)
    )
    assert at(features, labels, return_statistics=True)[1].saturated_pairs == 0
    assert beyond(features, labels, return_statistics=True)[1].saturated_pairs == 2
    pull = value_and_gradient(at, features, labels)[1] - value_and_gradient(beyond, features, labels)[1]
    assert pull.norm() > 1e-3


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("margin", [0.0, 0.4])
@pytest.mark.parametrize("spread", [1e-3, 3e-4, 1e-4])
def test_nearly_coinciding_features_keep_their_gradient_in_float32(
    spread: float, margin: float, implementation: Implementation
) -> None:
    """Cosines that round above 1 are not taken for saturated ones."""
    generator = torch.Generator().manual_seed(0)
    noise = spread * torch.randn(40, 16, generator=generator)
    features = torch.randn(1, 16, generator=generator) + noise
    labels = torch.arange(40) % 20
    loss = SupConLoss(0.15, margin, "clamp", implementation=implementation)
    _, single = value_and_gradient(loss, features, labels)
    _, exact = value_and_gradient(
        SupConLoss(0.15, margin, "clamp", implementation="plain"), features.double(), labels
    )
    assert (single - exact).norm() <= 0.01 * exact.norm()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_well_separated_pairs_keep_their_digits(implementation: Implementation) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.eye(16)[torch.arange(64) % 16] + 0.03 * torch.randn(64, 16, generator=generator)
    labels = torch.arange(64) % 16
    for margin_type in MARGIN_TYPES:
        loss = SupConLoss(0.07, 0.1, margin_type, implementation=implementation)
        _, single = value_and_gradient(loss, features, labels)
        _, exact = value_and_gradient(loss, features.double(), labels)
        assert (single - exact).norm() <= 2e-4 * exact.norm()
