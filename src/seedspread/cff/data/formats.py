"""The official file formats, read into arrays. Nothing is unpickled; a file that is off is refused.

Each reader takes the contents of the unpacked files that belong together and returns images `(N, C, H, W)`
uint8, as the dataset's entry says, and labels `(N,)` int64; `FormatError` says what is wrong with which.
"""

import io
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.io
import torch
from numpy.typing import NDArray

from seedspread.cff.datasets import DatasetInfo

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]

_IDX_IMAGES, _IDX_LABELS = 0x803, 0x801


class FormatError(Exception):
    """The content of a file is not what its format promises; `place` is which of those read together."""

    place = 0


def read_cifar(contents: Sequence[bytes], info: DatasetInfo, labels: str) -> tuple[Images, Labels]:
    """CIFAR's binary version: a label byte, or a coarse and a fine one, then all red, green and blue."""
    if not info.coarse_classes:
        return _cifar(contents[0], info, 1, label_at=0, classes=len(info.classes))
    coarse = labels == "coarse"
    count = len(info.coarse_classes if coarse else info.classes)
    return _cifar(contents[0], info, 2, label_at=0 if coarse else 1, classes=count)


def _cifar(
    content: bytes, info: DatasetInfo, label_bytes: int, label_at: int, classes: int
) -> tuple[Images, Labels]:
    record = label_bytes + info.channels * info.stored_size**2
    if not content or len(content) % record:
        raise FormatError(f"it ends in the middle of an image ({len(content):,} bytes, {record:,} per image)")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    labels = rows[:, label_at].astype(np.int64)
    _check_range(labels, classes)
    return rows[:, label_bytes:].reshape(-1, info.channels, info.stored_size, info.stored_size), labels


def read_svhn(contents: Sequence[bytes], info: DatasetInfo, labels: str) -> tuple[Images, Labels]:
    """SVHN's cropped digits: X of shape (H, W, 3, N), y of 1 to 10, where 10 stands for the digit 0."""
    try:
        fields = scipy.io.loadmat(io.BytesIO(contents[0]), variable_names=["X", "y"])
        pixels, digits = fields["X"], fields["y"].ravel()
        numbers = digits.astype(np.int64)
        whole = bool((numbers == digits).all())
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise FormatError(f"it is not a readable MATLAB file with X and y ({error})") from error
    shape = (info.stored_size, info.stored_size, info.channels)
    if pixels.ndim != 4 or pixels.shape[:3] != shape or pixels.dtype != np.uint8:
        expected = ", ".join(map(str, shape))
        raise FormatError(f"X is {pixels.dtype} of shape {pixels.shape}, not uint8 of ({expected}, N)")
    if len(digits) != pixels.shape[3]:
        raise FormatError(f"it has {pixels.shape[3]:,} images but {len(digits):,} labels")
    if not whole or numbers.min(initial=1) < 1:
        raise FormatError("a label is not a whole number from 1 to 10")
    numbers[numbers == 10] = 0
    _check_range(numbers, 10)
    _check_some(len(numbers))
    return np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)), numbers


def read_idx(contents: Sequence[bytes], info: DatasetInfo, labels: str) -> tuple[Images, Labels]:
    """Fashion-MNIST: grey images and labels, a file each; as large, and with as many channels, as wanted."""
    grey = _idx(contents[0], _IDX_IMAGES, dimensions=3)
    size = info.stored_size
    if grey.shape[1:] != (size, size):
        raise FormatError(f"its images are {grey.shape[1]} x {grey.shape[2]}, not {size} x {size}")
    try:
        numbers = _idx(contents[1], _IDX_LABELS, dimensions=1).astype(np.int64)
        _check_range(numbers, len(info.classes))
        if len(numbers) != len(grey):
            raise FormatError(f"it has {len(numbers):,} labels for {len(grey):,} images")
    except FormatError as error:
        error.place = 1
        raise
    resized = grey if info.image_size == size else enlarge(grey, info.image_size)
    return resized[:, None].repeat(info.channels, axis=1), numbers


def enlarge(grey: Images, size: int) -> Images:
    """`(N, h, w)` to `(N, size, size)`, bilinear as Pillow and torchvision's `Resize` do it."""
    pixels = torch.from_numpy(grey.copy())[:, None]
    # on bytes, because Pillow rounds between the two passes and so does this
    larger = torch.nn.functional.interpolate(pixels, (size, size), mode="bilinear", antialias=True)
    return larger[:, 0].numpy()


@dataclass(frozen=True)
class Reader:
    """A format: how it is read, and whether all files of a part are read together."""

    read: Callable[[Sequence[bytes], DatasetInfo, str], tuple[Images, Labels]]
    together: bool = False


READERS = {"cifar": Reader(read_cifar), "svhn": Reader(read_svhn), "idx": Reader(read_idx, together=True)}


def _idx(content: bytes, magic: int, dimensions: int) -> Images:
    header = 4 * (1 + dimensions)
    if len(content) < header:
        raise FormatError(f"it is cut short ({len(content):,} bytes)")
    begins_with, *shape = struct.unpack(f">{1 + dimensions}I", content[:header])
    if begins_with != magic:
        raise FormatError(f"it begins with {begins_with:#x}, not with {magic:#x}: another kind of file")
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise FormatError(f"it has {len(content):,} bytes; its header promises {expected:,}")
    _check_some(shape[0])
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def _check_some(images: int) -> None:
    if images == 0:
        raise FormatError("it holds no image")


def _check_range(labels: Labels, classes: int) -> None:
    if len(labels) and labels.max() >= classes:
        raise FormatError(f"a label is {labels.max()}; there are only {classes} classes")
