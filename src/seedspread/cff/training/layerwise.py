"""Common parts of the trainers of stage 1: model, losses, optimizer, sums and history, the base class."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import pyarrow as pa
import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from seedspread.cff.config import GIVEN, RunConfig, TrainingConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.datasets import is_dotted
from seedspread.cff.identity import margin_of
from seedspread.cff.implementations import TrainerFeatures
from seedspread.cff.loss import PairStatistics, SupConLoss, pair_statistics
from seedspread.cff.losses import GoodnessLoss, LayerError, LocalCrossEntropy, LocalLoss
from seedspread.cff.margins import layer_margins
from seedspread.cff.model import LayerLocal, build_model
from seedspread.cff.randomness import loss_draws
from seedspread.cff.user_code import build_named
from seedspread.errors import described

_EPSILON = 1e-8


@dataclass(eq=False)
class Optimizer:
    """AdamW, Adam or SGD by torch's own fused functions, with a state that checkpoints store by name.

    The classes of `torch.optim` make the same calls, but import torch's compiler first, which takes longer
    than loading torch itself and would be paid for by every worker and every short run.
    """

    parameters: Sequence[nn.Parameter]
    learning_rate: float
    weight_decay: float
    betas: tuple[float, float] = (0.9, 0.999)
    kind: str = "adamw"
    momentum: float = 0.0
    max_norm: float | None = None
    factor: float = 1.0  # of the learning rate, set by a schedule

    @cached_property
    def _state(self) -> dict[str, list[Tensor]]:
        """State kept between steps; allocated at the first step, since measuring needs none."""
        if self.kind == "sgd":
            return {"momentum_buffer": [torch.zeros_like(p) for p in self.parameters]}
        steps = [torch.zeros((), dtype=torch.float32, device=p.device) for p in self.parameters]
        means, squares = ([torch.zeros_like(p) for p in self.parameters] for _ in range(2))
        return {"exp_avg": means, "exp_avg_sq": squares, "step": steps}

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def gradients(self) -> list[Tensor]:
        return [gradient for p in self.parameters if (gradient := p.grad) is not None]

    @torch.no_grad()
    def step(self, clipped: Sequence[slice] = (slice(None),)) -> None:
        """Update the parameters, after clipping the norm of the gradients in each of the slices `clipped`."""
        if self.max_norm is not None:
            for together in clipped:
                nn.utils.clip_grad_norm_(self.parameters[together], self.max_norm)
        indices = [i for i, parameter in enumerate(self.parameters) if parameter.grad is not None]
        state = {name: [of_all[i] for i in indices] for name, of_all in self._state.items()}
        parameters: list[Tensor] = [self.parameters[i] for i in indices]
        rate = self.learning_rate * self.factor
        shared: dict[str, Any] = {
            "lr": rate,
            "weight_decay": self.weight_decay,
            "maximize": False,
            "fused": True,
        }
        if self.kind == "sgd":
            rest = {"momentum": self.momentum, "dampening": 0.0, "nesterov": False} | shared
            sgd(parameters, self.gradients(), list(state["momentum_buffer"]), **rest)
            return
        rest = {"beta1": self.betas[0], "beta2": self.betas[1], "eps": _EPSILON, "amsgrad": False} | shared
        moments = state["exp_avg"], state["exp_avg_sq"]
        step = adamw if self.kind == "adamw" else adam
        step(parameters, self.gradients(), *moments, [], state["step"], **rest)

    def state_dict(self, prefix: str, some: slice = slice(None)) -> dict[str, Tensor]:
        """Return copies of the state of `some` of the parameters, numbered within this slice."""
        return {f"{prefix}.{name}": tensor.clone() for name, tensor in self._named(some).items()}

    def load_state_dict(self, prefix: str, state: dict[str, Tensor], some: slice = slice(None)) -> None:
        for name, tensor in self._named(some).items():
            tensor.copy_(state[f"{prefix}.{name}"])

    def _named(self, some: slice) -> dict[str, Tensor]:
        held = self._state.items()
        return {f"{i}.{kind}": tensor for kind, all_ in held for i, tensor in enumerate(all_[some])}


# Norms of the gradient: of all of a layer's parameters, and of its encoder block alone.
Norms = tuple[Tensor, Tensor]
# Bins of 0.01 over [-1, 1]: enough for a curve over training, and small over hundreds of epochs.
HISTORY_BINS = 200


@dataclass
class EpochSums:
    """Sums over the batches of the epoch so far; kept on the device, so that nothing waits for it."""

    loss: Tensor  # `(L,)`
    rate: Tensor  # `(L,)`, of the batches' clamp activation rates
    gradient_norm: Tensor  # `(L,)`, of all of a layer's parameters
    block_gradient_norm: Tensor  # `(L,)`, of its encoder block: layer 0 without the patch embedding
    positive_pairs: Tensor  # `(1,)`, ordered pairs of views
    possible_pairs: Tensor  # `(1,)`, all ordered pairs of different rows
    histogram: Tensor  # `(L, 200)`, positive pairs by similarity
    batches: Tensor  # `(1,)`
    first_bad: Tensor  # `(L,)`, the first batch whose loss or gradient is not finite; -1 for none

    @classmethod
    def empty(cls, layers: int, device: torch.device) -> "EpochSums":
        def zeros(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
            # MPS has no float64
            supported = torch.float32 if device.type == "mps" and dtype == torch.float64 else dtype
            return torch.zeros(*shape, dtype=supported, device=device)

        by_layer = {name: zeros(layers) for name in ("loss", "rate", "gradient_norm", "block_gradient_norm")}
        return cls(
            **by_layer,
            positive_pairs=zeros(1),
            possible_pairs=zeros(1),
            histogram=zeros(layers, HISTORY_BINS, dtype=torch.int64),
            batches=zeros(1, dtype=torch.int64),
            first_bad=zeros(layers, dtype=torch.int64) - 1,
        )

    def add_layer(
        self, layer: int | slice, batch: int, loss: Tensor, norms: Norms, rate: Tensor, histogram: Tensor
    ) -> None:
        """Add a batch's values of a layer, or of a slice of layers, whose values then have a first axis.

        `loss`, `norms` (of the gradient) and `rate` (of saturated pairs) are `()` or `(L,)`; `histogram`,
        positive pairs by similarity, is `(2000,)` or `(L, 2000)`.
        """
        self.loss[layer].add_(loss)
        self.gradient_norm[layer].add_(norms[0])
        self.block_gradient_norm[layer].add_(norms[1])
        self.rate[layer].add_(rate)
        self.histogram[layer].add_(histogram.view(*histogram.shape[:-1], HISTORY_BINS, -1).sum(dim=-1))
        first_bad = self.first_bad[layer]
        bad = ~(loss.isfinite() & norms[0].isfinite()) & (first_bad < 0)
        first_bad.masked_fill_(bad, batch)

    def end_batch(self, positive_pairs: Tensor | int, anchors: int) -> None:
        """Count a batch, after adding its layers, which all have the same pairs."""
        self.positive_pairs += positive_pairs
        self.possible_pairs += anchors * (anchors - 1)
        self.batches += 1

    def tensors(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def means(self) -> dict[str, Tensor]:
        """Return the epoch's means over batches, on the CPU; the histogram as a sum."""
        mean = {name: getattr(self, name).cpu() / self.batches.cpu() for name in MEANS}
        for name in ("positive_pairs", "possible_pairs"):
            mean[name] = mean[name].expand(len(self.loss)).clone()
        return mean | {"histogram": self.histogram.cpu()}


