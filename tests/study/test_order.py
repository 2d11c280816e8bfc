"""Runs are run seed by seed, so that cells can be compared early; stacks are formed of the lowest seeds."""

from itertools import product
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from seedspread.runners.contract import WorkItem
from seedspread.study.local import _companions
from seedspread.study.loop import work_items
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from tests.study.dice import dice_study
from tests.study.tiny import study_file, tiny_study


def ordered(plan: Plan, workers: int = 2) -> list[WorkItem]:
    threads = {part.name: 1 for part in plan.study.parts}
    return work_items(plan, plan.by_seed(plan.distinct.values()), threads, workers, 120.0)


def groups(plan: Plan, items: list[WorkItem]) -> list[list[WorkItem]]:
    """What workers that come one after the other are given."""
    left, made = {item.key: item for item in items}, []
    while left:
        first = next(iter(left.values()))
        members = list(_companions(first, left, plan.store))[: first.group_size]
        made.append(members)
        for member in members:
            del left[member.key]
    return made


def test_every_cell_has_a_seed_before_any_has_the_next(tmp_path: Path) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=3), tmp_path / "store")
    runs = plan.by_seed(plan.distinct.values())
    assert [(run.seed, dict(run.cell)["margin_type"]) for run in runs] == list(
        product((0, 1, 2), ("clamp", "subtract"))
    )
    assert [run.seed for run in plan.runs] == [0, 1, 2, 0, 1, 2]  # tables and records keep theirs


def test_a_stack_has_the_lowest_seeds_of_all_cells_of_its_shape(tmp_path: Path) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=8, engine="stack = 4"), tmp_path / "store")
    stacks = groups(plan, ordered(plan))
    assert [sorted(item.run.seed for item in stack) for stack in stacks] == [
        [0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5], [6, 6, 7, 7]
    ]  # fmt: skip


@settings(max_examples=40)
@given(seeds=st.integers(1, 20), company=st.integers(1, 8), workers=st.integers(1, 4))
def test_where_cells_cannot_be_stacked_each_has_its_first_group_before_any_has_its_second(
    seeds: int, company: int, workers: int
) -> None:
    plan = Plan.make(dice_study(seeds=seeds, company=company), Path("nowhere"))
    cells = [group[0].run.parameters["sides"] for group in groups(plan, ordered(plan, workers))]
    for number in range(0, len(cells) - 1, 2):
        assert set(cells[number : number + 2]) == {6, 20}


def test_the_studies_of_a_collection_come_one_after_the_other(tmp_path: Path) -> None:
    one = study_file(tmp_path / "one", seeds=2)
    two = study_file(tmp_path / "two", seeds=2, model__depth=2).rename(tmp_path / "other.toml")
    path = tmp_path / "both.toml"
    path.write_text(f"include = ['{one}', '{two}']\n")
    plan = Plan.make(StudySpec.from_file(path), tmp_path / "store")
    runs = plan.by_seed(plan.distinct.values())
    assert [run.parameters.model.depth for run in runs] == [3] * 4 + [2] * 4
    assert [run.seed for run in runs] == [0, 0, 1, 1] * 2
