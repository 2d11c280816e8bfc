"""TOML that somebody else wrote: read in bounded time, or refused in one line."""

import os
import re
import stat
import tomllib
from typing import Any

from seedspread.errors import SeedspreadError, reason

# Far more than any config or study of people's making has.
MAX_BYTES = 1_000_000
_MAX_DEPTH = 32
_MAX_BITS = 128
# `a.a.a. ...`: the parser's time grows with the square of a key's parts.
_LONG_KEY = re.compile(rf"""(?<![\w"'.-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{_MAX_DEPTH}}}""")


class TomlError(SeedspreadError):
    """A .toml file that cannot be read; the message names it and says why."""


class TooLargeError(TomlError):
    """A file with more bytes than are read; the message ends with the limit."""


def read_toml(path: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The values of a file; `TomlError` if it is none, or too large."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for
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
    """The values of a text, which messages call `name`; `TomlError` if it is not TOML, or an absurd one."""
    if _LONG_KEY.search(text):
        raise TomlError(f"{name}: a key has more than {_MAX_DEPTH} parts")
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise TomlError(f"{name} is nested deeper than {_MAX_DEPTH} levels") from None
    except ValueError as error:  # also a number of 5,000 digits
        raise TomlError(f"{name} is not a TOML file: {error}") from None
    _check_values(values, name)
    return values


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
