"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, guard: Callable[[], None] | None = None) -> Iterator[Path]:
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
            os.fsync(written.fileno())
        if guard is not None:
            guard()
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
