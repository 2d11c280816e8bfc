"""The cells of a study: from factors or a list to the levels and parameters of each, checked."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from seedspread.errors import SeedspreadError
from seedspread.runners.contract import Level, Runner
from seedspread.runs.levels import level_name
from seedspread.study.file import SEED_LIMIT, Cell, StudyFile


class StudyError(SeedspreadError):
    """A study that cannot be: the message names the file and the field."""


@dataclass(frozen=True)
class StudyCell:
    """A cell of a study: the levels of its factors, and the parameters that its runs share."""

    levels: tuple[tuple[str, Level], ...]
    parameters: Any


def study_cells(name: str, file: StudyFile, runner: Runner) -> tuple[StudyCell, ...]:
    """Every cell, with what its runs share."""
    if not file.seed_list:
        raise StudyError(f"{name}: seeds is missing; say how many, such as seeds = 10, or list them")
    wrong = [seed for seed in file.seed_list if not 0 <= seed < SEED_LIMIT]
    if wrong:
        raise StudyError(f"{name}: seeds must lie between 0 and 2^63; got {wrong[0]}")
    _refuse_repeats(f"{name}: seeds", file.seed_list)
    cells = _cells(name, file)
    _check_fields(name, file, cells, runner)
    settings = {runner.full_name(field): level for field, level in file.settings.items()}
    out = []
    for cell in cells:
        full = {runner.full_name(factor): level for factor, level in cell.items()}
        levels = tuple((runner.short_name(field), level) for field, level in full.items())
        out.append(StudyCell(levels, runner.parameters(file.preset, settings | full)))
    return tuple(out)


def _cells(name: str, file: StudyFile) -> list[Cell]:
    if not file.factors and not file.cells:
        raise StudyError(f"{name}: there is nothing to compare; give factors or cells")
    for factor, levels in file.factors.items():
        if not levels:
            raise StudyError(f"{name}: factors.{factor} has no levels")
        _refuse_repeats(f"{name}: factors.{factor}", levels)
    crossed = [dict(zip(file.factors, levels, strict=True)) for levels in product(*file.factors.values())]
    cells = list(file.cells) or crossed
    named = [frozenset((field, level_name(level)) for field, level in cell.items()) for cell in cells]
    times = Counter(named)
    repeated = [cell for cell, levels in zip(cells, named, strict=True) if times[levels] > 1]
    if repeated:
        raise StudyError(f"{name}: cells has {repeated[0]} twice")
    for factor, level in (pair for cell in cells for pair in cell.items()):
        if not level_name(level):
            raise StudyError(f"{name}: {factor} has {level!r}, which no table tells from a missing value")
    if len({tuple(sorted(cell)) for cell in cells}) > 1:
        raise StudyError(f"{name}: every cell must set the same fields")
    return cells


def _refuse_repeats(where: str, values: Sequence[Level]) -> None:
    """By their names: 1 and 1.0, or 1 and "1", could not be told apart in a table."""
    times = Counter(map(level_name, values))
    repeated = [value for value in values if times[level_name(value)] > 1]
    if repeated:
        raise StudyError(f"{where} has {repeated[0]!r} twice")


def _check_fields(name: str, file: StudyFile, cells: list[Cell], runner: Runner) -> None:
    """Each parameter has one role: not two names for one factor, not a factor and a setting."""
    factors = [runner.full_name(field) for field in (cells[0] if cells else {})]
    full = factors + [runner.full_name(field) for field in file.settings]
    twice = [field for field, times in Counter(full).items() if times > 1]
    if twice:
        raise StudyError(f"{name}: {twice[0]} is given twice, among factors, cells and settings")
    if not factors:
        raise StudyError(f"{name}: there is nothing to compare; cells set no field")
