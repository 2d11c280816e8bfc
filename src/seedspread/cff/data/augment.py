"""Augmentation of whole batches, with draws that depend on the image and not on the batch.

The draws for an image are a function of (augment seed, epoch, image, view): an epoch's uniform numbers for
all images come from one generator, a row per image, and row i is the same however many rows are drawn. They
are drawn on the CPU, so that they are the same on every device.

Operations on pixels take `(B, C, H, W)` uint8 and parameters `(B,)`, one per image, on any device. They
follow Pillow, down to its rounding, because the paper's pipeline was torchvision's transforms on Pillow
images.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seedspread.cff.config import (
    ColorJitter,
    HorizontalFlip,
    RandAugment,
    RandomCrop,
    RandomErasing,
    RandomRotation,
    Step,
)
from seedspread.cff.randomness import stream
from seedspread.errors import require_extra


def crop(images: Tensor, top: Tensor, left: Tensor, padding: int) -> Tensor:
    """Cut a window of the original size out of the image with a black border of `padding`.

    `top` and `left`, `(B,)` integers from 0 to 2 * padding, are the window's corner in the padded image.
    """
    rows, columns = _grid(images)
    return _look_up(images, padding, top[:, None, None] + rows, left[:, None, None] + columns)


def flip(images: Tensor, flipped: Tensor) -> Tensor:
    """Mirror left to right the images for which `flipped`, `(B,)` bool, is True."""
    # exchanging bits under a mask is several times as fast as torch.where on bytes
    mask = flipped.to(torch.uint8).mul_(255)[:, None, None, None]
    return (images.flip(3) ^ images).bitwise_and_(mask).bitwise_xor_(images)


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Rotate counterclockwise about the center by `degrees`, `(B,)`; nearest pixel, black corners."""
    height, width = images.shape[-2:]
    rows, columns = _grid(images)
    y, x = rows + (0.5 - height / 2), columns + (0.5 - width / 2)  # of a target pixel, from the center
    turn = torch.deg2rad(degrees.to(torch.float32))[:, None, None]
    source_x = (turn.cos() * x - turn.sin() * y).add_(width / 2).floor_()
    source_y = (turn.sin() * x + turn.cos() * y).add_(height / 2).floor_()
    # A border of one black pixel stands for everything outside.
    return _look_up(images, 1, source_y.clamp_(-1, height).add_(1), source_x.clamp_(-1, width).add_(1))


