"""The public CFF code as a reference for benchmarks, loaded from a checkout that the user supplies.

None of it is part of this package. Its model and loss run unchanged except that 'cuda' is replaced; the step
around them does the same as its training loop.
"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from seedspread.cff.config import ModelConfig
from seedspread.cff.margins import margin_schedule
from seedspread.errors import SeedspreadError, reason


class CheckoutError(SeedspreadError):
    """The checkout is not one of the public CFF code."""


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except OSError as error:
        raise CheckoutError(
            f"{path}: {reason(error)}; --reference takes a checkout of HosseinAghagol/ContrastiveFF"
        ) from None
    names: dict[str, Any] = {"__name__": path.stem}
    # The user requested this code to run by naming the folder.
    exec(compile(text.replace("'cuda'", "'cpu'").replace(".cuda()", ""), str(path), "exec"), names)  # noqa: S102
    return names


def reference_step(
    folder: Path, images: Tensor, labels: Tensor, depth: int = 8, precision: str = "fp32"
) -> Callable[[], None]:
    """Return a stage-1 step of the public code on `(2B, C, H, W)` images (both views), `(2B,)` labels."""
    models, losses = _load(folder / "models" / "vit.py"), _load(folder / "losses.py")
    paper = ModelConfig(depth=depth)
    options = SimpleNamespace(
        patch_size=paper.patch_size, num_class=10, E=paper.dim, H=paper.heads, L=depth,
        num_patches=paper.tokens, temp=0.15, one_forward=False,
    )  # fmt: skip
    model = models["ViT"](options)
    margins = margin_schedule(0.4, 0.1, depth)
    criteria = [losses["SupMCon"](options, margin) for margin in margins]
    optimizers = [torch.optim.AdamW(layer.parameters(), lr=4e-3, weight_decay=1e-4) for layer in model.layers]
    first, second = images.chunk(2)
    targets = labels[: len(first)]

    def step() -> None:
        x1, x2 = model.patching_layer(first), model.patching_layer(second)
        for layer, criterion, optimizer in zip(model.layers, criteria, optimizers, strict=True):
            with torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext():
                x1, x2 = layer(x1.detach()), layer(x2.detach())
                pooled = [x1.mean(1), x2.mean(1)]
            loss = criterion([p.float() for p in pooled], targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return step
