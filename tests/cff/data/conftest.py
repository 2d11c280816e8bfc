"""Datasets in their official formats, made small; and the real ones, where there are any."""

import dataclasses
import gzip
import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from seedspread.cff.data.files import md5
from seedspread.cff.datasets import DATASETS, DataFile, DatasetInfo


@pytest.fixture
def real_data() -> Path:
    """The folder of real datasets, partial or whole."""
    folder = os.environ.get("SEEDSPREAD_DATA")
    if not folder:
        pytest.skip("SEEDSPREAD_DATA names no folder with real datasets")
    return Path(folder)


def cifar_content(images: int, label_bytes: int, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (images, label_bytes + 3072), dtype=np.uint8)
    rows[:, label_bytes - 1] = np.arange(images) % 10  # the last label byte is the (fine) class
    rows[:, 0] %= 10
    return rows.tobytes()


def svhn_content(images: int, seed: int, labels: int | None = None, first_label: float = 1) -> bytes:
    rng = np.random.default_rng(seed)
    buffer = io.BytesIO()
    digits = (np.arange(labels or images) % 10 + 1).astype(np.float64)[:, None]
    digits[:1] = first_label
    pixels = rng.integers(0, 256, (32, 32, 3, images), dtype=np.uint8)
    scipy.io.savemat(buffer, {"X": pixels, "y": digits})
    return buffer.getvalue()


def idx_content(images: int, seed: int) -> tuple[bytes, bytes]:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (images, 28, 28), dtype=np.uint8).tobytes()
    labels = (np.arange(images) % 10).astype(np.uint8).tobytes()
    return (
        struct.pack(">4I", 0x803, images, 28, 28) + pixels,
        struct.pack(">2I", 0x801, images) + labels,
    )


def contents(name: str) -> list[bytes]:
    """The content of each file of a small dataset, training files first."""
    if name == "cifar10":
        return [cifar_content(40, 1, seed) for seed in range(6)]
    if name == "cifar100":
        return [cifar_content(60, 2, 0), cifar_content(40, 2, 1)]
    if name == "svhn":
        return [svhn_content(60, 0), svhn_content(40, 1)]
    return [*idx_content(60, 0), *idx_content(40, 1)]


def small_source(name: str, made: list[bytes]) -> DatasetInfo:
    """The dataset's description, as if these small contents were the official ones."""
    official = DATASETS[name]
    images = [40] * 6 if name == "cifar10" else [60, 40]
    if name == "fashion-mnist":
        images = [60, 60, 40, 40]
    files = [
        DataFile(file.name, md5(content), len(content), count)
        for file, content, count in zip(official.files, made, images, strict=True)
    ]
    cut = len(official.train)
    return dataclasses.replace(official, train=tuple(files[:cut]), test=tuple(files[cut:]), elsewhere=())


@dataclasses.dataclass
class Small:
    """A small dataset on disk that passes for the official one."""

    info: DatasetInfo
    data_dir: Path

    @property
    def folder(self) -> Path:
        return self.data_dir / self.info.folder


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Small:
    """Parametrised indirectly by the dataset's name."""
    name = getattr(request, "param", "cifar10")
    made = contents(name)
    info = small_source(name, made)
    monkeypatch.setitem(DATASETS, name, info)
    folder = tmp_path / info.folder
    folder.mkdir()
    for file, content in zip(info.files, made, strict=True):
        if name == "fashion-mnist":
            (folder / (file.name + ".gz")).write_bytes(gzip.compress(content))
        else:
            (folder / file.name).write_bytes(content)
    return Small(info, tmp_path)
