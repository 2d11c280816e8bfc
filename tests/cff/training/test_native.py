"""The native kernel is held to the plain way, and to itself on any number of threads."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from seedspread.cff.config import ModelConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.identity import run_key
from seedspread.cff.implementations import FEATURES, NATIVE_MARGINS, features_of
from seedspread.cff.loss import SupConLoss
from seedspread.cff.margins import MARGIN_TYPES, LossSpec
from seedspread.cff.model import PatchEmbedding, ViT
from seedspread.cff.presets import ConfigError
from seedspread.cff.runner import CffRunner
from seedspread.cff.training.evaluation import features, layer_statistics
from seedspread.cff.training.layerwise import LayerwiseModel
from seedspread.cff.training.native import NativeError, build, require_bf16
from seedspread.cff.training.native import trainer as kernel
from seedspread.cff.training.native.trainer import Layer, NativeLoss, NativeTrainer
from seedspread.cff.training.run import train
from seedspread.cff.training.trainers import trainer_class
from seedspread.runners.contract import RunnerError

from .gradients import assert_alike, batch, distance, model, plain_gradients, sums_of
from .tiny import files, needs_bf16, needs_native, tiny

pytestmark = needs_native

NATIVE: dict[str, Any] = {"runtime__implementation": "native"}
BF16: dict[str, Any] = {**NATIVE, "runtime__precision": "bf16"}
in_each_precision = pytest.mark.parametrize("native", [NATIVE, pytest.param(BF16, marks=needs_bf16)])


def native_gradients(one: LayerwiseModel, data: Batch) -> tuple[dict[str, Tensor], Any]:
    sums = sums_of(one)
    NativeTrainer(one).step(data, 0, sums, update=False)
    named = one.vit.layers.named_parameters()
    return {name: p.grad for name, p in named if p.grad is not None}, sums


@pytest.mark.parametrize("margin_type", MARGIN_TYPES)
def test_it_has_the_gradients_of_the_plain_way(margin_type: str) -> None:
    changes: dict[str, Any] = {"objective__margin_type": margin_type}
    plain, plain_sums = plain_gradients(model(**changes), batch())
    native, sums = native_gradients(model(**changes, **NATIVE), batch())
    assert len(native) > 30
    assert distance(native, plain) < 1e-5
    assert_alike(sums, plain_sums)


@pytest.mark.parametrize(
    "changes",
    [
        {"objective__stability": "direct", "objective__reduction": "sum"},
        {"model__dim": 20, "model__heads": 5, "model__depth": 1},
        {"model__patch_size": 4, "model__heads": 1},
        {"model__patch_size": 32, "model__dim": 6, "model__heads": 3},
        {"model__patch_size": 2, "model__dim": 33, "model__heads": 3, "model__depth": 2},
        {"runtime__activation_checkpointing": True},
    ],
)
def test_of_every_shape(changes: dict[str, Any]) -> None:
    plain, _ = plain_gradients(model(**changes), batch())
    native, _ = native_gradients(model(**changes, **NATIVE), batch())
    assert distance(native, plain) < 1e-5


def test_it_is_nearer_to_the_truth_than_the_plain_way() -> None:
    """Where sums are long; those of the tiny model are as near in either way."""
    far = {"plain": 0.0, "native": 0.0}
    large: dict[str, Any] = {"model__patch_size": 4, "model__dim": 64, "model__heads": 4}
    for seed in range(2):
        changes: dict[str, Any] = {"seed": seed, "objective__margin_type": "subtract"} | large
        exact, data = model(**changes), batch(seed, images=60)
        exact.vit.double()
        truth, _ = plain_gradients(exact, Batch(data.images.double(), data.labels, data.index))
        plain, _ = plain_gradients(model(**changes), data)
        native, _ = native_gradients(model(**changes, **NATIVE), data)
        far["plain"] += distance(plain, truth)
        far["native"] += distance(native, truth)
    assert far["native"] < far["plain"]


@in_each_precision
def test_its_bits_do_not_depend_on_threads(native: dict[str, Any]) -> None:
    found = []
    for threads in (1, 2, 7, 16):
        one = model(**native, model__dim=24, model__heads=3)
        one.threads = threads
        gradients, sums = native_gradients(one, batch(images=40))
        found.append([*gradients.values(), *sums.tensors().values(), *features(one, batch().images)])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@in_each_precision
def test_what_is_worked_out_again_has_the_same_bits(native: dict[str, Any]) -> None:
    kept, _ = native_gradients(model(**native), batch())
    again, _ = native_gradients(model(**native, runtime__activation_checkpointing=True), batch())
    assert all(torch.equal(kept[name], again[name]) for name in kept)


@in_each_precision
def test_an_image_has_the_same_features_in_any_company(native: dict[str, Any]) -> None:
    one, images = model(**native), batch().images
    together, alone = features(one, images), features(one, images[5:6])
    assert all(torch.equal(a[5:6], b) for a, b in zip(together, alone, strict=True))


def test_features_and_statistics_are_the_models() -> None:
    native, plain = model(**NATIVE), model(runtime__implementation="plain")
    for a, b in zip(features(native, batch().images), features(plain, batch().images), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    pairs = zip(layer_statistics(native, batch()), layer_statistics(plain, batch()), strict=True)
    for seen, expected in pairs:
        assert seen.positive_pairs == expected.positive_pairs
        assert seen.anchors_without_positive == expected.anchors_without_positive
        assert (seen.histogram - expected.histogram).abs().sum() <= 4


@needs_bf16
@pytest.mark.parametrize("changes", [{}, {"model__patch_size": 4, "model__dim": 64, "model__heads": 4}])
def test_in_bf16_it_is_nearer_to_the_truth_than_torch(changes: dict[str, Any]) -> None:
    """Per parameter, of the errors' norms: torch rounds results too, the kernel only factors."""
    exact, data = model(**changes), batch(images=40)
    exact.vit.double()
    truth, _ = plain_gradients(exact, Batch(data.images.double(), data.labels, data.index))
    torchs, _ = plain_gradients(model(**changes, runtime__precision="bf16"), data)
    native, _ = native_gradients(model(**changes, **BF16), data)
    ratios = [
        float((native[name] - exact).norm() / (torchs[name] - exact).norm()) for name, exact in truth.items()
    ]
    assert len(ratios) > 30
    assert max(ratios) < 1.5
    assert math.prod(ratios) ** (1 / len(ratios)) < 0.9
    assert 2**-11 < distance(native, truth) < 2**-4


