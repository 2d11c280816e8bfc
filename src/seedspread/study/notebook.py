"""A study's runs as a DataFrame, and as a notebook shows them."""

from collections.abc import Sequence

import pandas as pd

from seedspread.render.table import Column, Table, head_of
from seedspread.render.web import for_notebook
from seedspread.runs.levels import arm_name, level_name
from seedspread.runs.studies import AuditSpec
from seedspread.runs.tidy import tidy_table
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from seedspread.tables.from_store import read_runs

_CELLS_SHOWN = 20


def tidy_runs(plan: Plan, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """One row per finished run that the study names, each field once; `study` and `key` come last."""
    runs = read_runs(plan.store, plan.recorded(), metrics)[0]
    table = tidy_table([run.fields for run in runs], [run.cell.levels for run in runs])
    return table.assign(
        seed=[run.seed for run in runs],
        study=[run.study.name for run in runs],
        key=[run.key for run in runs],
    )


def study_html(plan: Plan, metrics: Sequence[str]) -> str:
    """How many runs are where, and each cell's mean and sd."""
    lines = [plan.study.title or plan.study.name, plan.counts(plan.states())]
    cells = _cells(plan, metrics)
    tables = [head_of(cells, "mean ± sd over seeds", _CELLS_SHOWN)] if len(cells) else []
    rest = ".audit() compares them, .table has every field, .report(page) writes a page."
    return for_notebook(lines, tables, [rest])


def spec_html(study: StudySpec) -> str:
    """What a study compares: its factors with their levels, its seeds, its question; or its studies."""
    if study.included:
        parts = tuple(
            (part.name, size_of(part), _question(part.audit)) for part in study.parts[:_CELLS_SHOWN]
        )
        table = Table("", "", (Column("study"), Column("size"), Column("audit")), parts)
    else:
        levels: dict[str, list[str]] = {}
        for factor, level in (pair for cell in study.cells for pair in cell.levels):
            levels.setdefault(factor, []).append(level_name(level))
        rows = [(factor, ", ".join(dict.fromkeys(names))) for factor, names in levels.items()]
        table = Table("", "", (Column("factor"), Column("levels")), tuple(rows))
    lines = [study.title or study.name, f"{size_of(study)}. {_question(study.audit)}"]
    rest = ".run(store) runs it, .plan(store) shows what there is to do."
    return for_notebook(lines, [table], [study.note, rest] if study.note else [rest])


def size_of(study: StudySpec) -> str:
    """`12 cells x 8 seeds`; of a collection how many studies."""
    if study.included:
        return f"{len(study.parts)} studies"
    cells, seeds = len(study.cells), len(study.seeds)
    return f"{cells} cell{'s' * (cells != 1)} x {seeds} seed{'s' * (seeds != 1)}"


def _question(audit: AuditSpec | None) -> str:
    if audit is None:
        return ""
    by = f", apart by {', '.join(audit.strata)}" if audit.strata else ""
    arm = arm_name(audit.group, audit.baseline)
    return f"{', '.join(audit.values)} by {audit.group}, against {arm}{by}."


def _cells(plan: Plan, metrics: Sequence[str]) -> pd.DataFrame:
    """A row per cell with finished runs: its levels, its seeds, mean and sd of each metric."""
    table = tidy_runs(plan, metrics)
    factors = [n for n in dict.fromkeys(name for run in plan.runs for name, _ in run.cell) if n in table]
    if not factors:
        return pd.DataFrame()
    rows = [
        {name: level_name(level) for name, level in zip(factors, levels, strict=True)}
        | {"seeds": cell["seed"].nunique()}
        | {name: _mean_and_sd(cell[name]) for name in metrics if name in cell}
        for levels, cell in table.groupby(factors, sort=False, dropna=False)
    ]
    return pd.DataFrame(rows)


def _mean_and_sd(values: "pd.Series[float]") -> str:
    return f"{values.mean():.4g}" + (f" ± {values.std():.2g}" if len(values) > 1 else "")
