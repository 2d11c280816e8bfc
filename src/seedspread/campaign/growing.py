"""How far studies that grow have come, by the looks that their store remembers."""

from seedspread.campaign.study import StudyError, StudySpec
from seedspread.runs.sequential import SequentialRecord
from seedspread.runs.store import Store
from seedspread.runs.studies import recorded_study


def growth(study: StudySpec, store: Store) -> dict[str, SequentialRecord]:
    """The looks at each part that grows, by name; a rule that was changed after a look is refused."""
    out = {}
    for part in study.parts:
        recorded = recorded_study(store, part.name, part.origin)
        begun = None if recorded is None else recorded.sequential
        if begun is not None and begun.looks and begun.spec != part.sequential:
            raise StudyError(
                f"{part.name} has been looked at {len(begun.looks)} times by another rule "
                f"({begun.spec.title}), and its levels hold for that alone: put it back, or name another "
                "store"
            )
        if part.sequential is not None:
            same = begun is not None and begun.spec == part.sequential
            out[part.name] = begun if begun is not None and same else SequentialRecord(part.sequential)
    return out
