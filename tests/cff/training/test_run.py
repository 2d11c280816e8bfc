"""One run: that it repeats itself to the bit, what its seeds decide, what it leaves behind, how it fails."""

import json
import math
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import load_file

from seedspread import train
from seedspread.cff.config import RunConfig
from seedspread.cff.data.dataset import load
from seedspread.cff.identity import run_key
from seedspread.cff.presets import ConfigError, to_toml
from seedspread.cff.training import state
from seedspread.cff.training.result import RunResult
from seedspread.cff.training.run import Callback, TrainingLoop
from seedspread.cff.training.state import TrainingRun
from seedspread.cff.training.trainers import AutogradTrainer
from seedspread.runs.files import RecordError
from seedspread.runs.folder import RunFailedError, RunFolder, RunFolderError
from seedspread.runs.metrics import rate_from_histogram
from seedspread.runs.stopping import StopRequest

from .tiny import EVERY_BATCH, files, needs_native, tiny


def prepared(config: RunConfig, folder: Path) -> TrainingRun:
    """A run before its first batch."""
    folder.mkdir(parents=True, exist_ok=True)
    key = run_key(config)
    run_folder = RunFolder(folder, key)
    return TrainingRun(config, load(config.data), run_folder)


def test_the_same_config_gives_the_same_bytes_here_and_in_another_process(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "a")
    train(tiny(), tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    (tmp_path / "c.toml").write_text(to_toml(tiny()))
    command = [sys.executable, "-c", "from seedspread.cli import main; main()"]
    subprocess.run(
        [*command, "train", str(tmp_path / "c.toml"), "--out", str(tmp_path / "c")],
        check=True,
        capture_output=True,
    )
    assert files(tmp_path / "a") == files(tmp_path / "c")


def test_what_a_run_leaves_behind(tmp_path: Path) -> None:
    result = train(tiny(), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "config.toml",
        "history.parquet",
        "model.safetensors",
        "predictions.safetensors",
        "provenance.json",
        "result.json",
        "training.safetensors",
    ]
    history = pyarrow.parquet.read_table(tmp_path / "run" / "history.parquet").to_pydict()
    rows = list(zip(history["epoch"], history["layer"], strict=True))
    assert rows == [(epoch, layer) for epoch in range(3) for layer in range(3)]
    assert all(np.isfinite(history["loss"]))
    assert min(history["gradient_norm"]) > 0
    assert all(0 <= rate <= 1 for rate in history["clamp_activation_rate"])
    # A row's histogram has as many pairs as the epoch's four batches had together.
    for histogram, pairs in zip(history["similarity_histogram"], history["positive_pairs"], strict=True):
        assert sum(histogram) == pytest.approx(4 * pairs)
    kept = load_file(tmp_path / "run" / "predictions.safetensors")
    assert kept["logits"].shape == (1, 100, 10)
    accuracy = (kept["logits"][0].argmax(1) == kept["labels"]).double().mean().item()
    assert accuracy == result.test_accuracy
    provenance = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert provenance["threads"] == 1
    assert json.loads((tmp_path / "run" / "result.json").read_text())["key"] == result.key == run_key(tiny())


def test_the_final_rates_are_those_of_the_stored_histogram(tmp_path: Path) -> None:
    result = train(tiny(), tmp_path / "run")
    histogram = load_file(tmp_path / "run" / "predictions.safetensors")["similarity_histogram"]
    for layer in result.layers:
        assert layer.margin is not None
        # The rate is a mean over batches, of which the last is smaller; the histogram is over all pairs.
        assert layer.clamp_activation_rate == pytest.approx(
            rate_from_histogram(histogram[layer.layer], layer.margin), abs=0.05
        )


@pytest.mark.parametrize("stream", ["init", "order", "augment", "probe"])
def test_each_stream_decides_its_own_and_nothing_else(stream: str, tmp_path: Path) -> None:
    one = prepared(tiny(), tmp_path / "a")
    other = prepared(tiny(**{f"seeds__{stream}": 7}), tmp_path / "b")
    first, second = (next(run.training_batches().epoch(0)) for run in (one, other))
    weights = [run.model.vit.layers[1].state_dict()["mlp.1.weight"] for run in (one, other)]
    assert torch.equal(*weights) == (stream != "init")
    assert torch.equal(first.index, second.index) == (stream != "order")

    def views(run: TrainingRun) -> dict[int, torch.Tensor]:
        batches = list(run.training_batches().epoch(0))
        return {
            int(i): image
            for batch in batches
            for i, image in zip(batch.index, batch.images[: len(batch.index)], strict=True)
        }

    views_of_one, views_of_other = views(one), views(other)
    same = all(torch.equal(images, views_of_other[i]) for i, images in views_of_one.items())
    assert same == (stream != "augment")


def test_another_probe_seed_leaves_the_encoder_alone(tmp_path: Path) -> None:
    train(tiny(probe__features="cached"), tmp_path / "a")
    train(tiny(probe__features="cached", seeds__probe=5), tmp_path / "b")
    one, other = (load_file(tmp_path / name / "predictions.safetensors") for name in "ab")
    assert torch.equal(one["similarity_histogram"], other["similarity_histogram"])
    assert not torch.equal(one["logits"], other["logits"])


def test_the_seed_alone_decides(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "a")
    torch.manual_seed(12345)
    np.random.seed(12345)  # noqa: NPY002
    train(tiny(seeds__run=0), tmp_path / "b")
    train(tiny(seeds__run=1), tmp_path / "c")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert files(tmp_path / "a") != files(tmp_path / "c")


def test_gradient_neutral_twins_are_one_run(tmp_path: Path) -> None:
    standard = tiny(objective__margin_type="subtract")
    low = tiny(objective__margin_type="subtract", objective__margin_first=0.2)
    assert run_key(standard) == run_key(low)
    train(standard, tmp_path / "a")
    train(low, tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_the_baselines_train_and_differ(tmp_path: Path) -> None:
    results = {
        rule: train(tiny(training__rule=rule), tmp_path / rule)
        for rule in ("layer_local", "end_to_end", "cross_entropy")
    }
    assert len({result.key for result in results.values()}) == 3
    assert len({result.layers[0].loss for result in results.values()}) == 3
    assert results["cross_entropy"].layers[0].clamp_activation_rate is None
    assert results["cross_entropy"].margin_type == "none"


def test_cross_entropy_is_trained_with_the_probes_settings(tmp_path: Path) -> None:
    config = tiny(training__rule="cross_entropy", probe__learning_rate=1e-3, probe__weight_decay=0.5)
    (one,) = AutogradTrainer(prepared(config, tmp_path).model).optimizers
    assert (one.learning_rate, one.weight_decay) == (1e-3, 0.5)
    ours = AutogradTrainer(prepared(tiny(), tmp_path / "ours").model).optimizers
    assert [o.learning_rate for o in ours] == [4e-3] * 3
    assert [o.weight_decay for o in ours] == [1e-4] * 3


def test_end_to_end_is_the_summed_loss_with_gradients_flowing(tmp_path: Path) -> None:
    config = tiny(training__rule="end_to_end")
    run = prepared(config, tmp_path)
    batch = next(run.training_batches().epoch(0))
    features = run.model.vit.features(batch.images, stop_gradient=False)
    losses = zip(run.model.losses, features, strict=True)
    torch.stack([loss(x, batch.labels) for loss, x in losses]).sum().backward()  # type: ignore[no-untyped-call]
    expected = [p.grad.clone() for p in run.model.vit.layers.parameters() if p.grad is not None]
    AutogradTrainer(run.model).step(batch, 0, run.sums, update=False)
    actual = [p.grad for p in run.model.vit.layers.parameters() if p.grad is not None]
    for a, b in zip(expected, actual, strict=True):
        torch.testing.assert_close(a, b)


def test_a_layer_local_step_is_each_layers_own_gradient_and_hands_on_what_was_before(tmp_path: Path) -> None:
    run = prepared(tiny(), tmp_path)
    batch = next(run.training_batches().epoch(0))
    expected = []
    tokens = batch.images
    for layer, loss in zip(run.model.vit.layers, run.model.losses, strict=True):
        output = layer(tokens.detach())
        gradients = torch.autograd.grad(loss(output.mean(1), batch.labels), list(layer.parameters()))
        expected.append(gradients)
        tokens = output
    AutogradTrainer(run.model).step(batch, 0, run.sums)  # later layers must not see the update
    for layer, gradients in zip(run.model.vit.layers, expected, strict=True):
        for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, gradient)
    norms = [torch.cat([g.flatten() for g in gradients]).norm().item() for gradients in expected]
    assert run.sums.gradient_norm.tolist() == pytest.approx(norms, rel=1e-5)
    embedding = run.model.vit.layers[0][0]  # type: ignore[index]
    of_embedding = sum(g.square().sum().item() for g in expected[0][: len(list(embedding.parameters()))])
    blocks = [math.sqrt(norms[0] ** 2 - of_embedding), *norms[1:]]
    assert run.sums.block_gradient_norm.tolist() == pytest.approx(blocks, rel=1e-5)
    assert blocks[0] < 0.9 * norms[0]  # so that the two cannot be taken for one another


@pytest.mark.parametrize("way", ["plain", "fast", pytest.param("native", marks=needs_native)])
def test_the_norm_of_layer_0s_encoder_block_is_recorded_beside_the_whole(way: str, tmp_path: Path) -> None:
    result = train(tiny(runtime__implementation=way), tmp_path / "run")
    first, *rest = result.layers
    assert first.block_gradient_norm is not None
    assert 0 < first.block_gradient_norm < first.gradient_norm
    assert [layer.block_gradient_norm for layer in rest] == [layer.gradient_norm for layer in rest]
    history = RunFolder(tmp_path / "run").history().to_pandas()
    of_first = history["layer"] == 0
    assert (history["block_gradient_norm"] < history["gradient_norm"])[of_first].all()
    assert (history["block_gradient_norm"] == history["gradient_norm"])[~of_first].all()


@pytest.mark.parametrize("rule", ["layer_local", "end_to_end", "cross_entropy"])
def test_positive_pairs_of_images_are_those_that_a_loop_counts(rule: str, tmp_path: Path) -> None:
    config = tiny(training__rule=rule, training__batch_size=25, training__epochs=1)
    result = train(config, tmp_path / "run")
    run = prepared(config, tmp_path / "again")
    labels, sizes, pairs = run.dataset.train.labels, [], []
    for index in run.training_batches().indices(0):
        classes = labels[index].tolist()
        sizes.append(len(classes))
        pairs.append(sum(a == b for a, b in permutations(classes, 2)))
    assert len({*sizes}) == 2  # the last batch is smaller
    assert result.positive_image_pairs == sum(pairs) / len(pairs)
    views = 1 if rule == "cross_entropy" else 2
    own = views * (views - 1) * sum(sizes)
    assert result.positive_pairs == pytest.approx((views**2 * sum(pairs) + own) / len(pairs), rel=1e-12)


def test_a_record_from_before_block_norms_and_image_pairs_is_read(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "run")
    path = tmp_path / "run" / "result.json"
    values = json.loads(path.read_text())
    del values["positive_image_pairs"]
    for layer in values["layers"]:
        del layer["block_gradient_norm"]
    path.write_text(json.dumps(values))
    result = RunResult.read(tmp_path / "run")
    assert result.positive_image_pairs is None
    assert {layer.block_gradient_norm for layer in result.layers} == {None}


def test_every_layers_features_can_be_probed_and_probes_repeated(tmp_path: Path) -> None:
    result = train(tiny(probe__layers="all", probe__repeats=2), tmp_path / "run")
    assert [(p.repeat, p.layer) for p in result.probes] == [
        (repeat, layer) for repeat in range(2) for layer in range(3)
    ]
    assert result.test_accuracy == result.probes[2].test_accuracy
    alone = train(tiny(), tmp_path / "alone")  # what else is probed changes nothing
    assert alone.test_accuracy == result.test_accuracy
    assert alone.probes[0].epoch == result.probes[2].epoch
    last = [p for p in result.probes if p.layer == 2]
    kept = load_file(tmp_path / "run" / "predictions.safetensors")["logits"]
    assert kept.shape == (2, 100, 10)
    assert not torch.equal(kept[0], kept[1])
    assert len(last) == 2


def test_the_first_of_equally_good_probe_epochs_counts(tmp_path: Path) -> None:
    result = train(tiny(probe__learning_rate=1e-12), tmp_path / "run")  # accuracy never moves
    assert result.probes[0].epoch == 0


def test_the_best_validation_loss_can_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = prepared(tiny(training__select="best_val_loss"), tmp_path)
    losses = iter([3.0, 1.0, 2.0])
    seen: list[torch.Tensor] = []

    def weights() -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in run.model.vit.parameters()])

    def validation_loss(*_: object) -> torch.Tensor:
        seen.append(weights())
        return torch.tensor(next(losses))

    monkeypatch.setattr(state, "validation_loss", validation_loss)
    result = TrainingLoop(run, StopRequest(), Callback()).run()
    assert isinstance(result, RunResult)
    assert [torch.equal(weights(), one) for one in seen] == [False, True, False]


