"""What a store's studies ask, for `audit`: the comparison, and the runs in every cell that they serve."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from seedspread.campaign.study import StudySpec, study_names
from seedspread.errors import SeedspreadError, did_you_mean
from seedspread.runs.store import Store
from seedspread.runs.studies import AuditSpec, RecordedStudy, load_studies
from seedspread.runs.study_table import shared_runs, study_table

# Failed runs that a note names.
_FAILED_NAMED = 3


@dataclass(frozen=True)
class RecordedQuestion:
    """A study's comparison, its finished runs, and what to know of them.

    A run that serves several cells has a row in each.
    """

    spec: AuditSpec
    table: pd.DataFrame
    notes: tuple[str, ...]


def recorded_question(
    source: str, name: str | None, values: Sequence[str] | None, group: str | None, others: Sequence[str]
) -> RecordedQuestion | None:
    """The study to audit: the one that is named, or the only one of a store; None if it is all of a table.

    Args:
        source: a store of runs, or any table.
        name: of a study that the store records, or its .toml file; a collection's too.
        values: the metrics; by default the study's own.
        group: the factor to compare, if another than the study's.
        others: further columns that are asked for by name.
    """
    path, columns = Path(source), [*([group] if group else []), *others]
    studies = load_studies(Store(path))[0] if path.is_dir() else []
    if name is None:
        if len(studies) > 1 and not columns:
            raise SeedspreadError(
                f"{source} records {len(studies)} studies; name one with --study: {_names(studies)}"
            )
        if len(studies) != 1 or not set(columns) <= {factor for c in studies[0].cells for factor in c.levels}:
            return None
        chosen, spec = studies, studies[0].audit
    else:
        if not studies:
            raise SeedspreadError(
                f"--study is for a store of runs that records its studies; {source} has none"
            )
        chosen, spec = _named(source, name, studies)
    if spec is None:
        if name is None:
            return None
        raise SeedspreadError(f"{name} names no comparison; give --group and --reference without --study")
    store = Store(path)
    table = study_table(store, chosen, values or spec.values[:1])
    if table.empty:
        raise SeedspreadError(f"no run of {name or chosen[0].name} is finished yet")
    notes = [line for study in chosen for line in (*_failed_runs(store, study), *shared_runs(study))]
    return RecordedQuestion(spec, table, tuple(notes))


def _failed_runs(store: Store, study: RecordedStudy) -> list[str]:
    """What a reader must know where runs ended with an error: those that are left may be a biased sample."""
    states = store.states(study.keys)
    failed = {
        state.key: state.name
        for cell in study.cells
        for state in cell.named(states).values()
        if state.state == "failed"
    }
    if not failed:
        return []
    named = "; ".join([*list(failed.values())[:_FAILED_NAMED], *["..."] * (len(failed) > _FAILED_NAMED)])
    return [
        f"{len(failed)} of {len(study.keys)} runs ended with an error and have no value ({named}). If that "
        "has to do with what is compared, the rest is a biased sample."
    ]


def _names(studies: Sequence[RecordedStudy]) -> str:
    return ", ".join(dict.fromkeys(study.name for study in studies))


def _named(
    source: str, name: str, studies: Sequence[RecordedStudy]
) -> tuple[list[RecordedStudy], AuditSpec | None]:
    """By the name that the store has; or the parts of what a file or a shipped collection asks for."""
    found = [study for study in studies if study.name == name]
    if len(found) == 1:
        return found, found[0].audit
    if len(found) > 1:
        raise SeedspreadError(
            f"{source} records {len(found)} studies called {name}; give the study's .toml file"
        )
    if not name.endswith(".toml") and name not in study_names():
        hint = did_you_mean(name, [study.name for study in studies])
        raise SeedspreadError(f"{source} records no study {name!r}{hint} (it has {_names(studies)})")
    spec = StudySpec.from_file(name)
    wanted = {(part.name, part.origin) for part in spec.parts}
    found = [study for study in studies if (study.name, study.origin) in wanted]
    if not found:
        raise SeedspreadError(f"{source} records no run of {name} (it has {_names(studies)})")
    return found, spec.audit