@needs_bf16
@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 1, 1), (13, 33, 2), (64, 8, 63), (24, 70, 40)])
def test_products_in_bf16_are_those_of_rounded_factors(shape: tuple[int, int, int]) -> None:
    """A layer without attention's and GELU's curves: what is left is the patch embedding."""
    images, dim, patch = shape
    config = ModelConfig(image_size=patch, patch_size=patch, channels=3, dim=dim, depth=1, heads=1)
    torch.manual_seed(0)
    layer = ViT.from_config(config).layers[0]
    embedding, block = layer.children()
    assert isinstance(embedding, PatchEmbedding)
    with torch.no_grad():  # nothing but the embedding is left of the layer
        for name, parameter in block.named_parameters():
            if name.startswith(("attention.1.proj", "mlp.3")):
                parameter.zero_()
    x = torch.randn(images, *config.image_shape)
    found = Layer([p.data for p in layer.parameters()], config, embeds=True, threads=1, bf16=True)
    rounded = x.bfloat16().double().flatten(1) @ embedding.project.weight.bfloat16().double().T
    expected = torch.relu(rounded + embedding.project.bias.double()) + embedding.position[0].double()
    pooled = found.forward(x, output=False, save=False).pooled
    torch.testing.assert_close(pooled.double(), expected.detach(), rtol=1e-5, atol=1e-5)


