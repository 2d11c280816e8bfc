"""The Vision Transformer, as a list of layers that are trained apart."""

import torch
from torch import Tensor, nn

from seedspread.cff.config import ModelConfig

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


class ViT(nn.Module):
    """The paper's Vision Transformer. `layers[l]` is what layer l trains, and nothing else.

    Layer 0 is the patch embedding and an encoder block, each further layer an encoder block. There is
    no class token: an image's representation at a layer is the mean of its tokens.

    Args:
        image_size: pixels along a side, or height and width.
        patch_size: pixels along a patch's side; divides `image_size`.
        channels: colour channels.
        dim: width d of a token.
        depth: number of layers L.
        heads: attention heads; divides `dim`.
        num_classes: outputs of `head`, the linear probe (LayerNorm and a linear map).
    """

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
        super().__init__()
        height, width = image_size if isinstance(image_size, tuple) else (image_size, image_size)
        for name, value in list(locals().items()):
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}")
        if height % patch_size or width % patch_size:
            raise ValueError(f"patch_size {patch_size} does not divide image_size {image_size}")
        if dim % heads:
            raise ValueError(f"heads {heads} does not divide dim {dim}")
        self.image_shape = (channels, height, width)
        tokens = (height // patch_size) * (width // patch_size)
        embedding = PatchEmbedding(tokens, patch_size, channels, dim)
        first = nn.Sequential(embedding, EncoderBlock(dim, heads))
        rest = (EncoderBlock(dim, heads) for _ in range(depth - 1))
        self.layers = nn.ModuleList([first, *rest])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_classes))

    @classmethod
    def from_config(cls, config: ModelConfig, num_classes: int = 10) -> "ViT":
        """Build the model that a config describes."""
        return cls(**config.model_dump(), num_classes=num_classes)

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
        x, pooled = images, []
        for layer in self.layers:
            x = layer(x.detach() if stop_gradient else x)
            pooled.append(x.mean(dim=1))
        return pooled

    def forward(self, images: Tensor) -> Tensor:
        """Return class logits `(B, num_classes)` of the head on the last layer, end to end."""
        return self.head(self.features(images, stop_gradient=False)[-1])  # type: ignore[no-any-return]
