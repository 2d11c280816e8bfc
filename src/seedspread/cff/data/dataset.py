"""A dataset in memory: read from its files, checked, and split into training, validation and test.

Nothing is unpickled; a file that violates its format is refused. Each reader takes the contents of unpacked
files that belong together and returns images `(N, C, H, W)` uint8, in the shape of the dataset's entry, and
labels `(N,)` int64.
"""

import io
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seedspread.cff.config import DataConfig
from seedspread.cff.data.own import ArrayDataset, own_fingerprint, read_own
from seedspread.cff.datasets import (
    ARRAYS,
    DatasetInfo,
    LocalFile,
    check_not_swapped,
    data_folder,
    dataset_info,
    fetch_command,
    is_dotted,
    is_npz,
    is_own,
    official_fingerprint,
    partial_fingerprint,
    read_file,
)
from seedspread.errors import DataError

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]

_IDX_IMAGES, _IDX_LABELS = 0x803, 0x801


class FormatError(Exception):
    """A file's content violates its format; `place` is the file's index among those read together."""

    place = 0


def read_cifar(contents: Sequence[bytes], info: DatasetInfo, labels: str) -> tuple[Images, Labels]:
    """Read CIFAR's binary version: a label byte, or a coarse and a fine one, then red, green and blue."""
    content, label_bytes = contents[0], 2 if info.coarse_classes else 1
    coarse = label_bytes == 2 and labels == "coarse"
    record = label_bytes + info.channels * info.stored_size**2
    if not content or len(content) % record:
        raise FormatError(f"it ends in the middle of an image ({len(content):,} bytes, {record:,} per image)")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, record)
    numbers = rows[:, 0 if coarse else label_bytes - 1].astype(np.int64)
    _check_range(numbers, len(info.coarse_classes if coarse else info.classes))
    return rows[:, label_bytes:].reshape(-1, info.channels, info.stored_size, info.stored_size), numbers


def read_svhn(contents: Sequence[bytes], info: DatasetInfo, labels: str) -> tuple[Images, Labels]:
    """Read SVHN's cropped digits: X of shape (H, W, 3, N), y of 1 to 10, where 10 stands for the digit 0."""
    from scipy.io import loadmat  # noqa: PLC0415 - slow, and only SVHN needs it

    try:
        fields = loadmat(io.BytesIO(contents[0]), variable_names=["X", "y"])
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
    """Read Fashion-MNIST: gray images and labels, a file each; enlarge and triple them if the entry does."""
    gray = _idx(contents[0], _IDX_IMAGES, dimensions=3)
    size = info.stored_size
    if gray.shape[1:] != (size, size):
        raise FormatError(f"its images are {gray.shape[1]} x {gray.shape[2]}, not {size} x {size}")
    try:
        numbers = _idx(contents[1], _IDX_LABELS, dimensions=1).astype(np.int64)
        _check_range(numbers, len(info.classes))
        if len(numbers) != len(gray):
            raise FormatError(f"it has {len(numbers):,} labels for {len(gray):,} images")
    except FormatError as error:
        error.place = 1
        raise
    resized = gray if info.image_size == size else enlarge(gray, info.image_size)
    return resized[:, None].repeat(info.channels, axis=1), numbers


def enlarge(gray: Images, size: int) -> Images:
    """Resize `(N, h, w)` to `(N, size, size)`, bilinear as Pillow and torchvision's `Resize` do it."""
    pixels = torch.from_numpy(gray.copy())[:, None]
    # on bytes, because Pillow rounds between the two passes and so does this
    larger = torch.nn.functional.interpolate(pixels, (size, size), mode="bilinear", antialias=True)
    return larger[:, 0].numpy()


# The reader of each format, and whether it takes all files of a part together, such as images and labels.
READERS: dict[str, tuple[Callable[[Sequence[bytes], DatasetInfo, str], tuple[Images, Labels]], bool]] = {
    "cifar": (read_cifar, False),
    "svhn": (read_svhn, False),
    "idx": (read_idx, True),
}


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


@dataclass(frozen=True)
class Split:
    images: Tensor  # `(N, C, H, W)` uint8
    labels: Tensor  # `(N,)` int64
    ids: Tensor  # `(N,)` int64, where each image stands in the official split it comes from

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> "Split":
        return Split(self.images.to(device), self.labels.to(device), self.ids.to(device))

    def at(self, index: NDArray[np.int64]) -> "Split":
        where = torch.from_numpy(index)
        return Split(self.images[where], self.labels[where], self.ids[where])


