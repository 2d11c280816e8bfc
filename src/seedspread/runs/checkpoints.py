"""Checkpoints of a run: whole or absent, known by their checksum, the last two kept. Nothing is pickled."""

import hashlib
import sys
from collections.abc import Callable
from typing import TypeVar

from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError
from seedspread.runs.files import UNREADABLE, read_file
from seedspread.runs.folder import RunFolder
from seedspread.runs.run_files import checkpoint_number

T = TypeVar("T")
KEPT = 2


class CheckpointError(SeedspreadError):
    """There are checkpoints, and none can be resumed from."""


def write_checkpoint(folder: RunFolder, content: bytes) -> None:
    """Adds a checkpoint, then drops all but the last two."""
    number = max((checkpoint_number(path) for path in folder.checkpoints()), default=0) + 1
    name = f"checkpoint-{number:06d}-{_checksum(content)}.safetensors"

    def whole() -> None:
        with replacing(folder.path / name, folder.guard) as temporary:
            temporary.write_bytes(content)
        for old in folder.checkpoints()[:-KEPT]:
            old.unlink(missing_ok=True)

    folder.writing(whole)


def newest_checkpoint(folder: RunFolder, parse: Callable[[bytes], T]) -> T | None:
    """The newest checkpoint that is whole and can be parsed; None if there is none at all.

    Args:
        folder: of the run.
        parse: makes of a checkpoint's content what it holds, and raises what `UNREADABLE` names if it cannot.
    """
    problems = []
    for path in reversed(folder.checkpoints()):
        try:
            content = read_file(path, sys.maxsize)
            if _checksum(content) != path.stem.rsplit("-", 1)[-1]:
                raise ValueError("its checksum differs")
            return parse(content)
        except UNREADABLE as error:
            problems.append(f"{path.name}: {error}")
    if problems:
        raise CheckpointError(f"no checkpoint in {folder.path} can be resumed from ({'; '.join(problems)})")
    return None


def put_checkpoints_aside(folder: RunFolder) -> bool:
    """Keeps all of them out of the way, so that the run starts afresh; False if there were none."""
    paths = folder.checkpoints()
    for path in paths:
        folder.put_aside(path)
    return bool(paths)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
