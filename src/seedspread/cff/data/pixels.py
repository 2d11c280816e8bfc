"""Image operations on whole batches, `(B, C, H, W)` uint8 in and out, with explicit parameters.

Each computes what Pillow computes for one image, with Pillow's own rounding, because that is what the
paper's pipeline was: torchvision's transforms on Pillow images. Parameters are one per image, `(B,)`.
Any device; no Python per image.
"""

from functools import cache

import torch
from torch import Tensor


def crop(images: Tensor, top: Tensor, left: Tensor, padding: int) -> Tensor:
    """A window of the old size out of the image with a black border of `padding`.

    `top` and `left`, `(B,)` integers from 0 to 2 * padding, are the window's corner in the padded image.
    """
    rows, columns = _grid(images)
    return _look_up(images, padding, top[:, None, None] + rows, left[:, None, None] + columns)


def flip(images: Tensor, flipped: Tensor) -> Tensor:
    """Left and right exchanged where `flipped`, `(B,)` bool, is True."""
    # bits exchanged under a mask: several times as fast as torch.where on bytes
    mask = flipped.to(torch.uint8).mul_(255)[:, None, None, None]
    return (images.flip(3) ^ images).bitwise_and_(mask).bitwise_xor_(images)


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Turned anticlockwise about the centre by `degrees`, `(B,)`; nearest pixel, black corners."""
    height, width = images.shape[-2:]
    rows, columns = _grid(images)
    y, x = rows + (0.5 - height / 2), columns + (0.5 - width / 2)  # of a target pixel, from the centre
    turn = torch.deg2rad(degrees.to(torch.float32))[:, None, None]
    source_x = (turn.cos() * x - turn.sin() * y).add_(width / 2).floor_()
    source_y = (turn.sin() * x + turn.cos() * y).add_(height / 2).floor_()
    # A border of one black pixel stands for all that is outside.
    return _look_up(images, 1, source_y.clamp_(-1, height).add_(1), source_x.clamp_(-1, width).add_(1))


def erase(images: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """A black rectangle, its corner and size `(B,)` each; none where a size is 0."""
    rows, columns = _grid(images)
    down, right = rows - top[:, None, None], columns - left[:, None, None]
    above_or_below = (down < 0) | (down >= height[:, None, None])
    beside = (right < 0) | (right >= width[:, None, None])
    return images * (above_or_below | beside)[:, None]


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Blended with black: 0 is black, 1 the image, 2 twice as bright."""
    return _blend(torch.zeros((), device=images.device), images, factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Blended with the image's own mean grey, rounded to a whole one."""
    mean = _grey(images).mean(dim=(1, 2, 3), keepdim=True, dtype=torch.float32)
    return _blend((mean + 0.5).floor(), images, factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Blended with its grey version: 0 is grey, 1 the image."""
    return _blend(_grey(images), images, factor)


def hue(images: Tensor, turn: Tensor) -> Tensor:
    """Hue moved by `turn`, `(B,)`, in shares of the colour circle, in steps of 1/255 as Pillow has them."""
    if images.shape[1] == 1:
        return images  # grey has none
    steps = (turn * 255).to(torch.int32)[:, None, None]  # towards zero
    h, s, v = _to_hsv(images)
    return _from_hsv((h + steps) & 255, s, v)


def normalize(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 to float32: (pixel / 255 - mean) / std, per channel."""
    scale, offset = _scale_and_offset(mean, std, images.device)
    return images.to(torch.float32).mul_(scale).add_(offset)


@cache
def _scale_and_offset(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """`(C, 1, 1)` each."""
    scale = torch.tensor([1 / (255 * s) for s in std])
    offset = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)])
    return scale.to(device)[:, None, None], offset.to(device)[:, None, None]


