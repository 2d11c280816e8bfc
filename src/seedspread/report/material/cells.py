"""What the cells of one setting say of it: its arms, its levels, its config, and whether the paper has it."""

from seedspread.cff.config import RunConfig
from seedspread.cff.datasets import dataset_info
from seedspread.cff.identity import margin_is_inert
from seedspread.report.material.scale import is_papers_level, paper_setting
from seedspread.report.material.studies import config_of
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


def levels(cell: RecordedCell, spec: AuditSpec | None) -> tuple[tuple[str, str], ...]:
    """The same by factor; a dataset by its title."""
    return tuple(
        ("dataset", dataset_info(str(cell.levels[name])).title)
        if name == "name" and config_of(cell) is not None
        else (name, level_name(cell.levels[name]))
        for name in strata(spec)
    )


def arms(cells: list[RecordedCell], spec: AuditSpec | None) -> tuple[str, ...]:
    """What is compared, the baseline last."""
    if spec is None:
        return tuple(dict.fromkeys(cell.title for cell in cells))
    there = dict.fromkeys(level_name(cell.levels[spec.group]) for cell in cells)
    return (*(a for a in there if a != spec.baseline), spec.baseline)


def typical(cells: list[RecordedCell]) -> RunConfig | None:
    """A run whose margin matters, if there is one: it is the setting's."""
    return next(iter(_telling(cells)), None)


def _telling(cells: list[RecordedCell]) -> list[RunConfig]:
    """The configs whose margin matters; all, if none does."""
    configs = [config for cell in cells if (config := config_of(cell)) is not None]
    return [config for config in configs if not margin_is_inert(config)] or configs


def paper(cells: list[RecordedCell], spec: AuditSpec | None, value: str) -> str | None:
    """The paper's setting, if these runs ask its question: accuracies of margin types, its data and margins.

    A study that is audited by depth has the paper's setting at the paper's depth only.
    """
    if spec is None or spec.group != "margin_type" or value != "accuracy":
        return None
    configs = _telling(cells)
    settings = {paper_setting(config) for config in configs}
    if len(settings) != 1 or not set(spec.blocks) <= {"stability"}:
        return None
    (setting,) = settings
    if setting is None or not all(is_papers_level(configs[0], setting, name) for name in strata(spec)):
        return None
    return setting


def are_the_same_runs(cells: list[RecordedCell], spec: AuditSpec | None) -> bool:
    """Arms that share a run cannot be compared: cross entropy, for one, has no margin."""
    if spec is None:
        return False
    runs: dict[str, set[str]] = {}
    for cell in cells:
        runs.setdefault(level_name(cell.levels[spec.group]), set()).update(cell.runs.values())
    return sum(map(len, runs.values())) > len(set().union(*runs.values()))
