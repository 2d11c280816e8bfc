"""What there is of the datasets on this machine, by file name. Needs no torch, and is quick."""

from dataclasses import dataclass
from pathlib import Path

from seedspread.cff.data.files import data_folder, find_file
from seedspread.cff.datasets import DatasetInfo


@dataclass(frozen=True)
class Presence:
    """A dataset's files, by name only; their content has not been looked at.

    Attributes:
        name: the dataset.
        title: its name in reports.
        folder: where its files are, or would be put.
        found: how many of its files are there.
        short: how many of those are smaller than the official ones.
        packed: how many are packed, so that their size says nothing.
        expected: how many it has.
        bytes: what they take on disk.
    """

    name: str
    title: str
    folder: str
    found: int
    short: int
    packed: int
    expected: int
    bytes: int


def presence(info: DatasetInfo, data_dir: Path | None = None) -> Presence:
    """Looks for a dataset's files."""
    folder = data_folder(data_dir)
    path_of = {file: path for file in info.files if (path := find_file(info, file, folder))}
    paths = list(path_of.values())
    short = [f for f, path in path_of.items() if path.suffix != ".gz" and path.stat().st_size < f.size]
    return Presence(
        name=info.name,
        title=info.title,
        folder=str(paths[0].parent if paths else folder / info.folder),
        found=len(paths),
        short=len(short),
        packed=sum(path.suffix == ".gz" for path in paths),
        expected=len(info.files),
        bytes=sum(path.stat().st_size for path in paths),
    )
