"""Whether the content of a dataset is the official one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seedspread.cff.data.dataset import read_official
from seedspread.cff.datasets import DatasetInfo
from seedspread.errors import DataError


@dataclass(frozen=True)
class VerifyResult:
    """What a look at the content has shown.

    Attributes:
        name: the dataset.
        state: `whole`, `partial` or `wrong`; wrong is damaged, swapped or not there.
        note: what is missing or wrong; empty if whole.
        train: training images there are.
        test: test images there are.
        fingerprint: of the content; empty if it could not be read.
    """

    name: str
    state: Literal["whole", "partial", "wrong"]
    note: str
    train: int
    test: int
    fingerprint: str


def verify(info: DatasetInfo, data_dir: Path | None = None) -> VerifyResult:
    """Reads a dataset's files and compares their content with the official one."""
    try:
        official = read_official(info, data_dir=data_dir)
    except DataError as error:
        return VerifyResult(info.name, "wrong", str(error), 0, 0, "")
    return VerifyResult(
        name=info.name,
        state="partial" if official.missing else "whole",
        note="; ".join(official.missing),
        train=len(official.train),
        test=len(official.test),
        fingerprint=official.fingerprint,
    )
