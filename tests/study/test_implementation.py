"""An implementation that a command asks for: other runs, which the store remembers."""

from pathlib import Path

import pytest

from seedspread.cff.training import native as building
from seedspread.errors import SeedspreadError
from seedspread.runs.store import Store
from seedspread.runs.studies import load_studies
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import StudyError
from seedspread.study.study import Study, run_study
from seedspread.study.worker import attempt
from tests.cff.training.tiny import needs_native
from tests.study.here import Here
from tests.study.tiny import items, tiny_study


def keys(plan: Plan) -> set[str]:
    return set(plan.distinct)


def test_another_implementation_is_other_runs(tmp_path: Path) -> None:
    study, store = tiny_study(tmp_path, seeds=1), tmp_path / "store"
    plans = [Plan.make(study, store, implementation=kind) for kind in (None, "fast", "plain", "native")]
    assert keys(plans[0]) == keys(plans[1])
    assert not keys(plans[0]) & keys(plans[2])
    assert not keys(plans[0]) & keys(plans[3])
    assert plans[3].study.cells[0].parameters.runtime.implementation == "native"


@needs_native
def test_the_store_remembers_it(tmp_path: Path) -> None:
    study, store = tiny_study(tmp_path, seeds=1), tmp_path / "store"
    run_study(study, store, Here(), implementation="native")
    again = Plan.make(study, store)
    assert not again.missing()
    assert keys(again) == keys(Plan.make(study, store, implementation="native"))
    assert load_studies(Store(store))[0][0].implementation == "native"
    assert run_plan(again, Here()).total == 0


def test_a_study_that_was_begun_is_not_begun_anew_by_mistake(tmp_path: Path) -> None:
    study, store = tiny_study(tmp_path, seeds=1), tmp_path / "store"
    run_study(study, store, Here())
    with pytest.raises(SeedspreadError, match=r"was begun in .* as the study says; .* add --force"):
        run_study(study, store, Here(), implementation="plain")
    run_study(study, store, Here(), implementation="plain", force=True)
    with pytest.raises(SeedspreadError, match=r"with --implementation plain; .*: ask for plain"):
        run_study(study, store, Here(), implementation="fast")


def test_ones_own_code_has_one_implementation(tmp_path: Path) -> None:
    def train(seed: int, width: int) -> dict[str, float]:
        return {"accuracy": seed / width}

    study = Study(train, factors={"width": [1, 2]}, seeds=2)
    with pytest.raises(StudyError, match="one's own code has one implementation"):
        study.plan(tmp_path, implementation="native")


def test_a_study_of_implementations_says_them_itself(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        'runner = "cff"\npreset = "quickstart"\ntitle = "t"\nseeds = 2\n'
        '[factors]\nimplementation = ["fast", "plain"]\n'
    )
    assert len(Study(file).plan(tmp_path / "store").distinct) == 4
    with pytest.raises(StudyError, match="compares implementations itself"):
        Study(file).plan(tmp_path / "store", implementation="native")


def test_a_worker_without_a_compiler_leaves_native_runs_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan.make(tiny_study(tmp_path, seeds=1), tmp_path / "store", implementation="native")
    (tmp_path / "store").mkdir()
    item = items(plan)[0]
    building.build.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    try:
        result = attempt(item)
        assert result.outcome == "failed"
        assert "install g++ or clang" in result.message
        assert not plan.store.has_failed(item.key)
        assert not plan.store.folder(item.key).exists()
        with pytest.raises(SeedspreadError, match=r"install g\+\+ or clang"):
            run_plan(plan, LocalExecutor(workers=1))
    finally:
        building.build.cache_clear()
