"""Runs are run seed by seed, so that cells can be compared early."""

from dataclasses import replace
from itertools import product
from pathlib import Path

from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from tests.study.here import Here
from tests.study.tiny import study_file, tiny_study


def test_every_cell_has_a_seed_before_any_has_the_next(tmp_path: Path) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=3), tmp_path / "store")
    runs = plan.by_seed(plan.distinct.values())
    assert [(run.seed, dict(run.cell)["margin_type"]) for run in runs] == list(
        product((0, 1, 2), ("clamp", "subtract"))
    )
    assert [run.seed for run in plan.runs] == [0, 1, 2, 0, 1, 2]  # tables and records keep theirs


def test_the_studies_of_a_collection_come_one_after_the_other(tmp_path: Path) -> None:
    one = study_file(tmp_path / "one", seeds=2)
    two = study_file(tmp_path / "two", seeds=2, model__depth=2).rename(tmp_path / "other.toml")
    path = tmp_path / "both.toml"
    path.write_text(f"include = ['{one}', '{two}']\n")
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    runs = plan.by_seed(plan.distinct.values())
    assert [run.parameters.model.depth for run in runs] == [3] * 4 + [2] * 4
    assert [run.seed for run in runs] == [0, 0, 1, 1] * 2


def test_the_studies_of_a_collection_may_vary_different_sources(tmp_path: Path) -> None:
    """Their runners differ: the seed of one drives the weights, that of the other the order."""
    parts = []
    for source in ("init", "order"):
        path = study_file(tmp_path / source, seeds=2)
        path.write_text(f'vary = ["{source}"]\n' + path.read_text())
        parts.append(replace(StudySpec.from_file(path), name=source))
    both = replace(parts[0], name="both", cells=(), seeds=(), included=tuple(parts))
    plan = Plan.make(both, tmp_path / "store")
    report = run_plan(plan, Here())
    assert not report.failed
    assert len(report.done) == len(plan.distinct) == 6  # with seed 0, as the others have, they are one run
