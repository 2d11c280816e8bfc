"""Positives by superclass: what the loss calls alike, while the probe tells the classes apart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seedspread import train
from seedspread.cff.datasets import DATASETS
from seedspread.cff.identity import run_key
from seedspread.cff.presets import ConfigError
from tests.cff.data.small import cifar_content

from .tiny import files, needs_native, tiny


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A few images in CIFAR-10's format, of every class alike."""
    folder = tmp_path / "data" / DATASETS["cifar10"].folder
    folder.mkdir(parents=True)
    for seed, file in enumerate(DATASETS["cifar10"].files):
        (folder / file.name).write_bytes(cifar_content(40, 1, seed))
    return tmp_path / "data"


def cifar(**changes: Any) -> Any:
    return tiny(
        **{"data__name": "cifar10", "data__allow_partial": True, "data__limit_per_class": 20} | changes
    )


WAYS = ["plain", "fast", pytest.param("native", marks=needs_native)]


@pytest.mark.parametrize("way", WAYS)
def test_the_loss_sees_two_classes_and_the_probe_ten(way: str, data: Path, tmp_path: Path) -> None:
    config = cifar(
        objective__positives="superclass",
        runtime__implementation=way,
        training__batch_size=180,
        training__epochs=1,
    )
    result = train(config, tmp_path / "run", data_dir=data)
    # One batch of 18 images a class in two views: 4 classes of vehicles, 6 of animals, no pair with itself.
    vehicles, animals = 2 * 18 * 4, 2 * 18 * 6
    assert result.positive_pairs == vehicles * (vehicles - 1) + animals * (animals - 1)
    assert result.majority_share == pytest.approx(0.1)


def test_end_to_end_takes_the_same_pairs(data: Path, tmp_path: Path) -> None:
    both = {"objective__positives": "superclass", "training__batch_size": 180, "training__epochs": 1}
    found = train(cifar(training__rule="end_to_end", **both), tmp_path / "a", data_dir=data)
    local = train(cifar(**both), tmp_path / "b", data_dir=data)
    assert found.positive_pairs == local.positive_pairs


def test_cross_entropy_tells_the_classes_apart_in_any_case(data: Path, tmp_path: Path) -> None:
    by_class, by_superclass = (
        cifar(training__rule="cross_entropy", objective__positives=name) for name in ("class", "superclass")
    )
    assert run_key(by_class) == run_key(by_superclass)
    for name, config in (("a", by_class), ("b", by_superclass)):
        train(config, tmp_path / name, data_dir=data)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_it_is_another_run_only_where_it_is_asked_for() -> None:
    assert run_key(cifar()) == run_key(cifar(objective__positives="class"))
    assert run_key(cifar()) != run_key(cifar(objective__positives="superclass"))


def test_what_has_no_superclasses_is_refused() -> None:
    with pytest.raises(ConfigError, match="is for cifar10 and cifar100 with labels = 'fine'"):
        tiny(objective__positives="superclass")
    with pytest.raises(ConfigError, match="got cifar100 with labels = 'coarse'"):
        cifar(data__name="cifar100", data__labels="coarse", objective__positives="superclass")


def test_cifar100s_superclasses_are_its_five_fold_coarse_classes() -> None:
    """Five fine classes in each, and the known ones where they should be."""
    names, sizes = np.unique(DATASETS["cifar100"].superclasses, return_counts=True)
    assert set(names) == set(DATASETS["cifar100"].coarse_classes)
    assert set(sizes) == {5}
    of = dict(zip(DATASETS["cifar100"].classes, DATASETS["cifar100"].superclasses, strict=True))
    assert of["dolphin"] == "aquatic_mammals"
    assert of["maple_tree"] == of["willow_tree"] == "trees"
    assert of["wolf"] == "large_carnivores"
