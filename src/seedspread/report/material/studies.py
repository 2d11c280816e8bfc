"""Which studies a report is about: requested ones, those that the store records, or its runs alone."""

import json
import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from seedspread.cff.config import RunConfig
from seedspread.cff.identity import RUNNER
from seedspread.cff.presets import check
from seedspread.errors import SeedspreadError
from seedspread.report.material.settings import relative
from seedspread.runs.files import UNREADABLE
from seedspread.runs.record import Record
from seedspread.runs.store import Store
from seedspread.runs.studies import AuditSpec, RecordedCell, RecordedStudy, load_studies


class ReportError(SeedspreadError):
    """There is nothing to report on, or nowhere to write it."""


def studies_of(store: Store, requested: Iterable[RecordedStudy]) -> tuple[list[RecordedStudy], list[str]]:
    """The studies that a store is reported by, and a line on each record that cannot be read.

    The parameters of the paper's training are `RunConfig`s in them.
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


def config_of(cell: RecordedCell) -> RunConfig | None:
    """The config of its runs, if the paper's training ran them."""
    return cell.parameters if isinstance(cell.parameters, RunConfig) else None


def _parsed(study: RecordedStudy) -> RecordedStudy:
    if study.runner != RUNNER:
        return study
    cells = (replace(cell, parameters=check(dict(cell.parameters))) for cell in study.cells)
    return replace(study, cells=tuple(cells))


def _study_of_runs(store: Store) -> RecordedStudy:
    """Without a recorded study, factors are the config fields in which the finished runs differ."""
    configs: dict[str, RunConfig] = {}
    for key in store.keys():  # noqa: SIM118 - not a dict
        if not store.is_done(key) or store.damage(key):
            continue
        try:
            record = Record.read(str(store.folder(key)))
            if record.runner == RUNNER:
                configs[key] = check(dict(record.parameters))
        except (*UNREADABLE, SeedspreadError):
            continue
    if not configs:
        command = shlex.join(["seedspread", "campaign", "run", "STUDY", "--store", str(store.path)])
        raise ReportError(
            f"{store.path} holds no finished run and no record of a study; name its study with --study, "
            f"or run one with: {command}"
        )
    name = relative(store.path.absolute())
    levels = _levels(configs)
    cells: dict[tuple[tuple[str, str], ...], RecordedCell] = {}
    for key, config in configs.items():
        cell = cells.setdefault(levels[key], RecordedCell(dict(levels[key]), config, {}))
        cells[levels[key]] = replace(cell, runs={**cell.runs, config.seeds.run: key})
    return RecordedStudy(
        name, f"The finished runs in {name}", "", _guess(levels), RUNNER, tuple(cells.values())
    )


def _guess(cells: dict[str, tuple[tuple[str, str], ...]]) -> AuditSpec | None:
    """The paper's comparison, where it is there."""
    factors = {factor for cell in cells.values() for factor, _ in cell}
    levels = {dict(cell).get("margin_type") for cell in cells.values()}
    if "subtract" not in levels or len(levels) < 2:
        return None
    block = ("stability",) if "stability" in factors else ()
    by = "condition" if "condition" in factors else None
    return AuditSpec(group="margin_type", baseline="subtract", block=block, by=by)


def _levels(configs: dict[str, RunConfig]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Margin type and stability where they vary, and all else that varies as one `condition`."""
    flat = {key: _flat(config) for key, config in configs.items()}
    names = list(dict.fromkeys(name for fields in flat.values() for name in fields))
    vary = [n for n in names if len({fields.get(n) for fields in flat.values()}) > 1]
    own = ("objective.margin_type", "objective.stability")
    fields_called = Counter(n.split(".")[1] for n in vary)
    short = {n: field if fields_called[field := n.split(".")[1]] == 1 else n for n in vary}
    out = {}
    for key, fields in flat.items():
        cell = [(n.split(".")[1], str(fields[n])) for n in own if n in vary]
        rest = ", ".join(f"{short[n]} = {fields.get(n)}" for n in vary if n not in own)
        out[key] = tuple(cell + ([("condition", rest)] if rest else []))
    return out


def _flat(config: RunConfig) -> dict[str, str]:
    values = config.model_dump(mode="json", exclude={"seeds", "runtime"})
    return {
        f"{part}.{k}": json.dumps(v) if not isinstance(v, str) else v
        for part, fields in values.items()
        for k, v in fields.items()
    }