@needs_native
def test_a_cpu_without_bf16_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Without:
        """Stands for the kernel on another CPU."""

        def __init__(self, path: str) -> None:
            self.seedspread_has_bf16 = lambda: 0

    monkeypatch.setattr("seedspread.cff.training.native.ctypes.CDLL", Without)
    with pytest.raises(NativeError, match=r"^this CPU cannot multiply in bf16 .*precision = fp32"):
        require_bf16()
    assert "bf16" in str(CffRunner().why_not_here(tiny(**BF16)))
    assert CffRunner().why_not_here(tiny(**NATIVE)) is None
    with pytest.raises(NativeError, match="AVX-512 BF16"):
        train(tiny(**BF16), tmp_path / "run")
    assert not (tmp_path / "run").exists()


SHAPES = st.fixed_dictionaries(
    {
        "images": st.integers(1, 40),
        "side": st.integers(1, 9),
        "patch": st.sampled_from([1, 2, 3, 4]),
        "channels": st.sampled_from([1, 3]),
        "heads": st.integers(1, 5),
        "width": st.integers(1, 40),
        "embeds": st.booleans(),
        "threads": st.integers(1, 5),
        "seed": st.integers(0, 2**31),
    }
)


@settings(max_examples=60)
@given(SHAPES)
def test_a_layer_of_any_shape(shape: dict[str, Any]) -> None:
    """Against autograd through the model's own layer in float64."""
    side, patch, dim = shape["side"] * shape["patch"], shape["patch"], shape["heads"] * shape["width"]
    config = ModelConfig(
        image_size=side, patch_size=patch, channels=shape["channels"], dim=dim, depth=2, heads=shape["heads"]
    )
    torch.manual_seed(shape["seed"])
    layer = ViT.from_config(config).layers[0 if shape["embeds"] else 1]
    x = torch.randn(shape["images"], *(config.image_shape if shape["embeds"] else (config.tokens, dim)))
    grad = torch.randn(shape["images"], dim)
    own = Layer([p.data for p in layer.parameters()], config, shape["embeds"], shape["threads"])
    passed = own.forward(x, output=True, save=True)
    gradients = [torch.full_like(p, torch.nan) for p in own.parameters]
    own.backward(passed, grad, gradients)
    layer.double()
    output = layer(x.double())
    (output.mean(dim=1) * grad).sum().backward()
    truth = [p.grad for p in layer.parameters()]
    assert passed.output is not None
    torch.testing.assert_close(passed.output.double(), output.detach(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(passed.pooled.double(), output.detach().mean(1), rtol=1e-4, atol=1e-4)
    scale = max(float(t.abs().max()) for t in truth if t is not None)
    for found, expected in zip(gradients, truth, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-4 * scale)


@settings(max_examples=60)
@given(
    n=st.integers(2, 90),
    dim=st.integers(1, 40),
    classes=st.integers(1, 30),
    margin_type=st.sampled_from([kind for kind in MARGIN_TYPES if kind != "subtract"]),
    margin=st.floats(0, 1.5),
    temperature=st.floats(0.05, 2),
    stability=st.sampled_from(["detach", "direct"]),
    reduction=st.sampled_from(["mean", "sum"]),
    seed=st.integers(0, 2**31),
)
def test_a_loss_of_any_shape(
    n: int, dim: int, classes: int, margin_type: str, margin: float, temperature: float, stability: Any,
    reduction: Any, seed: int,
) -> None:  # fmt: skip
    """Against the equations in float64."""
    torch.manual_seed(seed)
    x, labels = torch.randn(n, dim), torch.randint(classes, (n,)) - 3
    labels[-1] = labels[0]  # one anchor at least has a positive
    spec = LossSpec(temperature, margin, margin_type, stability, reduction)
    found = NativeLoss.of(x, labels, spec, threads=3)
    exact = x.double().requires_grad_()
    loss = SupConLoss(temperature, margin, margin_type, stability, reduction, implementation="plain")
    value, statistics = loss(exact, labels, return_statistics=True)
    value.backward()
    torch.testing.assert_close(found.loss.double(), value.detach(), rtol=1e-4, atol=1e-4)
    assert int(found.histogram.sum()) == statistics.positive_pairs
    assert found.gradient is not None
    assert exact.grad is not None
    scale = float(exact.grad.norm()) + 1e-3 / temperature
    near_a_corner = margin_type == "clamp"  # a pair on the clamp's edge may fall to either side
    close = (found.gradient.double() - exact.grad).norm() < 1e-3 * scale
    assert close or (near_a_corner and int(found.saturated) != int(statistics.saturated_pairs))


@pytest.mark.parametrize("labels", [torch.arange(4), torch.arange(6), torch.zeros(5, 1), torch.tensor(1)])
def test_labels_of_another_number_are_refused(labels: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"labels must have shape \(5,\), one per row; got"):
        NativeLoss.of(torch.randn(5, 4), labels, LossSpec(), 1)


def test_a_loss_without_positive_pairs_is_not_a_number() -> None:
    found = NativeLoss.of(torch.randn(5, 4), torch.arange(5), LossSpec(), 2)
    assert math.isnan(found.loss)
    assert int(found.histogram.sum()) == 0


def test_rows_of_zeros_and_of_any_scale_have_their_gradients() -> None:
    x = torch.randn(8, 6)
    x[0] = 0
    x[1] *= 1e-30
    x[2] *= 1e30
    found = NativeLoss.of(x, torch.tensor([0, 0, 1, 1, 0, 0, 1, 1]), LossSpec(margin_type="none"), 1)
    assert found.gradient is not None
    assert found.gradient.isfinite().all()
    assert [bool(row.any()) for row in found.gradient[:3]] == [False, True, True]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("label", [1, 2])
def test_what_is_not_finite_gives_a_loss_that_is_not_either(bad: float, label: int) -> None:
    """With a positive, and without: all others are measured against it."""
    x = torch.randn(8, 6)
    x[3, 2] = bad
    found = NativeLoss.of(x, torch.tensor([0, 0, 1, label, 0, 0, 1, 1]), LossSpec(), 1)
    assert not found.loss.isfinite()


def single_layer() -> tuple[Layer, torch.nn.Module]:
    """Another layer than the first, and its module."""
    config = ModelConfig(image_size=8, patch_size=4, dim=12, depth=2, heads=3)
    torch.manual_seed(0)
    module = ViT.from_config(config).layers[1]
    return Layer([p.data for p in module.parameters()], config, False, 1), module


def test_attention_that_overflows_is_not_a_number_as_in_the_plain_way() -> None:
    layer, module = single_layer()
    layer.parameters[2][:24] *= 1e20  # queries and keys are finite, their products are not
    x = torch.randn(3, 4, 12)
    assert not module(x).isfinite().any()
    passed = layer.forward(x, output=True, save=True)
    assert passed.output is not None
    assert not passed.output.isfinite().any()


def test_no_images_have_no_gradient() -> None:
    layer, _ = single_layer()
    gradients = [torch.full_like(p, torch.nan) for p in layer.parameters]
    layer.backward(
        layer.forward(torch.empty(0, 4, 12), output=True, save=True), torch.empty(0, 12), gradients
    )
    assert not any(gradient.any() for gradient in gradients)


def test_torchs_defaults_are_not_the_kernels() -> None:
    layer, module = single_layer()
    x, labels = torch.randn(8, 4, 12), torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])
    before = layer.forward(x, output=False, save=True).pooled
    loss = NativeLoss.of(before, labels, LossSpec(), 1).loss
    torch.set_default_dtype(torch.float64)
    try:
        after = layer.forward(x, output=False, save=True).pooled
        assert torch.equal(before, after)
        assert torch.equal(NativeLoss.of(after, labels, LossSpec(), 1).loss, loss)
    finally:
        torch.set_default_dtype(torch.float32)
    module.double()
    with pytest.raises(TypeError, match=r"takes contiguous float32 .* not torch\.float64"):
        Layer([p.data for p in module.parameters()], layer.model, False, 1)


