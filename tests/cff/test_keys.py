"""Keys outlive the code: those of every shipped study are what they always were."""

import hashlib
from pathlib import Path

import pytest

from seedspread.cff.config import ModelConfig, ObjectiveConfig, RandomCrop, RunConfig
from seedspread.cff.identity import canonical, run_key
from seedspread.cff.presets import check, read_config
from seedspread.study.plan import Plan
from seedspread.study.spec import StudySpec, study_names

# Of every study, a hash over the keys of its runs on the official datasets, in order.
STUDIES = {
    "mini/all": "39bc8daa0efa20e7",
    "mini/cifar10-factorial": "8785e41aa083db17",
    "mini/cifar100": "4ed7f18c874fe93b",
    "mini/dose-response": "1fc857e2eeecdc8c",
    "mini/fashion-mnist": "8d7f115f98b6b9a8",
    "mini/svhn": "ddbe58da30624a8c",
    "mini/svhn-difficulty": "00bb122cc4b219e1",
    "paper/all": "328ba1b0cc8221e6",
    "paper/cifar10-factorial": "ce62cbda77301319",
    "paper/cifar100": "3bb0300c05ced617",
    "paper/dose-response": "4863a756cba525db",
    "paper/fashion-mnist": "ca7121964f8b0871",
    "paper/svhn": "ac54b1fc20a9736b",
    "paper/svhn-difficulty": "c6d7dddc4f81311a",
    "quickstart": "afa8717de13f3891",
}
# Keys of `paper/cifar10` with these settings.
SETTINGS: list[tuple[list[str], str]] = [
    ([], "0b2f2b3c5f78b85a7d31"),
    (["objective.margin_type=subtract"], "e6b05dbf068113804667"),
    (["objective.margin_type=shift"], "13886e61ef8ed54157e2"),
    (["objective.margin_type='none'"], "f9191488e32c519a009c"),
    (["margin_type=none"], "f9191488e32c519a009c"),
    (["training.rule=end_to_end"], "eb53fbc6fb7b314552b7"),
    (["training.rule=cross_entropy"], "008dbef7d6a260548a49"),
    (["runtime.precision=bf16"], "2635b4c2b8fefa712dbd"),
    (["runtime.micro_batch_size=64"], "c66188be429b5feb00f3"),
    (["objective.margin_schedule=cosine", "objective.margin_exponent=2.0"], "9ceafda4e323a749c6dd"),
    (["data.labels=coarse"], "a6c164e7b5109666ad97"),
    (["data.augment=[{op='random_crop',padding=3}]"], "e74e5cec344da8514a2f"),
    (["seeds.init=4", "seeds.probe=9"], "e8b023d1991446fb5227"),
    (["probe.repeats=3", "probe.layers=all", "probe.features=cached"], "bfa39b968c49ca4c14b0"),
    (["training.select=best_val_loss"], "c098a2738c0ae26ef5da"),
    (["data.limit_per_class=50", "data.order=balanced"], "264a223f74ee6a18981d"),
]


@pytest.mark.parametrize("name", STUDIES)
def test_the_keys_of_every_study_are_the_same(name: str, tmp_path: Path) -> None:
    plan = Plan.make(StudySpec.from_file(name), tmp_path, tmp_path / "no data")
    keys = " ".join(run.key for run in plan.runs)
    assert hashlib.sha256(keys.encode()).hexdigest()[:16] == STUDIES[name]


def test_no_study_is_left_out() -> None:
    assert set(study_names()) == set(STUDIES)


@pytest.mark.parametrize(("settings", "key"), SETTINGS)
def test_the_keys_of_every_kind_of_run_are_the_same(settings: list[str], key: str) -> None:
    assert run_key(read_config("paper/cifar10", settings)) == key


def test_the_description_that_is_hashed_has_words_of_its_own() -> None:
    described = canonical(read_config("quickstart"))
    assert "validation_share" in described["data"]
    assert "slice_images" in described["fast"]


class WiderModel(ModelConfig):
    """A model with a field that came later."""

    registers: int = 0


class WiderObjective(ObjectiveConfig):
    """An objective with a field that came later."""

    smoothing: float = 0.0


class WiderCrop(RandomCrop):
    """A step of augmentation with a field that came later."""

    fill: int = 0


def test_a_field_that_is_added_enters_the_key_only_where_it_differs_from_its_default() -> None:
    config = RunConfig()
    for part, same, other in (
        ("model", WiderModel(), WiderModel(registers=4)),
        ("objective", WiderObjective(), WiderObjective(smoothing=0.1)),
    ):
        assert run_key(config.model_copy(update={part: same})) == run_key(config)
        assert run_key(config.model_copy(update={part: other})) != run_key(config)


def test_that_holds_for_augmentation_too() -> None:
    def key(step: RandomCrop) -> str:
        config = check({"data": {"augment": [{"op": "random_crop", "padding": 3}]}})
        return run_key(
            config.model_copy(update={"data": config.data.model_copy(update={"augment": (step,)})})
        )

    assert key(WiderCrop(padding=3)) == key(RandomCrop(padding=3))
    assert key(WiderCrop(padding=3, fill=9)) != key(RandomCrop(padding=3))


@pytest.mark.parametrize(
    ("same", "settings"),
    [
        ([], ["training.momentum=0.5"]),
        (["training.optimizer=sgd"], ["training.optimizer=sgd", "training.betas=[0.5, 0.9]"]),
        (
            ["objective.margin_type=subtract"],
            ["objective.margin_type=subtract", "objective.margin_warmup_epochs=5"],
        ),
        (
            ["training.rule=cross_entropy"],
            ["training.rule=cross_entropy", "objective.margin_warmup_epochs=5"],
        ),
        (
            ["training.optimizer=adamw", "training.schedule=constant", "training.warmup_epochs=0"],
            ["training.max_gradient_norm=none"],
        ),
    ],
)
def test_what_cannot_matter_of_optimizers_and_schedules_is_not_in_the_key(
    same: list[str], settings: list[str]
) -> None:
    assert run_key(read_config("paper/cifar10", same)) == run_key(read_config("paper/cifar10", settings))


def test_what_can_matter_of_them_is() -> None:
    settings = [
        [],
        ["training.optimizer=adam"],
        ["training.optimizer=sgd"],
        ["training.optimizer=sgd", "training.momentum=0.5"],
        ["training.schedule=cosine"],
        ["training.warmup_epochs=5"],
        ["training.max_gradient_norm=1"],
        ["objective.margin_warmup_epochs=5"],
        ["training.rule=cross_entropy"],
        ["training.rule=cross_entropy", "training.optimizer=sgd"],
        ["training.rule=cross_entropy", "training.schedule=cosine"],
    ]
    assert len({run_key(read_config("paper/cifar10", one)) for one in settings}) == len(settings)
