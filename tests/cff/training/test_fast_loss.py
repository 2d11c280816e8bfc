"""The stacked losses against the definition, run by run."""

from collections.abc import Iterator, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seedspread.cff.loss import SupConLoss, pair_statistics
from seedspread.cff.margins import MARGIN_TYPES, LossSpec, margin_named
from seedspread.cff.training import fast_loss as module
from seedspread.cff.training.fast_loss import LossRules, StackedLoss, StackedPairs, stacked_loss
from tests.cff.batches import batches, random_batch

CPU = torch.device("cpu")
SPECS = st.builds(
    LossSpec,
    temperature=st.just(0.15),
    margin=st.floats(0, 0.8),
    margin_type=st.sampled_from([name for name in MARGIN_TYPES if not margin_named(name, 0.1).constant]),
    stability=st.just("detach"),
    reduction=st.just("mean"),
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


def of_batches(each: Sequence[tuple[Tensor, Tensor]], specs: Sequence[LossSpec]) -> StackedLoss:
    """Every run's loss on its own features and labels."""
    features = torch.stack([x for x, _ in each])
    rules = LossRules.of(specs, features.dtype, features.device)
    return stacked_loss(features, StackedPairs.of(torch.stack([y for _, y in each]), rules), rules)


@settings(deadline=None)
@given(
    batches(), st.lists(SPECS, min_size=1, max_size=3), st.sampled_from(["detach", "direct"]), st.booleans()
)
def test_each_runs_loss_gradient_and_counts(
    batch: tuple[Tensor, Tensor], specs: list[LossSpec], stability: str, summed: bool
) -> None:
    features, labels = batch
    reduction = "sum" if summed else "mean"
    specs = [
        LossSpec(s.temperature, s.margin, s.margin_type, stability, reduction)  # type: ignore[arg-type]
        for s in specs
    ]
    # Every run has its own features and its own labels.
    each = [(features + run, labels.roll(run)) for run in range(len(specs))]
    rules = LossRules.of(specs, torch.float64, CPU)
    pairs = StackedPairs.of(torch.stack([y for _, y in each]), rules)
    stacked = of_batches(each, specs)
    for run, ((x, y), spec) in enumerate(zip(each, specs, strict=True)):
        loss, gradient = plain(x, y, spec)
        torch.testing.assert_close(stacked.loss[run], loss)
        torch.testing.assert_close(stacked.gradient[run], gradient, rtol=1e-7, atol=1e-9)
        statistics = pair_statistics(x, y, spec.margin)
        assert pairs.pairs[run] == statistics.positive_pairs
        assert stacked.saturated[run] == statistics.saturated_pairs
        assert torch.equal(stacked.histogram[run], statistics.histogram)


def test_blocks_of_anchors_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_batch(50, 8, 5, seed=1)
    spec = LossSpec(margin=0.3, margin_type="clamp", stability="direct")
    whole = of_batches([(x, y)], [spec])
    monkeypatch.setattr(module, "_TILE_SIZE", 7 * 50)
    parts = of_batches([(x, y)], [spec])
    torch.testing.assert_close(parts.loss, whole.loss)
    torch.testing.assert_close(parts.gradient, whole.gradient)
    assert torch.equal(parts.histogram, whole.histogram)


def test_a_zero_row_gets_no_gradient() -> None:
    x, y = random_batch(12, 4, 2, seed=0)
    x[3] = 0
    stacked = of_batches([(x, y)], [LossSpec()])
    assert stacked.gradient.isfinite().all()
    assert stacked.gradient[0, 3].abs().sum() == 0


def test_huge_and_tiny_features() -> None:
    x, y = random_batch(12, 4, 2, seed=0, dtype=torch.float32)
    usual = of_batches([(x, y)], [LossSpec()])
    for scale in (1e30, 1e-30):
        scaled = of_batches([(scale * x, y)], [LossSpec()])
        torch.testing.assert_close(scaled.loss, usual.loss)
        torch.testing.assert_close(scaled.gradient * scale, usual.gradient)


def test_a_number_that_is_none_stays_with_its_run() -> None:
    x, y = random_batch(12, 4, 2, seed=0, dtype=torch.float32)
    broken = x.clone()
    broken[0, 0] = torch.nan
    stacked = of_batches([(broken, y), (x, y)], [LossSpec()] * 2)
    assert stacked.loss[0].isnan()
    alone = of_batches([(x, y)], [LossSpec()])
    assert torch.equal(stacked.gradient[1], alone.gradient[0])


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        ([LossSpec(), LossSpec(temperature=0.2)], "share temperature"),
        ([LossSpec(margin_type="subtract")], "is trained as none"),
    ],
)
def test_what_cannot_be_stacked_is_said(specs: list[LossSpec], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LossRules.of(specs, torch.float64, CPU)


@pytest.fixture
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("margin_type", ["clamp", "soft_clamp", "shift"])
@pytest.mark.parametrize("n", [6, 24, 62])
def test_a_runs_numbers_do_not_depend_on_those_beside_it(margin_type: str, n: int) -> None:
    """To the bit, though a vector of all runs ends elsewhere than a vector of one."""
    each = [random_batch(n, 6, 3, seed=seed, dtype=torch.float32) for seed in range(3)]
    specs = [LossSpec(margin=0.1 + 0.2 * k, margin_type=margin_type, stability="direct") for k in range(3)]
    together = of_batches(each, specs)
    for run, (one, spec) in enumerate(zip(each, specs, strict=True)):
        alone = of_batches([one], [spec])
        assert torch.equal(together.loss[run], alone.loss[0])
        assert torch.equal(together.gradient[run], alone.gradient[0])
