"""The user's own images: arrays, an .npz file of them, or a folder of images per class. Needs no torch.

Nothing is unpickled, no link in a folder is followed, and the amount of data read is bounded.
"""

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedspread.atomic import replacing
from seedspread.cff.datasets import ARRAYS, DatasetInfo, dataset_info, is_dotted, is_npz
from seedspread.errors import DataError, require_extra

_MOST = 16 * 2**30  # largest size of unpacked images that are read into memory, in bytes
_CHANNELS = (1, 2, 3, 4)  # the last axis has the channels if its length is one of these and axis 1's is not
_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_UNREADABLE = (OSError, ValueError, EOFError, MemoryError, NotImplementedError, zlib.error, BadZipFile)


class ArrayDataset:
    """Images and labels in memory, for `train(config, data=...)`, or to be saved for a study.

    Args:
        images: `(N, C, H, W)`, `(N, H, W, C)` or `(N, H, W)` uint8.
        labels: `(N,)`, whole numbers or texts; the sorted distinct ones are the classes.
        test_images: test images in the same shape; without them `data.test_fraction` of each class is held
            out.
        test_labels: labels of the test images.
        classes: class names; the labels are then their numbers, from 0 on.

    Example:
        >>> images = np.zeros((20, 28, 28), np.uint8)
        >>> data = ArrayDataset(images, labels=[0, 1] * 10)
    """

    def __init__(
        self,
        images: ArrayLike,
        labels: ArrayLike,
        test_images: ArrayLike | None = None,
        test_labels: ArrayLike | None = None,
        *,
        classes: Sequence[str] | None = None,
    ) -> None:
        if (test_images is None) != (test_labels is None):
            raise DataError("test_images and test_labels go together; give both, or neither")
        labels = _label_array(labels)
        test_labels = None if test_labels is None else _label_array(test_labels)
        names = np.unique(labels) if classes is None else np.arange(np.size(classes))
        self.classes = tuple(map(str, names if classes is None else np.ravel(classes)))
        self.train = _checked("images", images, labels, names)
        self.test = None if test_images is None else _checked("test_images", test_images, test_labels, names)
        if self.test is not None and self.test[0].shape[1:] != self.train[0].shape[1:]:
            shapes = self.test[0].shape[1:], self.train[0].shape[1:]
            raise DataError("test_images have shape {}, images {}: it must be the same".format(*shapes))
        if len(names) < 2:
            raise DataError("all images are of one class; there must be two at least")
        counts = np.bincount(self.train[1], minlength=len(names))
        if counts.min() < (3 if self.test is None else 2):
            few = f"class {self.classes[counts.argmin()]!r} has {counts.min()} images"
            raise DataError(f"{few}; training, validation and test need one each")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of images and labels: the same whatever their path and the names of the classes."""
        digest = hashlib.sha256()
        for array in (*self.train, *(self.test or ())):
            digest.update(str(array.shape).encode())
            digest.update(array)
        return f"own-{digest.hexdigest()}"

    def info(self, name: str) -> DatasetInfo:
        """Describe the images, without mean and std, which are those of a run's training images."""
        channels, height, width = self.train[0].shape[1:]
        shape: dict[str, Any] = {"channels": channels, "image_size": height, "width": width}
        return replace(dataset_info(name), classes=self.classes, **shape)

    def save(self, path: Path | str) -> None:
        """Write an .npz file, whole or not at all."""
        if Path(path).suffix != ".npz":
            raise DataError(f"{path} must end in .npz")
        fields: dict[str, Any] = {"classes": self.classes, "images": self.train[0], "labels": self.train[1]}
        if self.test is not None:
            fields |= {"test_images": self.test[0], "test_labels": self.test[1]}
        with replacing(Path(path)) as temporary:
            np.savez_compressed(temporary, **fields)


def _label_array(labels: ArrayLike) -> NDArray[Any]:
    """Return labels as an array; texts may be objects, as in pandas."""
    try:
        array = np.asarray(labels)
    except ValueError:  # lists of unequal length
        array = np.asarray(None)
    if array.dtype == object and array.ndim and all(isinstance(label, str) for label in array.flat):
        return array.astype(str)
    if array.dtype.kind not in "biuU":
        raise DataError(f"labels must be whole numbers or texts; got {array.dtype}")
    return array


