"""What a store's studies ask: the comparison, and the runs in every cell that they serve."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from seedspread.analysis.look_tables import standing
from seedspread.analysis.looks import looks_of
from seedspread.errors import SeedspreadError, did_you_mean
from seedspread.runs.store import Store
from seedspread.runs.studies import AuditSpec, RecordedStudy, load_studies
from seedspread.stats.result import Looks
from seedspread.study.plan import Plan
from seedspread.study.shipped import study_names
from seedspread.study.spec import StudySpec
from seedspread.tables.from_store import shared_runs, study_runs

# Failed runs that a note names.
_FAILED_NAMED = 3


@dataclass(frozen=True)
class RecordedQuestion:
    """A study's comparison, its finished runs, what to know of them, and the looks if it grows.

    A run that serves several cells has a row in each.
    """

    spec: AuditSpec
    table: pd.DataFrame
    notes: tuple[str, ...]
    looks: Looks | None = None


def recorded_question(
    source: str,
    name: str | None,
    values: Sequence[str] | None,
    group: str | None,
    others: Sequence[str],
    *,
    together: bool = False,
) -> RecordedQuestion | None:
    """The study to audit: the one that is named, or the only one of a store; None if it is all of a table.

    Args:
        source: a store of runs, or any table.
        name: of a study that the store records, or its .toml file; a collection's too.
        values: the metrics; by default the study's own.
        group: the factor to compare, if another than the study's.
        others: further columns that are asked for by name.
        together: whether studies that ask the same are taken together, where none is named.
    """
    path, columns = Path(source), [*([group] if group else []), *others]
    studies = load_studies(Store(path))[0] if path.is_dir() else []
    if name is None and together and len({study.audit for study in studies}) == 1:
        chosen, spec = studies, studies[0].audit
    elif name is None:
        if len(studies) > 1 and not columns:
            raise SeedspreadError(
                f"{source} records {len(studies)} studies; name one with --study: {_names(studies)}"
                if len({study.name for study in studies}) > 1
                else f"{source} records {len(studies)} studies called {studies[0].name}; give the .toml file "
                "of one with --study"
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
        compared = [study for study in chosen if study.audit is not None]
        others = "give --group and --baseline without --study"
        advice = f"name one of its studies with --study: {_names(compared)}" if compared else others
        raise SeedspreadError(f"{name} names no comparison; {advice}")
    store = Store(path)
    if not any(store.is_done(key) for study in chosen for key in study.keys):
        raise SeedspreadError(f"no run of {name or chosen[0].name} is finished yet")
    table = study_runs(store, [study.looked_at for study in chosen], values or spec.values[:1])
    notes = [line for study in chosen for line in (*_failed_runs(store, study), *shared_runs(study))]
    growing = chosen[0].sequential if len(chosen) == 1 else None
    notes += [standing(growing)] if growing is not None else []
    return RecordedQuestion(spec, table, tuple(notes), looks_of(growing))


def studies_asked(
    store: "Path | str", names: Iterable[str], data_dir: "Path | str | None" = None
) -> list[RecordedStudy]:
    """The studies to report on, by the names that the store has for them, shipped names or .toml files."""
    recorded, out = load_studies(Store(store))[0], []
    for name in names:
        shipped = name.endswith(".toml") or name in study_names()
        found = [] if shipped else [study for study in recorded if study.name == name]
        if recorded and not (shipped or found):
            raise _unknown(str(store), name, recorded)
        out += found or Plan.make(StudySpec.from_file(name), store, data_dir).recorded()
    return out


def _failed_runs(store: Store, study: RecordedStudy) -> list[str]:
    """What has no value through no error of its own: it does not count as failed, and can be had."""
    left = {key for key in study.keys if store.has_failed(key) and not store.has_crashed(key)}
    failed = {
        key: f"{cell.name}, seed {seed}"
        for cell in study.cells
        for seed, key in cell.runs.items()
        if key in left
    }
    if not failed:
        return []
    named = "; ".join([*list(failed.values())[:_FAILED_NAMED], *["..."] * (len(failed) > _FAILED_NAMED)])
    return [
        f"{len(failed)} of {len(study.keys)} runs were ended or refused, which says nothing of them, and are "
        f"left out ({named}): rerun the study with --retry-failed."
    ]


def _names(studies: Sequence[RecordedStudy]) -> str:
    return ", ".join(dict.fromkeys(study.name for study in studies))


def _unknown(source: str, name: str, studies: Sequence[RecordedStudy]) -> SeedspreadError:
    hint = did_you_mean(name, [study.name for study in studies])
    return SeedspreadError(f"{source} records no study {name!r}{hint} (it has {_names(studies)})")


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
        raise _unknown(source, name, studies)
    spec = StudySpec.from_file(name)
    wanted = {(part.name, part.origin) for part in spec.parts}
    found = [study for study in studies if (study.name, study.origin) in wanted]
    if not found:
        raise SeedspreadError(f"{source} records no run of {name} (it has {_names(studies)})")
    return found, spec.audit
