"""Models as lists of layers that are trained apart: `LayerLocal`, and `ViT`, the paper's."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from seedspread.cff.config import ModelConfig
from seedspread.cff.losses import LocalLoss

_PAPER = ModelConfig()
# Parameters of the patch embedding, which come first in layer 0; the encoder block's follow.
EMBEDDING_PARAMETERS = 3


class Attention(nn.Module):
    """Multi-head self-attention, `(B, T, d)` -> `(B, T, d)`.

    The same function as `nn.MultiheadAttention` with the same initial distributions. It is written out
    because at 64 tokens two plain batched products are faster on a CPU than the fused kernel.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)  # queries, keys and values, stacked
        self.proj = nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.proj.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        batch, length, dim = tokens.shape
        width = dim // self.heads
        q, k, v = self.qkv(tokens).view(batch, length, 3, self.heads, width).permute(2, 0, 3, 1, 4)
        weights = (q * width**-0.5) @ k.transpose(-2, -1)
        mixed: Tensor = weights.softmax(dim=-1) @ v
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, dim))  # type: ignore[no-any-return]


class EncoderBlock(nn.Module):
    """A pre-norm encoder block without dropout, `(B, T, d)` -> `(B, T, d)`."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(dim), Attention(dim, heads))
        self.mlp = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(tokens)
        return tokens + self.mlp(tokens)  # type: ignore[no-any-return]


class PatchEmbedding(nn.Module):
    """Images `(B, C, H, W)` -> tokens `(B, T, d)`: patches, projection, ReLU, learned position."""

    def __init__(self, tokens: int, patch_size: int, channels: int, dim: int) -> None:
        super().__init__()
        self.patch_size = patch_size
        self.project = nn.Linear(channels * patch_size**2, dim)
        self.position = nn.Parameter(torch.randn(1, tokens, dim))

    def forward(self, images: Tensor) -> Tensor:
        p = self.patch_size
        patches = images.unfold(2, p, p).unfold(3, p, p)  # (B, C, H/p, W/p, p, p)
        flat = patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)  # (B, T, C p p)
        return torch.relu(self.project(flat)) + self.position


def mean_pool(output: Tensor) -> Tensor:
    """Return a layer's output as `(N, d)`: its mean over pixels, or over tokens, or as it is."""
    if output.ndim == 4:
        return output.mean(dim=(2, 3))
    return output.mean(dim=1) if output.ndim == 3 else output