@dataclass(frozen=True)
class Dataset:
    """The images that a run is trained, validated and tested on."""

    info: DatasetInfo  # its entry among the datasets
    classes: tuple[str, ...]  # class names, in the order of the labels
    train: Split  # the training images, without those held out for validation
    validation: Split  # the held-out share of the official training images
    test: Split  # the official test images
    fingerprint: str  # of the content; part of a run's identity
    missing: tuple[str, ...] = ()  # what a partial dataset lacks, in words; empty if it is whole

    def to(self, device: torch.device | str) -> "Dataset":
        splits = {name: getattr(self, name).to(device) for name in ("train", "validation", "test")}
        return replace(self, **splits)

    @property
    def title(self) -> str:
        """Name for reports, which contains "partial" if the dataset is."""
        return f"{self.info.title} (partial)" if self.missing else self.info.title


def load(
    config: DataConfig, data_dir: Path | str | None = None, *, data: ArrayDataset | None = None
) -> Dataset:
    """Read, check and split a dataset; `DataError` if something is missing or wrong.

    Args:
        config: dataset, limits and split; for a run, `RunConfig.split_data`.
        data_dir: the data folder.
        data: the images themselves, instead of those that `config.name` names.

    Returns:
        The training, validation and test images with their labels.

    Example:
        >>> load(RunConfig().split_data).train.images.shape
        torch.Size([2700, 3, 32, 32])
    """
    if data is not None:
        config = config.model_copy(update={"name": ARRAYS})
    if is_own(config.name):
        return _load_own(config, data)
    data_dir = None if data_dir is None else Path(data_dir)
    info = dataset_info(config.name)
    if config.labels == "coarse" and not info.coarse_classes:
        raise DataError(f"{info.name} has no coarse labels; only cifar100 has: use labels = 'fine'")
    official = read_official(info, config.labels, data_dir)
    if official.missing and not config.allow_partial:
        raise DataError(
            f"{info.name} is partial in {data_folder(data_dir)}: {'; '.join(official.missing)}. Fetch it "
            f"whole with: {fetch_command(info.name, data_dir)}, or use what is there with allow_partial"
        )
    return _split(config, info, official)


def _split(config: DataConfig, info: DatasetInfo, official: "Official") -> Dataset:
    rng = np.random.default_rng([config.split_seed, 0])
    chosen = _limit(official.train, config.limit_per_class, rng)
    train, validation = _hold_out(chosen, config.validation_fraction, rng)
    test_rng = np.random.default_rng([config.split_seed, 1])
    return Dataset(
        info=info,
        classes=info.coarse_classes if config.labels == "coarse" else info.classes,
        train=train,
        validation=validation,
        test=_limit(official.test, config.test_limit_per_class, test_rng),
        fingerprint=official.fingerprint,
        missing=official.missing,
    )


def _load_own(config: DataConfig, data: ArrayDataset | None) -> Dataset:
    """Read the user's own images; mean and std are those of the training images, without validation."""
    own = read_own(config.name, config.resize) if data is None else data
    train = _as_split(*own.train)
    if own.test is None:
        train, test = _hold_out(train, config.test_fraction, np.random.default_rng([config.split_seed, 2]))
    elif config.test_fraction != DataConfig.model_fields["test_fraction"].default:
        raise DataError(f"{config.name} has a test part: leave data.test_fraction out")
    else:
        test = _as_split(*own.test)
    is_folder = not is_npz(config.name) and not is_dotted(config.name)
    fingerprint = own_fingerprint(config.name) if is_folder else own.fingerprint
    dataset = _split(config, own.info(config.name), Official(train, test, fingerprint, ()))
    mean, std = _moments(dataset.train.images)
    title = f"own images {fingerprint.rpartition('-')[2][:8]}"  # the same whatever their path
    return replace(dataset, info=replace(dataset.info, title=title, mean=mean, std=std))


def _as_split(images: Images, labels: Labels) -> Split:
    return Split(torch.from_numpy(images), torch.from_numpy(labels), torch.arange(len(labels)))


