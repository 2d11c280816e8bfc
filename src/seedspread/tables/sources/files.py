"""Files that anyone may have written: read within bounds, as plain values only."""

import csv
import io
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from seedspread.tables.sources.parameters import TooLargeError

_LARGEST = {".yaml": 4 << 20, ".json": 128 << 20, ".csv": 512 << 20, ".jsonl": 512 << 20}
_LONGEST_LINE = 300
# What reading a damaged or foreign file raises.
UNREADABLE = (OSError, ValueError, TooLargeError, RecursionError, csv.Error, yaml.YAMLError, MemoryError)


@contextmanager
def quiet() -> Iterator[None]:
    """What other libraries warn each other about is nothing that a user of this one can mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def reason(error: BaseException) -> str:
    """One line on what is wrong."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        return f"no valid YAML{where}: {getattr(error, 'problem', None) or error}".splitlines()[0]
    if isinstance(error, json.JSONDecodeError):
        return f"no valid JSON: {error}"
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def read_text(path: Path) -> str:
    """A whole file; a byte-order mark is no part of it."""
    largest = _LARGEST.get(path.suffix, 128 << 20)
    size = path.stat().st_size
    if size > largest:
        raise ValueError(f"it has {size / 2**20:,.0f} MiB; files up to {largest / 2**20:,.0f} MiB are read")
    if not path.is_file():
        raise ValueError("it is not a file")
    return path.read_text(encoding="utf-8-sig")


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Plain values only: an object of any class is null, whatever its tag asks for."""


_PlainLoader.add_multi_constructor("", lambda loader, suffix, node: None)


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping from a YAML file."""
    values = yaml.load(read_text(path), Loader=_PlainLoader)  # noqa: S506 - a safe loader that knows fewer tags
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ValueError("it holds no mapping")
    return values


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    return json.loads(read_text(path))


def read_json_lines(path: Path) -> tuple[list[dict[str, Any]], str]:
    """The objects of a JSON-lines file, and what is wrong with the first line that holds none."""
    rows, problem = [], ""
    for count, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError("no JSON object")
            rows.append(value)
        except (ValueError, RecursionError) as error:
            problem = problem or f"line {count}: {reason(error)}"
    return rows, problem


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by the names in its first line; a cell that is not there is empty."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), restval="")
    return [{key: cell for key, cell in row.items() if key is not None} for row in reader]


def header(path: Path) -> list[str]:
    """The names in the first line of a CSV file; none if it has no such line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(io.StringIO(file.readline(1 << 20))), [])
    except UNREADABLE:
        return []
