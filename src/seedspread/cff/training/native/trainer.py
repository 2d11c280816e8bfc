"""Stage 1 by the native kernel, one run at a time; `training/autograd.py` is the definition."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from seedspread.cff.config import RunConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.implementations import FEATURES
from seedspread.cff.objective import PairStatistics
from seedspread.cff.objective.spec import LossSpec
from seedspread.cff.presets import ConfigError
from seedspread.cff.training.layerwise import LayerwiseModel, optimiser_of
from seedspread.cff.training.native.build import build
from seedspread.cff.training.native.kernel import Layer, NativeLoss
from seedspread.cff.training.records import EpochSums
from seedspread.cff.training.trainer import Trainer


class NativeTrainer(Trainer):
    """Trains one model."""

    features = FEATURES["native"]

    def __init__(self, model: LayerwiseModel) -> None:
        self._model = model
        self._parameters = [list(layer.parameters()) for layer in model.vit.layers]
        self._layers = layers_of(model)
        # No layer sees another's step before the next batch, so one step moves them all.
        self._optimiser = optimiser_of(model.config, [p for layer in self._parameters for p in layer])

    @classmethod
    def prepare(cls, config: RunConfig) -> None:
        """Build the kernel, for a run that it can train."""
        if why := cls.features.why_not(config):
            raise ConfigError(why)
        build()

    @classmethod
    def facts(cls) -> dict[str, Any]:
        """How the kernel was compiled."""
        return {"native": build().facts()}

    @classmethod
    def of(cls, models: Sequence[LayerwiseModel]) -> Self:
        """Of one model."""
        return cls(models[0])

    def step(
        self, batches: Sequence[Batch], number: int, sums: Sequence[EpochSums], *, update: bool = True
    ) -> None:
        """Trains on one batch and adds to the epoch's sums; without `update` it only looks."""
        (batch,), (own,) = batches, sums
        x, saves = batch.images, not self._model.config.runtime.activation_checkpointing
        pairs = _positive_pairs(batch.labels)
        for number_of, layer in enumerate(self._layers):
            last = number_of + 1 == len(self._layers)
            passed = layer.forward(x, output=not last, save=saves)
            spec = self._model.losses[number_of].spec
            found = NativeLoss.of(passed.pooled, batch.labels, spec, layer.threads)
            gradients = [torch.empty_like(p) for p in self._parameters[number_of]]
            if found.gradient is not None:
                layer.backward(passed, found.gradient, gradients)
            for parameter, gradient in zip(self._parameters[number_of], gradients, strict=True):
                parameter.grad = gradient
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            own.add_layer(number_of, number, found.loss, norm, found.saturated / pairs, found.histogram)
            x = x if passed.output is None else passed.output
        if update:
            self._optimiser.step()
        own.end_batch(pairs, len(batch.labels))

    def state_dict(self, run: int) -> dict[str, Tensor]:
        """What the checkpoint needs of the optimiser, by layer as in every other way; there is one run."""
        return {
            name: tensor
            for layer, own in enumerate(self._of_layers())
            for name, tensor in self._optimiser.state_dict(f"optimiser.{layer}", own).items()
        }

    def load_state_dict(self, run: int, state: dict[str, Tensor]) -> None:
        """Puts the optimiser back."""
        for layer, own in enumerate(self._of_layers()):
            self._optimiser.load_state_dict(f"optimiser.{layer}", state, own)

    @staticmethod
    def representations(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
        """By the kernel."""
        x, pooled = images, []
        layers = layers_of(model)
        for number, layer in enumerate(layers, start=1):
            passed = layer.forward(x, output=number < len(layers), save=False)
            pooled.append(passed.pooled)
            x = x if passed.output is None else passed.output
        return pooled

    @staticmethod
    def pair_statistics(
        features: Tensor, labels: Tensor, margin: float, model: LayerwiseModel
    ) -> PairStatistics:
        """By the kernel."""
        seen = NativeLoss.of(features, labels, LossSpec(margin=margin), model.threads, gradient=False)
        counts = torch.bincount(labels)
        return PairStatistics(
            margin=margin,
            anchors=len(labels),
            positive_pairs=int(_positive_pairs(labels)),
            anchors_without_positive=int((counts == 1).sum()),
            saturated_pairs=seen.saturated,
            histogram=seen.histogram,
        )

    def _of_layers(self) -> list[slice]:
        """Each layer's parameters among those of the optimiser."""
        slices, begin = [], 0
        for layer in self._parameters:
            slices.append(slice(begin, begin + len(layer)))
            begin += len(layer)
        return slices


def layers_of(model: LayerwiseModel) -> list[Layer]:
    """The layers as the kernel takes them; they see every later change of the parameters."""
    return [
        Layer([p.data for p in layer.parameters()], model.config.model, number == 0, model.threads)
        for number, layer in enumerate(model.vit.layers)
    ]


def _positive_pairs(labels: Tensor) -> Tensor:
    """Ordered pairs of different rows of one class, a scalar."""
    counts = torch.bincount(labels)
    return (counts * (counts - 1)).sum()
