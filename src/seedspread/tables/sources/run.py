"""The common form of all sources: runs with parameters and curves; safe reading of untrusted files.

Files are read within bounds, as plain values only.
"""

import csv
import io
import json
import math
import os
import re
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import yaml

from seedspread.errors import AdviceError, SeedspreadError
from seedspread.runs.metrics import Better, is_metric_name
from seedspread.tables.columns import SEEDS, is_seed, last_part

_SKIPPED = {"__pycache__", "node_modules", "site-packages"}
_MOST_FILES = 500_000
_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class Place:
    """A folder, a file, or an address such as `http://host:5000` without a path. Links are not followed."""

    source: str
    path: Path | None

    @classmethod
    def of(cls, source: "str | Path") -> "Place":
        """Return the place of a path or an address; `file:` and `sqlite:///` addresses are paths too."""
        text = str(source)
        scheme = urlsplit(text).scheme if "://" in text or text.startswith("file:") else ""
        if scheme == "sqlite":
            return cls(text, Path(text.removeprefix("sqlite:///")))
        if scheme == "file":
            return cls(text, Path(unquote(urlsplit(text).path)))
        return cls(text, None if scheme else Path(text))

    @cached_property
    def folder(self) -> Path | None:
        return self.path if self.path is not None and self.path.is_dir() else None

    @cached_property
    def file(self) -> Path | None:
        return self.path if self.path is not None and self.path.is_file() else None

    @cached_property
    def _walked(self) -> tuple[list[Path], int]:
        if self.folder is None:
            return ([] if self.file is None else [self.file]), 0
        files: list[Path] = []
        links = 0
        for folder, subfolders, names in os.walk(self.folder):
            here = Path(folder)
            linked = {name for name in (*subfolders, *names) if (here / name).is_symlink()}
            links += len(linked)
            hidden = {name for name in subfolders if name.startswith(".") and name != ".hydra"}
            subfolders[:] = sorted({*subfolders} - linked - hidden - _SKIPPED)
            files += [here / name for name in sorted({*names} - linked)]
            if len(files) > _MOST_FILES:
                raise SeedspreadError(
                    f"{self.path} holds more than {_MOST_FILES:,} files; name a folder inside it"
                )
        return files, links

    @property
    def files(self) -> list[Path]:
        """Every file in the folder, in order; the file itself if it is one."""
        return self._walked[0]

    @property
    def links(self) -> int:
        """Number of links that were skipped."""
        return self._walked[1]

    @cached_property
    def tables(self) -> set[str]:
        """The tables of an SQLite database; empty for anything else."""
        if self.file is None or not starts_with(self.file, _SQLITE):
            return set()
        try:
            with closing(_open(self.file)) as database:
                rows = database.execute("select name from sqlite_master where type = 'table'").fetchall()
        except (sqlite3.Error, UnicodeDecodeError):
            return set()
        return {str(name) for (name,) in rows}

    def relative(self, path: Path) -> str:
        """Return a path inside the place, for people."""
        if self.folder is None or path == self.folder:
            return path.name
        return path.relative_to(self.folder).as_posix()


