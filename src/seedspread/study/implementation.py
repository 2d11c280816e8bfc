"""How a study's runs are computed, where a command says so instead of the study: the store keeps it."""

from dataclasses import replace

from seedspread.errors import SeedspreadError
from seedspread.runners.contract import RunnerError
from seedspread.runs.store import Store
from seedspread.runs.studies import RecordedStudy, recorded_study
from seedspread.study.spec import StudyError, StudySpec


def implemented(study: StudySpec, store: Store, asked: str | None) -> StudySpec:
    """The study as it is asked for; else as the store remembers that it once was.

    Args:
        study: a study, or a collection.
        store: where its results are, and go.
        asked: an implementation's name, for all that it includes; None for what the store and the study say.
    """
    if study.included:
        return replace(study, included=tuple(implemented(part, store, asked) for part in study.included))
    recorded = recorded_study(store, study.name, study.origin)
    chosen = asked or (None if recorded is None else recorded.implementation)
    if chosen is None:
        return study
    if any(name == "implementation" for cell in study.cells for name, _ in cell.levels):
        raise StudyError(f"{study.name} compares implementations itself; leave --implementation out")
    try:
        cells = tuple(
            replace(cell, parameters=study.runner.implemented(cell.parameters, chosen))
            for cell in study.cells
        )
    except RunnerError as error:
        raise StudyError(f"{study.name}: {error}") from None
    return replace(study, cells=cells, implementation=chosen)


def check_unchanged(study: StudySpec, store: Store) -> None:
    """Refuses to compute a study otherwise than its runs in the store: all of them would be run anew."""
    for part in study.parts:
        recorded = recorded_study(store, part.name, part.origin)
        if recorded is None or recorded.implementation == part.implementation:
            continue
        if _has_begun(recorded, store):
            before = recorded.implementation
            was = "as the study says" if before is None else f"with --implementation {before}"
            undo = "leave --implementation out" if before is None else f"ask for {before}"
            raise SeedspreadError(
                f"{part.name} was begun in {store.path} {was}; {part.implementation} would run all of it "
                f"anew: {undo}, name another store, or add --force"
            )


def _has_begun(recorded: RecordedStudy, store: Store) -> bool:
    runs = (store.run(key) for key in recorded.keys)
    return any(run.is_done or run.has_begun for run in runs)