def test_the_first_bad_batch_of_any_layer_is_reported(tmp_path: Path) -> None:
    run = prepared(tiny(), tmp_path)
    run.sums.first_bad = torch.tensor([5, -1, 3])
    with pytest.raises(RunFailedError, match=r"layer 2: .* first at batch 3"):
        run._check_finite()


def test_a_run_leaves_the_thread_count_as_it_was(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)  # a tiny run has one
    try:
        train(tiny(), tmp_path / "run")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_half_precision_runs(tmp_path: Path) -> None:
    result = train(tiny(runtime__precision="bf16"), tmp_path / "run")
    assert result.key != run_key(tiny())
    assert 0 <= result.test_accuracy <= 1


def test_a_run_that_guesses_is_called_collapsed(tmp_path: Path) -> None:
    guessing = tiny(training__learning_rate=1e-9, probe__learning_rate=1e-9, probe__epochs=1)
    assert train(guessing, tmp_path / "a").collapsed
    assert not train(tiny(training__epochs=12, probe__epochs=20), tmp_path / "b").collapsed


def test_numbers_that_are_not_finite_end_the_run_before_a_checkpoint(tmp_path: Path) -> None:
    broken = tiny(training__learning_rate=1e30, runtime__checkpoint_seconds=0)
    with pytest.raises(RunFailedError, match=r"layer \d: .* not finite in epoch 1, first at batch \d"):
        train(broken, tmp_path / "run")
    failure = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert set(failure) == {"layer", "epoch", "batch", "what", "message", "traceback", "format"}
    for path in (tmp_path / "run").glob("checkpoint-*"):
        assert all(t.isfinite().all() for t in load_file(path).values() if t.is_floating_point())


