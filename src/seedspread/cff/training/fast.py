"""The fast way to train layer by layer, with fewer products.

`model.py` and `trainers.py` are the definition. The layers are the same functions, rearranged:

- A layer norm's scale and shift are folded into the linear map behind it. A layer's input is a constant in
  its training, so the normalized input is one too, and needs no gradient.
- The loss depends on the mean over tokens only, and a mean commutes with a linear map. So the last map of the
  perceptron is differentiated on the mean of its input, one row per image instead of one per token; the input
  of the next layer is computed without a graph.
- Attention has its gradient in closed form. Thin products (tokens x head width) are computed as their
  transposes, whose long rows suit a CPU.
- The weights of all blocks are folded at once, and their gradients unfolded at once.

A batch goes through a layer in slices. The loss depends only on the pooled features of the whole batch: it
returns the gradient of all of them at once, and each slice propagates its part back through the layer.

Everything has a first axis of 1, so that products are batched: plain ones may round differently, and
published runs depend on the bits.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm

from seedspread.cff.config import VIEWS_AT_ONCE, ModelConfig, RunConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.implementations import FEATURES
from seedspread.cff.model import EMBEDDING_PARAMETERS, LayerLocal
from seedspread.cff.training.fast_loss import FastLoss, Pairs, fast_loss
from seedspread.cff.training.layerwise import (
    EpochSums,
    KernelTrainer,
    LayerwiseModel,
    Norms,
    layer_parameters,
)

# Numbers of attention matrices that fit into a CPU's cache beside everything else: 2 MB.
_CACHED = 2**19


class EmbeddingWeights(NamedTuple):
    """Weights of the patch embedding, in the module's order, as products take them."""

    position: Tensor  # `(1, 1, T, d)`
    weight: Tensor  # `(1, C p p, d)`
    bias: Tensor  # `(1, 1, d)`


class BlockWeights(NamedTuple):
    """Weights of an encoder block as products take them, layer norms folded in and queries scaled."""

    qkv: Tensor  # `(1, d, 3d)`, queries, keys and values
    qkv_bias: Tensor  # `(1, 1, 3d)`
    proj: Tensor  # `(1, d, d)`
    proj_bias: Tensor  # `(1, 1, d)`
    up: Tensor  # `(1, d, 2d)`
    up_bias: Tensor  # `(1, 1, 2d)`
    down: Tensor  # `(1, 2d, d)`
    down_bias: Tensor  # `(1, 1, d)`


def stacked_parameters(model: LayerLocal) -> tuple[list[Tensor], list[Tensor]]:
    """Return copies of the embedding's parameters, `(1, ...)` each, and of the blocks', `(L, 1, ...)`."""
    layers = layer_parameters(model)
    embedding = [parameter.detach()[None].clone() for parameter in layers[0][:EMBEDDING_PARAMETERS]]
    layers[0] = layers[0][EMBEDDING_PARAMETERS:]
    return embedding, [torch.stack(of_layers).detach()[:, None] for of_layers in zip(*layers, strict=True)]


