"""An implementation that a study asks for: other runs, which not every worker can compute."""

from pathlib import Path

import pytest

from seedspread.cff.training import native as building
from seedspread.errors import SeedspreadError
from seedspread.study.local import LocalExecutor
from seedspread.study.loop import run_plan
from seedspread.study.plan import Plan
from seedspread.study.spec import Variation
from seedspread.study.study import Study
from seedspread.study.worker import attempt
from tests.study.tiny import items, study_file, tiny_study


def test_another_implementation_is_other_runs(tmp_path: Path) -> None:
    file, store = study_file(tmp_path, seeds=1), tmp_path / "store"
    plans = [
        Plan.make(Variation.of([f"implementation={kind}"]).name(str(file)), store)
        for kind in ("fast", "plain", "native")
    ]
    fast, plain, native = (set(plan.distinct) for plan in plans)
    assert fast == set(Plan.make(file, store).distinct)
    assert not fast & plain
    assert not fast & native
    assert plans[2].study.cells[0].parameters.runtime.implementation == "native"


def test_a_study_may_compare_implementations(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        'runner = "cff"\npreset = "quickstart"\ntitle = "t"\nseeds = 2\n'
        '[factors]\nimplementation = ["fast", "plain"]\n'
    )
    assert len(Study(file).plan(tmp_path / "store").distinct) == 4


def test_a_worker_without_a_compiler_leaves_native_runs_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tiny_study(tmp_path, seeds=1, runtime__implementation="native")
    plan = Plan.make(study, tmp_path / "store")
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
