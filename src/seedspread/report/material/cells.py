"""What the cells of one setting say of it: its arms, its blocks, its levels."""

from seedspread.report.extension import Extension
from seedspread.runs.levels import joined_levels, level_name
from seedspread.runs.studies import AuditSpec, RecordedCell


def strata(spec: AuditSpec | None) -> tuple[str, ...]:
    """The factors of a study whose levels are audited apart."""
    return tuple(name for name in spec.strata if name != "study") if spec is not None else ()


def stratum(cell: RecordedCell, spec: AuditSpec | None) -> str:
    """The levels of those factors, as an audit joins them."""
    return joined_levels([level_name(cell.levels[name]) for name in strata(spec)])


def block(cell: RecordedCell, spec: AuditSpec | None) -> str:
    """The levels that tell the runs of one seed apart, joined likewise."""
    return joined_levels([level_name(cell.levels[name]) for name in spec.blocks]) if spec else ""


def levels(cell: RecordedCell, spec: AuditSpec | None, extension: Extension) -> tuple[tuple[str, str], ...]:
    """The same by factor, as people read them."""
    return tuple(extension.level(name, level_name(cell.levels[name])) for name in strata(spec))


def arms(cells: list[RecordedCell], spec: AuditSpec | None) -> tuple[str, ...]:
    """What is compared, the baseline last."""
    if spec is None:
        return tuple(dict.fromkeys(cell.title for cell in cells))
    there = dict.fromkeys(level_name(cell.levels[spec.group]) for cell in cells)
    return (*(a for a in there if a != spec.baseline), spec.baseline)


def are_the_same_runs(cells: list[RecordedCell], spec: AuditSpec | None) -> bool:
    """Arms that share a run cannot be compared."""
    if spec is None:
        return False
    runs: dict[str, set[str]] = {}
    for cell in cells:
        runs.setdefault(level_name(cell.levels[spec.group]), set()).update(cell.runs.values())
    return sum(map(len, runs.values())) > len(set().union(*runs.values()))
