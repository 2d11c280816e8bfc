"""Parameters: flattened, read off names, and which of them is the seed."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from seedspread.runs.metrics import is_metric_name

_MOST_VALUES = 20_000
_DEEPEST = 50
# The column with what is left of names that tell parameters.
STEM = "stem"
# Of a name that is longer, as no file has, the end is looked at.
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
    """A config that is too deep or has too many values to be one."""


def flat(values: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted name; lists as JSON, null as the word None.

    Aliases in YAML can make a small file unfold without end: beyond a bound it is a `TooLargeError`.
    """
    found: dict[str, Any] = {}
    _flatten(values, prefix, found, _Budget())
    return found


class _Budget:
    """How many values may still be looked at."""

    def __init__(self) -> None:
        self.left = _MOST_VALUES

    def spend(self, depth: int) -> None:
        self.left -= 1
        if self.left < 0 or depth > _DEEPEST:
            raise TooLargeError(f"more than {_MOST_VALUES:,} values, or more than {_DEEPEST} levels")


def _flatten(
    values: Mapping[Any, Any], prefix: str, found: dict[str, Any], budget: _Budget, depth: int = 0
) -> None:
    for key, value in values.items():
        budget.spend(depth)
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            _flatten(value, f"{name}.", found, budget, depth + 1)
        elif value is None:
            found[name] = "None"
        elif isinstance(value, list | tuple | set | frozenset):
            found[name] = json.dumps(_plain(list(value), budget, depth), ensure_ascii=False)
        else:
            found[name] = value if isinstance(value, str | int | float | bool) else str(value)


def _plain(value: Any, budget: _Budget, depth: int) -> Any:
    budget.spend(depth)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, budget, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, budget, depth + 1) for inner in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def from_name(name: str) -> dict[str, str]:
    """`key=value` parts of a run's name or path, as in `lr=0.1,seed=3`, and the 3 of `run_seed3`."""
    found: dict[str, str] = {}
    name = name[-_LONGEST_NAME:]
    for part in re.split(r"[/\\]", name):
        # Where commas part the pairs, a value may hold anything else.
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
    """What of a run's path is neither `key=value` nor a seed nor a version: `adam` of `adam/seed3`."""
    parts = []
    for part in re.split(r"[/\\]", name[-_LONGEST_NAME:]):
        rest = _SEED_IN_NAME.sub("", _PAIR.sub("", part)).strip("-_, ")
        if "=" not in rest and not re.fullmatch(r"version_\d+|\d*", rest):
            parts.append(rest)
    return "/".join(parts)


def with_name(parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Parameters, and those that only the run's name tells; then the rest of the name is one as well."""
    known = {_last(key) for key in parameters}
    told = {k: v for k, v in from_name(name).items() if _last(k) not in known}
    if any(is_seed(key) for key in parameters):
        told = {k: v for k, v in told.items() if not is_seed(k)}
    return {STEM: stem_of(name), **told, **parameters} if told else dict(parameters)


def with_path(parameters: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The same of a run in a folder: people put runs that belong together into one."""
    return {STEM: stem_of(path), **with_name(parameters, path)}


def is_seed(name: str) -> bool:
    """Whether a parameter is a seed by its name, whatever it is nested in."""
    last = _last(name)
    return last in _SEEDS or last.endswith("_seed")


def find_seed(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """The seed among the parameters: rather one that varies, then the surer name, then the less nested."""
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
    """Whether a value that nothing marks as a parameter or a metric may be the former, by name and value."""
    if isinstance(value, str) and value.startswith("[") and "." in value:
        return False  # a list of numbers that are not whole is a curve
    return is_seed(name) or number(value) is None or not is_metric_name(name)


def number(value: object) -> float | None:
    """A number that a file holds as one or as text; None of anything else. NaN and infinities are numbers."""
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
