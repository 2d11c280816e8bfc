"""Config fields under their former names: files, settings, studies, stores."""

import json
from pathlib import Path

import pytest

from seedspread.cff.config import DataConfig, RuntimeConfig
from seedspread.cff.identity import canonical, run_key
from seedspread.cff.presets import read_config, to_toml
from seedspread.cff.training.run import train
from seedspread.runs.record import RENAMED, Record
from seedspread.runs.store import Store
from seedspread.study.spec import StudyError, StudySpec
from tests.cff.training.tiny import tiny

FORMER = {
    "data.validation_share": ("data.validation_fraction", 0.2),
    "runtime.slice_images": ("runtime.micro_batch_size", 64),
    "runtime.recompute": ("runtime.activation_checkpointing", True),
}


def test_all_of_them_are_looked_at() -> None:
    assert {f"{part}.{old}" for part, names in RENAMED.items() for old in names} == set(FORMER)


@pytest.mark.parametrize("old", FORMER)
def test_a_setting_and_a_file_may_use_the_former_name(old: str, tmp_path: Path) -> None:
    new, value = FORMER[old]
    shown = str(value).lower()
    by_old, by_new = (read_config("quickstart", [f"{name}={shown}"]) for name in (old, new))
    assert by_old == by_new
    assert run_key(by_old) == run_key(by_new)
    text = to_toml(by_new)
    path = tmp_path / "old.toml"
    path.write_text(text.replace(new.split(".")[1], old.split(".")[1]))
    assert path.read_text() != text
    assert read_config(str(path)) == by_new
    assert read_config(str(path), [f"{new}={shown}"]) == by_new


def test_python_may_too() -> None:
    assert DataConfig.model_validate({"validation_share": 0.2}) == DataConfig(validation_fraction=0.2)
    assert RuntimeConfig.model_validate({"slice_images": 64, "recompute": True}) == RuntimeConfig(
        micro_batch_size=64, activation_checkpointing=True
    )


def test_a_study_may_and_calls_its_factor_by_the_name_of_today(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    text = 'title = "x"\npreset = "quickstart"\nseeds = [1]\n[factors]\nslice_images = [32, 64]\n'
    path.write_text(text)
    assert [cell.levels for cell in StudySpec.from_file(path).cells] == [
        (("micro_batch_size", 32),),
        (("micro_batch_size", 64),),
    ]
    path.write_text(text + "[settings]\nmicro_batch_size = 16\n")
    with pytest.raises(StudyError, match="micro_batch_size is given twice"):
        StudySpec.from_file(path)


def test_the_description_that_is_hashed_keeps_its_words() -> None:
    described = canonical(read_config("quickstart"))
    assert "validation_share" in described["data"]
    assert "slice_images" in described["fast"]


def test_old_and_new_runs_stand_under_the_new_names_in_a_table(tmp_path: Path) -> None:
    for seed in (1, 2):
        train(tiny(seeds__run=seed), tmp_path / str(seed))
    path = tmp_path / "1" / "provenance.json"
    values = json.loads(path.read_text())
    for part, names in RENAMED.items():
        for old, new in names.items():
            values["config"][part][old] = values["config"][part].pop(new)
    path.write_text(json.dumps(values))
    table = Store(tmp_path).table()
    assert table["micro_batch_size"].tolist() == [128, 128]
    assert "slice_images" not in table.columns
    assert Record.read(str(tmp_path / "1")).parameters["data"]["validation_fraction"] == 0.1
