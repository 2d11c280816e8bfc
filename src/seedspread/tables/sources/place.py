"""Where a source lies: a folder, a file or an address. Links are not followed."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from seedspread.errors import SeedspreadError

_SKIPPED = {"__pycache__", "node_modules", "site-packages"}
# Hydra's folder is the one hidden one that matters.
_HIDDEN = {".hydra"}
_MOST_FILES = 500_000
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class Place:
    """What a user named.

    Attributes:
        source: in the user's words.
        path: of a folder or file; None of an address such as `http://host:5000`.
    """

    source: str
    path: Path | None

    @classmethod
    def of(cls, source: "str | Path") -> "Place":
        """From a path or an address; `file:` and `sqlite:///` addresses are paths too."""
        text = str(source)
        scheme = urlsplit(text).scheme if "://" in text or text.startswith("file:") else ""
        if scheme == "sqlite":
            return cls(text, Path(text.removeprefix("sqlite:///")))
        if scheme == "file":
            return cls(text, Path(unquote(urlsplit(text).path)))
        return cls(text, None if scheme else Path(text))

    @cached_property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.path is not None and self.path.is_dir()

    @cached_property
    def is_file(self) -> bool:
        """Whether it is a file."""
        return self.path is not None and self.path.is_file()

    @cached_property
    def _walked(self) -> tuple[list[Path], int]:
        if not self.is_folder or self.path is None:
            return ([self.path] if self.is_file and self.path is not None else []), 0
        files: list[Path] = []
        links = 0
        for folder, subfolders, names in os.walk(self.path):
            here = Path(folder)
            links += sum((here / name).is_symlink() for name in (*subfolders, *names))
            subfolders[:] = sorted(name for name in subfolders if _is_wanted(here, name))
            files += [here / name for name in sorted(names) if not (here / name).is_symlink()]
            if len(files) > _MOST_FILES:
                raise SeedspreadError(
                    f"{self.path} holds more than {_MOST_FILES:,} files; name a folder inside it"
                )
        return files, links

    @property
    def files(self) -> list[Path]:
        """Every file in the folder, in order; the file itself if it is one."""
        return self._walked[0]

    @property
    def links(self) -> int:
        """How many links were passed over."""
        return self._walked[1]

    @cached_property
    def tables(self) -> set[str]:
        """The tables of an SQLite database; none of anything else."""
        if not self.is_file or self.path is None or not starts_with(self.path, _SQLITE):
            return set()
        try:
            with closing(_open(self.path)) as database:
                rows = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        except sqlite3.Error:
            return set()
        return {str(name) for (name,) in rows}

    def relative(self, path: Path) -> str:
        """A path inside the place, for people."""
        if self.path is None or not self.is_folder or path == self.path:
            return path.name
        return path.relative_to(self.path).as_posix()


def _is_wanted(folder: Path, name: str) -> bool:
    hidden = name.startswith(".") and name not in _HIDDEN
    return not hidden and name not in _SKIPPED and not (folder / name).is_symlink()


def starts_with(path: Path, start: bytes) -> bool:
    """Whether a file begins with these bytes."""
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


@contextmanager
def copy_of(database: Path) -> Iterator[Path]:
    """A copy of an SQLite database: a library that opens it may write to it, or bring it up to date."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        with closing(_open(database)) as original, closing(sqlite3.connect(copy)) as target:
            original.backup(target)
        yield copy


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
