"""The fast way is held to the plain one, and a run in a stack to the same run alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from seedspread.cff.config import RunConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.identity import run_key
from seedspread.cff.implementations import stack_of
from seedspread.cff.margins import MARGIN_TYPES
from seedspread.cff.model import ViT
from seedspread.cff.training.evaluation import features
from seedspread.cff.training.fast import StackedTrainer, layer_parameters
from seedspread.cff.training.layerwise import LayerwiseModel
from seedspread.cff.training.result import RunResult
from seedspread.cff.training.run import train, train_many
from seedspread.runs.folder import RunFailedError, RunFolder
from seedspread.runs.stopping import StopRequest

from .gradients import assert_alike, batch, distance, fast_gradients, model, plain_gradients, sums_of
from .tiny import files, tiny


@pytest.mark.parametrize("margin_type", MARGIN_TYPES)
@pytest.mark.parametrize("size", [2, 7, 64, 1000])
def test_the_fast_way_has_the_gradients_of_the_plain_one(margin_type: str, size: int) -> None:
    changes: dict[str, Any] = {"objective__margin_type": margin_type, "runtime__micro_batch_size": size}
    plain, plain_sums = plain_gradients(model(**changes), batch())
    (fast,), (sums,) = fast_gradients([model(**changes)], [batch()])
    assert len(fast) > 30
    assert distance(fast, plain) < 1e-5
    assert_alike(sums, plain_sums)


@pytest.mark.parametrize(
    "changes",
    [
        {"objective__stability": "direct", "objective__reduction": "sum"},
        {"model__dim": 20, "model__heads": 5, "model__depth": 1},
        {"model__patch_size": 4, "model__heads": 1},
    ],
)
def test_of_every_shape(changes: dict[str, Any]) -> None:
    plain, _ = plain_gradients(model(**changes), batch())
    (fast,), _ = fast_gradients([model(**changes)], [batch()])
    assert distance(fast, plain) < 1e-5


def test_it_is_nearer_to_the_truth_than_the_plain_way() -> None:
    far = {"plain": 0.0, "fast": 0.0}
    for seed in range(5):
        changes: dict[str, Any] = {"seed": seed, "objective__margin_type": "subtract"}
        exact, data = model(**changes), batch(seed)
        exact.vit.double()
        truth, _ = plain_gradients(exact, Batch(data.images.double(), data.labels, data.index))
        plain, _ = plain_gradients(model(**changes), data)
        (fast,), _ = fast_gradients([model(**changes)], [data])
        far["plain"] += distance(plain, truth)
        far["fast"] += distance(fast, truth)
    assert far["fast"] < far["plain"]


def test_the_distance_sees_a_gradient_that_is_a_little_wrong() -> None:
    plain, _ = plain_gradients(model(), batch())
    wrong = {name: gradient * (1 + 2e-5) for name, gradient in plain.items()}
    assert distance(wrong, plain) > 1e-5


def test_parameters_are_in_the_models_order() -> None:
    """Checkpoints number them by it."""
    vit = model().vit
    for parameters, layer in zip(layer_parameters(vit), vit.layers, strict=True):
        assert all(a is b for a, b in zip(parameters, layer.parameters(), strict=True))


def test_features_are_the_models() -> None:
    fast, plain = model(), model(runtime__implementation="plain")
    images = batch().images
    for actual, expected in zip(features(fast, images), features(plain, images), strict=True):
        torch.testing.assert_close(actual, expected)


KINDS = ("clamp", "subtract", "shift", "soft_clamp", "none")


def seeded(seed: int, **changes: Any) -> RunConfig:
    """Runs that can be stacked and differ in all that stacked runs may differ in."""
    return tiny(
        seeds__run=seed,
        objective__margin_type=KINDS[seed],
        objective__margin_first=0.1 + 0.1 * seed,
        **changes,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model__patch_size": 4, "model__dim": 24},
        {"model__dim": 20, "model__heads": 5, "runtime__micro_batch_size": 7},  # nothing is a multiple of 8
        {
            "model__dim": 10,
            "model__heads": 1,
            "runtime__micro_batch_size": 2,
            "objective__stability": "direct",
        },
        {"training__optimizer": "sgd", "training__max_gradient_norm": 0.5},
        {
            "training__optimizer": "adam",
            "training__max_gradient_norm": 0.5,
            "model__dim": 10,
            "model__heads": 1,
        },
    ],
)
def test_a_step_is_the_same_to_the_bit_whatever_the_stack(changes: dict[str, Any]) -> None:
    def stepped(seeds: Sequence[int]) -> dict[int, list[Tensor]]:
        models = [
            model(s, objective__margin_type=KINDS[s], objective__margin_first=0.1 * s, **changes)
            for s in seeds
        ]
        together, sums = StackedTrainer(models), [sums_of(one) for one in models]
        for number in range(2):
            together.step([batch(s, images=24 - 5 * number) for s in seeds], number, sums)
        return {
            seed: [
                *own.vit.state_dict().values(),
                *sums[run].tensors().values(),
                *together.state_dict(run).values(),
            ]
            for run, (seed, own) in enumerate(zip(seeds, models, strict=True))
        }

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = {seed: stepped([seed])[seed] for seed in range(5)}
        for seeds in ([0, 1], [4, 2, 0], [3, 1, 0, 4, 2]):
            for seed, tensors in stepped(seeds).items():
                assert all(map(torch.equal, tensors, alone[seed])), (seeds, seed)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training__optimizer": "sgd", "training__schedule": "cosine", "training__max_gradient_norm": 0.3},
        {"training__optimizer": "adam", "training__warmup_epochs": 2},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_runs_that_are_trained_together_are_the_same_to_the_bit(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    """Those with changes also have margins that grow, each at its own pace."""
    configs = [
        seeded(seed, **changes, **({"objective__margin_warmup_epochs": 1 + seed} if changes else {}))
        for seed in range(3)
    ]
    assert len({stack_of(config, 1) for config in configs}) == 1
    for seed in range(3):
        train(configs[seed], tmp_path / f"alone-{seed}")
    folders = [RunFolder(tmp_path / f"together-{seed}") for seed in range(3)]
    ended = train_many(configs, folders, StopRequest())
    assert all(isinstance(one, RunResult) for _, one in ended)
    for seed in range(3):
        assert files(tmp_path / f"together-{seed}") == files(tmp_path / f"alone-{seed}")


def test_one_that_fails_leaves_the_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(seeded(1), tmp_path / "alone")
    step = StackedTrainer.step

    def poisoned(self: StackedTrainer, *arguments: object, **named: bool) -> None:
        step(self, *arguments, **named)  # type: ignore[arg-type]
        for one in self.models:
            if one.config.seeds.run == 0:
                next(one.vit.parameters()).data.fill_(torch.nan)

    monkeypatch.setattr(StackedTrainer, "step", poisoned)
    folders = [RunFolder(tmp_path / str(seed)) for seed in range(2)]
    (first, failed), (second, done) = train_many([seeded(0), seeded(1)], folders, StopRequest())
    assert (first, second) == (0, 1)
    assert isinstance(failed, RunFailedError)
    assert isinstance(done, RunResult)
    assert files(tmp_path / "1") == files(tmp_path / "alone")
    assert (tmp_path / "0" / "failure.json").exists()


def test_runs_of_another_shape_are_trained_too(tmp_path: Path) -> None:
    configs = [tiny(), tiny(runtime__implementation="plain"), tiny(training__epochs=2)]
    ended = dict(train_many(configs, [RunFolder(tmp_path / str(i)) for i in range(3)], StopRequest()))
    keys = {i: one.key for i, one in ended.items() if isinstance(one, RunResult)}
    assert keys == {i: run_key(config) for i, config in enumerate(configs)}


def test_what_may_be_stacked() -> None:
    shapes = {stack_of(seeded(seed), 1) for seed in range(5)}
    assert len(shapes) == 1
    assert None not in shapes
    others: list[dict[str, Any]] = [
        {"objective__temperature": 0.2},
        {"objective__stability": "direct"},
        {"training__learning_rate": 1e-3},
        {"model__dim": 24},
        {"data__limit_per_class": 8},
        {"runtime__precision": "bf16"},
    ]
    assert not {stack_of(tiny(**changes), 1) for changes in others} & shapes
    assert stack_of(tiny(runtime__implementation="plain"), 1) is None
    assert stack_of(tiny(training__rule="end_to_end"), 1) is None
    assert stack_of(tiny(model__dim=15, model__heads=3), 1) is None
    assert stack_of(tiny(), 2) is None
    assert stack_of(tiny(), 1, "cuda") is None


def test_recomputing_gives_the_same_bits(tmp_path: Path) -> None:
    kept = train(tiny(runtime__micro_batch_size=8), tmp_path / "kept")
    again = train(
        tiny(runtime__micro_batch_size=8, runtime__activation_checkpointing=True), tmp_path / "again"
    )
    assert kept.key == again.key
    assert files(tmp_path / "kept") == files(tmp_path / "again")


def test_what_is_part_of_a_runs_identity() -> None:
    fast, plain = run_key(tiny()), run_key(tiny(runtime__implementation="plain"))
    assert fast != plain
    assert run_key(tiny(runtime__activation_checkpointing=True)) == fast
    assert run_key(tiny(runtime__micro_batch_size=8)) != fast
    assert run_key(tiny(runtime__micro_batch_size=8, runtime__implementation="plain")) == plain
    other = run_key(tiny(training__rule="end_to_end"))
    assert run_key(tiny(training__rule="end_to_end", runtime__implementation="plain")) == other


def test_bf16_is_bf16() -> None:
    plain, _ = plain_gradients(model(runtime__precision="bf16"), batch())
    (fast,), _ = fast_gradients([model(runtime__precision="bf16")], [batch()])
    (exact,), _ = fast_gradients([model()], [batch()])
    assert all(gradient.dtype == torch.float32 for gradient in fast.values())
    together = [torch.cat([g.flatten() for g in one.values()]) for one in (fast, plain, exact)]
    size = together[2].norm()
    assert (together[0] - together[1]).norm() < 0.05 * size
    assert 1e-4 * size < (together[0] - together[2]).norm() < 0.05 * size


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_never_waits_for_the_device(precision: str) -> None:
    """Fake tensors have no values: whatever reads one, counts or indexes by a mask, is an error."""
    with FakeTensorMode():
        one = model_of_nothing(tiny(runtime__precision=precision))
        data = Batch(torch.empty(16, 3, 32, 32), torch.empty(16, dtype=torch.int64), torch.empty(8))
        StackedTrainer([one, model_of_nothing(one.config)]).step(
            [data, data], 0, [sums_of(one), sums_of(one)]
        )


def model_of_nothing(config: RunConfig) -> LayerwiseModel:
    return LayerwiseModel(config, ViT.from_config(config.model))


def test_fake_tensors_notice_a_wait() -> None:
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        torch.empty(3).sum().item()
