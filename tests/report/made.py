"""Stores of made-up runs with every file that a report reads: quick to make, and free to be odd."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.report import fill, study
from seedspread.cff.config import RunConfig
from seedspread.report.material.from_store import from_store
from seedspread.report.material.settings import ReportData
from seedspread.study.plan import Plan

ODD = "<script>alert(1)</script>"


def made_store(folder: Path, seeds: int = 4, name: str = "bench", **changes: dict[str, Any]) -> Plan:
    """A finished CIFAR-10 factorial in miniature with so many seeds; `changes` are to its configs."""
    base = study(seeds)
    cells = tuple(replace(cell, parameters=_changed(cell.parameters, changes)) for cell in base.cells)
    title = base.title if name == "bench" else name
    plan = Plan.make(replace(base, name=name, title=title, cells=cells), folder)
    fill(plan)
    return plan


def _changed(config: RunConfig, changes: dict[str, dict[str, Any]]) -> RunConfig:
    parts = {part: getattr(config, part).model_copy(update=fields) for part, fields in changes.items()}
    return config.model_copy(update=parts)


def change(plan: Plan, place: int, **values: Any) -> None:
    """Alters fields of a run's result; its accuracy also among its metrics."""
    path = plan.store.folder(plan.runs[place].key) / "result.json"
    result = json.loads(path.read_text()) | values
    result["metrics"]["accuracy"] = result["test_accuracy"]
    path.write_text(json.dumps(result))


def unfinished(plan: Plan, *places: int) -> None:
    """Takes the results of runs away."""
    for place in places:
        (plan.store.folder(plan.runs[place].key) / "result.json").unlink()


def material_of(folder: Path) -> ReportData:
    """What a report of the store is made of."""
    return from_store(folder)
