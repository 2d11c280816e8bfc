"""From trained weights to a run's result: the last diagnostics, the probes' accuracies, what is kept."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from seedspread.cff.config import RunConfig
from seedspread.cff.data.dataset import Dataset
from seedspread.cff.data.loader import Loader
from seedspread.cff.identity import margin_is_inert
from seedspread.cff.objective.loss import unit_vectors
from seedspread.cff.objective.schedule import layer_margins
from seedspread.cff.training.features import Features, layer_statistics
from seedspread.cff.training.layerwise import LayerwiseModel
from seedspread.cff.training.records import EpochSums, History
from seedspread.cff.training.result import LayerResult, ProbeResult, RunResult
from seedspread.cff.training.trainer import Trainer
from seedspread.runs.metrics import scores

# Features of all images this alike are one point.
_ALIKE = 0.999


@dataclass(frozen=True)
class Diagnostics:
    """With the final weights: histograms `(L, 2000)`, rates by layer, gradient norms of one batch."""

    histogram: Tensor
    rates: list[float]
    gradient_norms: list[float]


def final_diagnostics(trainer: Trainer, model: LayerwiseModel, batches: Loader) -> Diagnostics:
    """One more pass over the training batches, in an epoch of its own that no training has seen."""
    depth = len(model.margins)
    histograms, rates, norms = [], [], []
    for number, batch in enumerate(batches.epoch(model.config.training.epochs)):
        if number == 0:
            sums = EpochSums.empty(depth, batch.images.device)
            trainer.step([batch], 0, [sums], update=False)
            norms = sums.gradient_norm.tolist()
        layers = layer_statistics(model, batch)
        histograms.append(torch.stack([layer.histogram for layer in layers]))
        rates.append([layer.clamp_activation_rate for layer in layers])
    mean = torch.tensor(rates, dtype=torch.float64).mean(dim=0).tolist()
    return Diagnostics(torch.stack(histograms).sum(dim=0).cpu(), mean, norms)


def summarise(
    config: RunConfig,
    dataset: Dataset,
    key: str,
    history: History,
    diagnostics: Diagnostics,
    probes: dict[str, Tensor],
    features: Features,
) -> tuple[RunResult, dict[str, NDArray[Any]]]:
    """The result, and the arrays to keep beside it."""
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
        margin_type="none" if config.training.rule == "cross_entropy" else config.objective.margin_type,
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
    )
    kept = {
        "logits": logits,
        "labels": labels,
        "ids": dataset.test.ids.cpu(),
        "similarity_histogram": diagnostics.histogram,
    }
    return result, {name: tensor.numpy() for name, tensor in kept.items()}


def _layers(config: RunConfig, history: History, diagnostics: Diagnostics) -> tuple[LayerResult, ...]:
    inert = margin_is_inert(config)
    return tuple(
        LayerResult(
            layer=layer,
            margin=None if inert else margin,
            clamp_activation_rate=None if inert else diagnostics.rates[layer],
            gradient_norm=diagnostics.gradient_norms[layer],
            gradient_norm_mean=history.last("gradient_norm")[layer],
            loss=history.last("loss")[layer],
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
