"""Studies of tiny runs, a second each."""

from pathlib import Path
from typing import Any

from seedspread.cff.presets import to_toml
from seedspread.cff.runner import CffRunner
from seedspread.cff.training.run import train
from seedspread.runners.contract import WorkItem
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from tests.cff.training.tiny import tiny

STUDY = """
title = "tiny"
runner = "cff"
preset = "{preset}"
seeds = [{seeds}]
settings = {{ {settings} }}
engine = {{ {engine} }}
[factors]
margin_type = ["clamp", "subtract"]
[audit]
group = "margin_type"
baseline = "subtract"
"""


def study_file(folder: Path, seeds: int = 2, settings: str = "", engine: str = "", **changes: object) -> Path:
    """A study of clamp against subtract with so many seeds; `changes` are to the tiny config."""
    folder.mkdir(parents=True, exist_ok=True)
    preset = folder / "tiny.toml"
    preset.write_text(to_toml(tiny(**changes)))
    path = folder / "study.toml"
    numbers = ", ".join(str(seed) for seed in range(seeds))
    path.write_text(STUDY.format(preset=preset, seeds=numbers, settings=settings, engine=engine))
    return path


def tiny_study(
    folder: Path, seeds: int = 2, settings: str = "", engine: str = "", **changes: object
) -> StudySpec:
    """The same, read."""
    return StudySpec.from_file(study_file(folder, seeds, settings, engine, **changes))


def items(plan: Plan, **options: Any) -> list[WorkItem]:
    """The runs of a plan as a worker is given them."""
    return [WorkItem(run, plan.runners[run.study], **options) for run in plan.distinct.values()]


_undisturbed: dict[str, bytes] = {}


def undisturbed(study: StudySpec, folder: Path) -> dict[str, bytes]:
    """Every result of a study, its runs trained one by one in this process: no engine, no faults.

    Each run is trained once, whichever tests ask for it.
    """
    distinct = Plan.make(study, folder).distinct
    for key, run in distinct.items():
        if key not in _undisturbed:
            train(CffRunner().seeded(run.parameters, run.seed), folder / key)
            _undisturbed[key] = (folder / key / "result.json").read_bytes()
    return {key: _undisturbed[key] for key in distinct}


def results(store: Path) -> dict[str, bytes]:
    """Every result of a store, by key."""
    return {path.parent.name: path.read_bytes() for path in store.glob("*/result.json")}
