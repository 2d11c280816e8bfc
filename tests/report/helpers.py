"""Stores of made-up runs with every file that a report reads: quick to make, and free to be odd."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.report import fill, study
from seedspread.cff.config import RunConfig
from seedspread.report.extension import ReportData
from seedspread.report.load import load_store
from seedspread.report.server import ReportServer
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec

Serve = Callable[..., ReportServer]
MARGINS = '[factors]\nmargin_type = ["clamp", "soft_clamp", "subtract"]\nmargin_first = [0.2, 0.4, 0.8]\n'
AUDIT = '[audit]\ngroup = "margin_type"\nbaseline = "subtract"\n'
ODD = "<script>alert(1)</script>"


def made_store(folder: Path, seeds: int = 5, name: str = "bench", **changes: dict[str, Any]) -> Plan:
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
    folder = plan.store.run(plan.runs[place].key)
    result = folder.result() | values
    result["metrics"]["accuracy"] = result["test_accuracy"]
    content, provenance = (
        json.dumps(result).encode(),
        json.loads((folder.path / "provenance.json").read_text()),
    )
    provenance["digests"]["result.json"] = [hashlib.sha256(content).hexdigest()]
    folder.write("provenance.json", json.dumps(provenance).encode())
    folder.write("result.json", content)


def unfinished(plan: Plan, *places: int) -> None:
    """Takes the results of runs away."""
    for place in places:
        (plan.store.folder(plan.runs[place].key) / "result.json").unlink()


def material_of(folder: Path) -> ReportData:
    """What a report of the store is made of."""
    return load_store(folder)


def written(folder: Path, name: str, factors: str, audit: str, preset: str = "mini/cifar10") -> Path:
    """A study's file."""
    path = folder / f"{name}.toml"
    path.write_text(f'title = "{name}"\nrunner = "cff"\npreset = "{preset}"\nseeds = 5\n{factors}{audit}')
    return path


def filled(folder: Path, *studies: Path) -> ReportData:
    """What a report of a store with these studies, all run, is made of."""
    for path in studies:
        fill(Plan.make(StudySpec.from_file(path), folder / "store"))
    return load_store(folder / "store")


def depth(folder: Path) -> Path:
    factors = '[factors]\nmargin_type = ["clamp", "subtract"]\ndepth = [2, 4, 8]\n'
    return written(folder, "multi3", factors, AUDIT + 'by = "depth"\n')


def numeric_table(folder: Path) -> Path:
    """A numeric factor, and runs in numeric blocks; at one level a run fails."""
    rng = np.random.default_rng(0)
    rows = [
        {"margin": margin, "batch": batch, "seed": seed, "accuracy": 80 + rng.normal(0, 1),
         "collapsed": seed == 0 and margin == "0.4719"}
        for margin in ("0.1713", "0.2917", "0.4719")
        for batch in (3201, 6403)
        for seed in range(5)
    ]  # fmt: skip
    path = folder / "numeric.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path