def erase(images: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """Blacken a rectangle given by its corner and size, `(B,)` each; a size of 0 blackens nothing."""
    rows, columns = _grid(images)
    down, right = rows - top[:, None, None], columns - left[:, None, None]
    above_or_below = (down < 0) | (down >= height[:, None, None])
    beside = (right < 0) | (right >= width[:, None, None])
    return images.masked_fill(~(above_or_below | beside)[:, None], 0)


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with black: 0 is black, 1 the image, 2 twice as bright."""
    return _blend(torch.zeros((), device=images.device), images, factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the image's own mean gray, rounded to a whole number."""
    mean = _gray(images).mean(dim=(1, 2, 3), keepdim=True, dtype=torch.float32)
    return _blend((mean + 0.5).floor(), images, factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the image's gray version: 0 is gray, 1 the image."""
    return _blend(_gray(images), images, factor)


def hue(images: Tensor, turn: Tensor) -> Tensor:
    """Shift the hue by `turn`, `(B,)`, a share of the color circle, in steps of 1/255 as Pillow does."""
    if images.shape[1] == 1:
        return images  # gray has no hue
    steps = (turn * 255).to(torch.int32)[:, None, None]  # rounded toward zero
    h, s, v = _to_hsv(images)
    return _from_hsv((h + steps) & 255, s, v)


def normalize(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Convert uint8 to float32: (pixel / 255 - mean) / std, per channel."""
    scale, offset = _scale_and_offset(mean, std, images.device)
    return images.to(torch.float32).mul_(scale).add_(offset)


@cache
def _scale_and_offset(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    scale = torch.tensor([1 / (255 * s) for s in std])
    offset = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)])
    return scale.to(device)[:, None, None], offset.to(device)[:, None, None]


def _grid(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return row numbers `(H, 1)` and column numbers `(1, W)`."""
    height, width = images.shape[-2:]
    rows = torch.arange(height, device=images.device)
    return rows[:, None], torch.arange(width, device=images.device)[None, :]


def _look_up(images: Tensor, padding: int, y: Tensor, x: Tensor) -> Tensor:
    """Return the pixels at row y and column x, broadcast to `(B, H, W)`, of the image with a black border."""
    batch, channels, _, width = images.shape
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    index = (y * (width + 2 * padding) + x).to(torch.int64).view(batch, 1, -1)
    return padded.flatten(2).gather(2, index.expand(-1, channels, -1)).view_as(images)


def _blend(start: Tensor, end: Tensor, factor: Tensor) -> Tensor:
    """Return start + factor * (end - start), cut to 0..255 and rounded down, as Pillow does."""
    mixed = end.to(torch.float32).sub_(start).mul_(factor[:, None, None, None]).add_(start)
    return mixed.clamp_(0, 255).to(torch.uint8)


def _gray(images: Tensor) -> Tensor:
    """Return luma `(B, 1, H, W)` as Pillow rounds it: weights in 1/65536."""
    if images.shape[1] == 1:
        return images.to(torch.int32)
    r, g, b = images.to(torch.int32).unbind(1)
    return (19595 * r).add_(g, alpha=38470).add_(b, alpha=7471).add_(32768)[:, None] >> 16


def _to_hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue, `(B, H, W)` int32 from 0 to 255; saturation, float32 in steps of 1/255; value, uint8."""
    r, g, b = images.unbind(1)
    v, low = images.amax(1), images.amin(1)
    chroma = (v - low).to(torch.int32)
    middle = v - (r ^ g ^ b ^ v ^ low)  # how far the third channel is below the highest
    red, green = r == v, g == v
    second = (red & (g == low)) | (~red & ((green & (b == low)) | (~green & (r == low))))
    sixth = (~red).to(torch.int32).mul_(4 - 2 * green.to(torch.int32)).add_(second)
    hues, saturations = _hsv_tables(images.device)
    h = hues.index_select(0, (sixth.mul_(256).add_(chroma).mul_(256).add_(middle)).flatten())
    s = saturations.index_select(0, (chroma.mul_(256).add_(v)).flatten())
    return h.view_as(v), s.view_as(v), v


@cache
def _hsv_tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return Pillow's 8-bit hue by (sixth of the circle, chroma, middle), its saturation by (chroma, value).

    A pixel's hue depends on which channel is highest and which lowest, on their distance (chroma) and on how
    far the third is below the highest (middle). Which steps are rounded to float32 is Pillow's choice, and
    matters, because a floor comes last.
    """
    chroma = torch.arange(256, dtype=torch.float32)[:, None]
    ratio = (torch.arange(256, dtype=torch.float32) / chroma.clamp(min=1)).to(torch.float64)
    # Red highest: with blue lowest 1 - middle, with green lowest middle - 1; then green at 2, blue at 4.
    sectors = torch.stack([base + sign * (1 - ratio) for base in (0.0, 2.0, 4.0) for sign in (1, -1)]).to(
        torch.float32
    )
    circle = (sectors.to(torch.float64) / 6 + 1).remainder_(1).to(torch.float32)
    hues = circle.to(torch.float64).mul_(255).floor_().to(torch.int32)
    hues[:, 0] = 0  # gray
    share = chroma / torch.arange(256, dtype=torch.float32).clamp(min=1)
    saturations = share.to(torch.float64).mul_(255).floor_().div_(255).to(torch.float32)
    return hues.flatten().to(device), saturations.flatten().to(device)


def difference_tables() -> tuple[Tensor, Tensor, Tensor]:
    """Return the tables that `fused.py` uses: hues, saturation times value, and falls of the channels.

    The index of a hue, to which 128 is added, is 511 (red - green) + (green - blue), counted from its lowest
    value; that of saturation times value is 256 chroma + value; that of the falls, `(3, 512)`, hue + 128.
    """
    red_green, green_blue = torch.meshgrid(torch.arange(-255, 256), torch.arange(-255, 256), indexing="ij")
    channels = torch.stack([red_green + green_blue, green_blue, torch.zeros_like(green_blue)])
    possible = (channels.amax(0) - channels.amin(0)) <= 255
    colors = ((channels - channels.amin(0)) * possible).to(torch.uint8)[None]
    hues, _, _ = _to_hsv(colors)
    _, saturations = _hsv_tables(torch.device("cpu"))
    drops = saturations.view(256, 256) * torch.arange(256, dtype=torch.float32)
    falls = _fall_table(torch.device("cpu"))[:, (torch.arange(512) - 128) % 256]
    return hues.flatten().to(torch.int64) + 128, drops.flatten(), falls


def _from_hsv(h: Tensor, s: Tensor, v: Tensor) -> Tensor:
    """Return `(B, 3, H, W)` uint8: a channel falls from v with its distance on the color circle."""
    drop = s * v
    falls = [fall.index_select(0, h.flatten()).view_as(drop) for fall in _fall_table(h.device)]
    return torch.stack([(v - fall.mul_(drop)).round_().to(torch.uint8) for fall in falls], dim=1)


@cache
def _fall_table(device: torch.device) -> Tensor:
    """Return how far red, green and blue fall at each hue, `(3, 256)`: 0 stays at v, 1 is the lowest."""
    around = (torch.arange(256) * (6 / 255) + torch.tensor([5.0, 3.0, 1.0])[:, None]) % 6
    return torch.minimum(around, 4 - around).clamp_(0, 1).to(device)


# Tag that keeps this stream apart from others of the same seed.
_AUGMENT_STREAM = 0xA6
# torchvision draws a rectangle up to ten times until it fits into the image.
_ERASE_TRIES = 10

# Number of draws of a step for an image.
WIDTHS = {
    RandomCrop: 2,
    HorizontalFlip: 1,
    RandomRotation: 1,
    RandomErasing: 3 + 2 * _ERASE_TRIES,
    ColorJitter: 8,
}


def width_of(step: Step) -> int:
    """Return the number of draws of a step for an image."""
    return 2 * step.num_ops if isinstance(step, RandAugment) else WIDTHS[type(step)]


def draws(steps: Sequence[Step], seed: int, epoch: int, view: int, images: int) -> Tensor:
    """Return the uniform numbers in [0, 1), `(images, slots)` float32, of an epoch's augmentation."""
    slots = sum(map(width_of, steps))
    rng = stream(_AUGMENT_STREAM, seed, epoch, view)
    return torch.from_numpy(rng.random((images, slots), dtype=np.float32))


def augment(images: Tensor, steps: Sequence[Step], uniform: Tensor) -> Tensor:
    """Apply augmentation steps, in order, to a batch of images with given draws.

    Args:
        images: `(B, C, H, W)` uint8.
        steps: the steps of an augmentation pipeline.
        uniform: `(B, slots)` draws from 0 to 1. Erasing after normalization is not applied here.

    Returns:
        Images of the same shape, uint8.

    Example:
        >>> images = torch.arange(4, dtype=torch.uint8).reshape(1, 1, 2, 2)
        >>> augment(images, [HorizontalFlip(op="horizontal_flip")], torch.zeros(1, 1)).flatten().tolist()
        [1, 0, 3, 2]
    """
    at = 0
    for step in steps[:-1] if erasing_after(steps) else steps:
        width = width_of(step)
        images = apply(step, images, uniform[:, at : at + width])
        at += width
    return images


def erasing_after(steps: Sequence[Step]) -> RandomErasing | None:
    """Return the last step, if it comes after normalization."""
    last = steps[-1] if steps else None
    return last if isinstance(last, RandomErasing) and last.after_normalization else None


def apply(step: Step, images: Tensor, uniform: Tensor) -> Tensor:
    """Apply one step, with `(B, slots)` uniform numbers."""
    device = images.device
    match step:
        case RandomCrop():
            top, left = whole(uniform, 2 * step.padding + 1).to(device).unbind(1)
            return crop(images, top, left, step.padding)
        case HorizontalFlip():
            return flip(images, (uniform[:, 0] < step.p).to(device))
        case RandomRotation():
            return rotate(images, (step.degrees * (2 * uniform[:, 0] - 1)).to(device))
        case RandomErasing():
            return erase(images, *rectangles(step, images, uniform))
        case ColorJitter():
            return jitter(images, *jitter_factors(step, uniform))
        case RandAugment():
            return _rand_augment(step, images, uniform)


def _rand_augment(step: RandAugment, images: Tensor, uniform: Tensor) -> Tensor:
    require_extra("train", "rand_augment", "PIL")
    from seedspread.cff.data.rand_augment import OPERATIONS, operate  # noqa: PLC0415 - imports Pillow

    chosen, negative = whole(uniform[:, ::2], len(OPERATIONS)).tolist(), (uniform[:, 1::2] <= 0.5).tolist()
    each = zip(images.cpu().numpy(), chosen, negative, strict=True)
    return torch.from_numpy(np.stack([operate(*one, step.magnitude) for one in each])).to(images.device)


def jitter_factors(step: ColorJitter, uniform: Tensor) -> tuple[Tensor, Tensor, list[bool]]:
    """Return `(B, 4)` factors of brightness, contrast, saturation, hue; their order; which are active."""
    reach = torch.tensor([step.brightness, step.contrast, step.saturation, step.hue])
    # Factors are uniform in [max(0, 1 - x), 1 + x]; hue is not a factor but a shift, uniform in [-x, x].
    low = (1 - reach).clamp(min=0)
    low[3] -= 1
    high = 1 + reach
    high[3] -= 1
    factors = low + (high - low) * uniform[:, :4]
    return factors, uniform[:, 4:].argsort(dim=1), (reach > 0).tolist()


def jitter(images: Tensor, factors: Tensor, order: Tensor, active: list[bool]) -> Tensor:
    """Adjust brightness, contrast, saturation and hue by `(B, 4)` factors, each image in its `(B, 4)` order.

    At each place of the order the batch is sorted by the adjustment that is next, so that each is made on a
    slice of the batch. Factors and order stay on the CPU: nothing waits for the device.
    """
    adjustments = (brightness, contrast, saturation, hue)
    rows = torch.arange(len(images))
    for place in range(4):
        turns, move = order[rows, place].sort(stable=True)
        rows = rows[move]
        sizes = torch.bincount(turns, minlength=4).tolist()
        slices = torch.split(images.index_select(0, move.to(images.device)), sizes)
        mine = torch.split(factors[rows].to(images.device), sizes)
        images = torch.cat(
            [
                adjust(part, mine[which][:, which]) if active[which] else part
                for which, (part, adjust) in enumerate(zip(slices, adjustments, strict=True))
            ]
        )
    return images.index_select(0, rows.argsort().to(images.device))


def rectangles(step: RandomErasing, images: Tensor, uniform: Tensor) -> list[Tensor]:
    """Return the arguments of `erase`, on the images' device."""
    sides = erasing_rectangle(step, images.shape[-2], images.shape[-1], uniform.numpy())
    return [torch.from_numpy(side).to(images.device) for side in sides]


def erasing_rectangle(
    step: RandomErasing, height: int, width: int, uniform: NDArray[np.float32]
) -> tuple[NDArray[np.int64], ...]:
    """Return top, left, height and width `(B,)` of the rectangle to erase; a size of 0 erases nothing.

    The area and the logarithm of the shape are uniform; the first of ten tries that fits strictly inside the
    image is taken, as in torchvision.
    """
    happens, down, across = uniform[:, 0] < step.p, uniform[:, 1], uniform[:, 2]
    share, shape = uniform[:, 3::2].astype(np.float64), uniform[:, 4::2].astype(np.float64)
    area = height * width * (step.scale[0] + (step.scale[1] - step.scale[0]) * share)
    log_low, log_high = np.log(step.ratio)
    ratio = np.exp(log_low + (log_high - log_low) * shape)
    tall = np.rint(np.sqrt(area * ratio)).astype(np.int64)
    wide = np.rint(np.sqrt(area / ratio)).astype(np.int64)
    fits = (tall < height) & (wide < width)
    first = fits.argmax(axis=1)[:, None]
    erased = happens & fits.any(axis=1)
    tall = np.where(erased, np.take_along_axis(tall, first, 1)[:, 0], 0)
    wide = np.where(erased, np.take_along_axis(wide, first, 1)[:, 0], 0)
    top = np.floor(down * (height - tall + 1)).astype(np.int64)
    left = np.floor(across * (width - wide + 1)).astype(np.int64)
    return top, left, tall, wide


def whole(uniform: Tensor, count: int) -> Tensor:
    """Turn uniform numbers into whole numbers from 0 to count - 1."""
    return (uniform * count).to(torch.int64).clamp_(max=count - 1)
