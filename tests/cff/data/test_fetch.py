"""Downloading from a server on this machine: right, broken, wrong, hostile, and onto a full disk."""

import dataclasses
import gzip
import io
import tarfile
from pathlib import Path

import pytest

from seedspread.cff.config import DataConfig
from seedspread.cff.data.dataset import load
from seedspread.cff.data.fetch import fetch, is_complete, unpack
from seedspread.cff.datasets import DATASETS, DataFile, Download, md5
from seedspread.errors import DataError
from tests.cff.data.small import Serve, Server, archive


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "fashion-mnist"])
def test_a_dataset_is_fetched_checked_and_ready(name: str, serve: Serve, tmp_path: Path) -> None:
    info = serve(name)
    assert not is_complete(info, tmp_path)
    assert fetch(info, tmp_path) == tmp_path / info.folder
    assert is_complete(info, tmp_path)
    assert load(DataConfig(name=name), tmp_path).missing == ()
    assert [path.name for path in tmp_path.iterdir()] == [info.folder]  # no staging folder, no archive


@pytest.mark.parametrize("packed", [True, False])
def test_a_damaged_file_is_mended(packed: bool, serve: Serve, tmp_path: Path) -> None:
    info = serve("fashion-mnist")
    fetch(info, tmp_path)
    name = info.train[0].name + (".gz" if packed else "")
    (tmp_path / info.folder / name).write_bytes(b"neither packed nor whole")
    assert not is_complete(info, tmp_path)
    fetch(info, tmp_path)
    assert is_complete(info, tmp_path)


def test_files_can_be_read_by_others(serve: Serve, tmp_path: Path) -> None:
    folder = fetch(serve("svhn"), tmp_path)
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in folder.iterdir())


def test_the_sample_is_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="part of the package"):
        fetch(DATASETS["fashion-mnist-sample"], tmp_path)


def nothing_is_left(folder: Path) -> bool:
    return not any(path.is_file() for path in folder.rglob("*"))


def test_a_broken_connection_leaves_nothing_and_a_second_try_succeeds(
    serve: Serve, server: Server, tmp_path: Path
) -> None:
    info = serve("svhn")
    server.broken = {"test_32x32.mat"}  # the first file comes whole, the second does not
    with pytest.raises(DataError, match=r"test_32x32.mat .*nothing was kept.*seedspread data fetch svhn"):
        fetch(info, tmp_path)
    assert nothing_is_left(tmp_path)
    server.broken = set()
    fetch(info, tmp_path)
    assert is_complete(info, tmp_path)


def test_no_server_at_all_is_one_clear_error(serve: Serve, server: Server, tmp_path: Path) -> None:
    info = serve("svhn")
    server.served = {}
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch(info, tmp_path)
    gone = dataclasses.replace(info, downloads=(Download("http://127.0.0.1:1/x.mat", "0" * 32, "0" * 64, 1),))
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch(gone, tmp_path)
    assert nothing_is_left(tmp_path)


def test_a_wrong_checksum_leaves_nothing_and_harms_nothing(
    serve: Serve, server: Server, tmp_path: Path
) -> None:
    info = serve("cifar10")
    fetch(info, tmp_path)
    server.served["cifar10.tar.gz"] = archive({"cifar-10-batches-bin/data_batch_1.bin": b"other"})
    with pytest.raises(DataError, match="another checksum than the official one"):
        fetch(info, tmp_path)
    assert is_complete(info, tmp_path)  # what was there is untouched


def test_content_that_only_shares_the_md5_is_refused(serve: Serve, tmp_path: Path) -> None:
    info = serve("svhn")
    forged = dataclasses.replace(info.downloads[1], sha256="0" * 64)
    with pytest.raises(DataError, match=r"test_32x32.mat came with another checksum .*\(SHA-256 000"):
        fetch(dataclasses.replace(info, downloads=(info.downloads[0], forged)), tmp_path)
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("small_disk", ["512k"], indirect=True)
def test_a_full_disk_is_said_and_leaves_nothing(serve: Serve, small_disk: Path) -> None:
    info = serve("cifar10")
    with pytest.raises(DataError, match=r"no space left in .*cifar10 needs about .* MB"):
        fetch(info, small_disk)
    assert nothing_is_left(small_disk)


def test_a_folder_that_cannot_be_written_is_said(serve: Serve, tmp_path: Path) -> None:
    info = serve("svhn")
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(DataError, match=r"cannot write to .*--data-dir"):
        fetch(info, blocked / "data")


WANTED = (DataFile("data.bin", md5(b"content"), 7, 1),)


def unpacked(entries: dict[str, bytes], folder: Path, hostile: tarfile.TarInfo | None = None) -> None:
    packed = folder / "archive.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        if hostile:
            tar.addfile(hostile)
        for name, content in entries.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    inside = folder / "inside"
    inside.mkdir()
    try:
        unpack(packed, WANTED, inside)
    finally:
        outside = {path.name for path in folder.rglob("*")} - {"archive.tar.gz", "inside", "data.bin"}
        assert not outside


@pytest.mark.parametrize("name", ["../evil.bin", "/evil.bin", "a/../../evil.bin"])
def test_a_path_that_leads_outside_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a path that leads outside"):
        unpacked({name: b"evil", "data.bin": b"content"}, tmp_path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    member = tarfile.TarInfo("data.bin")
    member.type, member.linkname = kind, "/etc/passwd"
    with pytest.raises(DataError, match="a link or a device"):
        unpacked({"data.bin": b"content"}, tmp_path, hostile=member)


def test_too_much_content_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seedspread.cff.data.fetch.MAX_BYTES", 100)
    with pytest.raises(DataError, match="too much content"):
        unpacked({"data.bin": b"0" * 101}, tmp_path)


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="too much content"):
        unpacked({f"{i}.bin": b"" for i in range(200)}, tmp_path)


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not hold data\.bin"):
        unpacked({"other.bin": b"content"}, tmp_path)
    packed = tmp_path / "broken.tar.gz"
    packed.write_bytes(b"no archive")
    with pytest.raises(DataError, match="not a readable archive"):
        unpack(packed, WANTED, tmp_path)
    packed.write_bytes(archive({"data.bin": b"other!!"}))
    with pytest.raises(DataError, match="differs from the official file"):
        unpack(packed, WANTED, tmp_path)


def test_a_file_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seedspread.cff.datasets.MAX_BYTES", 1000)
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    for file in DATASETS["fashion-mnist"].files:
        (folder / (file.name + ".gz")).write_bytes(gzip.compress(bytes(2000)))
    with pytest.raises(DataError, match="holds more than 1,000 bytes"):
        load(DataConfig(name="fashion-mnist"), tmp_path)
