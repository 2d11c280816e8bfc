"""The model that a run keeps, runs that continue another, and runs that start from another's encoder."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save

from seedspread import Study, ViT, load_run, train
from seedspread.cff.data.dataset import load
from seedspread.cff.identity import run_key
from seedspread.cff.presets import to_toml
from seedspread.errors import SeedspreadError
from seedspread.runs.folder import MODEL, TRAINING, RunFolder

from .tiny import files, needs_native, tiny

KINDS = pytest.mark.parametrize(
    "changes",
    [
        {"runtime__implementation": "fast"},
        {"runtime__implementation": "plain", "probe__layers": "all", "probe__repeats": 2},
        {"training__rule": "cross_entropy"},
        {"training__select": "best_val_loss"},
        {"runtime__precision": "bf16"},
        pytest.param({"runtime__implementation": "native"}, marks=needs_native),
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)


def stored_logits(folder: Path) -> Any:
    return RunFolder(folder).predictions("logits")["logits"][0]


@KINDS
def test_a_loaded_run_gives_its_own_logits_to_the_bit(changes: dict[str, Any], tmp_path: Path) -> None:
    config = tiny(**changes)
    train(config, tmp_path / "run")
    run, images = load_run(tmp_path / "run"), load(config.data).test.images
    assert run_key(run.config) == run_key(config)
    assert np.array_equal(run.logits(images).numpy(), stored_logits(tmp_path / "run"))
    tolerance = 0.05 if config.runtime.precision == "bf16" else 1e-5
    plain = run.model(run.preprocess(images)).detach()
    assert torch.allclose(plain, run.logits(images), atol=tolerance)
    assert torch.equal(run.features(images, -1), run.features(images, config.model.depth - 1))


@KINDS
def test_a_continued_run_has_the_bits_of_an_uninterrupted_one(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    train(tiny(training__epochs=2, **changes), tmp_path / "first")
    longer = tiny(training__epochs=4, **changes)
    train(longer, tmp_path / "whole")
    continued = tiny(training__epochs=4, training__continue_from=str(tmp_path / "first"), **changes)
    train(continued, tmp_path / "second")
    whole, second = files(tmp_path / "whole"), files(tmp_path / "second")
    key = run_key(longer).encode(), run_key(continued).encode()
    assert key[0] != key[1]
    assert {name: content.replace(key[1], key[0]) for name, content in second.items()} == whole
    ends = [load_file(tmp_path / name / TRAINING) for name in ("whole", "second")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_continued_run_may_be_continued_and_is_named_by_what_its_parent_is(tmp_path: Path) -> None:
    train(tiny(training__epochs=1), tmp_path / "a")
    train(tiny(training__epochs=2, training__continue_from=str(tmp_path / "a")), tmp_path / "b")
    last = tiny(training__epochs=3, training__continue_from=str(tmp_path / "b"))
    train(last, tmp_path / "c")
    train(tiny(training__epochs=3), tmp_path / "whole")
    assert np.array_equal(stored_logits(tmp_path / "c"), stored_logits(tmp_path / "whole"))
    (tmp_path / "b").rename(tmp_path / "moved")  # where the parent lies is no part of the key
    elsewhere = tiny(training__epochs=3, training__continue_from=str(tmp_path / "moved"))
    assert run_key(elsewhere) == RunFolder(tmp_path / "c").result()["key"]


def test_the_file_is_a_state_dict_of_the_model_and_loads_in_another_process(tmp_path: Path) -> None:
    config = tiny()
    train(config, tmp_path / "run")
    vit = ViT.from_config(config.model, 10)
    vit.load_state_dict(load_file(tmp_path / "run" / MODEL))
    code = (
        "import sys, numpy, seedspread\n"
        "run = seedspread.load_run(sys.argv[1])\n"
        "images = seedspread.cff.data.dataset.load(run.config.data).test.images\n"
        "numpy.save(sys.argv[2], run.logits(images).numpy())"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run"), str(tmp_path / "logits.npy")], check=True
    )
    assert np.array_equal(np.load(tmp_path / "logits.npy"), stored_logits(tmp_path / "run"))


def test_every_probe_is_kept_and_the_first_of_the_last_layer_is_the_head(tmp_path: Path) -> None:
    train(tiny(probe__layers="all", probe__repeats=2), tmp_path / "run")
    tensors = load_file(tmp_path / "run" / MODEL)
    probes = {name.rsplit(".", 2)[0] for name in tensors if name.startswith("probe.")}
    assert probes == {f"probe.{repeat}.{layer}" for repeat in range(2) for layer in range(3)}
    assert torch.equal(tensors["head.1.weight"], tensors["probe.0.2.1.weight"])


def test_training_starts_from_another_runs_encoder(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "first")
    barely = {"training__learning_rate": 1e-12, "training__weight_decay": 0.0, "training__epochs": 1}
    started = tiny(training__init_from=str(tmp_path / "first"), seeds__run=5, **barely)
    train(started, tmp_path / "second")
    first, second = (load_file(tmp_path / name / MODEL) for name in ("first", "second"))
    layers = [name for name in first if name.startswith("layers.")]
    assert all(torch.allclose(first[name], second[name], atol=1e-9) for name in layers)
    assert run_key(started) != run_key(tiny(seeds__run=5, **barely))


def test_a_run_names_its_parent_by_key_in_the_same_store(tmp_path: Path) -> None:
    parent = tiny()
    key = run_key(parent)
    train(parent, tmp_path / key)
    train(tiny(training__init_from=key, seeds__run=9), tmp_path / "child")
    by_folder = tiny(training__init_from=str(tmp_path / key), seeds__run=9)
    assert run_key(by_folder) == RunFolder(tmp_path / "child").result()["key"]


def test_a_study_starts_all_its_runs_from_one(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "parent")
    preset = tmp_path / "tiny.toml"
    preset.write_text(to_toml(tiny(training__init_from="parent")))
    head = f'runner = "cff"\npreset = "{preset}"\nseeds = 2\nsettings = {{ keep_model = false }}\n'
    (tmp_path / "study.toml").write_text(head + '[factors]\nmargin_type = ["clamp"]')
    runs = Study(tmp_path / "study.toml").run(tmp_path / "store", workers=1, progress=False)
    assert len(runs.table) == 2
    assert not list((tmp_path / "store").glob(f"*/{MODEL}"))


def test_whether_a_model_is_kept_is_no_part_of_a_run(tmp_path: Path) -> None:
    without = tiny(runtime__keep_model=False)
    assert run_key(without) == run_key(tiny())
    train(without, tmp_path / "run")
    assert not (tmp_path / "run" / MODEL).exists()
    assert not (tmp_path / "run" / TRAINING).exists()
    with pytest.raises(SeedspreadError, match=r"has no model.safetensors: .*keep_model = false"):
        load_run(tmp_path / "run")
    with pytest.raises(SeedspreadError, match=r"has no training.safetensors"):
        train(tiny(training__epochs=9, training__continue_from=str(tmp_path / "run")), tmp_path / "more")
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training__epochs": 2}, "was trained for 2 epochs; to continue it"),
        ({"training__epochs": 4, "objective__temperature": 0.3}, "objective.temperature is 0.15 there"),
        ({"training__epochs": 4, "seeds__run": 7}, "seeds.init is 0 there and 7 here"),
        ({"training__epochs": 4, "data__limit_per_class": 9}, "data.limit_per_class"),
        ({"training__epochs": 4, "runtime__implementation": "plain"}, "runtime.implementation is fast there"),
    ],
)
def test_what_does_not_continue_a_run_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    train(tiny(training__epochs=2), tmp_path / "first")
    with pytest.raises(SeedspreadError, match=message) as refused:
        train(tiny(training__continue_from=str(tmp_path / "first"), **changes), tmp_path / "second")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "second").exists()


def test_a_schedule_that_has_ended_is_not_gone_on_with(tmp_path: Path) -> None:
    cosine = {"training__schedule": "cosine"}
    train(tiny(training__epochs=1, **cosine), tmp_path / "first")
    with pytest.raises(SeedspreadError, match="cosine schedule, which has ended"):
        train(tiny(training__epochs=2, training__continue_from=str(tmp_path / "first"), **cosine), tmp_path)


def test_settings_of_the_probe_that_train_the_encoder_are_its_own(tmp_path: Path) -> None:
    rule = {"training__rule": "cross_entropy"}
    train(tiny(training__epochs=1, **rule), tmp_path / "first")
    more = {"training__epochs": 2, "training__continue_from": str(tmp_path / "first"), **rule}
    with pytest.raises(SeedspreadError, match=r"probe.learning_rate is 0.005 there and 0.1 here"):
        train(tiny(probe__learning_rate=0.1, **more), tmp_path / "second")
    train(tiny(probe__epochs=1, **more), tmp_path / "second")


def test_a_folder_that_is_not_the_run_it_is_named_after_is_refused(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "0123456789abcdef0123")
    with pytest.raises(SeedspreadError, match="holds another run"):
        train(tiny(training__init_from="0123456789abcdef0123", seeds__run=4), tmp_path / "child")


def test_a_finished_run_is_had_again_without_its_parents_files(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "parent")
    child = tiny(training__init_from=str(tmp_path / "parent"))
    before = train(child, tmp_path / "child")
    (tmp_path / "parent" / MODEL).unlink()
    assert train(child, tmp_path / "child", resume=True) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.toml", "[model]\nheads = 4\n", "config.toml"),
        ("provenance.json", "{", "its record cannot be read"),
        ("result.json", '{"format": 2}', "its record cannot be read"),
    ],
)
def test_an_edited_or_damaged_record_is_refused_in_one_line(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    train(tiny(training__epochs=1), tmp_path / "run")
    (tmp_path / "run" / name).write_text(content)
    with pytest.raises(SeedspreadError, match=message) as refused:
        load_run(tmp_path / "run")
    assert "\n" not in str(refused.value)
    with pytest.raises(SeedspreadError, match=message):
        train(tiny(training__epochs=2, training__continue_from=str(tmp_path / "run")), tmp_path / "next")


def test_a_damaged_swapped_or_unlike_model_is_refused_in_one_line(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "a")
    train(tiny(seeds__run=3), tmp_path / "b")
    (tmp_path / "b" / MODEL).write_bytes((tmp_path / "a" / MODEL).read_bytes())
    content = (tmp_path / "a" / MODEL).read_bytes()
    (tmp_path / "a" / MODEL).write_bytes(content[:-8] + b"\0" * 8)
    for name in ("a", "b"):
        with pytest.raises(SeedspreadError, match=MODEL) as refused:
            load_run(tmp_path / name)
        assert "\n" not in str(refused.value)
        assert MODEL in RunFolder(tmp_path / name).tampered()
    with pytest.raises(SeedspreadError, match="dim is 16 there and 8 here"):
        train(tiny(training__init_from=str(tmp_path / "a"), model__dim=8), tmp_path / "c")
    with pytest.raises(SeedspreadError, match="holds no finished run"):
        load_run(tmp_path / "nothing")


def test_a_model_without_its_header_is_refused_in_one_line(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "run")
    tensors = load_file(tmp_path / "run" / MODEL)
    (tmp_path / "run" / "provenance.json").write_text('{"format": 2, "threads": 1}')  # without digests
    for content in (save(tensors), b"no"):
        (tmp_path / "run" / MODEL).write_bytes(content)
        with pytest.raises(SeedspreadError, match="cannot be used") as refused:
            load_run(tmp_path / "run")
        assert "\n" not in str(refused.value)


def test_images_are_checked(tmp_path: Path) -> None:
    config = tiny()
    train(config, tmp_path / "run")
    run, images = load_run(tmp_path / "run"), load(config.data).test.images
    for wrong in (images.float(), images[0], images[:, :, :3], images[:0]):
        with pytest.raises(ValueError, match=r"images must be uint8 of shape \(N, "):
            run.logits(wrong)
    with pytest.raises(ValueError, match="layer must lie between"):
        run.features(images, 9)
    assert torch.equal(run.logits(images.numpy()), run.logits(images))
