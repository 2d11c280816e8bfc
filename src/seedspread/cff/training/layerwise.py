"""The model with its layers' losses and margins, and the optimiser of stage 1."""

from collections.abc import Sequence

import torch
from torch import nn

from seedspread.cff.config import RunConfig
from seedspread.cff.identity import margin_is_inert
from seedspread.cff.model import ViT
from seedspread.cff.objective import SupConLoss
from seedspread.cff.objective.schedule import layer_margins
from seedspread.cff.training.adamw import AdamW


class LayerwiseModel:
    """The model and its losses.

    Attributes:
        config: of the run.
        vit: the Vision Transformer.
        losses: of each layer.
        margins: of each layer.
        threads: of the native kernel, beside which torch has one.
    """

    def __init__(self, config: RunConfig, vit: ViT, threads: int = 1) -> None:
        self.config = config
        self.vit = vit
        self.threads = threads
        objective = config.objective
        self.margins = layer_margins(config)
        # Subtraction moves the loss by a constant and no gradient (Proposition 4.1): it is trained as `none`,
        # so that what is recorded is free of the margin, as the run's identity is.
        kind = "none" if margin_is_inert(config) else objective.margin_type
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
        device = next(self.vit.parameters()).device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.precision == torch.bfloat16)

    @property
    def precision(self) -> torch.dtype:
        """Of the encoder's products."""
        return torch.bfloat16 if self.config.runtime.precision == "bf16" else torch.float32


def optimiser_of(config: RunConfig, parameters: Sequence[nn.Parameter]) -> AdamW:
    """The optimiser of stage 1; cross entropy uses the probe's settings."""
    training, probe = config.training, config.probe
    if training.rule == "cross_entropy":
        return AdamW(parameters, probe.learning_rate, probe.weight_decay)
    return AdamW(parameters, training.learning_rate, training.weight_decay, training.betas)
