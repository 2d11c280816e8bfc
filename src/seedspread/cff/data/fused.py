"""The views of `augment.py` in few operations, for a device on which each costs a launch.

The same draws give the same pixels, to the bit:

- Crop, flip, rotation and erasing only determine where a pixel comes from, or that it is black. They are
  traced back from the last to the first, and the image is read once.
- Color jitter makes the same few operations on every image, and a blend by the factor 1 leaves an image as it
  is. Each image has its own order of adjustments; all orders fit into `_SLOTS`.

The parameters of an epoch are computed from the draws on the CPU, all at once (`parameters`), so that they
are the same on every device.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from seedspread.cff.config import ColorJitter, HorizontalFlip, RandomCrop, RandomErasing, RandomRotation, Step
from seedspread.cff.data.augment import (
    WIDTHS,
    difference_tables,
    erasing_after,
    erasing_rectangle,
    jitter_factors,
    whole,
)

# Four blends, by number, and between them two changes of hue, of which an image uses one: any order fits.
_SLOTS = (0, "hue", 1, 2, "hue", 3)
# The blends that an image uses, by the place of its hue; the first two places use the earlier change.
_BLENDS = ((1, 2, 3), (0, 1, 2), (0, 1, 3), (0, 1, 2))
# Columns of a blend: factor; 1 if with the image's mean gray, half of that; 1 if with the pixel's own gray.
_BLEND = 4
# Columns of hue: 1 if the earlier change is used, 1 if the later one is, number of steps.
_HUE_SHIFT = 3
_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE = range(4)


def parameters(steps: Sequence[Step], uniform: Tensor, height: int, width: int) -> Tensor:
    """Compute the parameters of `transform` from `(B, slots)` draws: `(B, P, 1, 1)` float32 on the CPU."""
    columns, at = [uniform[:, :0]], 0
    for step in steps:
        wide = WIDTHS[type(step)]
        columns.append(_parameters(step, uniform[:, at : at + wide], height, width))
        at += wide
    return torch.cat(columns, dim=1)[:, :, None, None]


def _parameters(step: Step, uniform: Tensor, height: int, width: int) -> Tensor:
    """Return one step's columns, `(B, ...)`; places are (down, across)."""
    if isinstance(step, RandomCrop):
        return (whole(uniform, 2 * step.padding + 1) - step.padding).float()
    if isinstance(step, HorizontalFlip):
        flipped = (uniform[:, 0] < step.p).float()
        still = torch.zeros_like(flipped)
        return torch.stack([still + 1, 1 - 2 * flipped, still, (width - 1) * flipped], dim=1)
    if isinstance(step, RandomRotation):
        turn = torch.deg2rad(step.degrees * (2 * uniform - 1))
        return torch.cat([turn.cos(), turn.sin(), -turn.sin()], dim=1)
    if isinstance(step, RandomErasing):
        rectangle = np.stack(erasing_rectangle(step, height, width, uniform.numpy()), axis=1)
        return torch.from_numpy(rectangle.astype(np.float32))
    if isinstance(step, ColorJitter):
        return _jitter_parameters(step, uniform)
    raise TypeError(f"no fused form of {step!r}")


def _jitter_parameters(step: ColorJitter, uniform: Tensor) -> Tensor:
    factors, order, active = jitter_factors(step, uniform)
    images = torch.arange(len(uniform))
    place = order.argsort(dim=1)  # of each kind in its image's order
    if not active[_HUE]:  # treat it as the last one
        place = place - (place > place[:, _HUE:]).long()
        place[:, _HUE] = len(_BLENDS) - 1
    slots = torch.tensor(_BLENDS)[place[:, _HUE]]
    blends = torch.zeros(len(uniform), 4, _BLEND)
    blends[:, :, 0] = 1
    for kind in (_BRIGHTNESS, _CONTRAST, _SATURATION):
        if active[kind]:
            among = place[:, kind] - (place[:, kind] > place[:, _HUE]).long()
            mean, own = float(kind == _CONTRAST), float(kind == _SATURATION)
            row = torch.tensor([0, mean, mean / 2, own]).repeat(len(uniform), 1)
            row[:, 0] = factors[:, kind]
            blends[images, slots[images, among]] = row
    first = (place[:, _HUE] <= 1).float()
    turn = (factors[:, _HUE] * 255).to(torch.int32).float()  # rounded toward zero
    return torch.cat([blends.flatten(1), torch.stack([first, 1 - first, turn], dim=1)], dim=1)


# Number of columns of each parameter of a step.
_COLUMNS = {
    RandomCrop: (2,),
    HorizontalFlip: (2, 2),
    RandomRotation: (1, 2),
    RandomErasing: (2, 2),
    ColorJitter: (1,) * (4 * _BLEND + _HUE_SHIFT),
}


def transform(images: Tensor, steps: Sequence[Step], chosen: Tensor) -> Tensor:
    """Apply the steps, in order, to `(B, C, H, W)` uint8 images with their `parameters`."""
    sizes = [size for step in steps for size in _COLUMNS[type(step)]]
    columns = iter(torch.split(chosen, sizes, dim=1) if sizes else ())
    moves: list[_Move] = []
    for step in steps[:-1] if erasing_after(steps) else steps:
        own = [next(columns) for _ in _COLUMNS[type(step)]]
        if isinstance(step, ColorJitter):
            images = _jitter(_look_up(images, moves), own, with_hue=step.hue > 0)
            moves = []
        else:
            moves.append((step, own))
    return _look_up(images, moves)


# Where a pixel comes from

_Move: TypeAlias = tuple[Step, list[Tensor]]


