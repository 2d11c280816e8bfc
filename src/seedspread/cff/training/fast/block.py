"""The model's layers as functions of weights that are stacked over runs, with fewer products.

The same functions as `model.py`, whose modules are the definition, rearranged for training layer by layer:

- A layer norm's scale and shift are folded into the linear map behind it. The input of a layer is a constant
  there, so its normalised form is one too, and no gradient has to be brought back to it.
- The loss sees the mean over tokens only, and a mean commutes with a linear map. So the last map of the
  perceptron is differentiated on the mean of its input, one row per image instead of one per token; what is
  handed on to the next layer goes through it without a graph.
- Attention has its gradient in closed form, unless torch's fused kernel is asked for. Thin products
  (tokens x head width) are computed as their transposes, whose long rows suit a CPU.
- The weights of all blocks are folded at once, and so are their gradients brought back.

Weights have a first axis R, the runs; products are batched over it. Nothing of one run enters another.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

from seedspread.cff.config import ModelConfig, RunConfig
from seedspread.cff.model import ViT

# Numbers of an attention matrix that a CPU's cache holds beside all else: 2 MB.
_CACHED = 2**19
# Parameters of the embedding, which come first in layer 0.
_EMBEDDING = 3


class EmbeddingWeights(NamedTuple):
    """Weights of the patch embedding, in the module's order, as products take them.

    Attributes:
        position: `(R, 1, T, d)`.
        weight: `(R, C p p, d)`.
        bias: `(R, 1, d)`.
    """

    position: Tensor
    weight: Tensor
    bias: Tensor


class BlockWeights(NamedTuple):
    """Weights of an encoder block as products take them, layer norms folded in and queries scaled.

    Attributes:
        qkv: `(R, d, 3d)`, queries, keys and values.
        qkv_bias: `(R, 1, 3d)`.
        proj: `(R, d, d)`.
        proj_bias: `(R, 1, d)`.
        up: `(R, d, 2d)`.
        up_bias: `(R, 1, 2d)`.
        down: `(R, 2d, d)`.
        down_bias: `(R, 1, d)`.
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


def stacked_parameters(models: Sequence[ViT]) -> tuple[list[Tensor], list[Tensor]]:
    """Copies of the embeddings' parameters, `(R, ...)` each, and of the blocks', `(L, R, ...)`."""
    by_layer = list(zip(*(layer_parameters(model) for model in models), strict=True))
    stacked = [[torch.stack(runs).detach() for runs in zip(*layer, strict=True)] for layer in by_layer]
    embedding, stacked[0] = stacked[0][:_EMBEDDING], stacked[0][_EMBEDDING:]
    return embedding, [torch.stack(layers) for layers in zip(*stacked, strict=True)]


