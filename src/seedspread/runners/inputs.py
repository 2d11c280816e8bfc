"""Files that a run depends on: found by patterns, known by their content."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from seedspread.runners.contract import RunnerError
from seedspread.runs.record import RunFailedError

Digests = tuple[tuple[str, str], ...]

_FILE_LIMIT = 10_000


def digests_of(folder: Path, patterns: Iterable[str]) -> Digests:
    """Every file that a pattern names, by its place seen from `folder`, with its content's SHA-256."""
    paths: dict[str, Path] = {}
    for pattern in patterns:
        matches = [path for path in _matching(folder, pattern) if path.is_file()]
        if not matches:
            raise RunnerError(f"inputs: {pattern!r} names no file in {folder}")
        paths |= {Path(os.path.relpath(path, folder)).as_posix(): path for path in matches}
        if len(paths) > _FILE_LIMIT:
            raise RunnerError(f"inputs: {pattern!r} names more than {_FILE_LIMIT} files; name fewer")
    try:
        return tuple((name, _digest(paths[name])) for name in sorted(paths))
    except OSError as error:
        raise RunnerError(f"inputs: {error.filename} cannot be read: {error.strerror}") from None


def check_unchanged(folder: Path, planned: Digests, when: str) -> None:
    """Raises `RunFailedError` with the first name whose content is not the planned one."""
    for name, digest in planned:
        try:
            now = _digest(folder / name)
        except OSError as error:
            raise RunFailedError(f"its input {name} cannot be read {when}: {error.strerror}") from None
        if now != digest:
            raise RunFailedError(
                f"its input {name} is not what was planned ({when}): give the same command again",
                input=name,
            )


def as_values(digests: Digests) -> Mapping[str, str]:
    """As they stand in files."""
    return dict(digests)


def _matching(folder: Path, pattern: str) -> Iterable[Path]:
    try:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            return [folder / pattern]
        return folder.glob(pattern)
    except (ValueError, NotImplementedError) as error:
        raise RunnerError(f"inputs: {pattern!r} is no pattern: {error}") from None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
