"""Checkpoints of a run: whole or absent, known by their checksum, the last two kept. Nothing is pickled."""

import hashlib
from pathlib import Path

from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError
from seedspread.runs.folder import RunFolder, checkpoint_number

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


def newest_checkpoint(folder: RunFolder) -> tuple[Path, bytes] | None:
    """The newest checkpoint that is undamaged, and its content; None if there is none at all."""
    paths = folder.checkpoints()
    for path in reversed(paths):
        content = path.read_bytes()
        if _checksum(content) == path.stem.rsplit("-", 1)[-1]:
            return path, content
    if paths:
        names = ", ".join(path.name for path in paths)
        raise CheckpointError(
            f"all checkpoints in {folder.path} are damaged ({names}): start afresh elsewhere"
        )
    return None


def drop_checkpoints(folder: RunFolder) -> bool:
    """Deletes all of them, so that the run starts afresh; False if there were none."""
    paths = folder.checkpoints()
    for path in paths:
        path.unlink(missing_ok=True)
    return bool(paths)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
