"""What the layers make of images once nothing is trained by it."""

import torch
from torch import Tensor

from seedspread.data.dataset import Dataset, Split
from seedspread.data.loader import Batch, Loader
from seedspread.identity import is_fast
from seedspread.training import fast
from seedspread.training.layerwise import LayerwiseModel

# Images per forward pass where nothing is trained.
_EVALUATION_BATCH = 500


@torch.no_grad()
def features(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
    """The representation of every layer, each `(B, d)` float32."""
    if is_fast(model.config):
        return fast.features(model.vit, images, model.config, model.precision)
    with model.autocast():
        return [layer.float() for layer in model.vit.features(images)]


@torch.no_grad()
def validation_loss(model: LayerwiseModel, batch: Batch) -> Tensor:
    """The last layer's loss on a batch of two views."""
    return model.losses[-1](features(model, batch.images)[-1], batch.labels)  # type: ignore[no-any-return]


class Features:
    """The frozen encoder's un-augmented features of each part, computed when first asked for."""

    def __init__(self, model: LayerwiseModel, dataset: Dataset) -> None:
        self._model = model
        self._dataset = dataset
        self._known: dict[str, Tensor] = {}

    def of(self, part: str) -> Tensor:
        """`(P, N, d)` float32: the probed layers' features of the `train`, `validation` or `test` part."""
        if part not in self._known:
            images: Split = getattr(self._dataset, part)
            loader = Loader(
                images,
                (),
                self._dataset.info.mean,
                self._dataset.info.std,
                _EVALUATION_BATCH,
                order="given",
            )
            seen = [self.encode(batch.images) for batch in loader.epoch(0)]
            self._known[part] = torch.cat(seen, dim=1)
        return self._known[part]

    def forget(self) -> None:
        """Lets the features go."""
        self._known.clear()

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """The probed layers' features of a batch, `(P, B, d)`."""
        layers = features(self._model, images)
        probed = layers if self._model.config.probe.layers == "all" else layers[-1:]
        return torch.stack(probed)