class _Grid(NamedTuple):
    """Constants of an image's pixel grid; (down, across) each."""

    places: Tensor  # (1, 2, H, W) float32
    first: Tensor  # (), 0
    last: Tensor  # (2, 1, 1), the largest place
    middle: Tensor  # (2, 1, 1), an image's center
    from_center: Tensor  # (2, 1, 1), added to a pixel's place, gives the place relative to the center
    stride: Tensor  # (2, 1, 1), of an image's pixels in memory


@cache
def _grid(height: int, width: int, device: torch.device) -> _Grid:
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    size = torch.tensor([height, width], dtype=torch.float32)[:, None, None]
    stride = torch.tensor([width, 1.0])[:, None, None]
    places = torch.stack([rows, columns])[None].float()
    tensors = (places, torch.zeros(()), size - 1, size / 2, 0.5 - size / 2, stride)
    return _Grid(*(tensor.to(device) for tensor in tensors))


def _look_up(images: Tensor, moves: "list[_Move]") -> Tensor:
    """Apply everything that moves or blackens pixels, last step first; the images are read once."""
    if not moves:
        return images
    grid = _grid(*images.shape[-2:], images.device)
    at, black = grid.places, None
    for step, own in reversed(moves):
        at, outside = _origin(step, own, at, grid)
        if outside is not None:
            black = outside if black is None else black | outside
    inside = at.clamp(grid.first, grid.last)
    index = (inside * grid.stride).sum(dim=1, keepdim=True, dtype=torch.int64).flatten(2)
    seen = images.flatten(2).gather(2, index.expand(*images.shape[:2], -1)).view_as(images)
    return seen if black is None else seen.masked_fill_(black, 0)


def _origin(step: Step, own: list[Tensor], at: Tensor, grid: _Grid) -> tuple[Tensor, Tensor | None]:
    """Return the places from which a step takes pixels, `(B or 1, 2, H, W)`, and which it leaves black."""
    if isinstance(step, RandomErasing):
        corner, size = own
        inside = at - corner
        return at, ((inside >= 0) & (inside < size)).all(dim=1, keepdim=True)
    if isinstance(step, HorizontalFlip):
        sign, shift = own
        return at * sign + shift, None
    if isinstance(step, RandomCrop):
        at = at + own[0]
    else:
        cos, sin = own
        centered = at + grid.from_center
        at = (cos * centered).add_(sin * centered.flip(1))
        at = at.add_(grid.middle).floor_()
    return at, (at.clamp(grid.first, grid.last) != at).any(dim=1, keepdim=True)


# Color


class _Colors(NamedTuple):
    """Weights of an image's channels and of an added channel of ones, `(C + 1, 1, 1)` each, and tables."""

    gray: Tensor
    differences: Tensor  # numbers the pair (red - green, green - blue)
    hues: Tensor  # by that number
    drops: Tensor  # saturation times value, by 257 times the highest channel less 256 times the lowest
    falls: Tensor  # (3, 512), by hue, moved by 128 so that no shift leaves the table
    channels: Tensor  # (3, 1, 1), 0 to 2


@cache
def _colors(channels: int, device: torch.device) -> _Colors:
    gray = torch.tensor([19595, 38470, 7471, 32768]) / 65536 if channels == 3 else torch.tensor([1, 0.5])
    differences = torch.tensor([511.0, -510.0, -1.0, 255 * 512])
    hues, drops, falls = difference_tables()
    tensors = (
        gray[:, None, None],
        differences[:, None, None],
        hues,
        drops,
        falls,
        torch.arange(3)[:, None, None],
    )
    return _Colors(*(tensor.to(device) for tensor in tensors))


def _jitter(images: Tensor, own: list[Tensor], *, with_hue: bool) -> Tensor:
    """Apply brightness, contrast, saturation and hue, each image in its own order."""
    channels = images.shape[1]
    colors = _colors(channels, images.device)
    padded = torch.nn.functional.pad(images, (0, 0, 0, 0, 0, 1), value=1).float()
    rgb = padded[:, :channels]  # a view
    turns = iter(own[-_HUE_SHIFT:-1])
    steps = own[-1].to(torch.int64)
    for slot in _SLOTS if with_hue else (0, 1, 2):
        if isinstance(slot, int):
            _blend(padded, rgb, own[slot * _BLEND : (slot + 1) * _BLEND], colors)
        elif channels == 3:
            rgb.lerp_(_shifted_hue(padded, rgb, steps, colors), next(turns))
    return rgb.to(torch.uint8)


def _blend(padded: Tensor, rgb: Tensor, own: list[Tensor], colors: _Colors) -> None:
    """Apply `augment.brightness`, `contrast` or `saturation`, depending on the parameters; in place."""
    factor, of_mean, half, of_own = own
    gray = (padded * colors.gray).sum(dim=1, keepdim=True).floor_()
    mean = gray.mean(dim=(2, 3), keepdim=True)
    start = torch.addcmul(torch.addcmul(half, mean, of_mean).floor_(), gray, of_own)
    mixed = (rgb - start).mul_(factor).add_(start).clamp_(0, 255)
    torch.floor(mixed, out=rgb)


def _shifted_hue(padded: Tensor, rgb: Tensor, steps: Tensor, colors: _Colors) -> Tensor:
    """Apply `augment.hue` to every image. A hue depends on the channels' differences alone."""
    number = (padded * colors.differences).sum(dim=1, keepdim=True, dtype=torch.int64)
    falls = colors.falls[colors.channels, colors.hues[number] + steps]
    low, high = torch.aminmax(rgb, dim=1, keepdim=True)
    drop = colors.drops[(high * 257).sub_(low, alpha=256).to(torch.int64)]
    return (high - falls.mul_(drop)).round_()
