"""Batches: images are indexed on their device and augmented together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seedspread.cff.config import RandAugment, RandomErasing, Step
from seedspread.cff.data import fused
from seedspread.cff.data.augment import WIDTHS, augment, draws, erase, erasing_after, normalize, rectangles
from seedspread.cff.data.dataset import Split
from seedspread.cff.randomness import stream
from seedspread.errors import one_of

# Tag that keeps this stream apart from others of the same seed.
_ORDER_STREAM = 0x0D


@dataclass(frozen=True)
class Batch:
    images: Tensor  # `(views * B, C, H, W)` float32, normalized; all first views, then all second views
    labels: Tensor  # `(views * B,)`
    index: Tensor  # `(B,)`, the images' indices in the split


@dataclass(frozen=True)
class Loader:
    """The batches of every epoch, each a function of the seeds and the epoch alone.

    Args:
        split: images and labels, such as `load(...).train`.
        steps: augmentation steps; none for the images as they are.
        mean: mean of each channel, for normalization.
        std: standard deviation of each channel.
        batch_size: images per batch; the last batch may be smaller.
        views: augmented views of each image.
        order: `shuffled`, `balanced` (each class evenly over the epoch) or `given`.
        order_seed: seed of the order.
        augment_seed: seed of the augmentation.
        labels: `(N,)`, other labels to return; those of `split` decide the order in any case.

    Example:
        >>> data = load(RunConfig().split_data)
        >>> loader = Loader(data.train, [], data.info.mean, data.info.std, batch_size=128)
        >>> [len(batch.images) for batch in loader.epoch(0)][-2:]
        [128, 12]
    """

    split: Split  # the images, on the device of the batches
    steps: Sequence[Step]  # the augmentation; none for validation and test
    mean: tuple[float, ...]  # per channel
    std: tuple[float, ...]  # per channel
    batch_size: int  # images per batch; the last one may be smaller
    views: int = 1  # augmented views per image
    order: str = "shuffled"  # `shuffled`, `balanced` or `given`, the split's order (see `epoch_order`)
    order_seed: int = 0  # seed of the order
    augment_seed: int = 0  # seed of the augmentation
    labels: Tensor | None = None

    def __len__(self) -> int:
        return math.ceil(len(self.split) / self.batch_size)

    def indices(self, epoch: int, start: int = 0) -> Sequence[Tensor]:
        """Return the indices into the split of an epoch's batches, from batch `start` on; on the CPU."""
        labels = self.split.labels.cpu().numpy()
        index = torch.from_numpy(epoch_order(labels, self.order, self.order_seed, epoch))
        return torch.split(index, self.batch_size)[start:]

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield an epoch's batches, from batch `start` on."""
        ids = self.split.ids.cpu()
        rows = int(ids.max()) + 1
        by_view = [draws(self.steps, self.augment_seed, epoch, view, rows)[ids] for view in range(self.views)]
        indices = self.indices(epoch, start)
        by_image = any(isinstance(step, RandAugment) for step in self.steps)
        if self.split.images.device.type == "cuda" and not by_image:
            yield from self.fused_batches(indices, by_view)
            return
        for index in indices:
            at = index.to(self.split.images.device)
            originals = self.split.images.index_select(0, at)
            views = torch.cat([augment(originals, self.steps, uniform[index]) for uniform in by_view])
            erased: Sequence[Tensor] = ()
            if step := erasing_after(self.steps):
                drawn = torch.cat([uniform[index, -WIDTHS[RandomErasing] :] for uniform in by_view])
                erased = rectangles(step, views, drawn)
            yield self._labelled(views, at, erased)

    def fused_batches(self, indices: Sequence[Tensor], by_view: Sequence[Tensor]) -> Iterator[Batch]:
        """Yield the same batches in few operations, from the draws of all images, `(N, slots)` per view.

        The parameters of all batches are sent to the device at once.
        """
        device, size = self.split.images.device, self.split.images.shape[-2:]
        chosen = torch.stack([fused.parameters(self.steps, uniform, *size) for uniform in by_view]).to(device)
        for index in torch.split(torch.cat(list(indices)).to(device), self.batch_size):
            yield self.fused_batch(index, chosen)

    def fused_batch(self, index: Tensor, chosen: Tensor) -> Batch:
        """Return a batch by its images' indices, given the parameters of all, `(views, N, P, 1, 1)`."""
        originals = self.split.images.index_select(0, index.repeat(self.views))
        own = chosen.index_select(1, index).flatten(0, 1)
        erased = own[:, -4:, 0, 0].unbind(1) if erasing_after(self.steps) else ()
        return self._labelled(fused.transform(originals, self.steps, own), index, erased)

    def _labelled(self, views: Tensor, index: Tensor, erased: Sequence[Tensor]) -> Batch:
        labels = self.split.labels if self.labels is None else self.labels
        images = normalize(views, self.mean, self.std)
        images = erase(images, *erased) if erased else images
        return Batch(images=images, labels=labels[index].repeat(self.views), index=index)


def epoch_order(labels: NDArray[np.int64], order: str, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the order of an epoch, `(N,)`: a function of (order seed, epoch).

    `shuffled` is a permutation. `balanced` shuffles each class and spreads it evenly over the epoch, so that
    batches contain the classes nearly in proportion; with classes of one size every full batch has the same
    number of positive pairs. `given` is the split's own order.
    """
    one_of("order", order, ("shuffled", "balanced", "given"))
    rng = stream(_ORDER_STREAM, seed, epoch)
    if order == "given":
        return np.arange(len(labels))
    if order == "shuffled":
        return rng.permutation(len(labels))
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        place[members] = (np.arange(len(members)) + rng.random()) / len(members)
    return place.argsort(kind="stable")
