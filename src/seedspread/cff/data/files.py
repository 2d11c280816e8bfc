"""Where a dataset's files are, and whether they are what they should be."""

import gzip
import hashlib
import os
import shlex
import zlib
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

import platformdirs

from seedspread.cff.datasets import DataFile, DatasetInfo
from seedspread.errors import DataError, reason

# No official file is larger when unpacked; more than this is not one of them.
MAX_BYTES = 400 * 2**20


def data_folder(data_dir: Path | None = None) -> Path:
    """The data folder: what was asked for, else SEEDSPREAD_DATA, else the user's cache folder."""
    chosen = data_dir or os.environ.get("SEEDSPREAD_DATA")
    if chosen:
        try:
            return Path(chosen).expanduser()
        except RuntimeError as error:
            raise DataError(f"data folder {str(chosen)!r}: {error}") from error
    return platformdirs.user_cache_path("seedspread") / "data"


def fetch_command(name: str, data_dir: Path | None) -> str:
    """What to type to get a dataset into the folder that was asked for."""
    into = ["--data-dir", str(data_dir)] if data_dir else []
    return shlex.join(["seedspread", "data", "fetch", name, *into])


def find_file(info: DatasetInfo, file: DataFile, folder: Path) -> Path | None:
    """The file, packed or not, in the data folder or where else the dataset may be found."""
    for place in (folder / info.folder, *map(Path, info.elsewhere)):
        for name in (file.name, file.name + ".gz"):
            try:
                if (place / name).is_file():
                    return place / name
            except OSError as error:
                raise DataError(f"cannot look into {place}: {reason(error)}") from error
    return None


def read_unpacked(path: Path) -> bytes:
    """The content of a file, unpacked if it ends in .gz; `DataError` where that cannot be done."""
    opened = gzip.open if path.suffix == ".gz" else Path.open
    try:
        with opened(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}): delete it and fetch the dataset anew") from error
    if len(content) > MAX_BYTES:
        raise DataError(f"{path} holds more than {MAX_BYTES:,} bytes: not an official file; delete it")
    return bytes(content)


def md5(content: bytes) -> str:
    """The checksum by which official content is known."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class LocalFile:
    """A file of a dataset as it is on this machine.

    Attributes:
        expected: what it should be.
        path: where it is, None if it is nowhere.
        content: its unpacked content; empty if there is none.
        md5: of that content.
    """

    expected: DataFile
    path: Path | None
    content: bytes
    md5: str

    @property
    def is_official(self) -> bool:
        """Whether it has the official content."""
        return self.md5 == self.expected.md5


def read_file(info: DatasetInfo, file: DataFile, folder: Path) -> LocalFile:
    """Reads a file, wherever it is."""
    path = find_file(info, file, folder)
    if path is None:
        return LocalFile(file, None, b"", "")
    content = read_unpacked(path)
    return LocalFile(file, path, content, md5(content))


def check_not_swapped(files: list[LocalFile], info: DatasetInfo, command: str) -> None:
    """Raises `DataError` if a file has another's content, official or as it is here.

    Args:
        files: as they are here.
        info: what they should be.
        command: that fetches them.
    """
    present = [file for file in files if file.path is not None]
    for file in present:
        for official in info.files:
            if file.md5 == official.md5 and official is not file.expected:
                raise DataError(
                    f"{file.path} holds the content of {official.name}: the files were swapped; "
                    f"rename them, or fetch them anew with: {command}"
                )
    for file, other in combinations(present, 2):
        if file.md5 == other.md5:
            raise DataError(f"{other.path} and {file.path} have the same content: one of them is wrong")


@cache
def official_fingerprint(info: DatasetInfo) -> str:
    """A short name of the whole official content, from its checksums: known without having it."""
    text = "\n".join([info.name, *(file.md5 for file in info.files)])
    return f"official-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def partial_fingerprint(info: DatasetInfo, *content: bytes) -> str:
    """A short name of content that is not the whole official one, from the images and labels themselves."""
    digest = hashlib.sha256(info.name.encode())
    for piece in content:
        digest.update(len(piece).to_bytes(8, "little") + piece)
    return f"partial-{digest.hexdigest()[:16]}"
