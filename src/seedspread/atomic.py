"""Write files that appear whole or not at all; open regular files only. Light, since `log` imports it."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@contextmanager
def replacing(path: "Path", guard: Callable[[], None] | None = None) -> "Iterator[Path]":
    """Yield a temporary path beside `path`; it replaces `path` if nothing goes wrong.

    It has the same suffix, from which some writers infer the format.

    Args:
        path: the file.
        guard: called just before the replacement, when everything is written; raises to prevent it.
    """
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(8)}{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as written:
            _sync_file(written.fileno())
        if guard is not None:
            guard()
        os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_file(file: int) -> None:
    """Sync a file; a file system without fsync is accepted, a failing disk is an error."""
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _sync_folder(folder: "Path") -> None:
    """Make a new name in a folder survive a power cut, if the file system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass  # some file systems cannot sync a folder
    finally:
        os.close(handle)


def open_regular(path: "str | os.PathLike[str]", flags: int) -> int:
    """Return a descriptor of a regular file; raise `OSError` for a link, a pipe or a folder."""
    # Without O_NONBLOCK, opening a pipe with nobody at the other end would block forever.
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(f"{os.fspath(path)} is not a regular file")