def _checked(
    name: str, images: ArrayLike, labels: ArrayLike | None, names: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images as `(N, C, H, W)`, and the index of each label among the sorted names."""
    pixels, own = np.asarray(images), np.asarray(labels)
    if pixels.dtype != np.uint8:
        how = "(255 * images).round().astype('uint8')"
        raise DataError(f"{name} must be uint8; got {pixels.dtype}; {how} if they lie between 0 and 1")
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels
    if pixels.ndim != 4 or 0 in pixels.shape:
        raise DataError(f"{name} must be (N, C, H, W), (N, H, W, C) or (N, H, W); got {pixels.shape}")
    if pixels.shape[3] in _CHANNELS and pixels.shape[1] not in _CHANNELS:
        pixels = pixels.transpose(0, 3, 1, 2)
    if own.dtype.kind not in "biuU" or own.shape != pixels.shape[:1]:
        got = f"{own.dtype} of shape {own.shape}"
        raise DataError(f"labels of {len(pixels):,} {name} must be as many whole numbers or texts; got {got}")
    unknown = own if (own.dtype.kind == "U") != (names.dtype.kind == "U") else np.setdiff1d(own, names)
    if len(unknown):
        raise DataError(f"{name} have the label {unknown[0]}, which is none of the {len(names)} classes")
    return np.require(pixels, requirements=["C", "W"]), np.searchsorted(names, own).astype(np.int64)


def read_own(name: str, resize: int | None = None) -> ArrayDataset:
    """Read images by their path, or from a function of user code; `DataError` if they are invalid."""
    if is_dotted(name):
        from seedspread.cff.user_code import build_named  # noqa: PLC0415 - only user code needs it

        return cast(ArrayDataset, build_named(name, ArrayDataset, "an ArrayDataset"))
    with _checked_path(name) as path:
        return _read_npz(path) if path.is_file() else _read_folder(path, resize)


def own_fingerprint(name: str) -> str:
    """Identify images by their content: arrays by their values, a folder by its files and their names."""
    if is_dotted(name):
        return read_own(name).fingerprint
    with _checked_path(name) as path:
        if path.is_file():
            return _read_npz(path).fingerprint
        digest = hashlib.sha256()
        for part in _image_files(path):
            for file in (file for files in part.values() for file in files):
                content = file.read_bytes()
                digest.update(f"{file.relative_to(path).as_posix()}\0{len(content)}\0".encode() + content)
        return f"folder-{digest.hexdigest()}"


@contextmanager
def _checked_path(name: str) -> Iterator[Path]:
    """Yield the path of an .npz file or a folder; errors inside the context then name it."""
    if name == ARRAYS:
        raise DataError("data.name = 'arrays' is for images that are given from Python: train(data=...)")
    try:
        path = Path(name).expanduser()
        if not (path.is_file() if is_npz(name) else path.is_dir()):
            raise DataError("there is no such .npz file or folder of images")
        yield path
    except (OSError, RuntimeError, DataError) as error:
        raise DataError(f"data.name {name!r}: {error}") from error


def _read_npz(path: Path) -> ArrayDataset:
    known = ("images", "labels", "test_images", "test_labels", "classes")
    try:
        with ZipFile(path) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > _MOST:
                raise DataError(f"it holds more than {_MOST:,} bytes")
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, Any] = {field: file[field] for field in known if field in file}
    except _UNREADABLE as error:
        raise DataError(f"no .npz file of plain arrays: {error}") from error
    if not {"images", "labels"} <= set(arrays):
        raise DataError(f"it must have arrays images and labels; of {', '.join(known)} it has {list(arrays)}")
    return ArrayDataset(**arrays)


def _image_files(folder: Path) -> list[dict[str, list[Path]]]:
    """Return the image files of each class: those to train on and, if there are any, those to test on."""
    top = {path.name: path for path in _entries(folder) if path.is_dir()}
    is_split = "train" in top and any(path.is_dir() for path in _entries(top["train"]))  # it is not a class
    if others := sorted(set(top) - {"train", "test"}) if is_split else []:
        raise DataError(f"{others[0]}/ is neither train/ nor test/; rename it, or move it away")
    parts = [top[name] for name in ("train", "test") if name in top] if is_split else [folder]
    found = [{path.name: _images(path) for path in _entries(part) if path.is_dir()} for part in parts]
    empty = [name for part in found for name, files in part.items() if not files]
    if empty or not found[0]:
        what = f"class {empty[0]!r} has no image" if empty else "there is no folder of images per class"
        raise DataError(f"{what}; images end in {' '.join(_ENDINGS)}, and links are not followed")
    if differing := sorted(set(found[0]) ^ set(found[-1])):
        raise DataError(f"class {differing[0]!r} is not under both train/ and test/")
    return found


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, sorted, without links and hidden files."""
    return sorted(path for path in folder.iterdir() if not path.is_symlink() and path.name[0] != ".")


def _images(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.suffix.lower() in _ENDINGS and path.is_file()]


def _read_folder(folder: Path, resize: int | None) -> ArrayDataset:
    parts = _image_files(folder)
    files = [file for part in parts for files in part.values() for file in files]
    images: list[NDArray[np.uint8]] = []
    for file in files:
        images.append(_image(file, resize))
        (height, width), other = images[0].shape[:2], images[-1].shape[:2]
        if other != (height, width):
            raise DataError(
                f"{files[0]} has {height} x {width} pixels, {file} has {other[0]} x {other[1]}; "
                f"data.resize = {min(height, width)} makes all squares of one size"
            )
        if len(files) * images[0].size > _MOST:
            raise DataError(f"{len(files):,} such images are more than {_MOST:,} bytes; set data.resize")
    if len({image.shape for image in images}) > 1:  # some are gray, others not
        images = [np.broadcast_to(image, (height, width, 3)) for image in images]
    labels = [np.repeat(np.arange(len(part)), [len(files) for files in part.values()]) for part in parts]
    pixels = np.split(np.stack(images).transpose(0, 3, 1, 2), [len(labels[0])])
    both = [array for part in zip(pixels, labels, strict=False) for array in part]
    return ArrayDataset(*both, classes=list(parts[0]))


def _image(file: Path, resize: int | None) -> NDArray[np.uint8]:
    """Read an image, `(H, W, C)`, of 1 channel if it is gray and 3 otherwise."""
    require_extra("train", "a folder of images", "PIL")
    from PIL import Image  # noqa: PLC0415 - only folders need it

    try:
        with Image.open(file, formats=_FORMATS) as opened:
            if opened.mode[0] in "IF":
                raise ValueError(f"more than 8 bits per channel ({opened.mode})")
            image = opened.convert("L" if opened.mode in ("1", "L") else "RGB")
    except (*_UNREADABLE, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{file} is no image that can be used: {error}") from error
    if resize is not None:
        width, height = (int(resize * side / min(image.size)) for side in image.size)
        left, top = round((width - resize) / 2), round((height - resize) / 2)
        larger = image.resize((width, height), Image.Resampling.BILINEAR)
        image = larger.crop((left, top, left + resize, top + resize))
    return np.atleast_3d(np.asarray(image, dtype=np.uint8))