def starts_with(path: Path, start: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


@contextmanager
def copy_of(path: Path) -> Iterator[Path]:
    """Copy a file, or an SQLite database, for a library that may modify or migrate what it opens."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        if not starts_with(path, _SQLITE):
            shutil.copyfile(path, copy)
        else:
            with closing(_open(path)) as original, closing(sqlite3.connect(copy)) as target:
                original.backup(target)
        yield copy


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


_LARGEST = {".yaml": 4 << 20, ".json": 128 << 20, ".csv": 512 << 20, ".jsonl": 512 << 20}
_LONGEST_LINE = 300
# Exceptions that reading a damaged or foreign file may raise.
UNREADABLE = (OSError, ValueError, RecursionError, csv.Error, yaml.YAMLError, MemoryError)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings of other libraries that users of this one can do nothing about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def reason(error: BaseException) -> str:
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
    largest = _LARGEST.get(path.suffix, 128 << 20)
    size = path.stat().st_size
    if size > largest:
        raise ValueError(f"it has {size / 2**20:,.0f} MiB; files up to {largest / 2**20:,.0f} MiB are read")
    if not path.is_file():
        raise ValueError("it is not a file")
    return path.read_text(encoding="utf-8-sig")


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Loads plain values only: an object of any class becomes null, whatever its tag."""


_PlainLoader.add_multi_constructor("", lambda loader, suffix, node: None)


def read_yaml(path: Path) -> dict[str, Any]:
    values = yaml.load(read_text(path), Loader=_PlainLoader)  # noqa: S506 - a safe loader that knows fewer tags
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ValueError("it holds no mapping")
    return values


def read_json(path: Path) -> Any:
    return json.loads(read_text(path))


def read_json_lines(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Return the objects of a JSON-lines file, and a description of the first line that is not one."""
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
    """Return the rows of a CSV file by the names in its first line; a missing cell is empty."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), restval="")
    return [{key: cell for key, cell in row.items() if key is not None} for row in reader]


def header(path: Path) -> list[str]:
    """Return the names in the first line of a CSV file, if any."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(io.StringIO(file.readline(1 << 20))), [])
    except UNREADABLE:
        return []


# (step, value) in the order of writing; the step is None if the source has none.
Curve = list[tuple[float | None, float]]


def clean(text: object) -> str:
    """Return text from someone else's file for a terminal; unprintable characters become question marks."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def count(number: int, word: str) -> str:
    """`1 run`, `1,000 runs`."""
    return f"1 {word}" if number == 1 else f"{number:,} {word}s"


class SourceError(AdviceError):
    """A source that cannot be read, or not in this way; the message may quote names from its files."""

    def __init__(self, message: str) -> None:
        super().__init__(clean(message))


@dataclass(frozen=True)
class Unread:
    name: str
    reason: str


@dataclass(frozen=True)
class CollectedRun:
    name: str
    parameters: Mapping[str, Any]  # by dotted name
    # By metric; a single point if the source stores no more, or no more is needed.
    curves: Mapping[str, Curve]
    group: str = ""  # its experiment or study
    # The better direction by metric, if the source records it.
    better: Mapping[str, Better] = field(default_factory=dict)


class Reader:
    """One kind of source: subclass it, and add an instance to `READERS` in `collect.py`."""

    kind: ClassVar[str]  # its word on the command line
    title: ClassVar[str]  # its displayed name
    looks_like: ClassVar[str]  # a description for the message if a place contains no such source
    group: ClassVar[str] = ""  # its word for a set of runs, used as a column name; empty if it has none

    def recognizes(self, place: Place) -> bool:
        raise NotImplementedError

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterable[CollectedRun | Unread]:
        """Return its runs, oldest first if times are known, and what cannot be read.

        `metrics` need whole curves if `whole`; otherwise, and for other metrics, last points are enough.
        """
        raise NotImplementedError


_MOST_VALUES = 20_000
_DEEPEST = 50
# The column for the rest of a name that parameters were read from.
STEM = "stem"
# Only the end of longer names is parsed; no file name is that long.
_LONGEST_NAME = 1000

_SEED_IN_NAME = re.compile(r"(?:^|[^a-z])seed[-_ ]?(\d+)(?=$|\D)", re.IGNORECASE)
_PAIR = re.compile(
    r"(?:^|[-_ ,;&]|(?<=[\])}]))\+*(?P<key>[A-Za-z][\w./@-]*?)=(?P<value>[^=]*?)"
    r"(?=$|[,;& ]|[-_]+\+*[A-Za-z][\w./@]*=)"
)


def flat(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return nested values by dotted name; lists as JSON, null as the word None.

    YAML aliases can make a small file expand without end: beyond a limit it is a ValueError.
    """
    left = _MOST_VALUES

    def plain(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > _DEEPEST:
            raise ValueError(f"more than {_MOST_VALUES:,} values, or more than {_DEEPEST} levels")
        if isinstance(value, Mapping):
            return {str(key): plain(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [plain(inner, depth + 1) for inner in value]
        return value if value is None or isinstance(value, str | int | float | bool) else str(value)

    def flatten(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in values.items():
            if isinstance(value, Mapping):
                yield from flatten(value, f"{prefix}{key}.")
            else:
                text = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
                yield f"{prefix}{key}", "None" if text is None else text

    return dict(flatten({str(key): plain(value, 0) for key, value in values.items()}, ""))


def from_name(name: str) -> dict[str, str]:
    """Return the `key=value` parts of a run's name or path (`lr=0.1,seed=3`), and the 3 of `run_seed3`."""
    found: dict[str, str] = {}
    name = name[-_LONGEST_NAME:]
    for part in re.split(r"[/\\]", name):
        # If commas separate the pairs, a value may contain any other character.
        for piece in part.split(","):
            key, equals, value = piece.strip().lstrip("+").partition("=")
            if equals and "," in part and "=" not in value and re.fullmatch(r"[A-Za-z][\w.@-]*", key):
                found[key] = value
            else:
                found |= {match["key"]: match["value"] for match in _PAIR.finditer(piece)}
    if not any(is_seed(key) for key in found) and (match := _SEED_IN_NAME.search(name)):
        found["seed"] = match[1]
    return {key: value for key, value in found.items() if value}


def stem_of(name: str) -> str:
    """Return the parts of a run's path that are not `key=value`, seed or version: `adam` of `adam/seed3`."""
    parts = []
    for part in re.split(r"[/\\]", name[-_LONGEST_NAME:]):
        rest = _SEED_IN_NAME.sub("", _PAIR.sub("", part)).strip("-_, ")
        if "=" not in rest and not re.fullmatch(r"version_\d+|\d*", rest):
            parts.append(rest)
    return "/".join(parts)


def with_name(parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Add parameters that only the run's name contains, and the rest of that name as one more."""
    known = {last_part(key) for key in parameters}
    told = {k: v for k, v in from_name(name).items() if last_part(k) not in known}
    if any(is_seed(key) for key in parameters):
        told = {k: v for k, v in told.items() if not is_seed(k)}
    return {STEM: stem_of(name), **told, **parameters} if told else dict(parameters)


def with_path(parameters: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Like `with_name`, for a run in a folder, whose name always counts: related runs share a folder."""
    return {STEM: stem_of(path), **with_name(parameters, path)}


def find_seed(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the parameter that is the seed: prefer one that varies, the surer name, the less nested."""
    levels: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.items():
            if is_seed(name) and value != "None":
                levels.setdefault(name, set()).add(str(value))

    def order(name: str) -> tuple[bool, int, int, str]:
        last = last_part(name)
        rank = SEEDS.index(last) if last in SEEDS else len(SEEDS)
        return len(levels[name]) < 2, rank, len(re.split(r"[./]", name)), name

    return min(levels, key=order, default=None)


def may_be_parameter(name: str, value: object) -> bool:
    """Return whether a value of unknown role may be a parameter, not a metric, by its name and value."""
    if isinstance(value, str) and value.startswith("[") and "." in value:
        return False  # a list of non-integers is a curve
    return is_seed(name) or number(value) is None or not is_metric_name(name)


def number(value: object) -> float | None:
    """Return a number given as such or as text, NaN and infinities included; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    try:
        return float(value) if isinstance(value, str) and "_" not in value else None
    except ValueError:
        return None


Row = Mapping[str, Any]
# The surest first: an epoch is a step if nothing finer is logged.
_STEPS = (
    "step", "_step", "global_step", "trainer/global_step", "timestep", "timesteps", "total_timesteps",
    "time/total_timesteps", "num_timesteps", "env_step", "env_steps", "env_frames", "frames", "iteration",
    "training_iteration", "iter", "update", "episode", "epoch",
)  # fmt: skip
_RUN_NAMES = ("run_id", "run id", "run", "run_name", "run name", "name", "id")


def column(rows: Sequence[Row], names: Sequence[str]) -> str | None:
    """Return the first of these names that occurs in any row, ignoring case."""
    have = {key.lower(): key for row in rows[:1000] for key in row if isinstance(key, str)}
    return next((have[name] for name in names if name in have), None)


def step_column(rows: Sequence[Row]) -> str | None:
    return column(rows, _STEPS)


def run_from_log(name: str, rows: Sequence[Row]) -> CollectedRun:
    """Return the run that logged these rows over steps; values that never change are parameters."""
    rows = [flat(row) for row in rows]
    step = step_column(rows)
    curves: dict[str, Curve] = {}
    for row in rows:
        here = number(row.get(step)) if step else None
        for key, cell in row.items():
            value = number(cell)
            if key != step and value is not None:
                curves.setdefault(key, []).append((here, value))
    parameters = {
        key: value
        for key, value in (rows[0].items() if rows else ())
        if key.lower() not in _STEPS
        and value != ""
        and may_be_parameter(key, value)
        and all(row.get(key) == value for row in rows)
    }
    return CollectedRun(name, parameters, curves)


def split_runs(rows: Sequence[Row], name: str) -> list[tuple[str, list[Row]]]:
    """Return the rows of each run, by the column that names a run, or by the seed.

    Without a column that counts steps, every row is a run.
    """
    step, by = step_column(rows), column(rows, _RUN_NAMES)
    if step is None:
        return [(str((by and row.get(by)) or f"{name} #{n}"), [row]) for n, row in enumerate(rows, 1)]
    by = by or next((key for key in rows[0] if is_seed(key)), None)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row.get(by, "")) if by else "", []).append(row)
    for own in groups.values():
        _check_steps(own, step, by)
    if len(groups) == 1:
        return [(name, list(rows))]
    return [(f"{by}={key}" if by and is_seed(by) else key, own) for key, own in groups.items()]


def _check_steps(rows: Sequence[Row], step: str, by: str | None) -> None:
    """Refuse many rows with the same step that log the same things: these are several runs."""
    seen: set[tuple[Any, str]] = set()
    repeats = 0
    for row in rows:
        logged = [key for key, value in row.items() if key not in (step, by) and number(value) is not None]
        here = {(row.get(step), key) for key in logged}
        repeats += bool(here) and here <= seen
        seen |= here
    if repeats > len(rows) / 3:
        raise SourceError(
            f"several rows share a {step} and no column tells their runs apart; add a column 'run'"
        )
