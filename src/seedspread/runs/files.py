"""Safe reading of files that anyone may have written: regular files, bounded, no links; JSON and TOML."""

import json
import os
import re
import stat
import tomllib
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError, safe_open

from seedspread.atomic import open_regular
from seedspread.errors import SeedspreadError, reason

# The format version of records: results, provenances, failures and studies.
FORMAT = 2

_JSON_LIMIT = 64 * 2**20


class RecordError(SeedspreadError):
    """A record that cannot be read."""


class NewerFormatError(RecordError):
    """A record that a newer version wrote: it is not damaged, and is left alone."""


# Exceptions of reading a damaged or foreign record; deeply nested JSON raises a RuntimeError, for one.
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
    """Read a regular file of at most `limit` bytes."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise OSError(f"{path} has {size} bytes, more than the {limit} that are read")
        return file.read()


def open_file(path: "Path | str") -> BufferedReader:
    """Open a regular file for reading; a link, a pipe or a folder in its place is an `OSError`."""
    return open(open_regular(path, os.O_RDONLY), "rb")


def read_json(folder: str, name: str) -> dict[str, Any]:
    """Read an object from a file of a run's folder; `NewerFormatError` if a newer version wrote it."""
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
    """Read an object from a file that states its format; `ValueError` if that is another one, or missing."""
    values = read_json(folder, name)
    if values.get("format") != FORMAT:
        found = f"has record format {values['format']}" if "format" in values else "states no record format"
        raise ValueError(f"{name} {found}; this seedspread reads format {FORMAT}")
    return values


def damage_of(path: Path) -> str:
    """Return what is wrong with a safetensors file's header and length, or a Parquet file's magic numbers.

    Empty if nothing is wrong, or if there is no file.
    """
    try:
        with open_file(path) as file:
            if path.suffix == ".safetensors":
                with safe_open(path, framework="numpy"):
                    return ""
            size, begin = os.fstat(file.fileno()).st_size, file.read(4)
            file.seek(max(size - 8, 0))
            footer, end = int.from_bytes(file.read(4), "little"), file.read(4)
            whole = begin == end == b"PAR1" and footer + 12 <= size
            return "" if whole else f"{path} is damaged: it is not whole"
    except FileNotFoundError:
        return ""
    except (*UNREADABLE, SafetensorError) as error:
        return f"{path} is damaged: {error}"


# Far more than any config or study written by hand has.
MAX_BYTES = 1_000_000
_MAX_DEPTH = 32
_MAX_BITS = 128
# For keys such as `a.a.a. ...` the parser's time grows with the square of the number of parts.
_LONG_KEY = re.compile(rf"""(?<![\w"'.-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{_MAX_DEPTH}}}""")


class TomlError(SeedspreadError):
    """A .toml file that cannot be read; the message names the file and the reason."""


class TooLargeError(TomlError):
    """A file with more bytes than the limit, with which the message ends."""


def read_toml(path: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the values of a file; `TomlError` if it is not TOML, or too large."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would block
            raise TomlError(f"{path}: not a file")
        with open(path, "rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise TomlError(f"{path}: {reason(error)}") from None
    except ValueError:  # a null character
        raise TomlError(f"{path}: not the name of a file") from None
    if len(content) > max_bytes:
        raise TooLargeError(f"{path} has {os.path.getsize(path):,} bytes; the limit is {max_bytes:,}")
    try:
        return parse_toml(content.decode(), path)
    except UnicodeDecodeError:
        raise TomlError(f"{path}: not a text file") from None


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return the values of a text that messages call `name`; `TomlError` if it is not TOML, or is absurd."""
    if _LONG_KEY.search(text):
        raise TomlError(f"{name}: a key has more than {_MAX_DEPTH} parts")
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise TomlError(f"{name} is nested deeper than {_MAX_DEPTH} levels") from None
    except ValueError as error:  # for example a number of 5,000 digits
        raise TomlError(f"{name} is not a TOML file: {error}") from None
    _check_values(values, name)
    return values


def toml_value(text: str) -> Any:
    """Return the value of a text in TOML; the text itself if it is not TOML."""
    try:
        return parse_toml(f"value = {text}", "a value")["value"]
    except TomlError:
        return text


def _check_values(values: dict[str, Any], name: str) -> None:
    level: list[Any] = [values]
    for _ in range(_MAX_DEPTH):
        if any(isinstance(value, int) and value.bit_length() > _MAX_BITS for value in level):
            raise TomlError(f"{name}: a number of more than {_MAX_BITS} bits")
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list)]
        level = [value for group in inner for value in group]
        if not level:
            return
    raise TomlError(f"{name} is nested deeper than {_MAX_DEPTH} levels")


class FrozenConfig(BaseModel):
    """A part of a description that a user writes: immutable, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Share = Annotated[float, Field(ge=0, le=1)]
