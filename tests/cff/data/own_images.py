"""Images of one's own that are easily told apart: three classes, which differ in color, 12 x 8 pixels."""

from pathlib import Path

import numpy as np
from PIL import Image

LABELS = np.arange(60) % 3
IMAGES = np.random.default_rng(0).integers(0, 100, (60, 12, 8, 3), dtype=np.uint8)
IMAGES[np.arange(60), :, :, LABELS] += 150


def folder_of(folder: Path, parts: tuple[str, ...] = ("",), mode: str = "RGB") -> Path:
    """Write a folder of images per class, in each of these parts; numbered within their class."""
    for part in parts:
        for number, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
            of_class = folder / part / str(label)
            of_class.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).convert(mode).save(of_class / f"{number // 3:02}.png")
    return folder
