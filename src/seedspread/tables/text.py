"""Tables as text: encoding, delimiter, blank lines and comments, as they come."""

import codecs
import csv
import gzip
import io
import warnings
from collections import Counter
from pathlib import Path
from typing import BinaryIO, cast

import pandas as pd

from seedspread.tables.errors import TableError

MOST_BYTES = 1 << 30
_SAMPLE = 1 << 16
_MOST_LINES = 200
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_SEPARATORS = (",", ";", "\t", "|")
_BLANKS = r"\s+"


def read_text(path: Path) -> tuple[pd.DataFrame, list[str], bool]:
    """The cells as text, with the numbers of their lines as index; notes; whether a comma may be a decimal's.

    Values stay text until they are asked for: what is not a number can then be named by its row.
    """
    with _open(path) as file:
        sample = file.read(_SAMPLE)
    encoding = next((name for bom, name in _BOMS.items() if sample.startswith(bom)), "utf-8")
    text = sample.decode(encoding, errors="replace")
    if "\0" in text:
        raise TableError(f"{path} cannot be read as a table: it holds binary data")
    lines = text.splitlines()
    if len(sample) == _SAMPLE:
        lines.pop()  # it may be cut
    skipped = next((n for n, line in enumerate(lines) if not _is_comment(line)), len(lines))
    if skipped == len(lines):
        raise TableError(f"{path} cannot be read as a table: it has no text")
    separator = _separator(lines[skipped:], path.name)
    if separator is None:
        raise TableError(f"{path} cannot be read as a table: its first line has one column only")
    notes = []
    try:
        frame = _parsed(path, encoding, separator, skipped)
    except UnicodeDecodeError:
        frame = _parsed(path, "cp1252", separator, skipped)
        notes.append("It is not UTF-8; read as Windows-1252.")
    frame.index = pd.RangeIndex(2 + skipped, 2 + skipped + len(frame))
    frame.columns = frame.columns.astype(str).str.strip()
    return _without_empty(frame), notes, separator != ","


def _is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _open(path: Path) -> BinaryIO:
    """What is read, unpacked; closing it closes the file."""
    opened = gzip.GzipFile(path) if path.suffix.lower() == ".gz" else path.open("rb")
    return cast(BinaryIO, io.BufferedReader(_Bounded(cast(BinaryIO, opened), path), 1 << 20))


class _Bounded(io.RawIOBase):
    """A file that ends in an error where it grows beyond bounds, as a small archive of a huge text does."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path, self._left = file, path, MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise TableError(
                f"{self._path} has more than {MOST_BYTES / 2**30:.0f} GiB of text; keep the rows and columns "
                "that the audit needs, or save it as .parquet"
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _separator(lines: list[str], name: str) -> str | None:
    """The delimiter that parts most lines into as many cells as the first; None if none parts the first."""
    lines = [line for line in lines[:_MOST_LINES] if line.strip()]
    first = "\t" if name.lower().removesuffix(".gz").endswith((".tsv", ".txt")) else ","
    candidates = sorted(_SEPARATORS, key=lambda separator: separator != first)
    best = max(candidates, key=lambda separator: _columns(lines, separator))
    if _columns(lines, best) > 1:
        return best
    if used := [separator for separator in candidates if separator in lines[0]]:
        return used[0]  # lines of unequal length, which reading names
    return _BLANKS if len(lines[0].split()) > 1 else None


def _columns(lines: list[str], separator: str) -> int:
    """The number of columns, if three quarters of the lines have it."""
    try:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator, skipinitialspace=True)]
    except csv.Error:
        return 0
    return counts[0] if 4 * Counter(counts)[counts[0]] >= 3 * len(counts) else 0


def _parsed(path: Path, encoding: str, separator: str, skipped: int) -> pd.DataFrame:
    with _open(path) as file, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the header's would be lost
        return pd.read_csv(
            file,
            sep=separator,
            encoding=encoding,
            skiprows=skipped,
            dtype=str,
            skipinitialspace=True,
            index_col=False,
            keep_default_na=False,  # a group may be called None
            skip_blank_lines=False,  # rows keep the numbers that an editor shows
        )


def _without_empty(frame: pd.DataFrame) -> pd.DataFrame:
    """Without blank lines, and comments among the rows."""
    first = frame.iloc[:, 0].fillna("").str.strip()
    suspect = frame.loc[(first == "") | first.str.startswith("#")]
    empty = (suspect.iloc[:, 1:].fillna("") == "").all(axis=1)
    return frame.drop(index=empty.index[empty]) if empty.any() else frame
