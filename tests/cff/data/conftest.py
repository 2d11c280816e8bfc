"""Datasets in their official formats, made small; and the real ones, where there are any."""

import gzip
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from seedspread.cff.datasets import DATASETS, DatasetInfo
from tests.cff.data.small import Serve, Server, Small, contents, offer, small_source


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


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on this machine, which has nothing yet."""
    running = Server()
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield running
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


@pytest.fixture
def serve(server: Server, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Puts a small dataset on the server and makes its address the official one."""

    def served(name: str) -> DatasetInfo:
        info = offer(server, name)
        monkeypatch.setitem(DATASETS, name, info)
        return info

    return served
