"""Reading what lies in a store, whoever put it there: whole regular files, bounded, links not followed."""

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from seedspread.atomic import open_regular
from seedspread.errors import SeedspreadError

# The version that records state: results, provenances, failures and studies.
FORMAT = 2

_JSON_LIMIT = 64 * 2**20


class RecordError(SeedspreadError):
    """A record that cannot be read."""


class NewerFormatError(RecordError):
    """A record that a newer version has written: it is not damaged, and not to be touched."""


# What reading a damaged or foreign record can raise; a RuntimeError comes of deeply nested JSON, for one.
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    RecordError,
)


def read_file(path: "Path | str", limit: int = _JSON_LIMIT) -> bytes:
    """The content of a regular file of `limit` bytes at most."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise OSError(f"{path} has {size} bytes, more than the {limit} that are read")
        return file.read()


def open_file(path: "Path | str") -> BinaryIO:
    """A regular file, to read; a link, a pipe or a folder in its place is an `OSError`."""
    return open(open_regular(path, os.O_RDONLY), "rb")


def read_json(folder: str, name: str) -> dict[str, Any]:
    """An object from a file of a run's folder; `NewerFormatError` if a newer version has written it."""
    path = os.path.join(folder, name)
    values = json.loads(read_file(path))
    if not isinstance(values, dict):
        raise ValueError(f"{name} holds no JSON object")
    version = values.get("format", FORMAT)
    if not isinstance(version, int) or version > FORMAT:
        raise NewerFormatError(
            f"{path} has record format {version}; this seedspread reads format {FORMAT}: upgrade it"
        )
    return values


def read_record(folder: str, name: str) -> dict[str, Any]:
    """An object from a file that states its format; `ValueError` if that is another one, or missing."""
    values = read_json(folder, name)
    if values.get("format") != FORMAT:
        found = f"has record format {values['format']}" if "format" in values else "states no record format"
        raise ValueError(f"{name} {found}; this seedspread reads format {FORMAT}")
    return values


def damage_of_arrays(path: Path) -> str:
    """What is wrong with a file of safetensors by its header and length; empty if nothing, or if none."""
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= min(size - 8, _JSON_LIMIT):
                raise ValueError("it has no header")
            tensors = json.loads(file.read(length))
        ends = [int(t["data_offsets"][1]) for name, t in tensors.items() if name != "__metadata__"]
        if 8 + length + max(ends, default=0) != size:
            raise ValueError("it is cut short")
    except FileNotFoundError:
        return ""
    except UNREADABLE as error:
        return f"{path} is damaged: {error}"
    return ""


def damage_of_parquet(path: Path) -> str:
    """What is wrong with a file of Parquet by its marks at both ends; empty if nothing, or if none."""
    try:
        with open_file(path) as file:
            size, begin = os.fstat(file.fileno()).st_size, file.read(4)
            file.seek(max(size - 8, 0))
            footer, end = int.from_bytes(file.read(4), "little"), file.read(4)
            whole = begin == end == b"PAR1" and footer + 12 <= size
            return "" if whole else f"{path} is damaged: it is not whole"
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path} is damaged: {error}"
