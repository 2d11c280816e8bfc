"""`LocalLoss`, the base class of a layer's loss, and two losses besides SupCon."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, softplus

from seedspread.errors import SeedspreadError

# Value of the label's pixel, in normalized units: about as bright as white.
_BRIGHT = 2.0
_SMALLEST = 1e-8


class LayerError(SeedspreadError, ValueError):
    """A layer or its loss cannot be trained."""


class LocalLoss(nn.Module):
    """The loss of one layer; a subclass defines `forward(pooled, targets)`, which returns a scalar.

    `pooled` is the layer's output, `(N, d)`; `targets` are the labels `(N,)`, unless `prepare` replaces them.
    The other methods are optional hooks, which do nothing here. `prepare` and `prepare_test` of the first
    layer's loss apply to the whole model.

    Example:
        >>> class Distance(LocalLoss):
        ...     def forward(self, pooled, targets):
        ...         return (pooled[targets == 0].mean(0) - pooled[targets == 1].mean(0)).norm().neg()
    """

    views: ClassVar[int] = (
        1  # augmented views of each image in a batch, all first views before all second ones
    )

    def build(self, width: int, classes: int) -> None:
        """Create the loss's own parameters, for a layer of this width; the layer's optimizer trains them."""

    def prepare(self, images: Tensor, labels: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first layer's training input for a batch, and the targets of all layers.

        Further rows may follow those of the batch. `uniform` has a random number in [0, 1) for each row, new
        in every epoch, and the same if the run is killed and resumed.
        """
        return images, labels

    def prepare_test(self, images: Tensor) -> Tensor:
        """Return the first layer's input for images whose features are wanted."""
        return images

    def hand_on(self, output: Tensor) -> Tensor:
        """Return the next layer's input, given this layer's output."""
        return output


class GoodnessLoss(LocalLoss):
    """Forward-Forward (Hinton 2022): high activity for images with their label, low with a wrong one.

    With g the mean squared entry of the pooled output, theta the threshold, g+ for an image with its label
    embedded in its first pixels, and g- for the image with a wrong label,

        loss = mean over images of  softplus(theta - g+) + softplus(g- - theta).

    The label is one-hot in as many pixels as there are classes; features for the probe are taken with the
    neutral label, each pixel with an equal share. The output is scaled to mean square 1 before it is handed
    on, so that the next layer cannot read its goodness off its length.

    Args:
        threshold: theta.

    Example:
        >>> loss = GoodnessLoss(threshold=2.0)
    """

    def __init__(self, threshold: float = 2.0) -> None:
        super().__init__()
        self.threshold = threshold
        self._classes = 0

    def build(self, width: int, classes: int) -> None:
        if classes < 2:
            raise LayerError(f"goodness needs wrong labels, so two classes at least; got {classes}")
        self._classes = classes

    def prepare(self, images: Tensor, labels: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        others = self._classes - 1
        shift = 1 + (uniform * others).long().clamp(max=others - 1)
        both = torch.cat([labels, (labels + shift) % self._classes])
        one_hot = nn.functional.one_hot(both, self._classes).to(images.dtype)
        is_true = torch.arange(len(both), device=labels.device) < len(labels)
        return self._embedded(images.repeat(2, 1, 1, 1), one_hot), is_true

    def prepare_test(self, images: Tensor) -> Tensor:
        return self._embedded(images.clone(), images.new_full((1, self._classes), 1 / self._classes))

    def _embedded(self, images: Tensor, shares: Tensor) -> Tensor:
        """Write `(N, classes)` shares into the first pixels of every channel, in place."""
        pixels = images.view(*images.shape[:2], -1)
        if pixels.shape[2] < self._classes:
            raise LayerError(f"goodness embeds {self._classes} classes in images of {pixels.shape[2]} pixels")
        pixels[:, :, : self._classes] = _BRIGHT * shares[:, None]
        return images

    def hand_on(self, output: Tensor) -> Tensor:
        square = output.float().square().flatten(1).mean(dim=1).clamp(min=_SMALLEST)
        return output * square.rsqrt().to(output.dtype).view(-1, *[1] * (output.ndim - 1))

    def forward(self, pooled: Tensor, is_true: Tensor) -> Tensor:
        goodness = pooled.float().square().mean(dim=1)
        missing = torch.where(is_true, self.threshold - goodness, goodness - self.threshold)
        return softplus(missing).sum() / is_true.sum()


class LocalCrossEntropy(LocalLoss):
    """Cross entropy of a layer's own linear map, as in Mono-Forward (Gong, Li and Abdulla 2025).

    With a the pooled output, M a matrix `(classes, d)` that is trained with the layer, and y the label,

        loss = mean over images of  -log softmax(M a)_y.

    Example:
        >>> loss = LocalCrossEntropy()
    """

    def build(self, width: int, classes: int) -> None:
        self.projection = nn.Parameter(torch.empty(classes, width))
        nn.init.kaiming_uniform_(self.projection, a=5**0.5)  # as in nn.Linear

    def forward(self, pooled: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(linear(pooled.float(), self.projection), labels)
