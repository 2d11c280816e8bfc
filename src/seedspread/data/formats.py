"""The official file formats, read into arrays. Nothing is unpickled; a file that is off is refused.

Each reader takes the content of one unpacked file and returns images `(N, 3, 32, 32)` uint8, labels `(N,)`
int64, or both; `FormatError` says what is wrong with the content.
"""

import io
import math
import struct

import numpy as np
import scipy.io
import torch
from numpy.typing import NDArray

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]

_PIXELS = 3 * 32 * 32
_IDX_IMAGES, _IDX_LABELS = 0x803, 0x801


class FormatError(Exception):
    """The content of a file is not what its format promises."""


def read_cifar(content: bytes, label_bytes: int, label_at: int, classes: int) -> tuple[Images, Labels]:
    """CIFAR's binary version: one or two label bytes, then 1,024 bytes each of red, green and blue."""
    record = label_bytes + _PIXELS
    if not content or len(content) % record:
        raise FormatError(f"it ends in the middle of an image ({len(content):,} bytes, {record:,} per image)")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    labels = rows[:, label_at].astype(np.int64)
    _check_range(labels, classes)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32), labels


def read_svhn(content: bytes) -> tuple[Images, Labels]:
    """SVHN's cropped digits: X of shape (32, 32, 3, N), y of 1 to 10, where 10 stands for the digit 0."""
    try:
        fields = scipy.io.loadmat(io.BytesIO(content), variable_names=["X", "y"])
        pixels, digits = fields["X"], fields["y"].ravel()
        labels = digits.astype(np.int64)
        whole = bool((labels == digits).all())
    except Exception as error:  # scipy raises many kinds for a damaged file
        raise FormatError(f"it is not a readable MATLAB file with X and y ({error})") from error
    if pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3) or pixels.dtype != np.uint8:
        raise FormatError(f"X is {pixels.dtype} of shape {pixels.shape}, not uint8 of (32, 32, 3, N)")
    if len(digits) != pixels.shape[3]:
        raise FormatError(f"it has {pixels.shape[3]:,} images but {len(digits):,} labels")
    if not whole or labels.min(initial=1) < 1:
        raise FormatError("a label is not a whole number from 1 to 10")
    labels[labels == 10] = 0
    _check_range(labels, 10)
    _check_some(len(labels))
    return np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)), labels


def read_idx_images(content: bytes) -> Images:
    """Fashion-MNIST's images, `(N, 28, 28)` grey, as three equal channels resized to 32 x 32."""
    grey = _idx(content, _IDX_IMAGES, dimensions=3)
    if grey.shape[1:] != (28, 28):
        raise FormatError(f"its images are {grey.shape[1]} x {grey.shape[2]}, not 28 x 28")
    return enlarge(grey)[:, None].repeat(3, axis=1)


def read_idx_labels(content: bytes, classes: int) -> Labels:
    """Fashion-MNIST's labels."""
    labels = _idx(content, _IDX_LABELS, dimensions=1).astype(np.int64)
    _check_range(labels, classes)
    return labels


def enlarge(grey: Images) -> Images:
    """`(N, h, w)` to `(N, 32, 32)`, bilinear as Pillow and torchvision's `Resize` do it."""
    pixels = torch.from_numpy(grey.copy())[:, None]
    # on bytes, because Pillow rounds between the two passes and so does this
    larger = torch.nn.functional.interpolate(pixels, (32, 32), mode="bilinear", antialias=True)
    return larger[:, 0].numpy()


def _idx(content: bytes, magic: int, dimensions: int) -> Images:
    header = 4 * (1 + dimensions)
    if len(content) < header:
        raise FormatError(f"it is cut short ({len(content):,} bytes)")
    found, *shape = struct.unpack(f">{1 + dimensions}I", content[:header])
    if found != magic:
        raise FormatError(f"it begins with {found:#x}, not with {magic:#x}: another kind of file")
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
