"""Datasets in their official formats, made small; and the real ones, where there are any."""

import gzip
import os
from pathlib import Path

import pytest

from seedspread.cff.datasets import DATASETS
from tests.cff.data.small import Small, contents, small_source


@pytest.fixture
def real_data() -> Path:
    """The folder of real datasets, partial or whole."""
    folder = os.environ.get("SEEDSPREAD_DATA")
    if not folder:
        pytest.skip("SEEDSPREAD_DATA names no folder with real datasets")
    return Path(folder)


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
