"""What the layers make of images once nothing is trained by it."""

import torch
from torch import Tensor

from seedspread.cff.data.dataset import Dataset, Split
from seedspread.cff.data.loader import Batch, Loader
from seedspread.cff.objective import PairStatistics
from seedspread.cff.training.choice import trainer_class
from seedspread.cff.training.layerwise import LayerwiseModel

# Images per forward pass where nothing is trained.
_EVALUATION_BATCH = 500


@torch.no_grad()
def features(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
    """The representation of every layer, each `(B, d)` float32."""
    return trainer_class(model.config).representations(model, images)


@torch.no_grad()
def layer_statistics(model: LayerwiseModel, batch: Batch) -> list[PairStatistics]:
    """What each layer's loss would see of a batch's positive pairs."""
    trainer = trainer_class(model.config)
    both = zip(features(model, batch.images), model.margins, strict=True)
    return [trainer.pair_statistics(x, batch.labels, margin, model) for x, margin in both]


@torch.no_grad()
def validation_loss(model: LayerwiseModel, batch: Batch) -> Tensor:
    """The last layer's loss on a batch of two views."""
    return model.losses[-1](features(model, batch.images)[-1], batch.labels)  # type: ignore[no-any-return]


class Features:
    """The frozen encoder's un-augmented features of each split, computed when first asked for."""

    def __init__(self, model: LayerwiseModel, dataset: Dataset) -> None:
        self._model = model
        self._dataset = dataset
        self._cache: dict[str, Tensor] = {}

    def of(self, split: str) -> Tensor:
        """`(P, N, d)` float32: the probed layers' features of the `train`, `validation` or `test` split."""
        if split not in self._cache:
            images: Split = getattr(self._dataset, split)
            info = self._dataset.info
            loader = Loader(images, (), info.mean, info.std, _EVALUATION_BATCH, order="given")
            batches = [self.encode(batch.images) for batch in loader.epoch(0)]
            self._cache[split] = torch.cat(batches, dim=1)
        return self._cache[split]

    def forget(self) -> None:
        """Lets the features go."""
        self._cache.clear()

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """The probed layers' features of a batch, `(P, B, d)`."""
        layers = features(self._model, images)
        probed = layers if self._model.config.probe.layers == "all" else layers[-1:]
        return torch.stack(probed)
