"""Optimizers, schedules and clipping against torch's own; and a run does without torch's compiler."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR

from seedspread.cff.config import TrainingConfig
from seedspread.cff.presets import ConfigError, to_toml
from seedspread.cff.training.layerwise import Optimizer, learning_rate_factor
from seedspread.cff.training.trainers import trainer_of

from .gradients import batch, sums_of
from .gradients import model as tiny_model
from .tiny import needs_native, tiny


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape)) for shape in ((5, 3), (7,), (2, 3, 4))]


OPTIMIZERS: dict[str, Any] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.3, betas=(0.8, 0.99), fused=True),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=0.3, betas=(0.8, 0.99), fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, weight_decay=0.3, momentum=0.7, fused=True),
}


def optimizer(kind: str, own: Sequence[nn.Parameter], **more: Any) -> Optimizer:
    return Optimizer(own, 1e-2, 0.3, (0.8, 0.99), kind=kind, momentum=0.7, **more)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_it_takes_the_steps_of_torchs_to_the_bit(kind: str) -> None:
    ours, reference = parameters(), parameters()
    mine, other = optimizer(kind, ours), OPTIMIZERS[kind](reference)
    for step in range(5):
        for a, b in zip(ours, reference, strict=True):
            a.grad = torch.randn(a.shape)
            b.grad = a.grad.clone()
        if step == 2:
            ours[1].grad = reference[1].grad = None  # one that has none stays where it is
        mine.step()
        other.step()
        assert all(map(torch.equal, ours, reference))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_its_state_goes_on_where_it_was(kind: str) -> None:
    whole, broken = parameters(), parameters()
    one, first = optimizer(kind, whole), optimizer(kind, broken)
    gradients = [[torch.randn(p.shape) for p in whole] for _ in range(4)]

    def step(optimiser: Optimizer, number: int) -> None:
        optimiser.zero_grad()
        for parameter, gradient in zip(optimiser.parameters, gradients[number], strict=True):
            parameter.grad = gradient.clone()
        optimiser.step()

    for number in range(4):
        step(one, number)
    for number in range(2):
        step(first, number)
    second = optimizer(kind, broken)
    second.load_state_dict("x", first.state_dict("x"))
    for number in (2, 3):
        step(second, number)
    assert all(map(torch.equal, whole, broken))


def test_gradients_are_clipped_as_torch_clips_those_of_each_part() -> None:
    """The first part is longer than allowed, the second is not."""
    ours, reference = parameters(), parameters()
    for a, b, length in zip(ours, reference, (9.0, 9.0, 0.1), strict=True):
        a.grad = torch.randn(a.shape) * length
        b.grad = a.grad.clone()
    nn.utils.clip_grad_norm_(reference[:2], 1.5)
    nn.utils.clip_grad_norm_(reference[2:], 1.5)
    mine = optimizer("sgd", ours, max_norm=1.5)
    mine.step((slice(0, 2), slice(2, 3)))
    clipped = mine.gradients()
    assert all(map(torch.equal, clipped, optimizer("sgd", reference).gradients()))
    assert nn.utils.get_total_norm(clipped[:2]).item() == pytest.approx(1.5)
    assert nn.utils.get_total_norm(clipped[2:]).item() < 1


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("warmup", [0, 2])
def test_the_learning_rate_is_that_of_torchs_schedulers(schedule: Any, warmup: int) -> None:
    epochs, batches = 5, 4
    config = TrainingConfig(epochs=epochs, schedule=schedule, warmup_epochs=warmup)
    reference = torch.optim.SGD(parameters(), lr=1.0)
    parts: list[Any] = [LinearLR(reference, 1e-9, total_iters=warmup * batches)] if warmup else []
    if schedule == "cosine":
        parts.append(CosineAnnealingLR(reference, (epochs - warmup) * batches))
    else:
        parts.append(ConstantLR(reference, 1.0, 0))
    scheduler = SequentialLR(reference, parts, [warmup * batches]) if warmup else parts[0]
    for number in range(epochs * batches):
        factor = learning_rate_factor(config, number // batches + (number % batches) / batches)
        assert factor == pytest.approx(scheduler.get_last_lr()[0], abs=1e-6)
        reference.step()
        scheduler.step()


def test_margins_grow_with_training_and_end_at_their_values() -> None:
    model = tiny_model(objective__margin_warmup_epochs=2)
    for epochs, share in ((0, 0.0), (0.5, 0.25), (1.75, 0.875), (2, 1.0), (3, 1.0)):
        model.set_margins(epochs)
        assert [loss.margin for loss in model.losses] == [share * margin for margin in model.margins]


@pytest.mark.parametrize("implementation", ["fast", "plain", pytest.param("native", marks=needs_native)])
def test_a_step_at_half_the_warmup_is_one_with_half_the_margin(implementation: str) -> None:
    def weights(epochs: float, **changes: Any) -> list[torch.Tensor]:
        model = tiny_model(runtime__implementation=implementation, **changes)
        trainer = trainer_of(model)
        trainer.at(epochs)
        trainer.step(batch(), 0, sums_of(model))
        return [p.detach().clone() for p in model.vit.parameters()]

    half = weights(1, objective__margin_first=0.2, objective__margin_last=0.05)
    assert all(map(torch.equal, weights(1, objective__margin_warmup_epochs=2), half))
    assert not all(map(torch.equal, weights(2, objective__margin_warmup_epochs=2), half))


def test_a_run_does_not_load_torchs_compiler(tmp_path: Path) -> None:
    """It would cost every worker more than torch itself."""
    (tmp_path / "tiny.toml").write_text(to_toml(tiny(training__epochs=1, probe__epochs=1)))
    code = (
        "import sys; from pathlib import Path; from seedspread import train; "
        "from seedspread.cff.presets import read_config; "
        f"train(read_config({str(tmp_path / 'tiny.toml')!r}), Path({str(tmp_path / 'run')!r})); "
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    "setting", [{"training__warmup_epochs": 4}, {"objective__margin_warmup_epochs": 3.5}], ids=str
)
def test_a_warmup_that_training_would_not_end_is_refused_in_one_line(setting: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"must be at most training\.epochs, 3; got (4|3\.5)$"):
        tiny(**setting)
