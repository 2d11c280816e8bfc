"""What a run's key depends on, and what it does not."""

import tomllib
from typing import Any

import pytest

from seedspread.cff.config import RunConfig
from seedspread.cff.identity import run_key
from seedspread.cff.presets import ConfigError, check, preset_names, read_config, to_toml

CLAMP = read_config("paper/cifar10")
PLAIN = read_config("paper/cifar10", ["runtime.implementation=plain"])
SUBTRACT = read_config("paper/cifar10", ["objective.margin_type=subtract"])


def changed(config: RunConfig, setting: str) -> RunConfig:
    values = config.model_dump(mode="json", exclude_none=True)
    field, text = setting.split("=")
    part, name = field.split(".")
    values[part][name] = (
        tomllib.loads(f"x = {text}")["x"] if text[0].isdigit() or text in ("true", "false") else text
    )
    return check(values)


@pytest.mark.parametrize(
    "setting",
    [
        "data.name=cifar100",
        "data.limit_per_class=10",
        "data.split_seed=1",
        "data.order=balanced",
        "data.augment=svhn-hard",
        "model.dim=64",
        "objective.temperature=0.1",
        "objective.margin_first=0.2",
        "objective.stability=direct",
        "training.epochs=10",
        "training.rule=end_to_end",
        "probe.epochs=3",
        "probe.repeats=2",
        "seeds.run=1",
        "seeds.augment=1",
        "runtime.implementation=plain",
        "runtime.precision=bf16",
        "runtime.micro_batch_size=1024",
    ],
)
def test_what_can_alter_the_result_alters_the_key(setting: str) -> None:
    assert run_key(changed(CLAMP, setting)) != run_key(CLAMP)


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (CLAMP, "runtime.threads=2"),
        (CLAMP, "runtime.device=cpu"),
        (CLAMP, "data.allow_partial=true"),
        (CLAMP, "objective.margin_exponent=2"),  # a linear schedule has none
        (CLAMP, "runtime.tf32=false"),  # an option that is no more, as stored runs have it
        (CLAMP, "seeds.init=0"),  # what the run's seed gives anyway
        (SUBTRACT, "objective.margin_first=0.2"),
        (SUBTRACT, "objective.margin_schedule=cosine"),
    ],
)
def test_what_cannot_matter_does_not(config: RunConfig, setting: str) -> None:
    assert run_key(changed(config, setting)) == run_key(config)


def test_the_datas_fingerprint_is_part_of_the_key() -> None:
    assert run_key(CLAMP, "partial-0123") != run_key(CLAMP)
    assert run_key(CLAMP, "partial-0123") != run_key(CLAMP, "partial-4567")


def test_no_augmentation_is_not_the_default_one() -> None:
    nothing = check({"data": {"name": "cifar10", "augment": []}})
    assert run_key(nothing) != run_key(check({"data": {"name": "cifar10"}}))


def test_cross_entropy_has_no_objective() -> None:
    keys = {
        run_key(read_config("quickstart", ["training.rule=cross_entropy", f"objective.margin_type={kind}"]))
        for kind in ("clamp", "subtract")
    }
    assert len(keys) == 1


def test_the_datasets_own_pipeline_by_name_or_by_silence_is_one() -> None:
    silent = check({"data": {"name": "cifar10"}})
    named = check({"data": {"name": "cifar10", "augment": "cifar"}})
    assert run_key(silent) == run_key(named)


def test_every_preset_is_valid_and_survives_a_file() -> None:
    names = preset_names()
    assert {"quickstart", "paper/cifar10", "mini/cifar10", "paper/svhn-hard"} <= set(names)
    assert len({run_key(read_config(name)) for name in names}) == len(names)
    for name in names:
        config = read_config(name)
        assert to_toml(config)
        if name.startswith("mini/"):
            assert config.data.allow_partial


def test_the_papers_preset_is_its_table_of_hyperparameters() -> None:
    """Table "Hyperparameter configuration"."""
    assert (CLAMP.model.dim, CLAMP.model.heads, CLAMP.model.depth, CLAMP.model.patch_size) == (128, 4, 8, 4)
    assert (CLAMP.training.epochs, CLAMP.training.batch_size) == (600, 512)
    assert CLAMP.training.learning_rate == 4e-3
    assert CLAMP.training.betas == (0.9, 0.999)
    assert CLAMP.training.weight_decay == 1e-4
    assert (CLAMP.probe.epochs, CLAMP.probe.learning_rate) == (50, 5e-4)
    assert CLAMP.objective.temperature == 0.15
    assert (CLAMP.objective.margin_first, CLAMP.objective.margin_last) == (0.4, 0.1)
    assert CLAMP.data.augment == "cifar"
    assert {read_config(f"paper/svhn-{k}").objective.stability for k in ("easy", "medium", "hard")} == {
        "direct"
    }


def test_every_field_can_be_set() -> None:
    for part, field in RunConfig.model_fields.items():
        annotation: Any = field.annotation
        for name in annotation.model_fields:
            value = getattr(getattr(CLAMP, part), name)
            text = "none" if value is None else str(value).lower() if isinstance(value, bool) else value
            shown = list(value) if isinstance(value, tuple) else text
            assert read_config("paper/cifar10", [f"{part}.{name}={shown}"]) == CLAMP


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["training.epoch=3"], "training.epoch: no such field.*'epochs'"),
        (["trainin.epochs=3"], "trainin: no such field.*'training'"),
        (["training.epochs=0"], "training.epochs: .* got 0"),
        (["training.epochs=true"], "training.epochs"),
        (["data.allow_partial=yes"], "data.allow_partial"),
        (["training.betas=[1.0, 0.9]"], "training.betas"),
        (["data.augment=[{op='blur'}]"], "data.augment.*blur"),
        (["training.epochs=many"], "training.epochs: .* got 'many'"),
        (["training.batch_size=1"], "training.batch_size"),
        (["model.patch_size=5"], "model: patch_size 5 "),
        (["training.rule=cross_entropy", "training.select=best_val_loss"], "training: select"),
        (["model.heads=3"], "model: heads 3 .* 128"),
        (["objective.margin_type=clip"], "objective.margin_type"),
        (["objective.temperature=0"], "objective.temperature"),
        (["data.name=cifar"], "data.name: .*'cifar10'"),
        (["epochs"], "write it as field.name=value"),
        (["training.epochs.x=1"], "has no fields"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_the_field(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read_config("paper/cifar10", settings)
    assert "\n" not in str(caught.value)


def test_an_unknown_preset_and_a_broken_file_are_said(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="'quickstart'"):
        read_config("quickstrat")
    with pytest.raises(ConfigError, match="No such file"):
        read_config("missing.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("= 3")
    with pytest.raises(ConfigError, match=r"broken\.toml .*line 1"):
        read_config(str(broken))
