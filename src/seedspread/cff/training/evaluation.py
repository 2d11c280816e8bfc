"""After stage 1: features of the frozen encoder, linear probes (stage 2), final diagnostics, the result."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from seedspread.cff.config import RunConfig
from seedspread.cff.data.dataset import Dataset, Split
from seedspread.cff.data.loader import Batch, Loader
from seedspread.cff.identity import margin_of, margin_type_of
from seedspread.cff.loss import PairStatistics, unit_vectors
from seedspread.cff.margins import layer_margins
from seedspread.cff.randomness import drawn_from, head_seed, probe_seeds
from seedspread.cff.training.layerwise import (
    EpochSums,
    History,
    LayerwiseModel,
    Optimizer,
    Trainer,
    load_module,
    module_tensors,
)
from seedspread.cff.training.result import LayerResult, ProbeResult, RunResult
from seedspread.cff.training.trainers import trainer_class
from seedspread.runs.metrics import scores

# Images per forward pass when nothing is trained.
_EVALUATION_BATCH = 500


@torch.no_grad()
def features(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
    """Return the representation of every layer, each `(B, d)` float32."""
    return trainer_class(model.config).representations(model, images)


@torch.no_grad()
def layer_statistics(model: LayerwiseModel, batch: Batch) -> list[PairStatistics]:
    """Return the statistics of a batch's positive pairs at each layer, as its loss would compute them."""
    trainer = trainer_class(model.config)
    both = zip(features(model, batch.images), model.margins, strict=True)
    return [trainer.pair_statistics(x, batch.labels, margin, model) for x, margin in both]


@torch.no_grad()
def validation_loss(model: LayerwiseModel, batch: Batch) -> Tensor:
    """Return the last layer's loss on a batch of two views, with its final margin whatever the epoch."""
    model.set_margins(model.config.training.epochs)
    return model.losses[-1](features(model, batch.images)[-1], batch.labels)  # type: ignore[no-any-return]


def split_features(
    model: LayerwiseModel, split: Split, mean: tuple[float, ...], std: tuple[float, ...]
) -> list[Tensor]:
    """Return the representation of every layer, each `(N, d)` float32, of images that are not augmented."""
    loader = Loader(split, (), mean, std, _EVALUATION_BATCH, order="given")
    batches = [features(model, batch.images) for batch in loader.epoch(0)]
    return [torch.cat(layer) for layer in zip(*batches, strict=True)]


class Features:
    """The un-augmented features of each split from the frozen encoder, computed when first needed."""

    def __init__(self, model: LayerwiseModel, dataset: Dataset) -> None:
        self.model = model
        self._dataset = dataset
        self._cache: dict[str, list[Tensor]] = {}

    def of(self, split: str) -> list[Tensor]:
        """Return the probed layers' features of a split, `(N, d)` float32 each, by its name in `Dataset`."""
        if split not in self._cache:
            info = self._dataset.info
            layers = split_features(self.model, getattr(self._dataset, split), info.mean, info.std)
            self._cache[split] = self._probed(layers)
        return self._cache[split]

    def forget(self) -> None:
        self._cache.clear()

    @torch.no_grad()
    def encode(self, images: Tensor) -> list[Tensor]:
        """Return the probed layers' features of a batch, `(B, d)` each."""
        return self._probed(features(self.model, images))

    def _probed(self, layers: list[Tensor]) -> list[Tensor]:
        return layers if self.model.config.probe.layers == "all" else layers[-1:]


