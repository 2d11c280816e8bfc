"""Levels of factors as text: the same wherever they are compared, shown or written."""

import math
import re
from collections.abc import Iterable, Sequence

# Levels of several factors, such as a dataset and a depth: one text per factor.
Levels = tuple[str, ...]

# Factors whose levels are self-explanatory: "CIFAR-10" is obviously a dataset.
_NAMES = frozenset(
    ("dataset", "task", "benchmark", "environment", "env", "game", "setting", "condition", "study")
)


def level_name(level: object) -> str:
    """Return a level as text: 1 and 1.0 are the same level, and a missing one is empty."""
    # NaN and NaT are not equal to themselves; pandas' NA has no answer, and its name is "<NA>"
    if level is None or type(level).__name__ == "NAType" or level != level:  # noqa: PLR0124
        return ""
    text = str(level).strip()
    integer, dot, fraction = text.partition(".")
    return integer if dot and integer.lstrip("-").isdigit() and not fraction.strip("0") else text


def setting_name(levels: Iterable[tuple[str, object]]) -> str:
    """Return a setting's name: `depth = 2, labels = fine`; a dataset appears by its name alone."""
    parts = []
    for factor, level in levels:
        is_a_name = re.sub(r"[\s_-]", "", factor.lower()) in _NAMES and as_number(level) is None
        parts.append(level_name(level) if is_a_name else f"{factor} = {level_name(level)}")
    return ", ".join(parts)


def joined_levels(levels: Levels) -> str:
    """Return `a, b`, for a file; spaces after commas are non-breaking if there are several levels."""
    return ", ".join(level if len(levels) == 1 else level.replace(", ", ",\u00a0") for level in levels)


def stratum_name(factors: Sequence[str], levels: Levels) -> str:
    """Return the setting's name from its factors and their levels; empty if there are none."""
    return setting_name(zip(factors, levels, strict=True))


def group_name(factor: str, level: str) -> str:
    """Return a group for a sentence: `clamp`, but `depth = 2` and `dropout = true`, which need the factor."""
    speaks = as_number(level) is None and level.lower() not in ("true", "false", "yes", "no", "none")
    return level if speaks or not factor else f"{factor} = {level}"


def block_name(factors: Sequence[str], levels: Levels) -> str:
    """Return a block for a sentence: `detach`, `batch = 32`; empty if there is none."""
    return ", ".join(map(group_name, factors, levels))


def as_number(level: object) -> float | None:
    """Return the number that a level represents, if any; truth values do not count."""
    try:
        number = float(level_name(level))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def settings_in_order(every: Iterable[Levels]) -> list[Levels]:
    """Return settings without repeats: numbers in numeric order, others in order of appearance."""
    names = list(dict.fromkeys(every))
    numbers = {levels: [as_number(level) for level in levels] for levels in names}
    if any(None in own for own in numbers.values()):
        return names
    return sorted(names, key=lambda levels: [number or 0.0 for number in numbers[levels]])


def counted_runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def several(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return one name, several or none as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given or ())


def in_order(levels: Iterable[str]) -> list[str]:
    """Return levels without repeats: numbers in numeric order, others in order of appearance."""
    return [level for (level,) in settings_in_order((level,) for level in levels)]
