"""What `seedspread quickstart` is trained by: the fastest in a new store, in another what is there."""

from pathlib import Path

import pytest

from seedspread.cff.training.native import build
from seedspread.paper.quickstart import choose_implementation
from seedspread.runs.studies import save_study
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from tests.cff.training.tiny import needs_native


@needs_native
def test_a_new_store_is_trained_by_the_native_kernel(tmp_path: Path) -> None:
    assert choose_implementation(tmp_path / "new")[0] == "native"


@pytest.mark.parametrize("begun", [None, "plain", "native"])
def test_a_store_goes_on_as_it_was_begun(begun: str | None, tmp_path: Path) -> None:
    plan = Plan.make(StudySpec.from_file("quickstart"), tmp_path, implementation=begun)
    save_study(plan.store, plan.recorded()[0])
    assert choose_implementation(tmp_path) == (begun, f"Implementation: {begun or 'fast'}, as it was begun.")


def test_without_a_compiler_it_is_the_fast_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    try:
        assert choose_implementation(tmp_path / "new") == (
            None,
            "Implementation: fast. The native one is not to be had here: there is no C++ compiler.",
        )
    finally:
        build.cache_clear()