def query_scale(config: ModelConfig, like: Tensor) -> Tensor:
    """`(3d,)`: what queries, keys and values are multiplied by, so that the product of two is attention's."""
    scale = torch.ones(3 * config.dim, dtype=like.dtype, device=like.device)
    scale[: config.dim] = (config.dim // config.heads) ** -0.5
    return scale


def embedding_weights(parameters: Sequence[Tensor]) -> EmbeddingWeights:
    """The embedding's parameters, `(R, ...)` each, as `embed` takes them."""
    position, weight, bias = parameters
    return EmbeddingWeights(position, weight.mT, bias[..., None, :])


def embedding_gradients(gradients: EmbeddingWeights) -> list[Tensor]:
    """The gradients by the embedding's parameters."""
    position, weight, bias = gradients
    return [position, weight.mT.contiguous(), bias.squeeze(-2)]


@torch.no_grad()
def folded_weights(parameters: Sequence[Tensor], scale: Tensor) -> list[BlockWeights]:
    """The parameters of all blocks, `(L, R, ...)` each, as `encode` takes them, block by block.

    Args:
        parameters: in the order of `layer_parameters`.
        scale: `query_scale`'s.
    """
    g1, b1, qkv, qkv_bias, proj, proj_bias, g2, b2, up, up_bias, down, down_bias = parameters
    qkv, qkv_bias = _folded(g1, b1, qkv, qkv_bias)
    up, up_bias = _folded(g2, b2, up, up_bias)
    qkv, qkv_bias = qkv * scale[:, None], qkv_bias * scale
    products = (qkv, proj, up, down), (qkv_bias, proj_bias, up_bias, down_bias)
    laid_out = [(w.mT, bias[..., None, :]) for w, bias in zip(*products, strict=True)]
    blocks = zip(*(tensor.unbind() for both in laid_out for tensor in both), strict=True)
    return [BlockWeights(*block) for block in blocks]


def _folded(g: Tensor, b: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """W (g x + b) + c = (W g) x + (W b + c)."""
    # A product of a matrix and a vector would round differently in a stack of one.
    shift = (weight * b[..., None, :]).sum(dim=-1)
    return weight * g[..., None, :], bias + shift


@torch.no_grad()
def unfolded_gradients(
    parameters: Sequence[Tensor], gradients: Sequence[BlockWeights], scale: Tensor
) -> list[Tensor]:
    """The gradients by the parameters of all blocks, from those by what `folded_weights` made of them."""
    g1, b1, w1, _, _, _, g2, b2, w2, *_ = parameters
    stacked = BlockWeights(*(torch.stack(of_blocks) for of_blocks in zip(*gradients, strict=True)))
    qkv, proj, up, down = (w.mT.contiguous() for w in (stacked.qkv, stacked.proj, stacked.up, stacked.down))
    qkv_bias, proj_bias, up_bias, down_bias = (
        bias.squeeze(-2) for bias in (stacked.qkv_bias, stacked.proj_bias, stacked.up_bias, stacked.down_bias)
    )
    first = _unfolded(g1, b1, w1, qkv * scale[:, None], qkv_bias * scale)
    second = _unfolded(g2, b2, w2, up, up_bias)
    return [*first, proj, proj_bias, *second, down, down_bias]


def _unfolded(g: Tensor, b: Tensor, weight: Tensor, grad: Tensor, grad_shift: Tensor) -> list[Tensor]:
    """The gradients by g, b, W and c, from those by W g and W b + c."""
    outer = grad_shift[..., None]
    grad_weight = (grad * g[..., None, :]).add_(outer * b[..., None, :])
    return [(grad * weight).sum(dim=-2), (outer * weight).sum(dim=-2), grad_weight, grad_shift]


def slices(config: RunConfig, views: Tensor, dim: int) -> tuple[Tensor, ...]:
    """What goes through a layer at a time, in parts of even size: a single view would round otherwise."""
    count = math.ceil(views.shape[dim] / config.runtime.micro_batch_size)
    return torch.tensor_split(views, count, dim) if count > 1 else (views,)


def parts(tensor: Tensor, size: int) -> tuple[Tensor, ...]:
    """`torch.split`; what is not larger stays as it is."""
    return torch.split(tensor, size) if size < len(tensor) else (tensor,)


def embed(images: Tensor, weights: EmbeddingWeights, patch: int, precision: torch.dtype) -> Tensor:
    """Images `(R, B, C, H, W)` -> tokens `(R, B, T, d)`."""
    runs, batch = images.shape[:2]
    patches = images.unfold(3, patch, patch).unfold(4, patch, patch)  # (R, B, C, H/p, W/p, p, p)
    flat = patches.permute(0, 1, 3, 4, 2, 5, 6).flatten(4).flatten(1, 3).to(precision)
    projected = _linear(flat, weights.weight, weights.bias)
    return projected.relu().view(runs, batch, -1, projected.shape[-1]) + weights.position


def encode(
    tokens: Tensor,
    weights: BlockWeights,
    heads: int,
    precision: torch.dtype,
    *,
    fused_attention: bool,
    return_tokens: bool,
) -> tuple[Tensor, Tensor | None]:
    """An encoder block.

    Args:
        tokens: `(R, B, T, d)` float32.
        weights: of the block.
        heads: attention heads.
        precision: of the products; the residual path stays in float32.
        fused_attention: by torch's kernel instead of our own.
        return_tokens: whether the output itself is wanted.

    Returns:
        the mean over tokens of its output, `(R, B, d)`, and the output `(R, B, T, d)` without a graph.
    """
    runs, batch, length, dim = tokens.shape
    rows = runs, batch * length, dim
    normed = layer_norm(tokens, (dim,)).to(precision).view(rows)
    qkv = _linear(normed, weights.qkv, weights.qkv_bias)
    attend: Callable[[Tensor], Tensor] = _fused_attention if fused_attention else _Attention.apply
    mixed = attend(qkv.view(runs * batch, length, 3, heads, dim // heads))
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
    embedding, blocks = stacked_parameters([model])
    first = embedding_weights(embedding)
    layers = folded_weights(blocks, query_scale(config.model, images))
    by_slice = []
    for part in slices(config, images[None], dim=1):
        tokens, pooled = embed(part, first, config.model.patch_size, precision), list[Tensor]()
        for block in layers:
            mean, output = encode(
                tokens,
                block,
                config.model.heads,
                precision,
                fused_attention=config.runtime.fused_attention,
                return_tokens=len(pooled) + 1 < len(layers),
            )
            pooled.append(mean)
            tokens = tokens if output is None else output
        by_slice.append(pooled)
    return [torch.cat(layer, dim=1)[0] for layer in zip(*by_slice, strict=True)]


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`(R, M, i)` by `(R, i, o)` -> `(R, M, o)`."""
    return torch.baddbmm(bias.to(x.dtype), x, weight.to(x.dtype))


def _fused_attention(qkv: Tensor) -> Tensor:
    """As `_Attention`, by torch's kernel, which keeps no matrix of all pairs of tokens."""
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind()  # (B, h, T, w)
    return scaled_dot_product_attention(q, k, v, scale=1.0).transpose(1, 2).flatten(2)


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
        for part, out in zip(parts(qkv, ctx.images), parts(mixed, ctx.images), strict=True):
            # (3, b h, T, w)
            q, k, v = part.permute(2, 0, 3, 1, 4).reshape(3, -1, length, width).unbind()
            k, v = k.mT, v.mT
            p = torch.bmm(q, k).softmax(dim=-1)
            o = torch.bmm(v, p.mT)  # (b h, w, T)
            out.copy_(o.view(-1, heads * width, length).mT)
            kept += [q, k, v, p, o]
        ctx.save_for_backward(*kept)
        return mixed

    @staticmethod
    def backward(ctx: Any, grad_mixed: Tensor) -> Tensor:
        batch, length, dim = grad_mixed.shape
        width = dim // ctx.heads
        grad_qkv = grad_mixed.new_empty(batch, length, 3, ctx.heads, width)
        kept = iter(ctx.saved_tensors)
        for part, out in zip(parts(grad_mixed, ctx.images), parts(grad_qkv, ctx.images), strict=True):
            q, k, v, p, o = (next(kept) for _ in range(5))
            grad_o = part.mT.reshape(o.shape)
            rows = (grad_o * o).sum(dim=1, dtype=torch.float32, keepdim=True).mT
            grad_s = torch.bmm(grad_o.mT, v).sub_(rows).mul_(p)
            thin = grad_o.new_empty(3, *o.shape)  # (3, b h, w, T)
            grad_q, grad_k, grad_v = thin.unbind()
            torch.bmm(k, grad_s.mT, out=grad_q)
            torch.bmm(q.mT, grad_s, out=grad_k)
            torch.bmm(grad_o, p, out=grad_v)
            out.copy_(thin.view(3, -1, ctx.heads, width, length).permute(1, 4, 0, 2, 3))
        return grad_qkv


def _images_at_once(qkv: Tensor) -> int:
    """On a CPU as many as keep P in cache; elsewhere all. A product is the same in any batch of products."""
    batch, length, _, heads, _ = qkv.shape
    return max(1, _CACHED // (heads * length**2)) if qkv.device.type == "cpu" else batch
