"""Rates, norms and pair counts against direct counting; the advice against the paper's own cases."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from seedspread import ClampMonitor, SupConLoss, clamp_activation_rate
from seedspread.cff.advice import advise
from seedspread.cff.datasets import expected_positive_pairs
from seedspread.cff.loss import LabelGroups, gradient_norm

# Images per class in the training parts of the four datasets; SVHN's are published with it.
CIFAR10 = [4500] * 10
CIFAR100 = [450] * 100
SVHN = [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659]


def test_the_rate_of_pairs_at_known_angles() -> None:
    # Unit vectors at 0, 30, 60 and 90 degrees: cosines 0.87 (3 pairs), 0.5 (2 pairs), 0 (1 pair).
    angles = torch.deg2rad(torch.tensor([0.0, 30.0, 60.0, 90.0]))
    features = 5 * torch.stack([angles.cos(), angles.sin()], dim=1)
    labels = torch.zeros(4, dtype=torch.long)
    assert clamp_activation_rate(features, labels, 0.1) == 0
    assert clamp_activation_rate(features, labels, 0.2) == 3 / 6
    assert clamp_activation_rate(features, labels, 0.6) == 5 / 6
    assert clamp_activation_rate(features, labels, 1.1) == 1


def test_a_margin_of_zero_never_saturates_even_by_rounding() -> None:
    features = torch.randn(1, 50).repeat(40, 1) * torch.rand(40, 1)
    assert clamp_activation_rate(features, torch.zeros(40, dtype=torch.long), 0.0) == 0


def test_the_rate_without_pairs_is_nan_and_bad_input_is_named() -> None:
    features = torch.randn(3, 4)
    assert math.isnan(clamp_activation_rate(features, torch.arange(3), 0.4))
    with pytest.raises(ValueError, match="margin"):
        clamp_activation_rate(features, torch.arange(3), -1)
    with pytest.raises(ValueError, match="labels"):
        clamp_activation_rate(features, torch.arange(2), 0.4)


def test_the_gradient_norm_is_that_of_the_whole_vector() -> None:
    layer = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="backward"):
        gradient_norm(layer)
    layer.weight.grad = torch.full((2, 3), 2.0)
    assert gradient_norm(layer) == pytest.approx(math.sqrt(6 * 4))
    layer.bias.grad = torch.tensor([3.0, 4.0])
    assert gradient_norm(layer.parameters()) == pytest.approx(math.sqrt(24 + 25))


def test_positive_pairs_are_ordered() -> None:
    assert LabelGroups.of(torch.tensor([1, 1, 1, 2, 2, 9])).pairs == 3 * 2 + 2 * 1


@settings(deadline=None, max_examples=10)
@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(lambda c: sum(c) > 3),
    views=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_expected_pairs_equal_the_mean_over_an_epochs_batches_of_random_orders(
    counts: list[int], views: int, seed: int
) -> None:
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    size = max(2, len(labels) // 2)
    generator = torch.Generator().manual_seed(seed)
    batches = labels[torch.rand(1500, len(labels), generator=generator).argsort(dim=1)[:, :size]]
    of_class = views * torch.nn.functional.one_hot(batches, len(counts)).sum(dim=1)
    drawn = (of_class * (of_class - 1)).sum(dim=1).double()
    expected = expected_positive_pairs(counts, size, views=views)
    standard_error = drawn.std().item() / math.sqrt(len(drawn))
    assert abs(drawn.mean().item() - expected) <= 5 * standard_error + 1e-9


def test_expected_pairs_of_a_balanced_batch() -> None:
    assert expected_positive_pairs([50, 50], 10, balanced=True) == 2 * 5 * 4
    assert expected_positive_pairs([50, 50], 10, balanced=True, views=2) == 4 * 40 + 20


def test_what_the_papers_pair_counts_count() -> None:
    """Table "Cross-dataset summary": ~25,700, ~2,580 and ~30,500 at batch 512.

    They are near the ordered pairs of *images*; the loss sees pairs of views, four times as many.
    CIFAR-10's is what an exactly balanced batch has; the other two are 1 to 2 % off either count.
    """
    assert expected_positive_pairs(CIFAR10, 512, balanced=True) == pytest.approx(25_700, rel=2e-4)
    assert expected_positive_pairs(CIFAR10, 512) == pytest.approx(25_700, rel=0.02)
    assert expected_positive_pairs(CIFAR100, 512) == pytest.approx(2_580, rel=0.015)
    assert expected_positive_pairs(SVHN, 512) == pytest.approx(30_500, rel=0.02)
    assert round(expected_positive_pairs(CIFAR10, 512)) == 26_158
    assert round(expected_positive_pairs(CIFAR100, 512)) == 2_611
    assert round(expected_positive_pairs(SVHN, 512)) == 29_984
    assert round(expected_positive_pairs(CIFAR10, 512, views=2)) == 105_656


@pytest.mark.parametrize(
    ("counts", "size", "views", "named"),
    [
        ([], 1, 1, "class_counts"),
        ([3, -1], 1, 1, "class_counts"),
        ([3], 4, 1, "batch_size"),
        ([3], 2, 0, "views"),
    ],
)
def test_impossible_pair_counts_are_named(counts: list[int], size: int, views: int, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}"):
        expected_positive_pairs(counts, size, views=views)


def test_the_monitor_hears_the_same_from_a_loss_as_from_features() -> None:
    generator = torch.Generator().manual_seed(0)
    listening, fed = ClampMonitor(), ClampMonitor()
    losses = [listening.watch(SupConLoss(margin=m), layer=i) for i, m in enumerate((0.4, 0.1))]
    for _ in range(2):
        for _ in range(3):
            features = torch.randn(32, 4, generator=generator)
            labels = torch.randint(0, 3, (32,), generator=generator)
            for layer, loss in enumerate(losses):
                loss(features, labels)
                fed.update(features, labels, loss.spec.margin, layer=layer)
        listening.end_epoch()
        fed.end_epoch()
    assert listening.layers == [0, 1]
    for layer in (0, 1):
        assert len(listening.rates(layer)) == 2
        assert listening.rates(layer) == fed.rates(layer)
    assert listening.rates(0)[0] > listening.rates(1)[0] > 0


def test_the_monitors_rate_is_the_mean_over_batches() -> None:
    same, apart = torch.ones(2, 3), torch.eye(3)[:2]
    labels = torch.zeros(2, dtype=torch.long)
    monitor = ClampMonitor()
    assert monitor.update(same, labels, 0.4) == 1
    assert monitor.update(apart, labels, 0.4) == 0
    assert monitor.rates() == [0.5]
    monitor.end_epoch()
    monitor.end_epoch()  # nothing since: no empty stretch
    monitor.update(apart, labels, 0.4)
    assert monitor.rates() == [0.5, 0.0]


def test_the_monitor_refuses_what_it_cannot_know() -> None:
    monitor = ClampMonitor()
    with pytest.raises(ValueError, match="layer 3 was never fed; layers seen: none"):
        monitor.rates(3)
    assert monitor.advice().verdict == "not enough to say"
    monitor.watch(SupConLoss(margin_type="subtract"))(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    assert monitor.rate_name(0) == "rate if clamped"
    assert monitor.advice().verdict == "leave"
    with pytest.raises(ValueError, match=r"'rate if clamped' before.*'clamp activation rate'"):
        monitor.update(torch.eye(4), torch.tensor([0, 0, 1, 1]), 0.4)


@pytest.mark.parametrize(
    ("rate", "clamp", "verdict"),
    [
        (0.607, True, "try both"),
        (0.29, True, "try both"),
        (math.nan, True, "not enough to say"),
        (0.9, False, "leave"),
    ],
)
def test_the_advice_by_case(rate: float, clamp: bool, verdict: str) -> None:
    advice = advise(rate, clamp=clamp)
    assert advice.verdict == verdict
    assert ("seedspread docs evidence" in str(advice)) == (verdict == "try both")


def test_a_percentage_for_a_share_is_refused() -> None:
    with pytest.raises(ValueError, match="rate must be a share from 0 to 1"):
        advise(60.7, clamp=True)


def test_features_that_are_not_numbers_give_no_rate() -> None:
    features = torch.ones(4, 3)
    features[1, 0] = math.nan
    assert math.isnan(clamp_activation_rate(features, torch.zeros(4, dtype=torch.long), 0.4))


def test_the_monitors_advice_rests_on_the_last_epoch() -> None:
    together, apart = torch.ones(2, 3), torch.eye(3)[:2]
    pair = torch.zeros(2, dtype=torch.long)
    monitor = ClampMonitor()
    monitor.update(apart, pair, 0.4)
    monitor.end_epoch()
    assert "cuts 0.0%" in str(monitor.advice())
    monitor.update(together, pair, 0.4)
    assert "cuts 100.0%" in str(monitor.advice())


def test_a_watched_loss_is_heard_in_training_only_and_can_be_copied() -> None:
    monitor = ClampMonitor()
    loss = monitor.watch(SupConLoss())
    copy.deepcopy(loss)
    loss.eval()(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    assert monitor.layers == []
    loss.train()(torch.eye(4), torch.tensor([0, 0, 1, 1]))
    assert monitor.layers == [0]


def test_half_precision_gradients_do_not_overflow_the_norm() -> None:
    layer = nn.Linear(4, 4).half()
    layer.weight.grad = torch.full((4, 4), 3e4, dtype=torch.float16)
    assert gradient_norm(layer) == pytest.approx(1.2e5, rel=1e-3)
