"""Goodness and local cross entropy: equations as loops, gradients, hooks, and which runs they identify."""

import math

import pytest
import torch
from torch import Tensor

from seedspread.cff.config import RunConfig
from seedspread.cff.identity import canonical, margin_of, run_key
from seedspread.cff.implementations import features_of
from seedspread.cff.losses import GoodnessLoss, LocalCrossEntropy
from seedspread.cff.model import ViT
from seedspread.cff.presets import ConfigError, read_config
from seedspread.cff.randomness import loss_draws
from seedspread.cff.training.layerwise import model_of


def pooled(rows: int, width: int = 5) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows)) * 2


def test_goodness_equals_its_equation_written_as_loops() -> None:
    x = pooled(6)
    is_true = torch.tensor([True, True, True, False, False, False])
    total = 0.0
    for row, true in zip(x.tolist(), is_true.tolist(), strict=True):
        g = sum(value * value for value in row) / len(row)
        total += math.log1p(math.exp(1.5 - g if true else g - 1.5))
    assert GoodnessLoss(1.5)(x, is_true).item() == pytest.approx(total / 3, rel=1e-6)


def test_local_cross_entropy_equals_its_equation_written_as_loops() -> None:
    x, labels = pooled(7), torch.tensor([0, 2, 1, 1, 0, 2, 2])
    loss = LocalCrossEntropy()
    loss.build(5, 3)
    matrix, total = loss.projection.tolist(), 0.0
    for row, label in zip(x.tolist(), labels.tolist(), strict=True):
        logits = [sum(a * b for a, b in zip(weights, row, strict=True)) for weights in matrix]
        total -= logits[label] - math.log(sum(math.exp(one) for one in logits))
    assert loss(x, labels).item() == pytest.approx(total / 7, rel=1e-5)


def test_their_gradients_are_those_of_finite_differences() -> None:
    x, is_true = pooled(4), torch.tensor([True, True, False, False])
    cross_entropy = LocalCrossEntropy()
    cross_entropy.build(5, 3)
    for loss, targets in ((GoodnessLoss(), is_true), (cross_entropy, torch.tensor([0, 1, 2, 2]))):
        leaf = x.clone().requires_grad_()
        loss(leaf, targets).backward()
        assert leaf.grad is not None
        for place in ((0, 0), (1, 3), (3, 4)):
            step = torch.zeros_like(x)
            step[place] = 1e-2
            slope = (loss(x + step, targets) - loss(x - step, targets)).item() / 2e-2
            assert leaf.grad[place].item() == pytest.approx(slope, rel=2e-2, abs=1e-4)


def test_goodness_embeds_the_label_and_a_wrong_one_in_the_first_pixels() -> None:
    loss = GoodnessLoss()
    loss.build(4, 3)
    images, labels = torch.randn(300, 2, 3, 3), torch.arange(300) % 3
    both, is_true = loss.prepare(images, labels, torch.rand(300))
    embedded = both.flatten(2)[:, :, :3]
    assert torch.equal(both.flatten(2)[:, :, 3:], images.repeat(2, 1, 1, 1).flatten(2)[:, :, 3:])
    assert torch.equal(embedded[:, 0], embedded[:, 1])
    assert (embedded.sum(dim=2) == embedded.amax(dim=2)).all()  # one pixel is bright
    named = embedded[:, 0].argmax(dim=1)
    assert torch.equal(named[is_true], labels)
    wrong = (named[~is_true] - labels) % 3
    assert set(wrong.tolist()) == {1, 2}  # every other label occurs, and never the true one
    neutral = loss.prepare_test(images).flatten(2)[:, :, :3]
    assert (neutral == neutral[0, 0, 0]).all()
    assert 0 < neutral[0, 0, 0] < embedded.max()
    assert torch.equal(images, images.clone())


def test_a_draw_of_almost_one_is_still_a_wrong_label() -> None:
    loss = GoodnessLoss()
    loss.build(4, 3)
    both, _ = loss.prepare(torch.zeros(1, 1, 2, 2), torch.tensor([2]), torch.ones(1))
    assert both[1].flatten()[:3].argmax() == 1


def test_what_goodness_hands_on_has_one_length() -> None:
    handed = GoodnessLoss().hand_on(torch.randn(5, 4, 3) * torch.arange(1, 6)[:, None, None])
    torch.testing.assert_close(handed.square().mean(dim=(1, 2)), torch.ones(5))
    assert GoodnessLoss().hand_on(torch.zeros(1, 3)).isfinite().all()


def test_images_without_room_for_a_label_are_refused() -> None:
    loss = GoodnessLoss()
    loss.build(4, 10)
    with pytest.raises(ValueError, match="embeds 10 classes in images of 9 pixels"):
        loss.prepare_test(torch.zeros(1, 1, 3, 3))
    with pytest.raises(ValueError, match="two classes at least"):
        loss.build(4, 1)


def test_a_draw_depends_on_seed_epoch_view_and_image_alone() -> None:
    index = torch.tensor([5, 0, 90])
    drawn = loss_draws(3, 1, 0, index)
    assert torch.equal(loss_draws(3, 1, 0, torch.tensor([90, 2]))[:1], drawn[2:])  # whatever the batch is
    for other in ((4, 1, 0), (3, 2, 0), (3, 1, 1)):
        assert not torch.equal(loss_draws(*other, index), drawn)


def config(*settings: str) -> RunConfig:
    return read_config("quickstart", settings)


def test_only_what_a_loss_uses_identifies_its_runs() -> None:
    goodness, local = "objective.loss=goodness", "objective.loss=local_cross_entropy"
    keys = {run_key(config(*one)) for one in ((), (goodness,), (local,), (goodness, "threshold=1.0"))}
    assert len(keys) == 4
    assert run_key(config("threshold=1.0")) == run_key(config())
    assert run_key(config("loss=supcon")) == run_key(config())
    assert run_key(config(local, "threshold=1.0", "margin_first=0.2")) == run_key(config(local))
    assert run_key(config(goodness, "implementation=plain")) == run_key(config(goodness))
    assert run_key(config("rule=cross_entropy", goodness)) == run_key(config("rule=cross_entropy"))
    assert canonical(config(goodness))["objective"] == {"loss": "goodness", "threshold": 2.0}


def test_the_kernels_are_for_supcon_and_say_so() -> None:
    other = config("loss=goodness")
    assert features_of(other).name == other.runtime.implementation == "plain"
    assert margin_of(other).is_inert
    for kernel in ("fast", "native"):
        with pytest.raises(ConfigError, match=f"implementation = '{kernel}' .*'goodness'"):
            config("loss=goodness", f"implementation={kernel}")
    with pytest.raises(ConfigError, match="best_val_loss' needs loss = 'supcon'"):
        config("loss=local_cross_entropy", "select=best_val_loss")
    with pytest.raises(ConfigError, match=r"objective\.loss.*'goodness'"):
        config("loss=godness")


def test_a_loss_of_its_own_parameters_leaves_the_layers_as_they_were() -> None:
    torch.manual_seed(3)
    paper = ViT.from_config(config().model, 10)
    torch.manual_seed(3)
    model = model_of(config("loss=local_cross_entropy"), 10)
    state = model.state_dict()
    assert [name for name in state if name not in paper.state_dict()] == [
        f"losses.{layer}.projection" for layer in range(len(model.layers))
    ]
    assert all(torch.equal(state[name], tensor) for name, tensor in paper.state_dict().items())
