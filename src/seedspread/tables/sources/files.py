"""Files that anyone may have written: read within bounds, as plain values only."""

import csv
import io
import json
import os
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from seedspread.errors import SeedspreadError

_SKIPPED = {"__pycache__", "node_modules", "site-packages"}
_MOST_FILES = 500_000
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class Place:
    """A folder, a file or an address such as `http://host:5000`, which has no `path`. Links are not followed.

    Attributes:
        source: as the user wrote it.
    """

    source: str
    path: Path | None

    @classmethod
    def of(cls, source: "str | Path") -> "Place":
        """Return the place of a path or an address; `file:` and `sqlite:///` addresses are paths too."""
        text = str(source)
        scheme = urlsplit(text).scheme if "://" in text or text.startswith("file:") else ""
        if scheme == "sqlite":
            return cls(text, Path(text.removeprefix("sqlite:///")))
        if scheme == "file":
            return cls(text, Path(unquote(urlsplit(text).path)))
        return cls(text, None if scheme else Path(text))

    @cached_property
    def folder(self) -> Path | None:
        return self.path if self.path is not None and self.path.is_dir() else None

    @cached_property
    def file(self) -> Path | None:
        return self.path if self.path is not None and self.path.is_file() else None

    @cached_property
    def _walked(self) -> tuple[list[Path], int]:
        if self.folder is None:
            return ([] if self.file is None else [self.file]), 0
        files: list[Path] = []
        links = 0
        for folder, subfolders, names in os.walk(self.folder):
            here = Path(folder)
            links += sum((here / name).is_symlink() for name in (*subfolders, *names))
            hidden = {name for name in subfolders if name.startswith(".") and name != ".hydra"}
            wanted = sorted({*subfolders} - hidden - _SKIPPED)
            subfolders[:] = [name for name in wanted if not (here / name).is_symlink()]
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
        """Number of links that were passed over."""
        return self._walked[1]

    @cached_property
    def tables(self) -> set[str]:
        """The tables of an SQLite database; none of anything else."""
        if self.file is None or not starts_with(self.file, _SQLITE):
            return set()
        try:
            with closing(_open(self.file)) as database:
                rows = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            return set()
        return {str(name) for (name,) in rows}

    def relative(self, path: Path) -> str:
        """Return a path inside the place, for people."""
        if self.folder is None or path == self.folder:
            return path.name
        return path.relative_to(self.folder).as_posix()


def starts_with(path: Path, start: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


@contextmanager
def copy_of(path: Path) -> Iterator[Path]:
    """Copy a file, or an SQLite database, for a library that may write to what it opens, or migrate it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        if not starts_with(path, _SQLITE):
            shutil.copyfile(path, copy)
        else:
            with closing(_open(path)) as original, closing(sqlite3.connect(copy)) as target:
                original.backup(target)
        yield copy


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


_LARGEST = {".yaml": 4 << 20, ".json": 128 << 20, ".csv": 512 << 20, ".jsonl": 512 << 20}
_LONGEST_LINE = 300
# What reading a damaged or foreign file may raise.
UNREADABLE = (OSError, ValueError, RecursionError, csv.Error, yaml.YAMLError, MemoryError)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings of other libraries, about which a user of this one can do nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def reason(error: BaseException) -> str:
    """Return one line on what is wrong."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        return f"no valid YAML{where}: {getattr(error, 'problem', None) or error}".splitlines()[0]
    if isinstance(error, json.JSONDecodeError):
        return f"no valid JSON: {error}"
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def read_text(path: Path) -> str:
    largest = _LARGEST.get(path.suffix, 128 << 20)
    size = path.stat().st_size
    if size > largest:
        raise ValueError(f"it has {size / 2**20:,.0f} MiB; files up to {largest / 2**20:,.0f} MiB are read")
    if not path.is_file():
        raise ValueError("it is not a file")
    return path.read_text(encoding="utf-8-sig")


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Loads plain values only: an object of any class is null, whatever its tag asks for."""


_PlainLoader.add_multi_constructor("", lambda loader, suffix, node: None)


def read_yaml(path: Path) -> dict[str, Any]:
    values = yaml.load(read_text(path), Loader=_PlainLoader)  # noqa: S506 - a safe loader that knows fewer tags
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ValueError("it holds no mapping")
    return values


def read_json(path: Path) -> Any:
    return json.loads(read_text(path))


def read_json_lines(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the objects of a JSON-lines file, and what is wrong with the first line that has none."""
    rows, problem = [], ""
    for count, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError("no JSON object")
            rows.append(value)
        except (ValueError, RecursionError) as error:
            problem = problem or f"line {count}: {reason(error)}"
    return rows, problem


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file by the names in its first line; a missing cell is empty."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), restval="")
    return [{key: cell for key, cell in row.items() if key is not None} for row in reader]


def header(path: Path) -> list[str]:
    """Return the names in the first line of a CSV file, if any."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(io.StringIO(file.readline(1 << 20))), [])
    except UNREADABLE:
        return []
