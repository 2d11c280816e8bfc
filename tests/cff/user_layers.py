"""Code of a user, which tests name: layers with dropout and running means, a loss with parameters, images."""

import numpy as np
import torch
from torch import Tensor, nn

from seedspread import ArrayDataset, LocalLoss

NOT_LAYERS = 3


class Net(nn.ModuleList):
    """A convolution with what depends on the mode, then a linear layer of another width."""

    def __init__(self, image_shape: tuple[int, int, int], dim: int) -> None:
        channels, height, width = image_shape
        first = nn.Sequential(
            nn.Conv2d(channels, dim, 3, padding=1), nn.BatchNorm2d(dim), nn.ReLU(), nn.Dropout(0.2)
        )
        super().__init__([first, nn.Sequential(nn.Flatten(), nn.Linear(dim * height * width, 12))])


class Largest(nn.ModuleList):
    """One layer, pooled by its largest value."""

    def __init__(self, image_shape: tuple[int, int, int]) -> None:
        super().__init__([nn.Conv2d(image_shape[0], 6, 3)])

    def pool(self, output: Tensor) -> Tensor:
        return output.amax(dim=(2, 3))


def one_too_many(image_shape: tuple[int, int, int], depth: int) -> nn.ModuleList:
    return nn.ModuleList([nn.Flatten()] * (depth + 1))


def no_layers(image_shape: tuple[int, int, int]) -> nn.ModuleList:
    return nn.ModuleList()


def a_sequential(image_shape: tuple[int, int, int]) -> nn.Sequential:
    return nn.Sequential(nn.Flatten())


def of_five_axes(image_shape: tuple[int, int, int]) -> nn.ModuleList:
    return nn.ModuleList([nn.Unflatten(1, (1, image_shape[0]))])


def too_wide(image_shape: tuple[int, int, int]) -> nn.ModuleList:
    return nn.ModuleList([nn.Flatten(), nn.Linear(7, 7)])


class Argmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).argmax(dim=1, keepdim=True)


def of_integers(image_shape: tuple[int, int, int]) -> nn.ModuleList:
    return nn.ModuleList([Argmax()])


def two_outputs(image_shape: tuple[int, int, int]) -> nn.ModuleList:
    return nn.ModuleList([nn.Sequential(nn.Flatten(2), nn.LSTM(image_shape[1] * image_shape[2], 4))])


def nothing_to_train(image_shape: tuple[int, int, int]) -> nn.ModuleList:
    return nn.ModuleList([nn.Conv2d(image_shape[0], 4, 3), nn.ReLU()])


def breaks(image_shape: tuple[int, int, int]) -> nn.ModuleList:
    raise KeyError("weights")


class Squares(LocalLoss):
    """Mean squared error of a linear map of its own."""

    def build(self, width: int, classes: int) -> None:
        self.map = nn.Linear(width, classes)

    def forward(self, pooled: Tensor, targets: Tensor) -> Tensor:
        wanted = nn.functional.one_hot(targets, self.map.out_features)
        return nn.functional.mse_loss(self.map(pooled), wanted.float())


class PerImage(LocalLoss):
    """No scalar."""

    def forward(self, pooled: Tensor, targets: Tensor) -> Tensor:
        return pooled.mean(dim=1)


class Broken(LocalLoss):
    def forward(self, pooled: Tensor, targets: Tensor) -> Tensor:
        raise KeyError("weights")


def images() -> ArrayDataset:
    """Three classes, as bright as their number."""
    labels = np.arange(150) % 3
    noise = torch.rand(150, 1, 8, 8, generator=torch.Generator().manual_seed(0)).numpy()
    return ArrayDataset((60 * labels[:, None, None, None] + 60 * noise).astype("uint8"), labels)
