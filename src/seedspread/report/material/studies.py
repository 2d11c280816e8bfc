"""Which studies a report is about: requested ones, those that the store records, or its runs alone."""

import shlex
from collections.abc import Iterable
from dataclasses import replace

from seedspread.errors import SeedspreadError
from seedspread.report.extension import extension_of
from seedspread.report.material.settings import relative
from seedspread.runs.files import UNREADABLE
from seedspread.runs.record import Record
from seedspread.runs.store import Store
from seedspread.runs.studies import RecordedStudy, load_studies


class ReportError(SeedspreadError):
    """There is nothing to report on, or nowhere to write it."""


def studies_of(store: Store, requested: Iterable[RecordedStudy]) -> tuple[list[RecordedStudy], list[str]]:
    """The studies that a store is reported by, and a line on each record that cannot be read.

    Their cells have parameters as the package of their runner has them.
    """
    studies = list(requested)
    problems: list[str] = []
    if not studies:
        studies, problems = load_studies(store)
    out = []
    for study in studies:
        try:
            out.append(_parsed(study))
        except SeedspreadError as error:
            problems.append(f"the record of {study.name} cannot be used: {error}")
    return out or [_study_of_runs(store)], problems


def _parsed(study: RecordedStudy) -> RecordedStudy:
    extension = extension_of(study.runner)
    cells = (replace(cell, parameters=extension.parameters(cell.parameters)) for cell in study.cells)
    return replace(study, cells=tuple(cells))


def _study_of_runs(store: Store) -> RecordedStudy:
    """Without a recorded study, what the package of the runs' runner makes of them."""
    records: dict[str, dict[str, Record]] = {}
    for key in store.keys():  # noqa: SIM118 - not a dict
        if not store.is_done(key) or store.damage(key):
            continue
        try:
            record = Record.read(str(store.folder(key)))
        except (*UNREADABLE, SeedspreadError):
            continue
        records.setdefault(record.runner, {})[key] = record
    name = relative(store.path.absolute())
    for runner, of_runner in records.items():
        study = extension_of(runner).study_of_runs(of_runner, name)
        if study is not None:
            return study
    command = shlex.join(["seedspread", "run", "STUDY", "--store", str(store.path)])
    raise ReportError(
        f"{store.path} holds no finished run and no record of a study; name its study with --study, "
        f"or run one with: {command}"
    )
