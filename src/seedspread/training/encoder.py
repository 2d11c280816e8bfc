"""An encoder: the model, its layers' losses and margins; and what it is to train one."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from seedspread.config import RunConfig
from seedspread.data.loader import Batch
from seedspread.identity import has_free_margin, is_fast
from seedspread.model import ViT
from seedspread.objective import SupConLoss
from seedspread.objective.schedule import layer_margins
from seedspread.training import block
from seedspread.training.adamw import AdamW
from seedspread.training.records import EpochSums


class Trainer(Protocol):
    """Trains encoders, each on its own batch."""

    def step(
        self, batches: Sequence[Batch], number: int, sums: Sequence[EpochSums], *, update: bool = True
    ) -> None:
        """Trains on one batch each and adds to the epochs' sums; without `update` it only looks."""

    def tensors(self, run: int) -> dict[str, Tensor]:
        """What a run's checkpoint needs of the optimisers."""

    def load(self, checkpoints: Sequence[dict[str, Tensor]]) -> None:
        """Puts the optimisers back, from the checkpoints of all runs."""


class Encoder:
    """The model and its losses.

    Attributes:
        model: the Vision Transformer.
        losses: of each layer.
        margins: of each layer.
    """

    def __init__(self, config: RunConfig, model: ViT) -> None:
        self.config = config
        self.model = model
        objective = config.objective
        self.margins = layer_margins(config)
        # Subtraction moves the loss by a constant and no gradient (Proposition 4.1): it is trained as `none`,
        # so that what is recorded is free of the margin, as the run's identity is.
        kind = "none" if has_free_margin(config) else objective.margin_type
        local = config.training.rule == "layer_local"
        written = local and config.runtime.implementation == "plain"  # as the equations are
        self.losses = [
            SupConLoss(
                objective.temperature,
                margin,
                kind,
                objective.stability,
                objective.reduction,
                implementation="plain" if written else "auto",
                margin_sharpness=objective.margin_sharpness,
            )
            for margin in self.margins
        ]

    @property
    def views(self) -> int:
        """Views per image: cross entropy sees one."""
        return 1 if self.config.training.rule == "cross_entropy" else 2

    def autocast(self) -> torch.autocast:
        """The precision of the encoder's products; the losses are computed in float32 whatever it is."""
        device = next(self.model.parameters()).device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.precision == torch.bfloat16)

    @property
    def precision(self) -> torch.dtype:
        """Of the encoder's products."""
        return torch.bfloat16 if self.config.runtime.precision == "bf16" else torch.float32

    @torch.no_grad()
    def features(self, images: Tensor) -> list[Tensor]:
        """The representation of every layer, each `(B, d)` float32; nothing is trained by it."""
        if not is_fast(self.config):
            with self.autocast():
                return [layer.float() for layer in self.model.features(images)]
        layers = [{n: p[None] for n, p in layer.named_parameters()} for layer in self.model.layers]
        parts = [
            block.features(layers, part[None], self.config.model, self.precision)
            for part in slices(self.config, images, dim=0)
        ]
        return [torch.cat(layer, dim=1)[0] for layer in zip(*parts, strict=True)]

    @torch.no_grad()
    def validation_loss(self, batch: Batch) -> Tensor:
        """The last layer's loss on a batch of two views."""
        return self.losses[-1](self.features(batch.images)[-1], batch.labels)  # type: ignore[no-any-return]


def slices(config: RunConfig, views: Tensor, dim: int) -> tuple[Tensor, ...]:
    """What goes through a layer at a time, in parts of even size: a single view would round otherwise."""
    return torch.tensor_split(views, math.ceil(views.shape[dim] / config.runtime.slice_images), dim)


def optimiser_of(config: RunConfig, parameters: Sequence[nn.Parameter]) -> AdamW:
    """The optimiser of stage 1; cross entropy uses the probe's settings."""
    training, probe = config.training, config.probe
    if training.rule == "cross_entropy":
        return AdamW(parameters, probe.learning_rate, probe.weight_decay)
    return AdamW(parameters, training.learning_rate, training.weight_decay, training.betas)