def test_a_finished_or_begun_folder_is_not_overwritten(tmp_path: Path) -> None:
    first = train(tiny(), tmp_path / "run")
    with pytest.raises(RunFolderError, match="holds this run's result"):
        train(tiny(), tmp_path / "run")
    assert train(tiny(), tmp_path / "run", resume=True) == first
    with pytest.raises(RunFolderError, match=run_key(tiny(seeds__run=3))):
        train(tiny(seeds__run=3), tmp_path / "run", resume=True)
    (tmp_path / "run" / "result.json").write_text("{")
    with pytest.raises(RecordError, match="not a result"):
        train(tiny(), tmp_path / "run", resume=True)


def test_a_probe_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match="probe's weights not finite"):
        train(tiny(probe__learning_rate=1e38), tmp_path / "run")


def test_a_device_that_is_not_there_is_said(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with pytest.raises(ConfigError, match=r"runtime.device: there is no cuda here"):
        train(tiny(runtime__device="cuda"), tmp_path / "run")


@pytest.mark.parametrize("small_disk", ["420k"], indirect=True)
def test_a_full_disk_is_one_clear_line_and_loses_no_checkpoint(small_disk: Path, tmp_path: Path) -> None:
    run = small_disk / "run"
    with pytest.raises(RunFolderError, match="No space left on device; earlier work is kept"):
        train(tiny(**EVERY_BATCH), run)
    assert list(run.glob("checkpoint-*.safetensors"))
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    train(tiny(), run, resume=True)
    train(tiny(), tmp_path / "other")
    assert files(run) == files(tmp_path / "other")


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunFolderError, match="cannot write to"):
        train(tiny(), tmp_path / "file" / "run")


class Listening(Callback):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def on_epoch(self, stage: str, epoch: int, values: dict[str, list[float]]) -> None:
        self.heard.append((stage, epoch, sorted(values)))


def test_a_callback_is_told_of_every_epoch(tmp_path: Path) -> None:
    listening = Listening()
    train(tiny(), tmp_path / "run", callback=listening)
    assert [(stage, epoch) for stage, epoch, _ in listening.heard] == [
        *(("encoder", e) for e in range(3)),
        *(("probe", e) for e in range(4)),
    ]
    assert listening.heard[0][2] == ["clamp_activation_rate", "gradient_norm", "loss"]


def test_plain_is_what_it_says(tmp_path: Path) -> None:
    """Layer by layer, `plain` has the loss of the equations; what else there is has the fast one."""
    plain = tiny(runtime__implementation="plain")
    for config, implementation in (
        (plain, "plain"),
        (tiny(), "auto"),
        (tiny(runtime__implementation="plain", training__rule="end_to_end"), "auto"),
    ):
        losses = prepared(config, tmp_path / implementation / config.training.rule).model.losses
        assert {loss.implementation for loss in losses} == {implementation}
    assert run_key(plain) != run_key(tiny())
