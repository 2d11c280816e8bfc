"""What is recorded of every epoch and layer: loss, similarity of positive pairs, gradient norm."""

from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

# Bins of 0.01 over [-1, 1]: enough for a curve over training, and small over hundreds of epochs.
HISTORY_BINS = 200


@dataclass
class EpochSums:
    """Sums over the batches of the epoch so far; per layer, so that nothing waits for the device.

    Attributes:
        loss: `(L,)`.
        rate: `(L,)`, of the batches' clamp activation rates.
        gradient_norm: `(L,)`.
        positive_pairs: `(1,)`, ordered.
        possible_pairs: `(1,)`, all ordered pairs of different rows.
        histogram: `(L, 200)`, positive pairs by similarity.
        batches: `(1,)`.
        first_bad: `(L,)`, the first batch whose loss or gradient is not finite; -1 for none.
    """

    loss: Tensor
    rate: Tensor
    gradient_norm: Tensor
    positive_pairs: Tensor
    possible_pairs: Tensor
    histogram: Tensor
    batches: Tensor
    first_bad: Tensor

    @classmethod
    def empty(cls, layers: int, device: torch.device) -> "EpochSums":
        """Before the first batch."""

        def zeros(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
            # MPS has no float64
            supported = torch.float32 if device.type == "mps" and dtype == torch.float64 else dtype
            return torch.zeros(*shape, dtype=supported, device=device)

        return cls(
            loss=zeros(layers),
            rate=zeros(layers),
            gradient_norm=zeros(layers),
            positive_pairs=zeros(1),
            possible_pairs=zeros(1),
            histogram=zeros(layers, HISTORY_BINS, dtype=torch.int64),
            batches=zeros(1, dtype=torch.int64),
            first_bad=zeros(layers, dtype=torch.int64) - 1,
        )

    def add_layer(
        self, layer: int | slice, batch: int, loss: Tensor, norm: Tensor, rate: Tensor, histogram: Tensor
    ) -> None:
        """Adds a layer's part of a batch, or that of several, whose values have a first axis then.

        Args:
            layer: its number, or a slice of several.
            batch: the batch's number.
            loss: `()`, or `(L,)` of several; likewise the next two.
            norm: of the gradient.
            rate: of saturated pairs.
            histogram: `(2000,)` or `(L, 2000)`, positive pairs by similarity.
        """
        self.loss[layer].add_(loss)
        self.gradient_norm[layer].add_(norm)
        self.rate[layer].add_(rate)
        self.histogram[layer].add_(histogram.view(*histogram.shape[:-1], HISTORY_BINS, -1).sum(dim=-1))
        first_bad = self.first_bad[layer]
        bad = ~(loss.isfinite() & norm.isfinite()) & (first_bad < 0)
        first_bad.masked_fill_(bad, batch)

    def end_batch(self, positive_pairs: Tensor | int, anchors: int) -> None:
        """Counts a batch, after its layers; they all saw the same pairs."""
        self.positive_pairs += positive_pairs
        self.possible_pairs += anchors * (anchors - 1)
        self.batches += 1

    def tensors(self) -> dict[str, Tensor]:
        """All sums by name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def means(self) -> dict[str, Tensor]:
        """The epoch's means over batches, on the CPU; the histogram as a sum."""
        mean = {name: getattr(self, name).cpu() / self.batches.cpu() for name in MEANS}
        for name in ("positive_pairs", "possible_pairs"):
            mean[name] = mean[name].expand(len(self.loss)).clone()
        return mean | {"histogram": self.histogram.cpu()}


MEANS = ("loss", "rate", "gradient_norm", "positive_pairs", "possible_pairs")


class History:
    """The means of every epoch so far."""

    def __init__(self) -> None:
        self._epochs: list[dict[str, Tensor]] = []

    def __len__(self) -> int:
        return len(self._epochs)

    def add(self, sums: EpochSums) -> None:
        """Closes an epoch."""
        self._epochs.append(sums.means())

    def last(self, name: str) -> list[float]:
        """The last epoch's means of one quantity, by layer."""
        return self._epochs[-1][name].tolist()

    def over_epochs(self, name: str) -> list[float]:
        """The means over the layers of one quantity, by epoch."""
        return [float(epoch[name].double().mean()) for epoch in self._epochs]

    def tensors(self) -> dict[str, Tensor]:
        """`(epochs, L, ...)` each, for a checkpoint."""
        if not self._epochs:
            return {}
        return {name: torch.stack([epoch[name] for epoch in self._epochs]) for name in self._epochs[0]}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "History":
        """Puts a history back."""
        history = cls()
        epochs = len(next(iter(tensors.values()))) if tensors else 0
        history._epochs = [{name: t[i].clone() for name, t in tensors.items()} for i in range(epochs)]
        return history

    def table(self, *, with_rate: bool) -> pa.Table:
        """A row per epoch and layer.

        The rate is null in a run whose margins are not part of its identity: it follows from the histogram
        for any margin.
        """
        tensors = self.tensors()
        epochs, layers = tensors["loss"].shape
        columns: dict[str, Any] = {
            "epoch": torch.arange(epochs).repeat_interleave(layers).numpy(),
            "layer": torch.arange(layers).repeat(epochs).numpy(),
            "loss": tensors["loss"].flatten().numpy(),
            "clamp_activation_rate": tensors["rate"].flatten().numpy(),
            "gradient_norm": tensors["gradient_norm"].flatten().numpy(),
            "positive_pairs": tensors["positive_pairs"].flatten().numpy(),
            "similarity_histogram": tensors["histogram"].flatten(0, 1).tolist(),
        }
        if not with_rate:
            columns["clamp_activation_rate"] = pa.nulls(epochs * layers, pa.float64())
        return pa.table(columns)
