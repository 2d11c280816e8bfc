"""What every source is read into: runs with parameters and curves; which parameter is the seed."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from seedspread.errors import AdviceError
from seedspread.runs.metrics import is_metric_name
from seedspread.tables.sources.files import Place

Better = Literal["higher", "lower"]
# (step, value) in the order of writing; the step is None where the source has none.
Curve = list[tuple[float | None, float]]


def clean(text: object) -> str:
    """Return text from someone else's file for a terminal, with a question mark for what does not print."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def count(number: int, word: str) -> str:
    """`1 run`, `1,000 runs`."""
    return f"1 {word}" if number == 1 else f"{number:,} {word}s"


class SourceError(AdviceError):
    """A source cannot be read, or not as asked; the message may quote names from its files."""

    def __init__(self, message: str) -> None:
        super().__init__(clean(message))


@dataclass(frozen=True)
class Unread:
    name: str
    reason: str


@dataclass(frozen=True)
class CollectedRun:
    """A run as its source has it.

    Attributes:
        parameters: by flat name.
        curves: of each metric; one point where the source keeps no more, or no more was asked for.
        group: its experiment or study.
        better: which direction of a metric is better, where the source says so.
        samples: by metric, the file with the outcome of each test item, where the source has one.
    """

    name: str
    parameters: Mapping[str, Any]
    curves: Mapping[str, Curve]
    group: str = ""
    better: Mapping[str, Better] = field(default_factory=dict)
    samples: Mapping[str, str] = field(default_factory=dict)


