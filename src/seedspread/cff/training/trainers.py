"""The reference implementation of stage 1, through autograd, for all rules; the choice among the trainers."""

import torch
from torch import Tensor, nn

from seedspread.cff.config import RunConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.implementations import FEATURES, features_of
from seedspread.cff.loss import PairStatistics, pair_statistics
from seedspread.cff.losses import LayerError
from seedspread.cff.model import LayerLocal, ViT
from seedspread.cff.randomness import drawn_from, step_seed
from seedspread.cff.training.fast import FastTrainer
from seedspread.cff.training.layerwise import EpochSums, LayerwiseModel, Optimizer, Trainer, optimizer_of
from seedspread.cff.training.native.trainer import NativeTrainer


class AutogradTrainer(Trainer):
    """A trainer through autograd, with an optimizer per layer (`layer_local`) or one for all."""

    features = FEATURES["plain"]

    def __init__(self, model: LayerwiseModel) -> None:
        self.model = model
        self._rule = model.config.training.rule
        both = zip(model.vit.layers, model.losses, strict=True)
        layers = [[*layer.parameters(), *loss.parameters()] for layer, loss in both]
        if self._rule != "layer_local":
            layers = [[parameter for layer in layers for parameter in layer]]
        if self._rule == "cross_entropy":
            layers[0] += list(model.vit.head.parameters())
        self.optimizers = [
            optimizer_of(model.config, layer, own)
            for layer, own in zip(layers, model.vit.optimizers, strict=self._rule == "layer_local")
        ]

    def step(self, batch: Batch, number: int, sums: EpochSums, *, update: bool = True) -> None:
        step = self._layer_local if self._rule == "layer_local" else self._together
        vit, seed = self.model.vit, self.model.config.seeds.stream("augment")
        if isinstance(vit, ViT):
            step(batch, number, sums, update)
            return
        vit.train(update)  # measuring must not alter the state of a user's own layers, such as running means
        # Random numbers that they draw, such as dropout's, are the same if the run is resumed.
        drawn_from(step_seed(seed, self.epoch, number), lambda: step(batch, number, sums, update))

    def _layer_local(self, batch: Batch, number: int, sums: EpochSums, update: bool) -> None:
        """Train each layer on the detached output of the one before; one graph is alive at a time."""
        model, statistics = self.model, None
        tokens, targets = model.inputs(batch, self.epoch)
        for layer, module in enumerate(model.vit.layers):
            self.optimizers[layer].zero_grad()
            with model.autocast():
                output = module(tokens)
            pooled = model.vit.pool(output)
            loss, statistics = model.loss(layer, pooled, targets, batch.labels)
            if not loss.requires_grad:
                raise LayerError(
                    f"layer {layer}: its loss depends on nothing that the layer trains; a layer without "
                    "parameters belongs into the one before"
                )
            loss.backward()  # type: ignore[no-untyped-call]
            tokens = model.losses[layer].hand_on(output.detach())  # computed before the step
            _add(sums, layer, number, loss, model.vit, statistics)
            if update:
                self.optimizers[layer].step()
        if statistics is not None:
            sums.end_batch(statistics.positive_pairs, statistics.anchors)

    def _together(self, batch: Batch, number: int, sums: EpochSums, update: bool) -> None:
        """Train all layers on one loss, gradients flowing through."""
        model = self.model
        self.optimizers[0].zero_grad()
        inputs, targets = model.inputs(batch, self.epoch)
        with model.autocast():
            features = model.vit.encode(inputs, stop_gradient=False)
        if self._rule == "end_to_end":
            both = [model.loss(i, pooled, targets, batch.labels) for i, pooled in enumerate(features)]
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
        for layer, loss in enumerate(losses):
            _add(sums, layer, number, loss, model.vit, statistics[layer])
        if update:
            self.optimizers[0].step()
        sums.end_batch(statistics[0].positive_pairs, statistics[0].anchors)

    def optimizer_parts(self) -> list[tuple[Optimizer, slice]]:
        return [(optimizer, slice(None)) for optimizer in self.optimizers]

    @staticmethod
    def representations(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
        if not isinstance(model.vit, ViT):
            model.vit.eval()
        with model.autocast():
            return [layer.float() for layer in model.vit.features(images)]


def _add(
    sums: EpochSums, layer: int, batch: int, loss: Tensor, model: LayerLocal, statistics: PairStatistics
) -> None:
    gradients = [p.grad for p in model.layers[layer].parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm(gradients)  # Eq. grad_norm, left on the device
    before = 0 if layer else model.embedding_parameters
    block_norm = nn.utils.get_total_norm(gradients[before:]) if before else norm
    rate = statistics.saturated_pairs / max(statistics.positive_pairs, 1)
    sums.add_layer(layer, batch, loss.detach(), (norm, block_norm), rate, statistics.histogram)


_TRAINERS: dict[str, type[Trainer]] = {
    kind.features.name: kind for kind in (AutogradTrainer, FastTrainer, NativeTrainer)
}


def trainer_class(config: RunConfig) -> type[Trainer]:
    return _TRAINERS[features_of(config).name]


def trainer_of(model: LayerwiseModel) -> Trainer:
    return trainer_class(model.config)(model)
