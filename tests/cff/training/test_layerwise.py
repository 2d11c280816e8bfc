"""The optimiser against torch's class, and that a run does without torch's compiler."""

import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

from seedspread.cff.presets import to_toml
from seedspread.cff.training.layerwise import AdamW

from .tiny import tiny


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape)) for shape in ((5, 3), (7,), (2, 3, 4))]


def test_it_takes_the_steps_of_torchs_to_the_bit() -> None:
    ours, reference = parameters(), parameters()
    mine = AdamW(ours, 1e-2, 0.3, (0.8, 0.99))
    other = torch.optim.AdamW(reference, lr=1e-2, weight_decay=0.3, betas=(0.8, 0.99), fused=True)
    for step in range(5):
        for a, b in zip(ours, reference, strict=True):
            a.grad = torch.randn(a.shape)
            b.grad = a.grad.clone()
        if step == 2:
            ours[1].grad = reference[1].grad = None  # one that has none stays where it is
        mine.step()
        other.step()
        assert all(map(torch.equal, ours, reference))


def test_its_state_goes_on_where_it_was() -> None:
    whole, broken = parameters(), parameters()
    one, first = AdamW(whole, 1e-2, 0.3), AdamW(broken, 1e-2, 0.3)
    gradients = [[torch.randn(p.shape) for p in whole] for _ in range(4)]

    def step(optimiser: AdamW, number: int) -> None:
        optimiser.zero_grad()
        for parameter, gradient in zip(optimiser.parameters, gradients[number], strict=True):
            parameter.grad = gradient.clone()
        optimiser.step()

    for number in range(4):
        step(one, number)
    for number in range(2):
        step(first, number)
    second = AdamW(broken, 1e-2, 0.3)
    second.load_state_dict("x", first.state_dict("x"))
    for number in (2, 3):
        step(second, number)
    assert all(map(torch.equal, whole, broken))


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
