"""Levels of factors as text, the same wherever they are compared or shown."""

import math
from collections.abc import Iterable, Sequence

# Factors whose levels are names already: "CIFAR-10" says that it is a dataset.
_NAMES = frozenset(
    ("dataset", "task", "benchmark", "environment", "env", "game", "setting", "condition", "study")
)


def level_name(level: object) -> str:
    """A level's text: 1 and 1.0 are the same level; nothing for what is missing."""
    if level is None or level != level:  # NaN is not equal to itself  # noqa: PLR0124
        return ""
    text = str(level).strip()
    integer, dot, fraction = text.partition(".")
    return integer if dot and integer.lstrip("-").isdigit() and not fraction.strip("0") else text


def setting_name(levels: Iterable[tuple[str, object]]) -> str:
    """What tells a setting from others: `depth = 2, labels = fine`; of a dataset its name alone."""
    return ", ".join(
        level_name(level) if _is_a_name(factor, level) else f"{factor} = {level_name(level)}"
        for factor, level in levels
    )


def _is_a_name(factor: str, level: object) -> bool:
    return factor.lower() in _NAMES and as_number(level) is None


def stratum_name(factors: Sequence[str], stratum: str) -> str:
    """The same of levels that are joined by commas; as they are, if a level has a comma itself."""
    levels = stratum.split(", ")
    return setting_name(zip(factors, levels, strict=True)) if len(levels) == len(factors) else stratum


def arm_name(factor: str, level: str) -> str:
    """An arm in a sentence: `clamp`, but `depth = 2` and `dropout = true`: a value alone says nothing."""
    speaks = as_number(level) is None and level.lower() not in ("true", "false", "yes", "no", "none")
    return level if speaks or not factor else f"{factor} = {level}"


def as_number(level: object) -> float | None:
    """The number that a level is, if it is one; truth values are none."""
    try:
        number = float(level_name(level))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
