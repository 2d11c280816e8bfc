"""The model's layers as functions of weights that are stacked over runs, with fewer products.

The same functions as `model.py`, whose modules are the definition, rearranged for training layer by layer:

- A layer norm's scale and shift are folded into the linear map behind it. The input of a layer is a constant
  there, so its normalised form is one too, and no gradient has to be brought back to it.
- The loss sees the mean over tokens only, and a mean commutes with a linear map. So the last map of the
  perceptron is differentiated on the mean of its input, one row per image instead of one per token; what is
  handed on to the next layer goes through it without a graph.
- Attention has its gradient in closed form. Thin products (tokens x head width) are computed as their
  transposes, whose long rows suit a CPU.

Weights have a first axis R, the runs; products are batched over it. Nothing of one run enters another.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm

from seedspread.config import RunConfig
from seedspread.model import ViT

# Numbers of an attention matrix that a CPU's cache holds beside all else: 2 MB.
_CACHED = 2**19


class EmbeddingWeights(NamedTuple):
    """Weights of the patch embedding, in the module's order.

    Attributes:
        position: `(R, 1, T, d)`.
        weight: `(R, d, C p p)`.
        bias: `(R, d)`.
    """

    position: Tensor
    weight: Tensor
    bias: Tensor


class BlockWeights(NamedTuple):
    """Weights of an encoder block, layer norms folded in and queries scaled.

    Attributes:
        qkv: `(R, 3d, d)`, queries, keys and values.
        qkv_bias: `(R, 3d)`.
        proj: `(R, d, d)`.
        proj_bias: `(R, d)`.
        up: `(R, 2d, d)`.
        up_bias: `(R, 2d)`.
        down: `(R, d, 2d)`.
        down_bias: `(R, d)`.
    """

    qkv: Tensor
    qkv_bias: Tensor
    proj: Tensor
    proj_bias: Tensor
    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor


def layer_parameters(model: ViT) -> list[list[nn.Parameter]]:
    """Each layer's parameters, in the order of `layer.parameters()`, by which checkpoints number them."""
    first: Any = model.layers[0]  # torch does not say what a sequence holds
    embedding, block = first
    layers = [_block_parameters(one) for one in (block, *model.layers[1:])]
    layers[0] = [embedding.position, embedding.project.weight, embedding.project.bias, *layers[0]]
    return layers


def _block_parameters(block: Any) -> list[nn.Parameter]:
    norm1, attention = block.attention
    norm2, up, _, down = block.mlp
    modules = (norm1, attention.qkv, attention.proj, norm2, up, down)
    return [parameter for module in modules for parameter in (module.weight, module.bias)]


