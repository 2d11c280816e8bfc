"""Where a dataset's files are, and whether they are what they should be."""

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs

from seedspread.data.catalogue import DataFile, Source
from seedspread.errors import DataError

# No official file is larger when unpacked; more than this is not one of them.
MAX_BYTES = 400 * 2**20


def data_folder(data_dir: Path | None = None) -> Path:
    """The data folder: what was asked for, else SEEDSPREAD_DATA, else the user's cache folder."""
    if data_dir is not None:
        return data_dir
    if from_environment := os.environ.get("SEEDSPREAD_DATA"):
        return Path(from_environment).expanduser()
    return platformdirs.user_cache_path("seedspread") / "data"


def find(source: Source, file: DataFile, folder: Path) -> Path | None:
    """The file, packed or not, in the data folder or where else the dataset may be found."""
    for place in (folder / source.folder, *map(Path, source.elsewhere)):
        for name in (file.name, file.name + ".gz"):
            if (place / name).is_file():
                return place / name
    return None


def read_unpacked(path: Path) -> bytes:
    """The content of a file, unpacked if it ends in .gz; `DataError` where that cannot be done."""
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as packed:
            content = packed.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if len(content) > MAX_BYTES:
        raise DataError(f"{path} unpacks to more than {MAX_BYTES:,} bytes: not an official file")
    return content


def md5(content: bytes) -> str:
    """The checksum by which official content is known."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Found:
    """A file of a dataset as it was found.

    Attributes:
        file: what it should be.
        path: where it is, None if it is nowhere.
        content: its unpacked content; empty if there is none.
        md5: of that content.
    """

    file: DataFile
    path: Path | None
    content: bytes
    md5: str

    @property
    def is_official(self) -> bool:
        """Whether it has the official content."""
        return self.md5 == self.file.md5


def look(source: Source, file: DataFile, folder: Path) -> Found:
    """Reads a file, wherever it is."""
    path = find(source, file, folder)
    if path is None:
        return Found(file, None, b"", "")
    content = read_unpacked(path)
    return Found(file, path, content, md5(content))


def check_not_swapped(found: Found, source: Source) -> None:
    """Raises `DataError` if the file has the official content of another of the dataset's files."""
    for other in source.files:
        if found.md5 == other.md5 and other is not found.file:
            raise DataError(
                f"{found.path} holds the content of {other.name}: the files were swapped; "
                f"rename them, or fetch them anew with: seedspread data fetch {source.name}"
            )


def fingerprint(source: Source, checksums: list[str], partial: bool) -> str:
    """A short name of the content, from the checksums of its unpacked files."""
    digest = hashlib.sha256("\n".join([source.name, *checksums]).encode()).hexdigest()[:16]
    return f"{'partial' if partial else 'official'}-{digest}"


@cache
def official_fingerprint(source: Source) -> str:
    """The fingerprint of the whole official dataset, known without having it."""
    return fingerprint(source, [file.md5 for file in source.files], partial=False)
