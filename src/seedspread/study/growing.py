"""How far studies that grow have come, by the looks that their store remembers."""

from collections.abc import Callable, Mapping
from typing import Any

from seedspread.runs.sequential import SequentialRecord
from seedspread.runs.store import Store
from seedspread.runs.studies import RecordedStudy, recorded_study
from seedspread.study.spec import StudyError, StudySpec

# A run by its study, the levels of its cell and its seed.
RunName = tuple[str, frozenset[tuple[str, Any]], int]


def growth(
    study: StudySpec, store: Store, keys: Callable[[], Mapping[RunName, str]]
) -> dict[str, SequentialRecord]:
    """The looks at each part that grows, by name; a rule or question that was changed since is refused.

    Args:
        study: one, or a collection.
        store: that remembers.
        keys: of all its runs. Where those that were looked at are others now (of a changed program, say),
            it begins anew.
    """
    out = {}
    for part in study.parts:
        recorded = recorded_study(store, part.name, part.origin)
        begun = None if recorded is None else recorded.sequential
        if recorded is None or begun is None or _are_others(recorded, keys()):
            begun = None
        elif begun.looks:
            _check_same(part, recorded, begun)
        if part.sequential is not None:
            same = begun is not None and begun.spec == part.sequential
            out[part.name] = begun if begun is not None and same else SequentialRecord(part.sequential)
    return out


def _are_others(recorded: RecordedStudy, keys: Mapping[RunName, str]) -> bool:
    """Whether a run that was looked at has another key by now."""
    return any(
        keys.get((recorded.name, frozenset(cell.levels.items()), seed), key) != key
        for cell in recorded.looked_at.cells
        for seed, key in cell.runs.items()
    )


def _check_same(part: StudySpec, recorded: RecordedStudy, begun: SequentialRecord) -> None:
    """Refuses what its looks were not taken for."""
    looked, now = recorded.looked_at.cells, [dict(cell.levels) for cell in part.cells]
    changed = ""
    if begun.spec != part.sequential:
        changed = f"by another rule ({begun.spec.title})"
    elif recorded.audit != part.audit or [dict(cell.levels) for cell in looked] != now:
        changed = "with another comparison (cells or [audit])"
    elif any(tuple(cell.runs) != part.seeds[: len(cell.runs)] for cell in looked):
        changed = "with other seeds"
    if changed:
        times = f"{len(begun.looks)} time{'s' * (len(begun.looks) != 1)}"
        raise StudyError(
            f"{part.name} has been looked at {times} {changed}, and its levels hold for that alone: put it "
            "back, or name another store"
        )
