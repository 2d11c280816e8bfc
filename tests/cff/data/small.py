"""Small datasets in their official formats, and a server on this machine to download them from."""

import dataclasses
import gzip
import hashlib
import io
import struct
import tarfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import scipy.io

from seedspread.cff.datasets import DATASETS, DataFile, DatasetInfo, Download, md5


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


class Server(ThreadingHTTPServer):
    """Serves bytes by path; those in `broken` end half-way."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.served: dict[str, bytes] = {}
        self.broken: set[str] = set()
        self.requests = 0


Serve = Callable[[str], DatasetInfo]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests += 1
        name = self.path.rsplit("/", 1)[-1]
        if name not in self.server.served:
            self.send_error(404)
            return
        content = self.server.served[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if name in self.server.broken else content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


def archive(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in entries.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def offer(server: Server, name: str) -> DatasetInfo:
    """Puts a small dataset on the server, and says where it is to be had."""
    made = contents(name)
    info = small_source(name, made)
    if name.startswith("cifar"):
        files = {f"{info.folder}/{f.name}": content for f, content in zip(info.files, made, strict=True)}
        packed = {f"{name}.tar.gz": archive(files | {f"{info.folder}/readme.html": b"hello"})}
    elif name == "svhn":
        packed = {file.name: content for file, content in zip(info.files, made, strict=True)}
    else:
        packed = {
            file.name + ".gz": gzip.compress(content) for file, content in zip(info.files, made, strict=True)
        }
    server.served = dict(packed)
    downloads = tuple(
        Download(
            f"http://127.0.0.1:{server.server_port}/{file}",
            md5(content),
            hashlib.sha256(content).hexdigest(),
            len(content) / 1e6,
        )
        for file, content in packed.items()
    )
    return dataclasses.replace(info, downloads=downloads)
