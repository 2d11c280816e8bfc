"""The looks that a store remembers, for headlines that count them."""

from pathlib import Path

from seedspread.runs.sequential import SequentialRecord
from seedspread.runs.store import Store
from seedspread.runs.studies import load_studies
from seedspread.stats.result import Looks
from seedspread.stats.sequential.levels import factor_of


def looks_of(record: SequentialRecord | None) -> Looks | None:
    """Those that the headlines of a study count now; None of a study that does not grow."""
    if record is None:
        return None
    sizes = record.spec.sizes
    return Looks(sizes, record.number, record.factor or factor_of(sizes))


def looks_of_store(path: Path) -> tuple[Looks | None, list[str]]:
    """Of all runs of a store, whatever they are asked: those of its only study; with others, a warning."""
    studies = load_studies(Store(path))[0]
    growing = [study for study in studies if study.sequential is not None]
    if len(studies) == 1 and growing:
        return looks_of(growing[0].sequential), []
    return None, [
        f"{study.name} is looked at while it grows, and these figures of all runs do not count the looks: "
        f"those of its own audit do (--study {study.name})."
        for study in growing
    ]
