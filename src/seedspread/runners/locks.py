"""A file that one process holds at a time."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seedspread.atomic import open_regular
from seedspread.runs.stopping import StoppedError, StopRequest

_LOCK_SECONDS = 0.1


@contextmanager
def locked(path: Path, stop: StopRequest) -> Iterator[None]:
    """Wait until no one else holds this file; a request to stop ends the wait."""
    file = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stop.number is not None:
                    raise StoppedError("stopped before it began", stop.number) from None
                time.sleep(_LOCK_SECONDS)
        yield
    finally:
        os.close(file)