MEANS = ("loss", "rate", "gradient_norm", "block_gradient_norm", "positive_pairs", "possible_pairs")


class History:
    """Means of every epoch so far."""

    def __init__(self) -> None:
        self._epochs: list[dict[str, Tensor]] = []

    def add(self, sums: EpochSums) -> None:
        self._epochs.append(sums.means())

    def last(self, name: str) -> list[float]:
        """Return the last epoch's means of one quantity, by layer."""
        return self._epochs[-1][name].tolist()

    def tensors(self) -> dict[str, Tensor]:
        """Return `(epochs, L, ...)` tensors for a checkpoint."""
        if not self._epochs:
            return {}
        return {name: torch.stack([epoch[name] for epoch in self._epochs]) for name in self._epochs[0]}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "History":
        history = cls()
        epochs = len(next(iter(tensors.values()))) if tensors else 0
        history._epochs = [{name: t[i].clone() for name, t in tensors.items()} for i in range(epochs)]
        return history

    def table(self, *, with_rate: bool) -> pa.Table:
        """Return a row per epoch and layer.

        The rate is null if margins are not part of the run's identity: it follows from the histogram for any
        margin.
        """
        tensors = self.tensors()
        epochs, layers = tensors["loss"].shape
        flat = {name: tensor.flatten().numpy() for name, tensor in tensors.items()}
        columns: dict[str, Any] = {
            "epoch": torch.arange(epochs).repeat_interleave(layers).numpy(),
            "layer": torch.arange(layers).repeat(epochs).numpy(),
            "loss": flat["loss"],
            "clamp_activation_rate": flat["rate"] if with_rate else pa.nulls(epochs * layers, pa.float64()),
            "gradient_norm": flat["gradient_norm"],
            "block_gradient_norm": flat["block_gradient_norm"],
            "positive_pairs": flat["positive_pairs"],
            "similarity_histogram": tensors["histogram"].flatten(0, 1).tolist(),
        }
        return pa.table(columns)