# Runs


@in_each_precision
def test_a_run_repeats_to_the_bit_on_any_number_of_threads(tmp_path: Path, native: dict[str, Any]) -> None:
    for threads in (1, 3):
        train(tiny(**native, runtime__threads=threads), tmp_path / str(threads))
    assert files(tmp_path / "1") == files(tmp_path / "3")


def test_a_run_says_what_it_was_compiled_with(tmp_path: Path) -> None:
    train(tiny(**NATIVE), tmp_path / "run")
    provenance = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert provenance["native"] == build().facts()
    assert provenance["threads"] == 1


def test_it_learns_what_the_others_learn(tmp_path: Path) -> None:
    """To rounding after a few steps: the first epoch's losses."""
    config = {"training__epochs": 1}
    results = {
        kind: train(tiny(**config, runtime__implementation=kind), tmp_path / kind)
        for kind in ("plain", "native")
    }
    for a, b in zip(results["plain"].layers, results["native"].layers, strict=True):
        assert a.loss == pytest.approx(b.loss, rel=1e-3)
        assert a.gradient_norm_mean == pytest.approx(b.gradient_norm_mean, rel=1e-2)


def test_it_is_part_of_a_runs_identity() -> None:
    keys = {kind: run_key(tiny(runtime__implementation=kind)) for kind in ("fast", "plain", "native")}
    assert len({*keys.values(), run_key(tiny(**BF16)), run_key(tiny(runtime__precision="bf16"))}) == 5
    # What only the fast way depends on is not.
    assert run_key(tiny(**NATIVE, runtime__micro_batch_size=7)) == keys["native"]
    other_rule = {"training__rule": "end_to_end"}
    assert run_key(tiny(**NATIVE, **other_rule)) == run_key(tiny(**other_rule))


