"""Runs on one's own images, from a file, a folder or Python; and runs that differ in their split."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seedspread import ArrayDataset, Study, components, train
from seedspread.cff.config import RandomErasing, RunConfig
from seedspread.cff.data.dataset import load
from seedspread.cff.identity import run_key
from seedspread.cff.presets import ConfigError
from seedspread.cff.runner import CffRunner
from seedspread.errors import DataError
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec
from tests.cff.data.own_images import IMAGES, LABELS, folder_of
from tests.cff.training.tiny import files, needs_native, tiny
from tests.commands import seedspread_command, without_torch

SMALL: dict[str, Any] = {
    "data__limit_per_class": None,
    "model__image_size": [12, 8],
    "model__patch_size": 4,
    "training__epochs": 6,
    "probe__learning_rate": 0.05,
}
STUDY = """
runner = "cff"
preset = "quickstart"
seeds = 2
[settings]
name = "{name}"
limit_per_class = 20
image_size = "12x8"
"training.epochs" = 2
"probe.epochs" = 1
[factors]
margin_type = ["clamp", "subtract"]
"""


@pytest.mark.parametrize("implementation", ["fast", "plain", pytest.param("native", marks=needs_native)])
def test_a_file_and_arrays_are_the_same_run(implementation: str, tmp_path: Path) -> None:
    data = ArrayDataset(IMAGES, LABELS, classes=["ash", "elm", "oak"])
    data.save(tmp_path / "leaves.npz")
    own = SMALL | {"runtime__implementation": implementation}
    one = train(tiny(**own), tmp_path / "one", data=data)
    other = train(tiny(data__name=str(tmp_path / "leaves.npz"), **own), tmp_path / "other")
    assert one == other
    assert one.test_accuracy > 0.6  # their color tells the classes apart
    assert files(tmp_path / "one") == files(tmp_path / "other")


def test_a_run_on_a_folder(tmp_path: Path) -> None:
    keys = set()
    for name in ("one", "other"):
        folder = folder_of(tmp_path / name, parts=("train", "test"))
        result = train(tiny(data__name=str(folder), **SMALL), tmp_path / f"run-{name}")
        assert result.test_accuracy > 0.6
        keys.add(result.key)
    assert len(keys) == 1
    resized = tiny(data__name=str(folder), data__resize=8, **SMALL | {"model__image_size": 8})
    assert train(resized, tmp_path / "resized").key not in keys


def test_the_model_must_fit_the_images(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"3 x 12 x 8, .* set model\.image_size = '12x8' and model\.channels = 3"
    ):
        train(tiny(data__limit_per_class=None), tmp_path / "run", data=ArrayDataset(IMAGES, LABELS))
    assert not (tmp_path / "run").exists()


def test_the_key_has_nothing_of_the_path() -> None:
    paths = [tiny(data__name=name, **SMALL) for name in ("a/leaves.npz", "b/other.npz", "arrays")]
    assert len({run_key(config, "own-1") for config in paths}) == 1
    assert run_key(paths[0], "own-2") != run_key(paths[0], "own-1")
    assert run_key(tiny(data__name="a/leaves.npz", data__test_fraction=0.3), "own-1") != run_key(
        tiny(data__name="a/leaves.npz"), "own-1"
    )
    with pytest.raises(ValueError, match="takes their fingerprint"):
        run_key(paths[0])
    assert paths[0].data.pipeline == ()


def test_a_square_is_one_number() -> None:
    assert tiny(model__image_size=[32, 32]) == tiny(model__image_size="32x32") == tiny()
    assert tiny(model__image_size="32x40").model.image_shape == (3, 32, 40)
    assert run_key(tiny(model__image_size=[32, 40])) != run_key(tiny(model__image_size=[40, 32]))


def test_a_study_of_a_file_beside_it_is_planned_without_torch_and_run_by_two_workers(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    ArrayDataset(IMAGES, LABELS).save(tmp_path / "study" / "leaves.npz")
    study, store = tmp_path / "study" / "study.toml", str(tmp_path / "store")
    study.write_text(STUDY.format(name="leaves.npz"))
    planned = without_torch("plan", str(study), "--store", store)
    assert planned.returncode == 0, planned.stderr
    ran = seedspread_command("run", str(study), "--store", store, "--workers", "2")
    assert ran.returncode == 0, ran.stderr
    assert len(list((tmp_path / "store").glob("*/result.json"))) == 4
    keys = {run.key for run in Plan.make(StudySpec.from_file(study), store).runs}
    ArrayDataset(IMAGES[::-1], LABELS).save(tmp_path / "study" / "leaves.npz")
    assert keys.isdisjoint(run.key for run in Plan.make(StudySpec.from_file(study), store).runs)
    (tmp_path / "study" / "leaves.npz").unlink()
    gone = seedspread_command("plan", str(study), "--store", store)
    assert gone.returncode == 2
    assert "leaves.npz" in gone.stderr
    assert gone.stderr.count("\n") == 1


def test_the_split_has_a_seed_of_its_own() -> None:
    plain = tiny()
    assert run_key(tiny(seeds__split=0)) == run_key(plain)
    assert run_key(tiny(seeds__split=3)) == run_key(tiny(data__split_seed=3)) != run_key(plain)
    assert run_key(tiny(seeds__run=3)) != run_key(tiny(seeds__run=3, seeds__split=3))
    chosen = load(tiny(seeds__split=3).split_data), load(plain.split_data)
    assert not torch.equal(chosen[0].validation.ids, chosen[1].validation.ids)


def test_a_study_can_vary_the_split() -> None:
    assert CffRunner().driving(("split",)).seeded(tiny(), 7).split_data.split_seed == 7


@pytest.mark.soak
def test_the_split_is_a_source_of_variance(tmp_path: Path) -> None:
    for stream in ("split", "init"):
        path = tmp_path / f"{stream}.toml"
        text = STUDY.format(name="fashion-mnist-sample").replace('image_size = "12x8"\n', "")
        path.write_text(f'vary = ["{stream}"]\n' + text.replace('["clamp", "subtract"]', '["clamp"]'))
        Study(path).run(tmp_path / "store", progress=False)
    found = components(tmp_path / "store", "accuracy")
    assert {"split", "init"} <= set(found.sources)


def test_erasing_after_normalization_is_part_of_the_key() -> None:
    def config(**fields: Any) -> RunConfig:
        return tiny(data__augment=[RandomErasing(p=1, **fields).model_dump(mode="json")])

    assert run_key(config(after_normalization=True)) != run_key(config())
    assert run_key(config(after_normalization=False)) == run_key(config())
    step = RandomErasing(after_normalization=True).model_dump(mode="json")
    with pytest.raises(ConfigError, match="must be the last step"):
        tiny(data__augment=[step, {"op": "horizontal_flip"}])


def test_a_run_with_the_public_codes_augmentation(tmp_path: Path) -> None:
    steps = [{"op": "rand_augment", "num_ops": 3, "magnitude": 14}, {"op": "random_crop", "padding": 1}]
    result = train(tiny(data__augment=steps, **SMALL), tmp_path / "run", data=ArrayDataset(IMAGES, LABELS))
    assert np.isfinite(result.test_accuracy)