def _moments(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std of each channel, from 0 to 1; a std of 1 if all its pixels are alike."""
    levels = torch.arange(256, dtype=torch.float64) / 255
    shares = torch.stack([torch.bincount(of.flatten(), minlength=256) for of in images.unbind(1)]).double()
    shares /= shares.sum(dim=1, keepdim=True)
    mean = shares @ levels
    std = (shares * (levels - mean[:, None]) ** 2).sum(dim=1).sqrt()
    return tuple(mean.tolist()), tuple(torch.where(std > 0, std, 1.0).tolist())


@dataclass(frozen=True)
class Official:
    """The official training and test images, as far as they are present."""

    train: Split
    test: Split
    fingerprint: str
    missing: tuple[str, ...]


def read_official(info: DatasetInfo, labels: str = "fine", data_dir: Path | None = None) -> Official:
    """Read all files of a dataset and check their content; `missing` lists what partial content lacks."""
    folder, command = data_folder(data_dir), fetch_command(info.name, data_dir)
    files = [read_file(info, file, folder) for file in info.files]
    if all(file.path is None for file in files):
        raise DataError(
            f"{info.name} is not in {folder}; get it with: {command} "
            "(or name another folder with --data-dir or SEEDSPREAD_DATA)"
        )
    check_not_swapped(files, info, command)
    train, train_note = _read_split(info, files[: len(info.train)], labels, command)
    test, test_note = _read_split(info, files[len(info.train) :], labels, command)
    missing = tuple(note for note in (train_note, test_note) if note)
    fingerprint = official_fingerprint(info)
    if missing:
        tensors = (train.images, train.labels, test.images, test.labels)
        fingerprint = partial_fingerprint(info, *(tensor.numpy().tobytes() for tensor in tensors))
    return Official(train, test, fingerprint, missing)


def _read_split(info: DatasetInfo, files: list[LocalFile], labels: str, command: str) -> tuple[Split, str]:
    """Return the images of some files, and a note of what is missing; empty if nothing is."""
    images, targets, ids, notes, absent = [], [], [], [], []
    read, together = READERS[info.reader]
    for place, group in enumerate([files] if together else [[file] for file in files]):
        lacking = [file.expected.name for file in group if file.path is None]
        if lacking:
            absent += lacking
            continue
        try:
            pixels, classes = read([file.content for file in group], info, labels)
        except FormatError as error:
            raise DataError(_damaged(group[error.place], command, str(error))) from error
        expected = group[0].expected
        if len(pixels) < expected.images:
            notes.append(f"{expected.name} has {len(pixels):,} of {expected.images:,} images")
        elif not all(file.is_official for file in group):
            raise DataError(_damaged(group[0], command, "its content differs from the official file's"))
        images.append(pixels)
        targets.append(classes)
        ids.append(np.arange(len(pixels)) + place * expected.images)
    if absent:
        notes.append(f"absent: {', '.join(absent)}")
    if not images:
        raise DataError(f"{info.name}: {'; '.join(notes)}; get it with: {command}")
    arrays = (np.concatenate(column) for column in (images, targets, ids))
    return Split(*map(torch.from_numpy, arrays)), "; ".join(notes)


def _damaged(file: LocalFile, command: str, why: str) -> str:
    return f"{file.path} is damaged: {why}; delete it and fetch it anew with: {command}"


def _limit(split: Split, per_class: int | None, rng: np.random.Generator) -> Split:
    """Keep at most `per_class` images of each class, chosen at random, in their original order."""
    if per_class is None:
        return split
    chosen = [rng.permutation(members)[:per_class] for members in _by_class(split)]
    return split.at(np.sort(np.concatenate(chosen)))


def _hold_out(split: Split, share: float, rng: np.random.Generator) -> tuple[Split, Split]:
    """Split off the same share of every class, with at least one image of each class on both sides."""
    held_out = []
    for members in _by_class(split):
        if len(members) < 2:
            raise DataError("a class has a single training image: none can be held out for validation")
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        held_out.append(rng.permutation(members)[:count])
    validation = np.sort(np.concatenate(held_out))
    return split.at(np.setdiff1d(np.arange(len(split)), validation)), split.at(validation)


def _by_class(split: Split) -> list[NDArray[np.int64]]:
    labels = split.labels.numpy()
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


@dataclass(frozen=True)
class VerifyResult:
    name: str  # the dataset
    # `whole`, `partial` or `wrong`; wrong is damaged, swapped or absent
    state: Literal["whole", "partial", "wrong"]
    note: str  # what is missing or wrong; empty if whole
    train: int  # number of training images present
    test: int  # number of test images present
    fingerprint: str  # of the content; empty if it could not be read


def verify(info: DatasetInfo, data_dir: Path | None = None) -> VerifyResult:
    """Read a dataset's files and compare their content with the official one."""
    try:
        official = read_official(info, data_dir=data_dir)
    except DataError as error:
        return VerifyResult(info.name, "wrong", str(error), 0, 0, "")
    return VerifyResult(
        name=info.name,
        state="partial" if official.missing else "whole",
        note="; ".join(official.missing),
        train=len(official.train),
        test=len(official.test),
        fingerprint=official.fingerprint,
    )
