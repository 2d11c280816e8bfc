"""The Vision Transformer: sizes, distributions, attention, and the locality of its layers."""

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from seedspread import SupConLoss, ViT
from seedspread.cff.model import Attention


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_parameter_counts_at_the_papers_size() -> None:
    model = ViT(image_size=32, patch_size=4, channels=3, dim=128, depth=8, heads=4, num_classes=10)
    assert [parameters(layer) for layer in model.layers] == [146_944] + [132_480] * 7
    assert parameters(model.head) == 2 * 128 + 128 * 10 + 10
    assert parameters(model) == 146_944 + 7 * 132_480 + parameters(model.head)


def small(**changes: int) -> ViT:
    sizes = {
        "image_size": 8, "patch_size": 4, "channels": 3, "dim": 16, "depth": 3, "heads": 2,
        "num_classes": 5,
    }  # fmt: skip
    return ViT(**(sizes | changes))


def test_shapes() -> None:
    images = torch.randn(7, 3, 8, 8)
    model = small()
    assert [f.shape for f in model.features(images)] == [(7, 16)] * 3
    assert model(images).shape == (7, 5)
    assert small(channels=1, depth=1)(images[:, :1]).shape == (7, 5)


def test_patches_are_cut_row_by_row_and_hold_their_own_pixels() -> None:
    model = small(channels=1)
    embedding = model.layers[0][0]  # type: ignore[index]
    images = torch.zeros(1, 1, 8, 8)
    before = embedding(images)
    images[0, 0, 5, 2] = 1.0  # second row of patches, first column: token 2, pixel 1 * 4 + 2
    changed = (embedding(images) - before).abs().sum(dim=(0, 2)) > 0
    assert changed.tolist() == [False, False, True, False]
    weight, bias = embedding.project.weight, embedding.project.bias
    expected = torch.relu(weight[:, 6] + bias) + embedding.position[0, 2]
    torch.testing.assert_close(embedding(images)[0, 2], expected)


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_attention_equals_torchs_given_its_weights(heads: int) -> None:
    ours, reference = Attention(32, heads).double(), nn.MultiheadAttention(32, heads, batch_first=True)
    reference = reference.double()
    nn.init.normal_(reference.in_proj_bias)
    nn.init.normal_(reference.out_proj.bias)
    with torch.no_grad():
        ours.qkv.weight.copy_(reference.in_proj_weight)
        ours.qkv.bias.copy_(reference.in_proj_bias)
        ours.proj.weight.copy_(reference.out_proj.weight)
        ours.proj.bias.copy_(reference.out_proj.bias)
    x = torch.randn(5, 9, 32, dtype=torch.float64)
    torch.testing.assert_close(ours(x), reference(x, x, x, need_weights=False)[0])


def assert_uniform(values: Tensor, bound: float) -> None:
    numbers = values.detach().double().flatten().numpy()
    assert abs(numbers).max() <= bound
    assert stats.kstest(numbers, stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3


def test_initial_distributions() -> None:
    torch.manual_seed(0)
    dim, patch = 128, 48
    model = ViT()
    first = model.layers[0]
    embedding = first[0]  # type: ignore[index]
    position = embedding.position.detach().flatten().double().numpy()
    assert stats.kstest(position, stats.norm.cdf).pvalue > 1e-3

    assert_uniform(embedding.project.weight, patch**-0.5)  # the default of a linear layer
    assert_uniform(embedding.project.bias, patch**-0.5)
    for block in (first[1], *model.layers[1:]):  # type: ignore[index]
        attention = block.attention[1]
        assert_uniform(attention.qkv.weight, (6 / (dim + 3 * dim)) ** 0.5)  # Xavier on the stack
        assert_uniform(attention.proj.weight, dim**-0.5)
        assert_uniform(block.mlp[1].weight, dim**-0.5)
        assert_uniform(block.mlp[1].bias, dim**-0.5)
        assert_uniform(block.mlp[3].weight, (2 * dim) ** -0.5)
        assert_uniform(block.mlp[3].bias, (2 * dim) ** -0.5)
        assert (attention.qkv.bias == 0).all()
        assert (attention.proj.bias == 0).all()
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 2 * 8 + 1
    for norm in norms:
        assert torch.equal(norm.weight, torch.ones(dim))
        assert torch.equal(norm.bias, torch.zeros(dim))


def test_a_layers_loss_reaches_that_layer_and_no_other() -> None:
    model = small()
    images, labels = torch.randn(12, 3, 8, 8), torch.arange(12) % 3
    for trained in range(3):
        model.zero_grad()
        SupConLoss()(model.features(images)[trained], labels).backward()
        reached = [any(p.grad is not None for p in layer.parameters()) for layer in model.layers]
        assert reached == [layer == trained for layer in range(3)]
        assert all(p.grad is not None for p in model.layers[trained].parameters())


def test_without_the_stop_the_last_loss_reaches_every_layer() -> None:
    model = small()
    features = model.features(torch.randn(12, 3, 8, 8), stop_gradient=False)
    SupConLoss()(features[-1], torch.arange(12) % 3).backward()
    assert all(p.grad is not None for layer in model.layers for p in layer.parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch_size": 3}, "patch_size 3 does not divide image_size 8"),
        ({"heads": 3}, "heads 3 does not divide dim 16"),
        ({"depth": 0}, "depth must be at least 1"),
    ],
)
def test_impossible_sizes_are_named(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**changes)


def test_images_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"images must have shape \(B, 3, 8, 8\)"):
        small().features(torch.randn(2, 3, 8, 4))