def losses_of(config: RunConfig) -> Sequence[LocalLoss]:
    """Return each layer's loss as named in a config; cross entropy gets SupCon's, which are not used."""
    objective, rule = config.objective, config.training.rule
    margins = layer_margins(config)
    loss = "supcon" if rule == "cross_entropy" else objective.loss
    if loss == "goodness":
        return [GoodnessLoss(objective.threshold) for _ in margins]
    if loss == "local_cross_entropy":
        return [LocalCrossEntropy() for _ in margins]
    if is_dotted(loss):
        return [copy.deepcopy(build_named(loss, LocalLoss, "a LocalLoss")) for _ in margins]
    # Subtraction changes the loss by a constant and no gradient (Proposition 4.1): it is trained as `none`,
    # so that the recorded values do not depend on the margin, just like the run's identity.
    kind = "none" if margin_of(config).is_inert else objective.margin_type
    written = config.has_kernels and config.runtime.implementation == "plain"  # as the equations are
    return [
        SupConLoss(
            objective.temperature,
            margin,
            kind,
            objective.stability,
            objective.reduction,
            implementation="plain" if written else "auto",
            margin_sharpness=objective.margin_sharpness,
        )
        for margin in margins
    ]


def model_of(
    config: RunConfig, classes: int, given: LayerLocal | None = None, *, trains: bool = True
) -> LayerLocal:
    """Build the model that a config describes, with its losses; for a given one, the head and the losses.

    A given model that is not trained may lack its losses.
    """
    if given is None:
        model = build_model(config.model, classes)
    else:
        model = given
        model.build(config.model.image_shape, classes)
    losses = model.given_losses if config.objective.loss == GIVEN else losses_of(config)
    for loss, width in zip(losses, model.widths, strict=trains):
        loss.build(width, classes)
    model.losses = nn.ModuleList(losses)
    return model


class LayerwiseModel:
    """A run's model with the loss and the margin of each layer.

    `threads` is the number of the native kernel's threads, beside which torch uses one.
    """

    def __init__(self, config: RunConfig, vit: LayerLocal, threads: int = 1) -> None:
        self.config = config
        self.vit = vit
        self.threads = threads
        self.margins = layer_margins(config)
        self.losses: Sequence[Any] = list(vit.losses) or losses_of(config)

    def set_margins(self, epochs: float) -> None:
        """Set the losses' margins to those after `epochs` epochs, part of one included."""
        warmup = self.config.objective.margin_warmup_epochs
        for loss, margin in zip(self.losses, self.margins, strict=True) if warmup else ():
            loss.margin = margin * min(1.0, epochs / warmup)

    @property
    def views(self) -> int:
        """Views per image; one for cross entropy."""
        return 1 if self.config.training.rule == "cross_entropy" else self.losses[0].views

    def inputs(self, batch: Batch, epoch: int) -> tuple[Tensor, Tensor]:
        """Return the first layer's training input for a batch, and the targets of the losses."""
        first = self.losses[0]
        if self.config.training.rule == "cross_entropy" or type(first).prepare is LocalLoss.prepare:
            return batch.images, batch.labels
        seed = self.config.seeds.stream("augment")
        drawn = [loss_draws(seed, epoch, view, batch.index) for view in range(self.views)]
        return first.prepare(batch.images, batch.labels, torch.cat(drawn))  # type: ignore[no-any-return]

    def loss(
        self, layer: int, pooled: Tensor, targets: Tensor, labels: Tensor
    ) -> tuple[Tensor, PairStatistics]:
        """Return a layer's loss, and the statistics of the batch's positive pairs."""
        loss = self.losses[layer]
        if isinstance(loss, SupConLoss):
            return loss(pooled, targets, return_statistics=True)  # type: ignore[no-any-return]
        try:
            value = loss(pooled, targets)
        except Exception as error:
            raise LayerError(f"layer {layer}: {type(loss).__name__} failed: {described(error)}") from error
        if not isinstance(value, Tensor) or value.ndim:
            got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise LayerError(f"layer {layer}: {type(loss).__name__} must return a scalar; got {got}")
        return value, pair_statistics(pooled[: len(labels)].detach(), labels, self.margins[layer])

    def autocast(self) -> torch.autocast:
        """Set the precision of the encoder's products; the losses are computed in float32 regardless."""
        device = next(self.vit.parameters()).device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.precision == torch.bfloat16)

    @property
    def precision(self) -> torch.dtype:
        return torch.bfloat16 if self.config.runtime.precision == "bf16" else torch.float32