def test_a_native_run_is_trained_alone_and_on_the_cpu() -> None:
    automatic = tiny(**NATIVE, runtime__device="auto")
    assert not CffRunner().may_use_gpu(automatic)


def test_a_margin_that_it_does_not_know_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shift, subtract = ({**NATIVE, "objective__margin_type": kind} for kind in ("shift", "subtract"))
    config = tiny(**shift)
    known = tuple(kind for kind in NATIVE_MARGINS if kind != "shift")
    monkeypatch.setitem(FEATURES, "native", replace(FEATURES["native"], margins=known))
    monkeypatch.setattr(NativeTrainer, "features", FEATURES["native"])
    monkeypatch.setattr(kernel, "NATIVE_MARGINS", known)
    refused = r"^implementation = 'native' cannot compute margin_type = 'shift'; use 'fast' or 'plain'$"
    # When it is planned,
    with pytest.raises(ConfigError, match=refused):
        tiny(**shift)
    native = {"runtime.implementation": "native", "objective.margin_type": "shift"}
    with pytest.raises(RunnerError, match=refused):
        CffRunner().parameters("quickstart", native)
    # when it is trained,
    with pytest.raises(ConfigError, match=refused):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    # and by the kernel itself.
    with pytest.raises(NativeError, match=r"^the native kernel cannot compute margin_type = 'shift'$"):
        native_gradients(LayerwiseModel(config, model().vit), batch())
    # A margin that moves no gradient is none to it, and other rules do without it.
    tiny(**subtract)
    tiny(**shift, training__rule="end_to_end")


def test_trainers_and_plans_read_the_same_features() -> None:
    for kind, known in FEATURES.items():
        config = tiny(runtime__implementation=kind)
        assert trainer_class(config).features is features_of(config) is known
        assert known.name == kind


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cuda"},
        {"device": "mps"},
    ],
)
def test_what_it_cannot_do_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="native"):
        tiny(**NATIVE, **{f"runtime__{name}": value for name, value in changes.items()})
