"""The operations of RandAugment on a Pillow image, with torchvision's 31 magnitudes."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps
from PIL.ImageEnhance import Brightness, Color, Contrast, Sharpness

Picture = Image.Image


def _moved(image: Picture, *matrix: float) -> Picture:
    """Take each pixel (x, y) from the place that the first two rows of a matrix map it to; black outside."""
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


# Functions of the magnitude as a share of the largest; the share is negative for half of the draws of SIGNED.
SIGNED: dict[str, Callable[[Picture, float], Picture]] = {
    "shear_x": lambda image, share: _moved(image, 1, 0.3 * share, 0, 0, 1, 0),
    "shear_y": lambda image, share: _moved(image, 1, 0, 0, 0.3 * share, 1, 0),
    "translate_x": lambda image, share: _moved(image, 1, 0, -int(150 / 331 * image.width * share), 0, 1, 0),
    "translate_y": lambda image, share: _moved(image, 1, 0, 0, 0, 1, -int(150 / 331 * image.height * share)),
    "rotate": lambda image, share: image.rotate(30 * share),
    "brightness": lambda image, share: Brightness(image).enhance(1 + 0.9 * share),
    "color": lambda image, share: Color(image).enhance(1 + 0.9 * share),
    "contrast": lambda image, share: Contrast(image).enhance(1 + 0.9 * share),
    "sharpness": lambda image, share: Sharpness(image).enhance(1 + 0.9 * share),
}
UNSIGNED: dict[str, Callable[[Picture, float], Picture]] = {
    "identity": lambda image, share: image,
    "posterize": lambda image, share: ImageOps.posterize(image, 8 - round(4 * share)),
    "solarize": lambda image, share: ImageOps.solarize(image, 255 * (1 - share)),  # type: ignore[arg-type]
    "auto_contrast": lambda image, share: ImageOps.autocontrast(image),
    "equalize": lambda image, share: ImageOps.equalize(image),
}
OPERATIONS = [*SIGNED.values(), *UNSIGNED.values()]


def operate(
    pixels: NDArray[np.uint8], chosen: Sequence[int], negative: Sequence[bool], magnitude: int
) -> NDArray[np.uint8]:
    """Apply operations, by their numbers, to an image `(C, H, W)` of 1 or 3 channels."""
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    for number, minus in zip(chosen, negative, strict=True):
        share = -magnitude / 30 if minus and number < len(SIGNED) else magnitude / 30
        image = OPERATIONS[number](image, share)
    return np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)
