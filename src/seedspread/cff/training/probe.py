"""Stage 2: linear classifiers on the frozen encoder, one per probed layer."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from seedspread.cff.config import RunConfig
from seedspread.cff.data.dataset import Dataset
from seedspread.cff.data.loader import Loader
from seedspread.cff.training.adamw import AdamW
from seedspread.cff.training.checkpoint import load_module, module_tensors
from seedspread.cff.training.features import Features
from seedspread.cff.training.randomness import drawn_from, head_seed, probe_seeds


class Probe:
    """The classifiers of one repeat, and the best of each so far.

    Attributes:
        best_accuracy: `(P,)`, the highest validation accuracy of each layer's classifier.
        best_epoch: `(P,)`, the first epoch that reached it.
    """

    def __init__(self, config: RunConfig, dataset: Dataset, features: Features, repeat: int) -> None:
        order, augment = probe_seeds(config.seeds.stream("probe"), repeat)
        device = dataset.train.images.device
        last = config.model.depth - 1
        layers = range(config.model.depth) if config.probe.layers == "all" else range(last, last + 1)
        self._features = features
        self._dataset = dataset
        self._cached = config.probe.features == "cached"
        self._heads = _heads(config, len(dataset.classes), repeat, layers).to(device)
        self._best = _heads(config, len(dataset.classes), repeat, layers).to(device)
        self._optimiser = AdamW(
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
        self.best_accuracy = torch.full((len(layers),), -1.0, dtype=torch.float64)
        self.best_epoch = torch.zeros(len(layers), dtype=torch.int64)

    def steps(self, epoch: int, start: int) -> Iterator[int]:
        """Trains on the epoch's batches from number `start` on; says which after each."""
        for number, (inputs, labels) in enumerate(self._batches(epoch, start), start):
            self._step(inputs, labels)
            yield number

    def _batches(self, epoch: int, start: int) -> Iterator[tuple[Tensor, Tensor]]:
        if self._cached:
            for index in self._loader.indices(epoch, start):
                yield self._features.of("train")[:, index], self._dataset.train.labels[index]
        else:
            for batch in self._loader.epoch(epoch, start):
                yield self._features.encode(batch.images), batch.labels

    def _step(self, inputs: Tensor, labels: Tensor) -> None:
        self._optimiser.zero_grad()
        losses = [cross_entropy(head(x), labels) for head, x in zip(self._heads, inputs, strict=True)]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def is_finite(self) -> bool:
        """Whether all weights are finite."""
        return all(bool(p.isfinite().all()) for p in self._heads.parameters())

    @torch.no_grad()
    def end_epoch(self, epoch: int) -> list[float]:
        """Validates; keeps what is better than all before. Returns the accuracies."""
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
        """`(P, N, classes)` of the chosen classifiers."""
        pairs = zip(self._best, self._features.of("test"), strict=True)
        return torch.stack([head(x) for head, x in pairs])

    def tensors(self) -> dict[str, Tensor]:
        """All that a resume needs."""
        return {
            **module_tensors("probe.heads", self._heads),
            **module_tensors("probe.best", self._best),
            **self._optimiser.state_dict("probe.optimiser"),
            "probe.best_accuracy": self.best_accuracy.clone(),
            "probe.best_epoch": self.best_epoch.clone(),
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Puts it back."""
        load_module("probe.heads", self._heads, tensors)
        load_module("probe.best", self._best, tensors)
        self._optimiser.load_state_dict("probe.optimiser", tensors)
        self.best_accuracy = tensors["probe.best_accuracy"].clone()
        self.best_epoch = tensors["probe.best_epoch"].clone()


def _heads(config: RunConfig, classes: int, repeat: int, layers: range) -> nn.ModuleList:
    """A classifier per probed layer, each from a seed of its own."""
    dim, stream = config.model.dim, config.seeds.stream("probe")

    def head() -> nn.Module:
        return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    return nn.ModuleList(drawn_from(head_seed(stream, repeat, layer), head) for layer in layers)
