"""A store's record of its studies."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from seedspread.cff.presets import check
from seedspread.runs.files import FORMAT
from seedspread.runs.store import Store
from seedspread.runs.studies import load_studies, save_study
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec

FOLDER = ".studies"


def save(study: StudySpec, store: Path) -> None:
    for recorded in Plan.make(study, store).recorded():
        save_study(Store(store), recorded)


@pytest.mark.parametrize("name", ["paper/all", "quickstart", "mini/dose-response"])
def test_what_is_remembered_is_what_was_planned(tmp_path: Path, name: str) -> None:
    plan = Plan.make(StudySpec.from_file(name), tmp_path)
    save(plan.study, tmp_path)
    studies, problems = load_studies(Store(tmp_path))
    assert not problems
    found = {
        (study.name, tuple(cell.levels.items()), seed, check(cell.parameters), key)
        for study in studies
        for cell in study.cells
        for seed, key in cell.runs.items()
    }
    assert found == {(run.study, run.cell, run.seed, run.parameters, run.key) for run in plan.runs}
    assert {study.name: study.audit for study in studies} == {p.name: p.audit for p in plan.study.parts}


def test_a_study_of_the_same_name_takes_the_older_ones_place(tmp_path: Path) -> None:
    study = StudySpec.from_file("quickstart")
    save(replace(study, seeds=study.seeds[:3]), tmp_path)
    save(study, tmp_path)
    studies, _ = load_studies(Store(tmp_path))
    assert [len(one.keys) for one in studies] == [len(study.seeds) * len(study.cells)]
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / FOLDER).iterdir()}
    save(study, tmp_path)  # the same again: nothing is written
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / FOLDER).iterdir()} == before


def test_a_record_that_no_longer_fits_does_not_hide_the_others(tmp_path: Path) -> None:
    save(StudySpec.from_file("quickstart"), tmp_path)
    (path,) = (tmp_path / FOLDER).iterdir()
    for name, change in (
        ("audit", {"audit": {"group": "no factor", "baseline": "x"}}),
        ("newer", {"format": 99}),
        ("another", {"format": 1}),
    ):
        (tmp_path / FOLDER / f"{name}.json").write_text(json.dumps(json.loads(path.read_text()) | change))
    studies, problems = load_studies(Store(tmp_path))
    assert [study.name for study in studies] == ["quickstart"]
    assert len(problems) == 3
    assert "record format 99" in "".join(problems)
    assert "record format 1; " in "".join(problems)


@pytest.mark.parametrize(
    "values",
    [[], {"format": FORMAT, "name": "x"},
     {"format": FORMAT, "name": "x", "title": "", "note": "", "audit": None,
      "cells": [{"cell": {}, "config": {}, "runs": {"1": "../outside"}}]}],
)  # fmt: skip
def test_foreign_and_hostile_records_are_named(tmp_path: Path, values: object) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "bad.json").write_text(json.dumps(values))
    studies, problems = load_studies(Store(tmp_path))
    assert studies == []
    assert "bad.json" in problems[0]


def test_records_are_no_foreign_files_of_a_store(tmp_path: Path) -> None:
    save(StudySpec.from_file("quickstart"), tmp_path)
    assert Store(tmp_path).problems() == []
    assert Store(tmp_path).keys() == []
