"""Files that a run depends on: found by patterns, known by their content."""

import hashlib
import os
from collections.abc import Iterable
from glob import glob
from pathlib import Path

from seedspread.runners.contract import RunnerError
from seedspread.runs.record import RunFailedError
from seedspread.runs.studies import STUDIES

Digests = tuple[tuple[str, str], ...]

_FILE_LIMIT = 10_000


def digests_of(folder: Path, patterns: Iterable[str]) -> Digests:
    """Every file that a pattern names, by its place seen from `folder`, with its content's SHA-256."""
    paths: dict[str, Path] = {}
    for pattern in patterns:
        matches = [path for path in _matching(folder, pattern) if path.is_file()]
        if not matches:
            raise RunnerError(
                f"inputs: {pattern!r} names no file in {folder}; name files, as in 'src/**/*.py'"
            )
        paths |= {Path(os.path.relpath(path, folder)).as_posix(): path for path in matches}
        if len(paths) > _FILE_LIMIT:
            raise RunnerError(f"inputs: {pattern!r} names more than {_FILE_LIMIT} files; name fewer")
    try:
        return tuple((name, _digest(paths[name])) for name in sorted(paths))
    except OSError as error:
        raise RunnerError(f"inputs: {error.filename} cannot be read: {error.strerror}") from None


def check_unchanged(folder: Path, patterns: Iterable[str], planned: Digests, when: str) -> None:
    """Raises `RunFailedError` with the first name that is not what was planned."""
    try:
        now = dict(digests_of(folder, patterns))
    except RunnerError as error:
        raise RunFailedError(f"{error} ({when})") from None
    before = dict(planned)
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            what = "is new" if name not in before else "is gone" if name not in now else "has changed"
            raise RunFailedError(
                f"its input {name} {what} since it was planned ({when}): give the same command again",
                input=name,
            )


def _matching(folder: Path, pattern: str) -> list[Path]:
    matches = [folder / name for name in glob(pattern, root_dir=folder, recursive=True, include_hidden=True)]
    # Neither what Python makes of sources when it imports them, nor what runs leave in a store, is an input.
    stores = {path for match in matches for path in match.parents if (path / STUDIES).is_dir()}
    return [path for path in matches if "__pycache__" not in path.parts and not stores & set(path.parents)]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