def folded_weights(parameters: Sequence[Tensor], heads: int) -> tuple[EmbeddingWeights | None, BlockWeights]:
    """A layer's parameters, `(R, ...)` each, as `encode` takes them; gradients flow back to the parameters.

    Only layer 0 has an embedding.
    """
    *embedding, g1, b1, qkv, qkv_bias, proj, proj_bias, g2, b2, up, up_bias, down, down_bias = parameters
    qkv, qkv_bias = _folded(g1, b1, qkv, qkv_bias)
    up, up_bias = _folded(g2, b2, up, up_bias)
    dim = qkv.shape[-1]
    scale = torch.ones(3 * dim, dtype=qkv.dtype, device=qkv.device)
    scale[:dim] = (dim // heads) ** -0.5
    qkv, qkv_bias = qkv * scale[:, None], qkv_bias * scale
    block = BlockWeights(qkv, qkv_bias, proj, proj_bias, up, up_bias, down, down_bias)
    return EmbeddingWeights(*embedding) if embedding else None, block


def _folded(g: Tensor, b: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """W (g x + b) + c = (W g) x + (W b + c)."""
    # A product of a matrix and a vector would round differently in a stack of one.
    shift = (weight * b[:, None, :]).sum(dim=2)
    return weight * g[:, None, :], bias + shift


def slices(config: RunConfig, views: Tensor, dim: int) -> tuple[Tensor, ...]:
    """What goes through a layer at a time, in parts of even size: a single view would round otherwise."""
    return torch.tensor_split(views, math.ceil(views.shape[dim] / config.runtime.micro_batch_size), dim)


def embed(images: Tensor, weights: EmbeddingWeights, patch: int, precision: torch.dtype) -> Tensor:
    """Images `(R, B, C, H, W)` -> tokens `(R, B, T, d)`."""
    runs, batch = images.shape[:2]
    patches = images.unfold(3, patch, patch).unfold(4, patch, patch)  # (R, B, C, H/p, W/p, p, p)
    flat = patches.permute(0, 1, 3, 4, 2, 5, 6).flatten(4).flatten(1, 3).to(precision)
    projected = _linear(flat, weights.weight, weights.bias)
    return projected.relu().view(runs, batch, -1, projected.shape[-1]) + weights.position


def encode(
    tokens: Tensor, weights: BlockWeights, heads: int, precision: torch.dtype, *, return_tokens: bool
) -> tuple[Tensor, Tensor | None]:
    """An encoder block.

    Args:
        tokens: `(R, B, T, d)` float32.
        weights: of the block.
        heads: attention heads.
        precision: of the products; the residual path stays in float32.
        return_tokens: whether the output itself is wanted.

    Returns:
        the mean over tokens of its output, `(R, B, d)`, and the output `(R, B, T, d)` without a graph.
    """
    runs, batch, length, dim = tokens.shape
    rows = runs, batch * length, dim
    normed = layer_norm(tokens, (dim,)).to(precision).view(rows)
    qkv = _linear(normed, weights.qkv, weights.qkv_bias)
    mixed: Tensor = _Attention.apply(qkv.view(runs * batch, length, 3, heads, dim // heads))  # type: ignore[no-untyped-call]
    attended = tokens + _linear(mixed.view(rows), weights.proj, weights.proj_bias).view(tokens.shape)
    normed = layer_norm(attended, (dim,)).to(precision).view(rows)
    active = gelu(_linear(normed, weights.up, weights.up_bias))
    means = active.view(runs, batch, length, 2 * dim).mean(dim=2, dtype=torch.float32)
    pooled = attended.mean(dim=2) + _linear(means, weights.down, weights.down_bias)
    if not return_tokens:
        return pooled, None
    with torch.no_grad():
        return pooled, attended + _linear(active, weights.down, weights.down_bias).view(tokens.shape)


@torch.no_grad()
def features(model: ViT, images: Tensor, config: RunConfig, precision: torch.dtype) -> list[Tensor]:
    """The mean over tokens after every layer, each `(B, d)` float32, of images `(B, C, H, W)`."""
    heads = config.model.heads
    layers = [folded_weights([p[None] for p in own], heads) for own in layer_parameters(model)]
    parts = []
    for part in slices(config, images[None], dim=1):
        tokens, pooled = part, list[Tensor]()
        for embedding, block in layers:
            if embedding is not None:
                tokens = embed(tokens, embedding, config.model.patch_size, precision)
            mean, output = encode(
                tokens, block, heads, precision, return_tokens=len(pooled) + 1 < len(layers)
            )
            pooled.append(mean)
            tokens = tokens if output is None else output
        parts.append(pooled)
    return [torch.cat(layer, dim=1)[0] for layer in zip(*parts, strict=True)]


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`(R, M, i)` by `(R, o, i)` -> `(R, M, o)`."""
    return torch.baddbmm(bias[:, None].to(x.dtype), x, weight.to(x.dtype).transpose(1, 2))


class _Attention(torch.autograd.Function):
    """`(B, T, 3, h, w)`, queries scaled -> `(B, T, h w)`, a few images at a time so that P stays in cache.

    With P the softmax of S = Q K^T and O = P V: dV = P^T dO, and dS = P * (dO V^T - D) where D is the row
    sum of dO * O.
    """

    @staticmethod
    def forward(ctx: Any, qkv: Tensor) -> Tensor:
        batch, length, _, heads, width = qkv.shape
        mixed = torch.empty(batch, length, heads * width, dtype=qkv.dtype, device=qkv.device)
        ctx.heads, ctx.images = heads, _images_at_once(qkv)
        kept: list[Tensor] = []
        for part, out in zip(torch.split(qkv, ctx.images), torch.split(mixed, ctx.images), strict=True):
            # (3, b h, T, w)
            q, k, v = part.permute(2, 0, 3, 1, 4).reshape(3, -1, length, width).unbind()
            p = torch.bmm(q, k.transpose(1, 2)).softmax(dim=-1)
            o = torch.bmm(v.transpose(1, 2), p.transpose(1, 2))  # (b h, w, T)
            out.copy_(o.view(-1, heads * width, length).transpose(1, 2))
            kept += [q, k, v, p, o]
        ctx.save_for_backward(*kept)
        return mixed

    @staticmethod
    def backward(ctx: Any, grad_mixed: Tensor) -> Tensor:
        batch, length, dim = grad_mixed.shape
        width = dim // ctx.heads
        grad_qkv = grad_mixed.new_empty(batch, length, 3, ctx.heads, width)
        kept = iter(ctx.saved_tensors)
        for part, out in zip(
            torch.split(grad_mixed, ctx.images), torch.split(grad_qkv, ctx.images), strict=True
        ):
            q, k, v, p, o = (next(kept) for _ in range(5))
            grad_o = part.transpose(1, 2).reshape(o.shape)
            rows = (grad_o * o).sum(dim=1, dtype=torch.float32)[:, :, None]
            grad_s = torch.bmm(grad_o.transpose(1, 2), v.transpose(1, 2)).sub_(rows).mul_(p)
            thin = out.permute(2, 0, 3, 4, 1)  # (3, b, h, w, T), a view
            thin[0] = torch.bmm(k.transpose(1, 2), grad_s.transpose(1, 2)).view(thin.shape[1:])
            thin[1] = torch.bmm(q.transpose(1, 2), grad_s).view(thin.shape[1:])
            thin[2] = torch.bmm(grad_o, p).view(thin.shape[1:])
        return grad_qkv


def _images_at_once(qkv: Tensor) -> int:
    """On a CPU as many as keep P in cache; elsewhere all. A product is the same in any batch of products."""
    batch, length, _, heads, _ = qkv.shape
    return max(1, _CACHED // (heads * length**2)) if qkv.device.type == "cpu" else batch