def optimizer_of(
    config: RunConfig, parameters: Sequence[nn.Parameter], own: Mapping[str, Any] | None = None
) -> Optimizer:
    """Return the optimizer of stage 1, or of a layer with settings of its own.

    Cross entropy uses the probe's learning rate and weight decay.
    """
    training, probe = config.training.model_copy(update=own), config.probe
    settings = (training.learning_rate, training.weight_decay, training.betas)
    if training.rule == "cross_entropy":
        settings = (probe.learning_rate, probe.weight_decay, (0.9, 0.999))
    return Optimizer(parameters, *settings, training.optimizer, training.momentum, training.max_gradient_norm)


def layer_parameters(model: LayerLocal) -> list[list[nn.Parameter]]:
    """Return each layer's parameters, as checkpoints number them."""
    return [list(layer.parameters()) for layer in model.layers]


def learning_rate_factor(training: TrainingConfig, epochs: float) -> float:
    """Return the factor of the learning rate after `epochs` epochs, part of one included."""
    warmup = training.warmup_epochs
    if epochs < warmup:
        return epochs / warmup
    if training.schedule == "constant":
        return 1.0
    left = training.epochs - warmup
    return (1 + math.cos(math.pi * (epochs - warmup) / left)) / 2 if left else 1.0


class Trainer(ABC):
    """Trains a model, batch by batch."""

    features: ClassVar[TrainerFeatures]
    model: LayerwiseModel
    epoch = 0  # epoch of the next step

    @abstractmethod
    def __init__(self, model: LayerwiseModel) -> None: ...

    @classmethod  # noqa: B027 - most need nothing
    def prepare(cls, config: RunConfig) -> None:
        """Raise, before a run writes anything, if it cannot be trained here."""

    @classmethod
    def facts(cls) -> dict[str, Any]:
        """Return facts for a run's provenance."""
        return {}

    def at(self, epochs: float) -> None:
        """Set learning rates and margins to those after `epochs` epochs, part of one included.

        They depend on nothing else, so that a resumed run needs no further state.
        """
        self.epoch = int(epochs)
        factor = learning_rate_factor(self.model.config.training, epochs)
        for optimizer, _ in self.optimizer_parts():
            optimizer.factor = factor
        self.model.set_margins(epochs)

    @abstractmethod
    def step(self, batch: Batch, number: int, sums: EpochSums, *, update: bool = True) -> None:
        """Train on a batch and add to the epoch's sums; without `update` only measure."""

    @abstractmethod
    def optimizer_parts(self) -> list[tuple[Optimizer, slice]]:
        """Return each layer's optimizer, and which of its parameters are the layer's."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return the optimizers' part of a run's checkpoint."""
        return {
            name: tensor
            for layer, (optimizer, own) in enumerate(self.optimizer_parts())
            for name, tensor in optimizer.state_dict(f"optimiser.{layer}", own).items()
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for layer, (optimizer, own) in enumerate(self.optimizer_parts()):
            optimizer.load_state_dict(f"optimiser.{layer}", state, own)

    @staticmethod
    @abstractmethod
    def representations(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
        """Return the mean over tokens after every layer, each `(B, d)` float32, of `(B, C, H, W)` images."""

    @staticmethod
    def pair_statistics(
        features: Tensor, labels: Tensor, margin: float, model: LayerwiseModel
    ) -> PairStatistics:
        """Return the statistics of a layer's positive pairs, as its loss would compute them."""
        return pair_statistics(features, labels, margin)


class KernelTrainer(Trainer):
    """A trainer with one optimizer for all layers, which it updates together after each batch."""

    def __init__(self, model: LayerwiseModel) -> None:
        self.model = model
        self._parameters = layer_parameters(model.vit)
        self._optimizer = optimizer_of(model.config, [p for layer in self._parameters for p in layer])

    def optimizer_parts(self) -> list[tuple[Optimizer, slice]]:
        ends = accumulate(map(len, self._parameters), initial=0)
        return [(self._optimizer, slice(*bounds)) for bounds in pairwise(ends)]

    def _update(self) -> None:
        """Make a step of the optimizer, in which each layer's gradient is clipped separately."""
        self._optimizer.step([own for _, own in self.optimizer_parts()])


def module_tensors(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    """Return copies of a module's weights, named `prefix.name`."""
    return {f"{prefix}.{name}": t.clone() for name, t in module.state_dict().items()}


def load_module(prefix: str, module: nn.Module, tensors: dict[str, Tensor]) -> None:
    module.load_state_dict(below(prefix, tensors))


def below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose name begins with `prefix.`, without it."""
    start = prefix + "."
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}
