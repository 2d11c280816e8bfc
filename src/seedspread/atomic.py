"""Files that appear whole or not at all, and are opened only if they are files. Light: `log` imports it."""

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
    """A path beside `path` to write to; it takes the place of `path` if nothing goes wrong.

    The name keeps its ending, from which some writers tell the format.

    Args:
        path: the file.
        guard: is called at the last moment, when all is written, and raises if it must not appear.
    """
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(8)}{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as written:
            _synced(written.fileno())
        if guard is not None:
            guard()
        os.replace(temporary, path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _synced(file: int) -> None:
    """Sync a file; a file system that has no such thing is taken as it is, a disk that fails is not."""
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _sync(folder: "Path") -> None:
    """Let a new name in a folder survive a power cut, where the file system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass  # some file systems have no such thing
    finally:
        os.close(handle)


def open_regular(path: "str | os.PathLike[str]", flags: int) -> int:
    """Return a descriptor of a regular file; raise `OSError` for a link, a pipe or a folder."""
    # Without O_NONBLOCK, opening a pipe that nobody is at the other end of would wait for ever.
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(f"{os.fspath(path)} is not a regular file")
