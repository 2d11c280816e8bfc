"""The levels of looks: from the table, or simulated once and kept in the user's cache."""

import json
from hashlib import sha256
from pathlib import Path

import platformdirs

from seedspread.atomic import replacing
from seedspread.stats.sequential import levels
from seedspread.stats.sequential.levels import Progress


def factor_of(sizes: tuple[int, ...], progress: Progress = lambda _: None) -> float:
    """Of looks at so many seeds: from the table, else simulated (minutes) and kept in the user's cache."""
    known = known_factor(sizes)
    if known is not None:
        return known
    factor = levels.simulated_factor(sizes, progress)
    _keep(sizes, factor)
    return factor


def known_factor(sizes: tuple[int, ...]) -> float | None:
    """Without a simulation; None if it takes one."""
    return levels.tabled_factor(sizes) or _cached(sizes)


def _file(sizes: tuple[int, ...]) -> Path:
    name = sha256(levels.key(sizes).encode()).hexdigest()[:16]
    return platformdirs.user_cache_path("seedspread") / "looks" / f"{name}.json"


def _cached(sizes: tuple[int, ...]) -> float | None:
    """What was kept; a file that is not as expected counts for nothing, and is replaced."""
    try:
        values = json.loads(_file(sizes).read_text())
        factor = float(values["factor"]) if values["looks"] == levels.key(sizes) else 0.0
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return factor if 1 <= factor < 2 else None


def _keep(sizes: tuple[int, ...], factor: float) -> None:
    path = _file(sizes)
    values = {"looks": levels.key(sizes), "draws": levels.DRAWS, "factor": factor}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(json.dumps(values) + "\n")
    except OSError:
        pass  # simulated again the next time
