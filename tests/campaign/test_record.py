"""A store's record of its studies."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from seedspread.campaign.record import FOLDER, remember, remembered
from seedspread.campaign.store import Store
from seedspread.campaign.study import Study


@pytest.mark.parametrize("name", ["paper/all", "quickstart", "mini/dose-response"])
def test_what_is_remembered_is_what_was_planned(tmp_path: Path, name: str) -> None:
    plan = Study.from_file(name).plan(tmp_path)
    remember(plan)
    plans, problems = remembered(Store(tmp_path))
    assert not problems
    assert {p.study.name for p in plans} == {part.name for part in plan.study.parts}
    assert {(r.key, r.named.config) for p in plans for r in p.runs} == {
        (r.key, r.named.config) for r in plan.runs
    }
    by_name = {part.name: part for part in plan.study.parts}
    for found in plans:
        assert found.study.audit == by_name[found.study.name].audit
        assert found.study.runs == by_name[found.study.name].runs


def test_a_study_of_the_same_name_takes_the_older_ones_place(tmp_path: Path) -> None:
    study = Study.from_file("quickstart")
    remember(replace(study, runs=study.runs[:3]).plan(tmp_path))
    remember(study.plan(tmp_path))
    plans, _ = remembered(Store(tmp_path))
    assert [len(plan.runs) for plan in plans] == [len(study.runs)]
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / FOLDER).iterdir()}
    remember(study.plan(tmp_path))  # the same again: nothing is written
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / FOLDER).iterdir()} == before


def test_a_record_that_no_longer_fits_does_not_hide_the_others(tmp_path: Path) -> None:
    remember(Study.from_file("quickstart").plan(tmp_path))
    (path,) = (tmp_path / FOLDER).iterdir()
    for name, change in (("config", {"cells": [{"config": {"gone": {}}, "cell": {}, "runs": {}}]}),
                         ("audit", {"audit": {"group": "no factor", "reference": "x"}})):  # fmt: skip
        (tmp_path / FOLDER / f"{name}.json").write_text(json.dumps(json.loads(path.read_text()) | change))
    plans, problems = remembered(Store(tmp_path))
    assert [plan.study.name for plan in plans] == ["quickstart"]
    assert len(problems) == 2


@pytest.mark.parametrize(
    "values",
    [[], {"name": "x"}, {"name": "x", "title": "", "note": "", "audit": None, "cells": [
        {"cell": {}, "config": {}, "runs": {"1": "../outside"}}]}],
)  # fmt: skip
def test_foreign_and_hostile_records_are_named(tmp_path: Path, values: object) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "bad.json").write_text(json.dumps(values))
    plans, problems = remembered(Store(tmp_path))
    assert plans == []
    assert "bad.json" in problems[0]


def test_records_are_no_foreign_files_of_a_store(tmp_path: Path) -> None:
    remember(Study.from_file("quickstart").plan(tmp_path))
    assert Store(tmp_path).problems() == []
    assert Store(tmp_path).keys() == []