class LayerLocal(nn.Module):
    """Layers that are trained apart, each on a loss of its own, and a head, the linear probe on the last.

    Args:
        blocks: the layers in their order; the first one sees images `(N, C, H, W)`. A `pool` method of theirs
            is the default of `pool`.
        pool: turns a layer's output into `(N, d)`; `mean_pool` by default.
        image_shape: `(C, H, W)`. With it, widths are found and the head is made now; else by `build`.
        num_classes: outputs of `head` (LayerNorm and a linear map).

    Attributes:
        layers: `layers[l]` is what layer l trains, with the parameters of its loss.
        losses: a `LocalLoss` per layer; empty until they are known.
        widths: d of each layer.
    """

    embedding_parameters = 0  # how many of layer 0's come before its block, whose gradient has a norm apart

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        *,
        pool: Callable[[Tensor], Tensor] | None = None,
        image_shape: tuple[int, int, int] | None = None,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        self.layers = blocks if isinstance(blocks, nn.ModuleList) else nn.ModuleList(blocks)
        self.pool: Callable[[Tensor], Tensor] = pool or getattr(blocks, "pool", None) or mean_pool
        if image_shape is not None:
            self.build(image_shape, num_classes)

    def build(
        self, image_shape: tuple[int, int, int], num_classes: int, widths: Sequence[int] | None = None
    ) -> None:
        """Make the head for images of a shape; widths that are not given are found by one forward pass."""
        self.image_shape = image_shape
        self.widths = list(widths or self._dry_run())
        self.head = nn.Sequential(nn.LayerNorm(self.widths[-1]), nn.Linear(self.widths[-1], num_classes))
        self.losses = nn.ModuleList()

    @torch.no_grad()
    def _dry_run(self) -> list[int]:
        self.eval()
        return [pooled.shape[1] for pooled in self.encode(torch.zeros(1, *self.image_shape))]

    def features(self, images: Tensor, *, stop_gradient: bool = True) -> list[Tensor]:
        """The representation of every layer, each `(B, d)`, not normalised.

        Args:
            images: `(B, C, H, W)`.
            stop_gradient: cut the graph between layers, so that a loss on the features of layer l
                reaches the parameters of layer l only (Forward-Forward locality).
        """
        if images.ndim != 4 or images.shape[1:] != self.image_shape:
            raise ValueError(
                f"images must have shape (B, {', '.join(map(str, self.image_shape))}); "
                f"got {tuple(images.shape)}"
            )
        prepared = self._loss(0).prepare_test(images) if len(self.losses) else images
        return self.encode(prepared, stop_gradient=stop_gradient)

    def encode(self, inputs: Tensor, *, stop_gradient: bool = True) -> list[Tensor]:
        """Return the representations as `features` does, of what a loss has prepared."""
        x, pooled = inputs, []
        for number, layer in enumerate(self.layers):
            x = layer(x.detach() if stop_gradient else x)
            pooled.append(self.pool(x))
            if len(self.losses):
                x = self._loss(number).hand_on(x)
        return pooled

    def _loss(self, layer: int) -> LocalLoss:
        return cast(LocalLoss, self.losses[layer])

    def forward(self, images: Tensor) -> Tensor:
        """Return class logits `(B, num_classes)` of the head on the last layer, end to end."""
        return self.head(self.features(images, stop_gradient=False)[-1])  # type: ignore[no-any-return]


class ViT(LayerLocal):
    """The paper's Vision Transformer. `layers[l]` is what layer l trains, and nothing else.

    Layer 0 is the patch embedding and an encoder block, each further layer an encoder block. There is
    no class token: an image's representation at a layer is the mean of its tokens.

    Args:
        image_size: pixels along a side, or height and width.
        patch_size: pixels along a patch's side; divides `image_size`.
        channels: color channels.
        dim: width d of a token.
        depth: number of layers L.
        heads: attention heads; divides `dim`.
        num_classes: outputs of `head`, the linear probe (LayerNorm and a linear map).

    Example:
        >>> ViT(dim=32, depth=2, heads=2)(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """

    embedding_parameters = EMBEDDING_PARAMETERS

    def __init__(
        self,
        image_size: int | tuple[int, int] = _PAPER.image_size,
        patch_size: int = _PAPER.patch_size,
        channels: int = _PAPER.channels,
        dim: int = _PAPER.dim,
        depth: int = _PAPER.depth,
        heads: int = _PAPER.heads,
        num_classes: int = 10,
    ) -> None:
        height, width = image_size if isinstance(image_size, tuple) else (image_size, image_size)
        for name, value in list(locals().items()):
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}")
        if height % patch_size or width % patch_size:
            raise ValueError(f"patch_size {patch_size} does not divide image_size {image_size}")
        if dim % heads:
            raise ValueError(f"heads {heads} does not divide dim {dim}")
        tokens = (height // patch_size) * (width // patch_size)
        embedding = PatchEmbedding(tokens, patch_size, channels, dim)
        first = nn.Sequential(embedding, EncoderBlock(dim, heads))
        rest = (EncoderBlock(dim, heads) for _ in range(depth - 1))
        super().__init__([first, *rest])
        self.build((channels, height, width), num_classes, [dim] * depth)

    @classmethod
    def from_config(cls, config: ModelConfig, num_classes: int = 10) -> "ViT":
        """Build the model that a config describes."""
        return cls(**config.model_dump(), num_classes=num_classes)
