"""A dataset in memory: images and labels, in a training, a validation and a test part."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seedspread.config import PIPELINES, DataConfig, Step
from seedspread.data.catalogue import DatasetInfo, source_named
from seedspread.data.files import (
    Found,
    check_not_swapped,
    data_folder,
    look,
    official_fingerprint,
    partial_fingerprint,
)
from seedspread.data.formats import READERS, FormatError, Images, Labels
from seedspread.errors import DataError


@dataclass(frozen=True)
class Split:
    """Some images of a dataset.

    Attributes:
        images: `(N, C, H, W)` uint8.
        labels: `(N,)` int64.
        ids: `(N,)` int64, where each image stands in the official part it comes from.
    """

    images: Tensor
    labels: Tensor
    ids: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str) -> "Split":
        """The same on another device."""
        return Split(self.images.to(device), self.labels.to(device), self.ids.to(device))

    def at(self, index: NDArray[np.int64]) -> "Split":
        """The images at the places `index`."""
        where = torch.from_numpy(index)
        return Split(self.images[where], self.labels[where], self.ids[where])


@dataclass(frozen=True)
class Dataset:
    """What a run is trained and tested on.

    Attributes:
        source: what is known of the dataset.
        classes: class names, in the order of the labels.
        train: the training part, without the validation part.
        validation: the held-out share of the official training images.
        test: the official test images.
        fingerprint: of the content; part of a run's identity.
        missing: what a partial dataset lacks, in words; empty if it is whole.
    """

    source: DatasetInfo
    classes: tuple[str, ...]
    train: Split
    validation: Split
    test: Split
    fingerprint: str
    missing: tuple[str, ...] = ()

    def to(self, device: torch.device | str) -> "Dataset":
        """The same on another device."""
        parts = {name: getattr(self, name).to(device) for name in ("train", "validation", "test")}
        return replace(self, **parts)

    @property
    def title(self) -> str:
        """The name for reports, with "partial" in it where so."""
        return f"{self.source.title} (partial)" if self.missing else self.source.title


def load(config: DataConfig, data_dir: Path | None = None) -> Dataset:
    """Reads, checks and splits a dataset; a `DataError` says what is missing or wrong, and what to do."""
    source = source_named(config.name)
    if config.labels == "coarse" and not source.coarse_classes:
        raise DataError(f"{source.name} has no coarse labels; only cifar100 has: use labels = 'fine'")
    official = read_official(source, config.labels, data_dir)
    if official.missing and not config.allow_partial:
        raise DataError(
            f"{source.name} is partial in {data_folder(data_dir)}: {'; '.join(official.missing)}. Fetch it "
            f"whole with: seedspread data fetch {source.name}, or use what is there with allow_partial"
        )
    rng = np.random.default_rng([config.split_seed, 0])
    chosen = _limit(official.train, config.limit_per_class, rng)
    train, validation = _split(chosen, config.validation_fraction, rng)
    test_rng = np.random.default_rng([config.split_seed, 1])
    return Dataset(
        source=source,
        classes=source.coarse_classes if config.labels == "coarse" else source.classes,
        train=train,
        validation=validation,
        test=_limit(official.test, config.test_limit_per_class, test_rng),
        fingerprint=official.fingerprint,
        missing=official.missing,
    )


def pipeline(config: DataConfig) -> tuple[Step, ...]:
    """The augmentation that a config asks for, or the dataset's own."""
    if config.augment is None:
        return PIPELINES[source_named(config.name).augment]
    return PIPELINES[config.augment] if isinstance(config.augment, str) else config.augment


@dataclass(frozen=True)
class Official:
    """The official training and test parts, as far as they are there."""

    train: Split
    test: Split
    fingerprint: str
    missing: tuple[str, ...]


def read_official(source: DatasetInfo, labels: str = "fine", data_dir: Path | None = None) -> Official:
    """Reads all files of a dataset and checks their content; partial content is read and said."""
    folder = data_folder(data_dir)
    found = [look(source, file, folder) for file in source.files]
    if all(one.path is None for one in found):
        raise DataError(
            f"{source.name} is not in {folder}; get it with: seedspread data fetch {source.name} "
            "(or name another folder with --data-dir or SEEDSPREAD_DATA)"
        )
    check_not_swapped(found, source)
    train = _read_part(source, found[: len(source.train)], labels)
    test = _read_part(source, found[len(source.train) :], labels)
    missing = tuple(note for note in (train.missing, test.missing) if note)
    name = official_fingerprint(source)
    if missing:
        parts = [tensor.numpy() for part in (train.part, test.part) for tensor in (part.images, part.labels)]
        name = partial_fingerprint(source, *(array.tobytes() for array in parts))
    return Official(train.part, test.part, name, missing)


@dataclass(frozen=True)
class _ReadPart:
    part: Split
    missing: str


def _read_part(source: DatasetInfo, found: list[Found], labels: str) -> _ReadPart:
    images, targets, ids, notes, absent = [], [], [], [], []
    for place, group in enumerate(_groups(source, found)):
        gone = [one.file.name for one in group if one.path is None]
        if gone:
            absent += gone
            continue
        pixels, classes = _read_group(source, group, labels)
        expected = group[0].file.images
        if len(pixels) < expected:
            notes.append(f"{group[0].file.name} has {len(pixels):,} of {expected:,} images")
        elif not all(one.is_official for one in group):
            raise DataError(_damaged(group[0], source, "its content differs from the official file's"))
        images.append(pixels)
        targets.append(classes)
        ids.append(np.arange(len(pixels)) + place * expected)
    if absent:
        notes.append(f"absent: {', '.join(absent)}")
    if not images:
        raise DataError(
            f"{source.name}: {'; '.join(notes)}; get it with: seedspread data fetch {source.name}"
        )
    part = Split(
        torch.from_numpy(np.concatenate(images)),
        torch.from_numpy(np.concatenate(targets)),
        torch.from_numpy(np.concatenate(ids)),
    )
    return _ReadPart(part, "; ".join(notes))


def _groups(source: DatasetInfo, found: list[Found]) -> list[list[Found]]:
    """Files that make sense only together, such as images and their labels."""
    return [found] if READERS[source.reader].together else [[one] for one in found]


def _read_group(source: DatasetInfo, group: list[Found], labels: str) -> tuple[Images, Labels]:
    try:
        return READERS[source.reader].read([one.content for one in group], source, labels)
    except FormatError as error:
        raise DataError(_damaged(group[error.place], source, str(error))) from error


def _damaged(found: Found, source: DatasetInfo, why: str) -> str:
    return (
        f"{found.path} is damaged: {why}; delete it and fetch it anew with: "
        f"seedspread data fetch {source.name}"
    )


def _limit(part: Split, per_class: int | None, rng: np.random.Generator) -> Split:
    """At most `per_class` images of each class, chosen at random, in their old order."""
    if per_class is None:
        return part
    chosen = [rng.permutation(members)[:per_class] for members in _by_class(part)]
    return part.at(np.sort(np.concatenate(chosen)))


def _split(part: Split, share: float, rng: np.random.Generator) -> tuple[Split, Split]:
    """Training and validation: the same share of every class, at least one image of each on both sides."""
    held_out = []
    for members in _by_class(part):
        if len(members) < 2:
            raise DataError("a class has a single training image: none can be held out for validation")
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        held_out.append(rng.permutation(members)[:count])
    validation = np.sort(np.concatenate(held_out))
    return part.at(np.setdiff1d(np.arange(len(part)), validation)), part.at(validation)


def _by_class(part: Split) -> list[NDArray[np.int64]]:
    labels = part.labels.numpy()
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]