class Probe:
    """The classifiers of one repeat, and the best of each so far.

    Attributes:
        best_accuracy: `(P,)`, the highest validation accuracy of each layer's classifier.
        best_epoch: `(P,)`, the first epoch that reached it.
    """

    def __init__(self, config: RunConfig, dataset: Dataset, features: Features, repeat: int) -> None:
        order, augment = probe_seeds(config.seeds.stream("probe"), repeat)
        device = dataset.train.images.device
        layers = range(config.model.depth)
        self._layers = layers if config.probe.layers == "all" else layers[-1:]
        self._features = features
        self._dataset = dataset
        self._cached = config.probe.features == "cached"
        widths = {layer: features.model.vit.widths[layer] for layer in self._layers}
        self._heads = _heads(config, len(dataset.classes), repeat, widths).to(device)
        self._best = copy.deepcopy(self._heads)
        self._optimizer = Optimizer(
            list(self._heads.parameters()), config.probe.learning_rate, config.probe.weight_decay
        )
        self._loader = Loader(
            dataset.train,
            config.data.pipeline,
            dataset.info.mean,
            dataset.info.std,
            config.probe.batch_size,
            order_seed=order,
            augment_seed=augment,
        )
        self.best_accuracy = torch.full((len(widths),), -1.0, dtype=torch.float64)
        self.best_epoch = torch.zeros(len(widths), dtype=torch.int64)

    def steps(self, epoch: int, start: int) -> Iterator[int]:
        """Train on the epoch's batches from number `start` on; yield the number of each."""
        for number, (inputs, labels) in enumerate(self._batches(epoch, start), start):
            self._optimizer.zero_grad()
            losses = [cross_entropy(head(x), labels) for head, x in zip(self._heads, inputs, strict=True)]
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            yield number

    def _batches(self, epoch: int, start: int) -> Iterator[tuple[list[Tensor], Tensor]]:
        if self._cached:
            for index in self._loader.indices(epoch, start):
                layers = [layer[index] for layer in self._features.of("train")]
                yield layers, self._dataset.train.labels[index]
        else:
            for batch in self._loader.epoch(epoch, start):
                yield self._features.encode(batch.images), batch.labels

    def is_finite(self) -> bool:
        return all(bool(p.isfinite().all()) for p in self._heads.parameters())

    @torch.no_grad()
    def end_epoch(self, epoch: int) -> list[float]:
        """Validate, keep each classifier that beats its predecessors, and return the accuracies."""
        labels = self._dataset.validation.labels
        accuracies = []
        for i, (head, x) in enumerate(zip(self._heads, self._features.of("validation"), strict=True)):
            accuracy = int((head(x).argmax(1) == labels).sum()) / len(labels)
            accuracies.append(accuracy)
            if accuracy > self.best_accuracy[i]:
                self.best_accuracy[i], self.best_epoch[i] = accuracy, epoch
                self._best[i].load_state_dict(head.state_dict())
        return accuracies

    @torch.no_grad()
    def test_logits(self) -> Tensor:
        """Return the chosen classifiers' logits, `(P, N, classes)`."""
        pairs = zip(self._best, self._features.of("test"), strict=True)
        return torch.stack([head(x) for head, x in pairs])

    def chosen(self) -> dict[int, dict[str, Tensor]]:
        """Return the tensors of the chosen classifiers, by layer."""
        return {layer: head.state_dict() for layer, head in zip(self._layers, self._best, strict=True)}

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that a resume needs."""
        return {
            **module_tensors("probe.heads", self._heads),
            **module_tensors("probe.best", self._best),
            **self._optimizer.state_dict("probe.optimiser"),
            "probe.best_accuracy": self.best_accuracy.clone(),
            "probe.best_epoch": self.best_epoch.clone(),
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        load_module("probe.heads", self._heads, tensors)
        load_module("probe.best", self._best, tensors)
        self._optimizer.load_state_dict("probe.optimiser", tensors)
        self.best_accuracy = tensors["probe.best_accuracy"].clone()
        self.best_epoch = tensors["probe.best_epoch"].clone()


def _heads(config: RunConfig, classes: int, repeat: int, widths: dict[int, int]) -> nn.ModuleList:
    """Return a classifier per probed layer, whose widths are given, each from a seed of its own."""
    stream, heads = config.seeds.stream("probe"), nn.ModuleList()
    for layer, width in widths.items():
        linear = drawn_from(head_seed(stream, repeat, layer), partial(nn.Linear, width, classes))
        heads.append(nn.Sequential(nn.LayerNorm(width), linear))
    return heads


# Above this mean cosine, the features of all images count as one point.
_ALIKE = 0.999


@dataclass(frozen=True)
class Diagnostics:
    """Measurements with the final weights; gradient norms are of one batch."""

    histogram: Tensor  # `(L, 2000)`, positive pairs by similarity
    rates: list[float]  # clamp activation rates by layer
    gradient_norms: list[float]  # by layer, of all of its parameters
    block_gradient_norms: list[float]  # by layer, of its encoder block


def final_diagnostics(trainer: Trainer, model: LayerwiseModel, batches: Loader) -> Diagnostics:
    """Measure the final weights on the training batches of an epoch after the last that was trained."""
    depth = len(model.margins)
    trainer.at(model.config.training.epochs)
    histograms, rates, norms, block_norms = [], [], [], []
    for number, batch in enumerate(batches.epoch(model.config.training.epochs)):
        if number == 0:
            sums = EpochSums.empty(depth, batch.images.device)
            trainer.step(batch, 0, sums, update=False)
            norms, block_norms = sums.gradient_norm.tolist(), sums.block_gradient_norm.tolist()
        layers = layer_statistics(model, batch)
        histograms.append(torch.stack([layer.histogram for layer in layers]))
        rates.append([layer.clamp_activation_rate for layer in layers])
    mean = torch.tensor(rates, dtype=torch.float64).mean(dim=0).tolist()
    return Diagnostics(torch.stack(histograms).sum(dim=0).cpu(), mean, norms, block_norms)


def summarize(
    config: RunConfig,
    dataset: Dataset,
    key: str,
    history: History,
    diagnostics: Diagnostics,
    probes: dict[str, Tensor],
    features: Features,
) -> tuple[RunResult, dict[str, NDArray[Any]]]:
    """Return the result, and the arrays to store with it."""
    labels = dataset.test.labels.cpu()
    probe_results = [
        probe for repeat in range(config.probe.repeats) for probe in _probes(config, probes, repeat, labels)
    ]
    chosen = next(probe for probe in probe_results if probe.layer == config.model.depth - 1)
    share = torch.bincount(labels).max().item() / len(labels)
    z = unit_vectors(features.of("test")[-1])
    similarity = z.mean(dim=0).square().sum().item()
    # No better than guessing the largest class, to within two standard errors.
    guessing = chosen.test_accuracy <= share + 2 * math.sqrt(share * (1 - share) / len(labels))
    logits = torch.stack([probes[f"{repeat}.logits"][-1] for repeat in range(config.probe.repeats)])
    metrics, chance = scores(logits[0].float().numpy(), labels.numpy())
    result = RunResult(
        key=key,
        dataset=dataset.title,
        fingerprint=dataset.fingerprint,
        rule=config.training.rule,
        margin_type=margin_type_of(config),
        test_accuracy=chosen.test_accuracy,
        validation_accuracy=chosen.validation_accuracy,
        probes=tuple(probe_results),
        layers=_layers(config, history, diagnostics),
        positive_pairs=history.last("positive_pairs")[0],
        pair_share=history.last("positive_pairs")[0] / history.last("possible_pairs")[0],
        majority_share=share,
        feature_similarity=similarity,
        collapsed=guessing or similarity > _ALIKE,
        metrics=metrics,
        chance=chance,
        positive_image_pairs=_image_pairs(
            config.training.batch_size, history, len(dataset.train.labels), features.model.views
        ),
    )
    kept = {
        "logits": logits,
        "labels": labels,
        "ids": dataset.test.ids.cpu(),
        "similarity_histogram": diagnostics.histogram,
    }
    return result, {name: tensor.numpy() for name, tensor in kept.items()}


def _image_pairs(batch_size: int, history: History, images: int, views: int) -> float:
    """Return the ordered positive pairs of different images in a batch, averaged over the last epoch.

    With v views every such pair was counted v^2 times, and each image added v (v - 1) pairs of its own views.
    """
    batches = -(-images // batch_size)
    counted = round(history.last("positive_pairs")[0] * batches)
    return (counted - images * views * (views - 1)) / views**2 / batches


def _layers(config: RunConfig, history: History, diagnostics: Diagnostics) -> tuple[LayerResult, ...]:
    inert = margin_of(config).is_inert
    return tuple(
        LayerResult(
            layer=layer,
            margin=None if inert else margin,
            clamp_activation_rate=None if inert else diagnostics.rates[layer],
            gradient_norm=diagnostics.gradient_norms[layer],
            gradient_norm_mean=history.last("gradient_norm")[layer],
            loss=history.last("loss")[layer],
            block_gradient_norm=diagnostics.block_gradient_norms[layer],
        )
        for layer, margin in enumerate(layer_margins(config))
    )


def _probes(config: RunConfig, probes: dict[str, Tensor], repeat: int, labels: Tensor) -> list[ProbeResult]:
    logits = probes[f"{repeat}.logits"]
    first = config.model.depth - len(logits)
    return [
        ProbeResult(
            repeat=repeat,
            layer=first + i,
            test_accuracy=(of_layer.argmax(1) == labels).double().mean().item(),
            validation_accuracy=probes[f"{repeat}.accuracy"][i].item(),
            epoch=int(probes[f"{repeat}.epoch"][i]),
        )
        for i, of_layer in enumerate(logits)
    ]
