"""Stage 1: the encoder, one batch at a time, by one of three rules."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from seedspread.config import RunConfig
from seedspread.data.loader import Batch
from seedspread.diagnostics import pair_statistics
from seedspread.identity import has_free_margin
from seedspread.model import ViT
from seedspread.objective import PairStatistics, SupConLoss
from seedspread.objective.schedule import layer_margins
from seedspread.training.records import EpochSums
from seedspread.training.slices import train_in_slices


class Encoder:
    """The model, its optimisers and its losses.

    Attributes:
        model: the Vision Transformer.
        optimisers: one per layer (`layer_local`) or one for all.
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
        self.losses = [
            SupConLoss(objective.temperature, margin, kind, objective.stability, objective.reduction)
            for margin in self.margins
        ]
        self.optimisers = self._optimisers()

    def _optimisers(self) -> list[torch.optim.Optimizer]:
        training, probe = self.config.training, self.config.probe

        def adamw(parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
            if training.rule == "cross_entropy":
                return torch.optim.AdamW(
                    parameters, lr=probe.learning_rate, weight_decay=probe.weight_decay, fused=True
                )
            return torch.optim.AdamW(
                parameters,
                lr=training.learning_rate,
                betas=training.betas,
                weight_decay=training.weight_decay,
                fused=True,
            )

        layers = [list(layer.parameters()) for layer in self.model.layers]
        if training.rule == "layer_local":
            return [adamw(layer) for layer in layers]
        together = [parameter for layer in layers for parameter in layer]
        if training.rule == "cross_entropy":
            together += list(self.model.head.parameters())
        return [adamw(together)]

    @property
    def views(self) -> int:
        """Views per image: cross entropy sees one."""
        return 1 if self.config.training.rule == "cross_entropy" else 2

    def step(self, batch: Batch, number: int, sums: EpochSums, *, update: bool = True) -> None:
        """Trains on one batch and adds to the epoch's sums; without `update` it only looks."""
        if self.config.training.rule == "layer_local":
            self._layer_local(batch, number, sums, update)
        else:
            self._together(batch, number, sums, update)

    def _layer_local(self, batch: Batch, number: int, sums: EpochSums, update: bool) -> None:
        """Each layer on the detached output of the one before; one layer's graph is alive at a time."""
        tokens, seen = batch.images, None
        for layer, block in enumerate(self.model.layers):
            self.optimisers[layer].zero_grad(set_to_none=True)
            # What is handed on is computed before the step.
            tokens, loss, seen = self._backward(layer, block, tokens, batch.labels)
            sums.add_layer(layer, loss, _norm(block), seen, number)
            if update:
                self.optimisers[layer].step()
        if seen is not None:
            sums.end_batch(seen)

    def _backward(
        self, layer: int, block: nn.Module, tokens: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, PairStatistics]:
        """A layer's output (detached), its loss, what that saw; its gradients are left in its parameters."""

        def loss_of(pooled: Tensor) -> tuple[Tensor, PairStatistics]:
            found: tuple[Tensor, PairStatistics] = self.losses[layer](pooled, labels, return_statistics=True)
            return found

        runtime = self.config.runtime
        if runtime.slice_images is not None:
            return train_in_slices(
                block, tokens, runtime.slice_images, loss_of, self.autocast, recompute=runtime.recompute
            )
        # The definition, that slices are held to.
        with self.autocast():
            output = block(tokens)
        loss, seen = loss_of(output.mean(dim=1))
        loss.backward()  # type: ignore[no-untyped-call]
        return output.detach(), loss.detach(), seen

    def _together(self, batch: Batch, number: int, sums: EpochSums, update: bool) -> None:
        """One loss for all layers, gradients flowing through."""
        self.optimisers[0].zero_grad(set_to_none=True)
        with self.autocast():
            features = self.model.features(batch.images, stop_gradient=False)
        if self.config.training.rule == "end_to_end":
            seen = [
                loss(layer, batch.labels, return_statistics=True)
                for loss, layer in zip(self.losses, features, strict=True)
            ]
            losses, statistics = [one for one, _ in seen], [one for _, one in seen]
            total = torch.stack(losses).sum()
        else:
            total = nn.functional.cross_entropy(self.model.head(features[-1]).float(), batch.labels)
            losses = [total] * len(features)
            statistics = [
                pair_statistics(layer.detach(), batch.labels, margin)
                for layer, margin in zip(features, self.margins, strict=True)
            ]
        total.backward()  # type: ignore[no-untyped-call]
        for layer, block in enumerate(self.model.layers):
            sums.add_layer(layer, losses[layer], _norm(block), statistics[layer], number)
        if update:
            self.optimisers[0].step()
        sums.end_batch(statistics[0])

    def autocast(self) -> torch.autocast:
        """The precision of the encoder's products; the losses are computed in float32 whatever it is."""
        device = next(self.model.parameters()).device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.config.runtime.precision == "bf16")

    @torch.no_grad()
    def validation_loss(self, batch: Batch) -> Tensor:
        """The last layer's loss on a batch of two views."""
        with self.autocast():
            features = self.model.features(batch.images)[-1]
        return self.losses[-1](features, batch.labels)  # type: ignore[no-any-return]


def _norm(block: nn.Module) -> Tensor:
    """The gradient norm of a layer (Eq. grad_norm), left on the device."""
    gradients = [p.grad for p in block.parameters() if p.grad is not None]
    return nn.utils.get_total_norm(gradients)
