"""Stage 1 as it is defined, through autograd, by one of three rules; and the choice among all trainers."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from seedspread.cff.config import RunConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.implementations import FEATURES, features_of
from seedspread.cff.loss import PairStatistics, pair_statistics
from seedspread.cff.model import EMBEDDING_PARAMETERS
from seedspread.cff.training.fast import StackedTrainer
from seedspread.cff.training.layerwise import EpochSums, LayerwiseModel, Optimizer, Trainer, optimiser_of
from seedspread.cff.training.native.trainer import NativeTrainer


class AutogradTrainer(Trainer):
    """Trains one model, with an optimizer per layer (`layer_local`) or one for all."""

    features = FEATURES["plain"]

    def __init__(self, models: Sequence[LayerwiseModel]) -> None:
        (model,) = self.models = models
        self.model = model
        self._rule = model.config.training.rule
        layers = [list(layer.parameters()) for layer in model.vit.layers]
        if self._rule != "layer_local":
            layers = [[parameter for layer in layers for parameter in layer]]
        if self._rule == "cross_entropy":
            layers[0] += list(model.vit.head.parameters())
        self.optimisers = [optimiser_of(model.config, layer) for layer in layers]

    def step(
        self, batches: Sequence[Batch], number: int, sums: Sequence[EpochSums], *, update: bool = True
    ) -> None:
        (batch,), (own,) = batches, sums
        if self._rule == "layer_local":
            self._layer_local(batch, number, own, update)
        else:
            self._together(batch, number, own, update)

    def _layer_local(self, batch: Batch, number: int, sums: EpochSums, update: bool) -> None:
        """Train each layer on the detached output of the one before; one graph is alive at a time."""
        tokens, statistics = batch.images, None
        for layer, module in enumerate(self.model.vit.layers):
            self.optimisers[layer].zero_grad()
            with self.model.autocast():
                output = module(tokens)
            pooled = output.mean(dim=1)
            loss, statistics = self.model.losses[layer](pooled, batch.labels, return_statistics=True)
            loss.backward()
            tokens = output.detach()  # computed before the step
            _add(sums, layer, number, loss, module, statistics)
            if update:
                self.optimisers[layer].step()
        if statistics is not None:
            sums.end_batch(statistics.positive_pairs, statistics.anchors)

    def _together(self, batch: Batch, number: int, sums: EpochSums, update: bool) -> None:
        """Train all layers on one loss, gradients flowing through."""
        model = self.model
        self.optimisers[0].zero_grad()
        with model.autocast():
            features = model.vit.features(batch.images, stop_gradient=False)
        if self._rule == "end_to_end":
            both = [
                loss(layer, batch.labels, return_statistics=True)
                for loss, layer in zip(model.losses, features, strict=True)
            ]
            losses, statistics = [loss for loss, _ in both], [seen for _, seen in both]
            total = torch.stack(losses).sum()
        else:
            total = nn.functional.cross_entropy(model.vit.head(features[-1]).float(), batch.labels)
            losses = [total] * len(features)
            statistics = [
                pair_statistics(layer.detach(), batch.labels, margin)
                for layer, margin in zip(features, model.margins, strict=True)
            ]
        total.backward()  # type: ignore[no-untyped-call]
        for layer, module in enumerate(model.vit.layers):
            _add(sums, layer, number, losses[layer], module, statistics[layer])
        if update:
            self.optimisers[0].step()
        sums.end_batch(statistics[0].positive_pairs, statistics[0].anchors)

    def optimiser_parts(self, run: int) -> list[tuple[Optimizer, slice]]:
        return [(optimiser, slice(None)) for optimiser in self.optimisers]

    @staticmethod
    def representations(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
        with model.autocast():
            return [layer.float() for layer in model.vit.features(images)]


def _add(
    sums: EpochSums, layer: int, batch: int, loss: Tensor, module: nn.Module, statistics: PairStatistics
) -> None:
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm(gradients)  # Eq. grad_norm, left on the device
    block_norm = norm if layer else nn.utils.get_total_norm(gradients[EMBEDDING_PARAMETERS:])
    rate = statistics.saturated_pairs / max(statistics.positive_pairs, 1)
    sums.add_layer(layer, batch, loss.detach(), (norm, block_norm), rate, statistics.histogram)


_TRAINERS: dict[str, type[Trainer]] = {
    kind.features.name: kind for kind in (AutogradTrainer, StackedTrainer, NativeTrainer)
}


def trainer_class(config: RunConfig) -> type[Trainer]:
    return _TRAINERS[features_of(config).name]


def trainer_of(models: Sequence[LayerwiseModel]) -> Trainer:
    """Return the trainer of these models: several only if they may be stacked."""
    return trainer_class(models[0].config)(models)