class Reader:
    """One kind of source: subclass it, and add an instance to `READERS` in `collect.py`.

    Attributes:
        kind: its word on the command line.
        title: its name for people.
        looks_like: what such a source is, in the message about a place where nothing is recognized.
        group: what it calls a set of runs, the name of a column; empty if it has none.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    looks_like: ClassVar[str] = ""
    group: ClassVar[str] = ""

    def recognizes(self, place: Place) -> bool:
        """Return whether such a source lies there."""
        raise NotImplementedError

    def read(self, place: Place, metrics: Sequence[str], whole: bool) -> Iterable[CollectedRun | Unread]:
        """Return its runs, oldest first where it knows times, and what cannot be read.

        Args:
            place: where it lies.
            metrics: those asked for; others may be left out of the curves' later points.
            whole: whether curves are needed, not only their last points.
        """
        raise NotImplementedError


_MOST_VALUES = 20_000
_DEEPEST = 50
# The column for the rest of a name that parameters were read from.
STEM = "stem"
# The column for the file with a run's outcomes of test items.
SAMPLES = "samples"
# Only the end of longer names is read; no file has one.
_LONGEST_NAME = 1000

# From the surest to the least sure.
_SEEDS = (
    "seed random_seed rng_seed manual_seed global_seed seed_everything run_seed torch_seed training_seed "
    "train_seed pl_seed base_seed np_seed numpy_seed model_seed init_seed random_state"
).split()
_SEED_IN_NAME = re.compile(r"(?:^|[^a-z])seed[-_ ]?(\d+)(?=$|\D)", re.IGNORECASE)
_PAIR = re.compile(
    r"(?:^|[-_ ,;&]|(?<=[\])}]))\+*(?P<key>[A-Za-z][\w./@-]*?)=(?P<value>[^=]*?)"
    r"(?=$|[,;& ]|[-_]+\+*[A-Za-z][\w./@]*=)"
)


class TooLargeError(ValueError):
    """A config is too deep, or has too many values."""


def flat(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return nested values by dotted name; lists as JSON, null as the word None.

    Aliases in YAML can make a small file unfold without end: beyond a bound it is a `TooLargeError`.
    """
    left = _MOST_VALUES

    def plain(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > _DEEPEST:
            raise TooLargeError(f"more than {_MOST_VALUES:,} values, or more than {_DEEPEST} levels")
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
        # If commas separate the pairs, a value may contain any other sign.
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
    """Return the parts of a run's path that are no `key=value`, seed or version: `adam` of `adam/seed3`."""
    parts = []
    for part in re.split(r"[/\\]", name[-_LONGEST_NAME:]):
        rest = _SEED_IN_NAME.sub("", _PAIR.sub("", part)).strip("-_, ")
        if "=" not in rest and not re.fullmatch(r"version_\d+|\d*", rest):
            parts.append(rest)
    return "/".join(parts)


def with_name(parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Add the parameters that only the run's name contains; then the rest of the name is one as well."""
    known = {_last(key) for key in parameters}
    told = {k: v for k, v in from_name(name).items() if _last(k) not in known}
    if any(is_seed(key) for key in parameters):
        told = {k: v for k, v in told.items() if not is_seed(k)}
    return {STEM: stem_of(name), **told, **parameters} if told else dict(parameters)


def with_path(parameters: Mapping[str, Any], path: str) -> dict[str, Any]:
    """As `with_name`, for a run in a folder, whose name always counts: related runs share a folder."""
    return {STEM: stem_of(path), **with_name(parameters, path)}


def is_seed(name: str) -> bool:
    """Return whether a parameter is a seed by the last part of its name."""
    last = _last(name)
    return last in _SEEDS or last.endswith("_seed")


def find_seed(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the parameter that is the seed: prefer one that varies, the surer name, the less nested."""
    levels: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.items():
            if is_seed(name) and value != "None":
                levels.setdefault(name, set()).add(str(value))

    def order(name: str) -> tuple[bool, int, int, str]:
        last = _last(name)
        rank = _SEEDS.index(last) if last in _SEEDS else len(_SEEDS)
        return len(levels[name]) < 2, rank, len(re.split(r"[./]", name)), name

    return min(levels, key=order, default=None)


def _last(name: str) -> str:
    return re.split(r"[./@]", name.lower().replace("-", "_").replace(" ", "_"))[-1]


def may_be_parameter(name: str, value: object) -> bool:
    """Return whether an unmarked value may be a parameter, not a metric, by its name and value."""
    if isinstance(value, str) and value.startswith("[") and "." in value:
        return False  # a list of numbers that are not whole is a curve
    return is_seed(name) or number(value) is None or not is_metric_name(name)


def number(value: object) -> float | None:
    """Return a number given as one or as text, NaN and infinities included; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if not isinstance(value, str) or not re.fullmatch(
        r"\s*[-+]?[\d.].*|\s*[-+]?(nan|inf(inity)?)\s*", value, re.I
    ):
        return None
    try:
        return float(value) if "_" not in value else None
    except ValueError:
        return None


Row = Mapping[str, Any]
# The surest first: an epoch is a step where nothing finer is logged.
_STEPS = (
    "step", "_step", "global_step", "trainer/global_step", "timestep", "timesteps", "total_timesteps",
    "time/total_timesteps", "num_timesteps", "env_step", "env_steps", "env_frames", "frames", "iteration",
    "training_iteration", "iter", "update", "episode", "epoch",
)  # fmt: skip
RUN_NAMES = ("run_id", "run id", "run", "run_name", "run name", "name")


def column(rows: Sequence[Row], names: Sequence[str]) -> str | None:
    """Return the first of these names that any row has, whatever its case."""
    have = {key.lower(): key for row in rows[:1000] for key in row if isinstance(key, str)}
    return next((have[name] for name in names if name in have), None)


def step_column(rows: Sequence[Row]) -> str | None:
    return column(rows, _STEPS)


def run_from_log(name: str, rows: Sequence[Row]) -> CollectedRun:
    """Return the run that logged these rows over steps; what does not change over them is a parameter."""
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
        if key != step
        and key.lower() not in _STEPS
        and value != ""
        and may_be_parameter(key, value)
        and all(row.get(key) == value for row in rows)
    }
    return CollectedRun(name, parameters, curves)


def split_runs(rows: Sequence[Row], name: str) -> list[tuple[str, list[Row]]]:
    """Return the rows of each run, by the column that names a run, or by the seed.

    Without a column that counts steps every row is a run.
    """
    step, by = step_column(rows), column(rows, (*RUN_NAMES, "id"))
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
    """Rows may share a step if they log different things; many rows that do not are several runs."""
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
