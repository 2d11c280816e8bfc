"""What `seedspread quickstart` is trained by: the fastest in a new store, in another what is there."""

from pathlib import Path

import pytest

from seedspread.cff.training.native import build
from seedspread.paper.quickstart import NATIVE, STUDY, choose_study
from seedspread.runs.studies import save_study
from seedspread.study.plan import Plan
from tests.cff.training.tiny import needs_native


@needs_native
def test_a_new_store_is_trained_by_the_native_kernel(tmp_path: Path) -> None:
    assert choose_study(tmp_path / "new")[0] == NATIVE


@pytest.mark.parametrize(("study", "begun"), [(STUDY, "fast"), (NATIVE, "native")])
def test_a_store_goes_on_as_it_was_begun(study: str, begun: str, tmp_path: Path) -> None:
    plan = Plan.make(study, tmp_path)
    assert {cell.parameters.runtime.implementation for cell in plan.study.cells} == {begun}
    save_study(plan.store, plan.recorded()[0])
    assert choose_study(tmp_path) == (study, f"Implementation: {begun}, as in the runs that are there.")


def test_without_a_compiler_it_is_the_fast_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    try:
        assert choose_study(tmp_path / "new") == (
            STUDY,
            "Implementation: fast. The native one is not available here: there is no C++ compiler.",
        )
    finally:
        build.cache_clear()