def query_scale(config: ModelConfig, like: Tensor) -> Tensor:
    """Return the factors of queries, keys and values, `(3d,)`: attention's scale goes to the queries."""
    scale = torch.ones(3 * config.dim, dtype=like.dtype, device=like.device)
    scale[: config.dim] = (config.dim // config.heads) ** -0.5
    return scale


def embedding_weights(parameters: Sequence[Tensor]) -> EmbeddingWeights:
    """Lay out the embedding's parameters, `(1, ...)` each, as `embed` takes them."""
    position, weight, bias = parameters
    return EmbeddingWeights(position, weight.mT, bias[..., None, :])


@torch.no_grad()
def folded_weights(parameters: Sequence[Tensor], scale: Tensor) -> list[BlockWeights]:
    """Fold the parameters of all blocks, `(L, 1, ...)` each, into what `encode` takes, block by block."""
    g1, b1, qkv, qkv_bias, proj, proj_bias, g2, b2, up, up_bias, down, down_bias = parameters
    qkv, qkv_bias = _folded(g1, b1, qkv, qkv_bias)
    up, up_bias = _folded(g2, b2, up, up_bias)
    qkv, qkv_bias = qkv * scale[:, None], qkv_bias * scale
    products = (qkv, proj, up, down), (qkv_bias, proj_bias, up_bias, down_bias)
    laid_out = [(w.mT, bias[..., None, :]) for w, bias in zip(*products, strict=True)]
    blocks = zip(*(tensor.unbind() for both in laid_out for tensor in both), strict=True)
    return [BlockWeights(*block) for block in blocks]


def _folded(g: Tensor, b: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return W g and W b + c, since W (g x + b) + c = (W g) x + (W b + c)."""
    shift = (weight * b[..., None, :]).sum(dim=-1)
    return weight * g[..., None, :], bias + shift


@torch.no_grad()
def unfolded_gradients(
    parameters: Sequence[Tensor], gradients: Sequence[BlockWeights], scale: Tensor
) -> list[Tensor]:
    """Return the gradients of the parameters of all blocks, given those of the folded weights."""
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
    """Return the gradients of g, b, W and c, given those of W g and W b + c."""
    outer = grad_shift[..., None]
    grad_weight = (grad * g[..., None, :]).add_(outer * b[..., None, :])
    return [(grad * weight).sum(dim=-2), (outer * weight).sum(dim=-2), grad_weight, grad_shift]


def views_at_once(config: RunConfig, views: Tensor) -> int:
    """Return how many of the views `(1, N, ...)` go through a layer at once; on CUDA all, unless set."""
    default = views.shape[1] if views.device.type == "cuda" else VIEWS_AT_ONCE
    return config.runtime.micro_batch_size or default


def slices(config: RunConfig, views: Tensor) -> tuple[Tensor, ...]:
    """Split the views into even parts of at most `views_at_once`; a single view would round differently."""
    count = math.ceil(views.shape[1] / views_at_once(config, views))
    return torch.tensor_split(views, count, dim=1) if count > 1 else (views,)


def embed(images: Tensor, weights: EmbeddingWeights, patch: int, precision: torch.dtype) -> Tensor:
    """Turn images `(1, B, C, H, W)` into tokens `(1, B, T, d)`."""
    patches = images.unfold(3, patch, patch).unfold(4, patch, patch)  # (1, B, C, H/p, W/p, p, p)
    flat = patches.permute(0, 1, 3, 4, 2, 5, 6).flatten(4).flatten(1, 3).to(precision)
    projected = _linear(flat, weights.weight, weights.bias)
    return projected.relu().view(*images.shape[:2], -1, projected.shape[-1]) + weights.position


def encode(
    tokens: Tensor, weights: BlockWeights, heads: int, precision: torch.dtype, *, return_tokens: bool
) -> tuple[Tensor, Tensor | None]:
    """Apply an encoder block to tokens `(1, B, T, d)` float32, with products in `precision`.

    Returns the mean over tokens of its output, `(1, B, d)`, and, if `return_tokens`, the output without a
    graph.
    """
    _, batch, length, dim = tokens.shape
    rows = 1, batch * length, dim
    normed = layer_norm(tokens, (dim,)).to(precision).view(rows)
    qkv = _linear(normed, weights.qkv, weights.qkv_bias)
    mixed = _Attention.apply(qkv.view(batch, length, 3, heads, dim // heads))  # type: ignore[no-untyped-call]
    attended = tokens + _linear(mixed.view(rows), weights.proj, weights.proj_bias).view(tokens.shape)
    normed = layer_norm(attended, (dim,)).to(precision).view(rows)
    active = gelu(_linear(normed, weights.up, weights.up_bias))
    means = active.view(1, batch, length, 2 * dim).mean(dim=2, dtype=torch.float32)
    pooled = attended.mean(dim=2) + _linear(means, weights.down, weights.down_bias)
    if not return_tokens:
        return pooled, None
    with torch.no_grad():
        return pooled, attended + _linear(active, weights.down, weights.down_bias).view(tokens.shape)


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Multiply `(1, M, i)` by `(1, i, o)` -> `(1, M, o)`."""
    return torch.baddbmm(bias.to(x.dtype), x, weight.to(x.dtype))


class _Attention(torch.autograd.Function):
    """`(B, T, 3, h, w)`, queries scaled -> `(B, T, h w)`, a few images at a time so that P stays in cache.

    With P the softmax of S = Q K^T and O = P V: dV = P^T dO, and dS = P * (dO V^T - D) where D is the row
    sum of dO * O.
    """

    @staticmethod
    def forward(ctx: Any, qkv: Tensor) -> Tensor:
        batch, length, _, heads, width = qkv.shape
        mixed = torch.empty(batch, length, heads * width, dtype=qkv.dtype, device=qkv.device)
        # On a CPU as many as keep P in cache; elsewhere all. A product has the same bits in any batch.
        ctx.images = max(1, _CACHED // (heads * length**2)) if qkv.device.type == "cpu" else batch
        ctx.heads = heads
        kept: list[Tensor] = []
        for part, out in zip(torch.split(qkv, ctx.images), torch.split(mixed, ctx.images), strict=True):
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
        for part, out in zip(
            torch.split(grad_mixed, ctx.images), torch.split(grad_qkv, ctx.images), strict=True
        ):
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


class FastTrainer(KernelTrainer):
    """A trainer that turns the parameters into views of stacks, `(L, 1, ...)`, and folds them at once."""

    features = FEATURES["fast"]

    def __init__(self, model: LayerwiseModel) -> None:
        super().__init__(model)
        self._embedding, self._blocks = stacked_parameters(model.vit)
        for parameter, data in self._views(self._embedding, self._blocks):
            parameter.data = data
        self._scale = query_scale(model.config.model, self._blocks[0])

    @staticmethod
    @torch.no_grad()
    def representations(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
        config, precision = model.config, model.precision
        embedding, blocks = stacked_parameters(model.vit)
        first = embedding_weights(embedding)
        layers = folded_weights(blocks, query_scale(config.model, images))
        by_slice = []
        for part in slices(config, images[None]):
            tokens, pooled = embed(part, first, config.model.patch_size, precision), list[Tensor]()
            for block in layers:
                return_tokens = len(pooled) + 1 < len(layers)
                mean, output = encode(
                    tokens, block, config.model.heads, precision, return_tokens=return_tokens
                )
                pooled.append(mean)
                tokens = tokens if output is None else output
            by_slice.append(pooled)
        return [torch.cat(layer, dim=1)[0] for layer in zip(*by_slice, strict=True)]

    def step(self, batch: Batch, number: int, sums: EpochSums, *, update: bool = True) -> None:
        tokens, specs = batch.images[None], [loss.spec for loss in self.model.losses]
        pairs = Pairs.of(batch.labels, specs[0], self._blocks[0].dtype)
        weights = folded_weights(self._blocks, self._scale)
        losses, gradients = [], []
        for layer, (block, spec) in enumerate(zip(weights, specs, strict=True)):
            embedding = embedding_weights(self._embedding) if layer == 0 else ()
            is_last = layer + 1 == len(weights)
            one = _Pass(self.model, [*embedding, *block], tokens, return_tokens=not is_last)
            losses.append(fast_loss(one.pooled(), pairs, spec))
            if not is_last:
                tokens = one.next_tokens()
            gradients.append(one.backward(losses[-1].gradient))
        self._set_gradients(gradients)
        self._record(number, sums, pairs, losses)
        if update:
            self._update()

    def _record(self, number: int, sums: EpochSums, pairs: Pairs, losses: Sequence[FastLoss]) -> None:
        loss = torch.stack([one.loss for one in losses])  # (L,), as are the next two
        rates = torch.stack([one.saturated for one in losses]) / pairs.pairs
        norms = self._norms()
        histograms = torch.stack([one.histogram for one in losses])
        sums.add_layer(slice(len(losses)), number, loss, norms, rates, histograms)
        sums.end_batch(pairs.pairs, len(pairs.labels))

    def _set_gradients(self, gradients: Sequence[Sequence[Tensor]]) -> None:
        """Set the parameters' gradients, given those of each layer's folded weights."""
        of_blocks = [BlockWeights(*of_layer[-len(BlockWeights._fields) :]) for of_layer in gradients]
        position, weight, bias = gradients[0][: -len(BlockWeights._fields)]
        embedding = [position, weight.mT.contiguous(), bias.squeeze(-2)]
        blocks = unfolded_gradients(self._blocks, of_blocks, self._scale)
        for parameter, gradient in self._views(embedding, blocks):
            parameter.grad = gradient

    def _views(
        self, embedding: Sequence[Tensor], blocks: Sequence[Tensor]
    ) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Pair the parameters with their parts: of the embedding `(1, ...)`, of blocks `(L, 1, ...)`."""
        for parameter, stacked in zip(self._parameters[0], embedding, strict=False):
            yield parameter, stacked[0]
        for place, stacked in enumerate(blocks, -len(blocks)):
            for layer, part in zip(self._parameters, stacked.squeeze(1).unbind(), strict=True):
                yield layer[place], part

    def _norms(self) -> Norms:
        """Return gradient norms (Eq. grad_norm), `(L,)`, on the device: of layers, of blocks alone."""
        each = torch.stack(torch._foreach_norm(self._optimizer.gradients()))
        by_layer = torch.split(each, [len(layer) for layer in self._parameters])
        norms = [torch.linalg.vector_norm(one) for one in by_layer]
        first = torch.linalg.vector_norm(by_layer[0][EMBEDDING_PARAMETERS:])
        return torch.stack(norms), torch.stack([first, *norms[1:]])


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)


def _gradients(output: Tensor, inputs: Sequence[Tensor], gradient: Tensor) -> tuple[Tensor, ...]:
    """Call the engine of `torch.autograd.grad`; that function itself would load sympy to compare shapes."""
    engine: Any = torch.autograd.Variable._execution_engine
    return engine.run_backward(  # type: ignore[no-any-return]
        (output,), (gradient,), False, False, tuple(inputs), allow_unreachable=False, accumulate_grad=False
    )


class _Pass:
    """The forward and backward pass of a batch through a layer, slice by slice."""

    def __init__(
        self, model: LayerwiseModel, weights: Sequence[Tensor], tokens: Tensor, *, return_tokens: bool
    ) -> None:
        self._config = config = model.config
        self._precision = model.precision
        self._leaves = [weight.requires_grad_() for weight in weights]
        self._slices = slices(config, tokens)
        with torch.set_grad_enabled(not config.runtime.activation_checkpointing):
            self._outputs = [self._forward(part, return_tokens=return_tokens) for part in self._slices]

    def _forward(self, part: Tensor, *, return_tokens: bool) -> tuple[Tensor, Tensor | None]:
        model = self._config.model
        block = BlockWeights(*self._leaves[-len(BlockWeights._fields) :])
        if len(self._leaves) > len(block):
            embedding = EmbeddingWeights(*self._leaves[: -len(block)])
            part = embed(part, embedding, model.patch_size, self._precision)
        return encode(part, block, model.heads, self._precision, return_tokens=return_tokens)

    def pooled(self) -> Tensor:
        """Return the features for the loss, `(1, N, d)`, without a graph."""
        return _joined([pooled.detach() for pooled, _ in self._outputs])

    def next_tokens(self) -> Tensor:
        """Return the next layer's input, `(1, N, T, d)`, without a graph."""
        return _joined([output for _, output in self._outputs if output is not None])

    def backward(self, gradient: Tensor) -> list[Tensor]:
        """Return the gradients of the weights, given that of the pooled features, `(1, N, d)`."""
        summed: list[Tensor] = []
        for part, grad_pooled in zip(self._slices, slices(self._config, gradient), strict=True):
            # Removed from the list, so that a slice's graph is freed after its backward pass.
            pooled, _ = self._outputs.pop(0)
            if self._config.runtime.activation_checkpointing:
                pooled, _ = self._forward(part, return_tokens=False)
            own = _gradients(pooled, self._leaves, grad_pooled)
            summed = [a.add_(b) for a, b in zip(summed, own, strict=True)] if summed else list(own)
        return summed
