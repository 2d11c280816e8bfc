"""Config fields by the names that people use: full, or the last part where that is clear."""

from collections import Counter
from functools import cache

from seedspread.cff.config import RunConfig
from seedspread.errors import SeedspreadError, did_you_mean


class NoSuchFieldError(SeedspreadError):
    """No config field has that name."""


class AmbiguousFieldError(SeedspreadError):
    """Several config fields have that name."""


def full_name(name: str) -> str:
    """The field, `part.field`, that a name means."""
    names = _names()
    if name in names:
        return names[name]
    several = [full for full in _full_names() if full.endswith(f".{name}")]
    if several:
        raise AmbiguousFieldError(f"{name!r} can mean {' or '.join(several)}: write one of them")
    raise NoSuchFieldError(f"no config field is called {name!r}{did_you_mean(name, names)}")


def short_name(full: str) -> str:
    """The field alone, where no other part has one of that name."""
    last = full.rpartition(".")[2]
    return last if _names().get(last) == full else full


@cache
def _full_names() -> tuple[str, ...]:
    return tuple(
        f"{part}.{field}"
        for part, info in RunConfig.model_fields.items()
        for field in getattr(info.annotation, "model_fields", {})
    )


@cache
def _names() -> dict[str, str]:
    full = _full_names()
    times = Counter(name.split(".")[1] for name in full)
    short = {name.split(".")[1]: name for name in full if times[name.split(".")[1]] == 1}
    return short | {name: name for name in full}