def _grid(images: Tensor) -> tuple[Tensor, Tensor]:
    """Row numbers `(H, 1)` and column numbers `(1, W)`."""
    height, width = images.shape[-2:]
    rows = torch.arange(height, device=images.device)
    return rows[:, None], torch.arange(width, device=images.device)[None, :]


def _look_up(images: Tensor, padding: int, y: Tensor, x: Tensor) -> Tensor:
    """The pixels at row y and column x, broadcast to `(B, H, W)`, of the image with a black border."""
    batch, channels, _, width = images.shape
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    index = (y * (width + 2 * padding) + x).to(torch.int64).view(batch, 1, -1)
    return padded.flatten(2).gather(2, index.expand(-1, channels, -1)).view_as(images)


def _blend(start: Tensor, end: Tensor, factor: Tensor) -> Tensor:
    """start + factor * (end - start), cut to 0..255 and rounded down, as Pillow does."""
    mixed = end.to(torch.float32).sub_(start).mul_(factor[:, None, None, None]).add_(start)
    return mixed.clamp_(0, 255).to(torch.uint8)


def _grey(images: Tensor) -> Tensor:
    """Luma `(B, 1, H, W)` as Pillow rounds it: weights in 1/65536. Grey is its own."""
    if images.shape[1] == 1:
        return images.to(torch.int32)
    r, g, b = images.to(torch.int32).unbind(1)
    return (19595 * r).add_(g, alpha=38470).add_(b, alpha=7471).add_(32768)[:, None] >> 16


def _to_hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue, `(B, H, W)` int32 from 0 to 255; saturation, float32 in steps of 1/255; value, uint8."""
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
    """Pillow's 8-bit hue by (sixth of the circle, chroma, middle), its saturation by (chroma, value).

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
    hues[:, 0] = 0  # grey
    share = chroma / torch.arange(256, dtype=torch.float32).clamp(min=1)
    saturations = share.to(torch.float64).mul_(255).floor_().div_(255).to(torch.float32)
    return hues.flatten().to(device), saturations.flatten().to(device)


def difference_tables() -> tuple[Tensor, Tensor, Tensor]:
    """The same by other numbers, with which `fused.py` asks for them.

    Returns:
        hues by 511 (red - green) + (green - blue), from the lowest such number on, plus 128; saturation times
        value by 256 chroma + value; how far red, green and blue fall at each hue plus 128, `(3, 512)`.
    """
    red_green, green_blue = torch.meshgrid(torch.arange(-255, 256), torch.arange(-255, 256), indexing="ij")
    channels = torch.stack([red_green + green_blue, green_blue, torch.zeros_like(green_blue)])
    possible = (channels.amax(0) - channels.amin(0)) <= 255
    colours = ((channels - channels.amin(0)) * possible).to(torch.uint8)[None]
    hues, _, _ = _to_hsv(colours)
    _, saturations = _hsv_tables(torch.device("cpu"))
    drops = saturations.view(256, 256) * torch.arange(256, dtype=torch.float32)
    falls = _fall_table(torch.device("cpu"))[:, (torch.arange(512) - 128) % 256]
    return hues.flatten().to(torch.int64) + 128, drops.flatten(), falls


def _from_hsv(h: Tensor, s: Tensor, v: Tensor) -> Tensor:
    """Back to `(B, 3, H, W)` uint8: a channel falls from v with the distance from its place on the circle."""
    drop = s * v
    falls = [fall.index_select(0, h.flatten()).view_as(drop) for fall in _fall_table(h.device)]
    return torch.stack([(v - fall.mul_(drop)).round_().to(torch.uint8) for fall in falls], dim=1)


@cache
def _fall_table(device: torch.device) -> Tensor:
    """How far red, green and blue fall at each hue, `(3, 256)`: 0 stays at v, 1 goes down to the lowest."""
    around = (torch.arange(256) * (6 / 255) + torch.tensor([5.0, 3.0, 1.0])[:, None]) % 6
    return torch.minimum(around, 4 - around).clamp_(0, 1).to(device)
