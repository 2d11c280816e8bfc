"""What a process prints, and what it starts, in a file of limited size."""

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TextIO

from seedspread.atomic import open_regular
from seedspread.errors import reason
from seedspread.runners.recording import APPEND
from seedspread.runners.supervise import LOG_BYTES
from seedspread.runs.files import open_file
from seedspread.runs.run_files import RunFolderError

_TAIL_BYTES = 2**14
_STDOUT, _STDERR = 1, 2


class OutputFile:
    """Standard output and error go into a file while it is open.

    The file itself, not a pipe that a thread empties: code that holds the interpreter's lock can print too,
    and what a process says when it dies is kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._streams: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)
        self._saved: tuple[int, int] | None = None

    def __enter__(self) -> "OutputFile":
        self._streams = sys.stdout, sys.stderr
        self._flush()
        try:
            file = open_regular(self._path, APPEND)
        except OSError as error:
            raise RunFolderError(
                f"{self._path} cannot be written to: {reason(error)}; a link or folder there must be removed"
            ) from None
        self._saved = os.dup(_STDOUT), os.dup(_STDERR)
        self._redirect(file)
        sys.stdout, sys.stderr = (
            os.fdopen(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
            for number in (_STDOUT, _STDERR)
        )
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._flush()
        sys.stdout, sys.stderr = self._streams
        assert self._saved is not None  # noqa: S101 - it was entered
        for number, saved in zip((_STDOUT, _STDERR), self._saved, strict=True):
            os.dup2(saved, number)
            os.close(saved)

    def limit(self) -> None:
        """To be called now and then: puts a file that has grown large aside, once, and then again."""
        if os.fstat(_STDOUT).st_size > LOG_BYTES:
            os.replace(self._path, f"{self._path}.old")
            self._redirect(open_regular(self._path, APPEND))

    def last_line(self) -> str:
        """Of what was printed, the last line that is not blank."""
        try:
            with open_file(self._path) as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _redirect(self, file: int) -> None:
        for number in (_STDOUT, _STDERR):
            os.dup2(file, number)
        os.close(file)

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
