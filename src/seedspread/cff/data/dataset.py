"""A dataset in memory: images and labels, split into training, validation and test."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seedspread.cff.config import DataConfig
from seedspread.cff.data.files import (
    LocalFile,
    check_not_swapped,
    data_folder,
    fetch_command,
    official_fingerprint,
    partial_fingerprint,
    read_file,
)
from seedspread.cff.data.formats import READERS, FormatError, Images, Labels
from seedspread.cff.datasets import DatasetInfo, dataset_info
from seedspread.errors import DataError


@dataclass(frozen=True)
class Split:
    """Some images of a dataset.

    Attributes:
        images: `(N, C, H, W)` uint8.
        labels: `(N,)` int64.
        ids: `(N,)` int64, where each image stands in the official split it comes from.
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
        info: its entry among the datasets.
        classes: class names, in the order of the labels.
        train: the training images, without those held out for validation.
        validation: the held-out share of the official training images.
        test: the official test images.
        fingerprint: of the content; part of a run's identity.
        missing: what a partial dataset lacks, in words; empty if it is whole.
    """

    info: DatasetInfo
    classes: tuple[str, ...]
    train: Split
    validation: Split
    test: Split
    fingerprint: str
    missing: tuple[str, ...] = ()

    def to(self, device: torch.device | str) -> "Dataset":
        """The same on another device."""
        splits = {name: getattr(self, name).to(device) for name in ("train", "validation", "test")}
        return replace(self, **splits)

    @property
    def title(self) -> str:
        """The name for reports, with "partial" in it where so."""
        return f"{self.info.title} (partial)" if self.missing else self.info.title


def load(config: DataConfig, data_dir: Path | str | None = None) -> Dataset:
    """Reads, checks and splits a dataset; a `DataError` says what is missing or wrong, and what to do."""
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


@dataclass(frozen=True)
class Official:
    """The official training and test images, as far as they are there."""

    train: Split
    test: Split
    fingerprint: str
    missing: tuple[str, ...]


def read_official(info: DatasetInfo, labels: str = "fine", data_dir: Path | None = None) -> Official:
    """Reads all files of a dataset and checks their content; says what is missing of partial content."""
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
    """The images of some files, and a note of what is missing; empty if nothing is."""
    images, targets, ids, notes, absent = [], [], [], [], []
    for place, group in enumerate(_groups(info, files)):
        lacking = [file.expected.name for file in group if file.path is None]
        if lacking:
            absent += lacking
            continue
        pixels, classes = _read_group(info, group, labels, command)
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


def _groups(info: DatasetInfo, files: list[LocalFile]) -> list[list[LocalFile]]:
    """Files that make sense only together, such as images and their labels."""
    return [files] if READERS[info.reader].together else [[file] for file in files]


def _read_group(
    info: DatasetInfo, group: list[LocalFile], labels: str, command: str
) -> tuple[Images, Labels]:
    try:
        return READERS[info.reader].read([file.content for file in group], info, labels)
    except FormatError as error:
        raise DataError(_damaged(group[error.place], command, str(error))) from error


def _damaged(file: LocalFile, command: str, why: str) -> str:
    return f"{file.path} is damaged: {why}; delete it and fetch it anew with: {command}"


def _limit(split: Split, per_class: int | None, rng: np.random.Generator) -> Split:
    """At most `per_class` images of each class, chosen at random, in their old order."""
    if per_class is None:
        return split
    chosen = [rng.permutation(members)[:per_class] for members in _by_class(split)]
    return split.at(np.sort(np.concatenate(chosen)))


def _hold_out(split: Split, share: float, rng: np.random.Generator) -> tuple[Split, Split]:
    """Training and validation: the same share of every class, at least one image of each on both sides."""
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
