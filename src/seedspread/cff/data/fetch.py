"""Download a dataset from its official address: checked, and written whole or not at all."""

import errno
import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

import pooch
import requests

from seedspread.cff.datasets import (
    MAX_BYTES,
    DataFile,
    DatasetInfo,
    Download,
    data_folder,
    fetch_command,
    md5,
    read_file,
    read_unpacked,
)
from seedspread.errors import DataError, reason

_TIMEOUT = 30  # seconds without a byte
# The official archives have 8 and 6 entries; one with many more is not official.
_MAX_MEMBERS = 100


def is_complete(info: DatasetInfo, folder: Path) -> bool:
    """Return whether every file is present with its official content."""
    try:
        return all(read_file(info, file, folder).is_official for file in info.files)
    except DataError:  # a file that cannot be read is one to fetch again
        return False


def fetch(info: DatasetInfo, data_dir: Path | None = None) -> Path:
    """Download a dataset's files into the data folder; return the dataset's folder.

    Everything is downloaded, unpacked and checked in a staging folder first and then moved into place, so
    that a failure leaves the folder as it was.
    """
    folder = data_folder(data_dir)
    target = folder / info.folder
    if not info.downloads:
        raise DataError(f"{info.name} is part of the package: there is nothing to fetch; install it anew")
    pooch.get_logger().setLevel("WARNING")
    try:
        target.mkdir(parents=True, exist_ok=True)
        # Inside the target, which may be a link to another disk: a move must stay on one.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target) as staging:
            ready = [
                path
                for download in info.downloads
                for path in _get(download, info, Path(staging), fetch_command(info.name, data_dir))
            ]
            for path in ready:
                path.chmod(0o644)
                os.replace(path, target / path.name)
                # The same file, packed otherwise, could be found before this one.
                other = path.name.removesuffix(".gz") if path.suffix == ".gz" else path.name + ".gz"
                (target / other).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(_explain(error, info, folder)) from error
    return target


def _get(download: Download, info: DatasetInfo, staging: Path, command: str) -> list[Path]:
    """Download one file into `staging`; return the dataset's files that it contained."""
    name = download.url.rsplit("/", 1)[-1]
    path, downloader = staging / name, pooch.HTTPDownloader(timeout=_TIMEOUT)
    try:
        pooch.retrieve(download.url, f"md5:{download.md5}", fname=name, path=staging, downloader=downloader)
        if pooch.file_hash(str(path), "sha256") != download.sha256:
            raise ValueError("SHA-256")
    except requests.RequestException as error:
        raise DataError(
            f"{download.url} could not be downloaded ({type(error).__name__}); nothing was kept: check the "
            f"connection and run it again: {command}"
        ) from error
    except ValueError as error:  # raised by pooch, too, for a wrong checksum
        raise DataError(
            f"{download.url} came with another checksum than the official one (SHA-256 {download.sha256}); "
            f"nothing was kept: run it again: {command}"
        ) from error
    if name.endswith(".tar.gz"):
        return unpack(path, info.files, staging)
    return [path]


def unpack(archive: Path, wanted: tuple[DataFile, ...], into: Path) -> list[Path]:
    """Extract the wanted files from a .tar.gz, by name, from any folder in it.

    No path in the archive is ever used. A path that would lead outside, a link, a device or too much content
    is a `DataError`: the official archives have none of these.
    """
    by_name = {file.name: file for file in wanted}
    unpacked = []
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for count, member in enumerate(tar):
                _check_member(archive, member, count)
                file = by_name.get(PurePosixPath(member.name).name)
                stream = tar.extractfile(member) if file and member.isfile() else None
                if file is None or stream is None:
                    continue
                path = into / file.name
                with stream, path.open("wb") as out:
                    shutil.copyfileobj(stream, out)
                unpacked.append(path)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{archive.name} is not a readable archive: {error}") from error
    missing = sorted(set(by_name) - {path.name for path in unpacked})
    if missing:
        raise DataError(f"{archive.name} does not hold {', '.join(missing)}")
    for path in unpacked:
        if md5(read_unpacked(path)) != by_name[path.name].md5:
            raise DataError(f"{path.name} in {archive.name} differs from the official file")
    return unpacked


def _check_member(archive: Path, member: tarfile.TarInfo, count: int) -> None:
    path = PurePosixPath(member.name)
    if not (member.isfile() or member.isdir()):
        problem = "a link or a device"
    elif path.is_absolute() or ".." in path.parts:
        problem = "a path that leads outside"
    elif member.size > MAX_BYTES or count >= _MAX_MEMBERS:
        problem = "too much content"
    else:
        return
    raise DataError(f"{archive.name} holds {problem} ({member.name!r}): not the official archive")


def _explain(error: OSError, info: DatasetInfo, folder: Path) -> str:
    if error.errno == errno.ENOSPC:
        need = sum(file.size for file in info.files) + 1e6 * sum(d.megabytes for d in info.downloads)
        return (
            f"no space left in {folder}: {info.name} needs about {need / 1e6:,.0f} MB while it is fetched; "
            "nothing was kept: make room, or name another folder with --data-dir"
        )
    return f"cannot write to {folder}: {reason(error)}; name another folder with --data-dir"
