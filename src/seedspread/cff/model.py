"""Models as lists of layers that are trained separately: `LayerLocal`, and `ViT`, the paper's."""

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from seedspread.cff.config import GIVEN, ModelConfig, RunConfig
from seedspread.cff.data.own import ArrayDataset
from seedspread.cff.datasets import dataset_info, is_dotted
from seedspread.cff.losses import LayerError, LocalLoss
from seedspread.cff.presets import check
from seedspread.cff.user_code import build_named, digest_of, load_named
from seedspread.errors import described, short
from seedspread.runs.run import key_of

if TYPE_CHECKING:
    from seedspread.cff.training.result import RunResult

_PAPER = ModelConfig()
# Parameters of the patch embedding, which come first in layer 0; the encoder block's follow.
EMBEDDING_PARAMETERS = 3


class Attention(nn.Module):
    """Multi-head self-attention, `(B, T, d)` -> `(B, T, d)`.

    This is `nn.MultiheadAttention`, with the same initial distributions, written out because at 64 tokens two
    plain batched products are faster on a CPU than the fused kernel.
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


Settings = Mapping[str, Any]
# Settings that each layer's optimizer may override.
_OPTIMIZER = ("optimizer", "learning_rate", "betas", "weight_decay", "momentum", "max_gradient_norm")


class LayerLocal(nn.Module):
    """Layers that are trained separately, each on a loss of its own, with a linear probe on the last as head.

    Args:
        blocks: the layers in order; the first one takes images `(N, C, H, W)`. If the list has a method
            `pool`, it is the default of `pool`.
        pool: turns a layer's output into `(N, d)`; `mean_pool` by default.
        losses: a `LocalLoss` per layer, or a single one, copied for each; by default the config's.
        optimizers: fields of the config's `training`, such as `{"learning_rate": 1e-3}`, for all layers, or a
            list with such a dict per layer.
        image_shape: `(C, H, W)`, to find widths and make the head now; otherwise `build` or `fit` does it.
        num_classes: outputs of `head` (LayerNorm and a linear map).

    Attributes:
        layers: the modules; layer l trains the parameters of `layers[l]` and of its loss.
        losses: a `LocalLoss` per layer; empty until a run starts.
        widths: d of each layer.

    Example:
        >>> net = LayerLocal([nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU()), nn.Linear(32, 16)])
        >>> net.build((1, 8, 8), num_classes=10)
        >>> net.widths
        [32, 16]
    """

    embedding_parameters = 0  # layer 0's before its encoder block, whose gradient norm is recorded separately

    def __init__(
        self,
        blocks: Sequence[nn.Module] | nn.ModuleList,
        *,
        pool: Callable[[Tensor], Tensor] | None = None,
        losses: LocalLoss | Sequence[LocalLoss] | None = None,
        optimizers: Settings | Sequence[Settings] | None = None,
        image_shape: tuple[int, int, int] | None = None,
        num_classes: int = 10,
    ) -> None:
        super().__init__()
        if not isinstance(blocks, nn.ModuleList):
            if not isinstance(blocks, Iterable) or not all(isinstance(one, nn.Module) for one in blocks):
                raise LayerError(f"blocks must be an nn.ModuleList or a list of modules; got {short(blocks)}")
            blocks = nn.ModuleList(blocks)
        self.layers = blocks
        if not len(self.layers):
            raise LayerError("there are no layers; give one at least")
        self.pool: Callable[[Tensor], Tensor] = pool or getattr(blocks, "pool", None) or mean_pool
        self.given_losses = self._per_layer("losses", losses, LocalLoss, "a LocalLoss, such as SupConLoss()")
        settings = "a dict of settings, such as {'learning_rate': 1e-3}"
        self.optimizers = self._per_layer("optimizers", optimizers, Mapping, settings)
        self.optimizers = self.optimizers or [{} for _ in self.layers]
        for own in self.optimizers:
            if unknown := set(own) - {*_OPTIMIZER}:
                raise LayerError(f"optimizers: {min(unknown)} is none of {', '.join(_OPTIMIZER)}")
            check({"training": dict(own)})
        if self.given_losses and len({(type(one).prepare, one.views) for one in self.given_losses}) > 1:
            raise LayerError("losses: all layers see one batch, so their losses must prepare it alike")
        if image_shape is not None:
            self.build(image_shape, num_classes)

    def _per_layer(self, name: str, given: Any, kind: type, what: str) -> list[Any]:
        """Return a value for each layer: copies of a single one, or the items of a list."""
        if given is None:
            return []
        is_list = isinstance(given, Sequence) and not isinstance(given, str)
        for one in given if is_list else [given]:
            if not isinstance(one, kind):
                raise LayerError(f"{name}: give {what}, or a list with one per layer; got {short(one)}")
        if not is_list:
            return [copy.deepcopy(given) for _ in self.layers]
        if len(given) != len(self.layers):
            raise LayerError(f"{name}: there are {len(given)} for {len(self.layers)} layers")
        return list(given)

    def build(
        self, image_shape: tuple[int, int, int], num_classes: int, widths: Sequence[int] | None = None
    ) -> None:
        """Make the head for images of a shape; without `widths`, one forward pass measures them."""
        self.image_shape = image_shape
        self.widths = list(widths or self._dry_run())
        self.head = nn.Sequential(nn.LayerNorm(self.widths[-1]), nn.Linear(self.widths[-1], num_classes))
        self.losses = nn.ModuleList()

    @torch.no_grad()
    def _dry_run(self) -> list[int]:
        """Return the layers' widths; `LayerError` if a layer cannot be trained."""
        self.eval()
        x, widths = torch.zeros(2, *self.image_shape), []
        for number, layer in enumerate(self.layers):
            seen = tuple(x.shape)
            try:
                x = layer(x)
                if not isinstance(x, Tensor):
                    raise TypeError(f"it gives {type(x).__name__}, not one tensor")
                pooled = self.pool(x)
            except Exception as error:
                raise LayerError(f"layer {number} cannot take {seen}: {described(error)}") from error
            if not pooled.is_floating_point():
                raise LayerError(f"layer {number} gives {pooled.dtype}; a loss needs floating point")
            if pooled.ndim != 2 or len(pooled) != 2:
                raise LayerError(
                    f"layer {number} gives {tuple(x.shape)}, pooled {tuple(pooled.shape)}, for two images; a "
                    "pool must give (N, d): LayerLocal(pool=...), or a method pool of the layers"
                )
            widths.append(pooled.shape[1])
        return widths

    def fit(
        self,
        data: ArrayDataset | str,
        *,
        epochs: int,
        seed: int = 0,
        out: Path | str | None = None,
        resume: bool = False,
        config: RunConfig | None = None,
        data_dir: Path | str | None = None,
    ) -> "RunResult":
        """Train the layers as a run, from their current weights, then the head; return the run's result.

        The run is identified by the layers' code and weights, the losses and the optimizers, so create the
        layers after `torch.manual_seed`: only then can it be resumed.

        Args:
            data: the images, or the name of a dataset.
            epochs: epochs of the layers' training.
            seed: seed of everything except the layers' weights.
            out: the run's folder; the default is `runs/` and its key.
            resume: continue from a checkpoint, if there is one.
            config: everything else, such as batch size, augmentation and probe.
            data_dir: the data folder.
        """
        # Modules above this one are imported by name.
        train = import_module("seedspread.cff.training.run").train
        load_run = import_module("seedspread.cff.loaded_run").load_run
        checked = self._config(data, epochs, seed, config or RunConfig())
        images = None if isinstance(data, str) else data
        result: RunResult = train(checked, out, resume=resume, data_dir=data_dir, data=images, model=self)
        if checked.runtime.keep_model:
            load_run(out or Path("runs") / result.key, model=self)
        return result

    def _config(self, data: ArrayDataset | str, epochs: int, seed: int, config: RunConfig) -> RunConfig:
        values = config.model_dump(mode="json")
        if "implementation" not in config.runtime.model_fields_set:
            del values["runtime"]["implementation"]  # a default of the paper's model
        if isinstance(data, str):
            info = dataset_info(data)
            values["data"]["name"] = data
        elif isinstance(data, ArrayDataset):
            info = data.info("arrays")
        else:
            raise LayerError(f"data must be an ArrayDataset or a dataset's name; got {type(data).__name__}")
        size = [info.image_size, info.width or info.image_size]
        shape = {"image_size": size, "channels": info.channels, "depth": len(self.layers)}
        values["model"] |= {"architecture": GIVEN} | shape
        values["objective"] |= {"loss": GIVEN} if self.given_losses else {}
        values["training"] |= {"epochs": epochs}
        values["seeds"] |= {"run": seed}
        return check(values)

    def digest(self) -> str:
        """Identify layers, losses and optimizers as they were passed."""
        self.train()
        parts = [self.layers, *self.given_losses, *([] if self.pool is mean_pool else [self.pool])]
        return key_of({"parts": [digest_of(part) for part in parts], "optimizers": self.optimizers})

    def features(self, images: Tensor, *, stop_gradient: bool = True) -> list[Tensor]:
        """Return the representation of every layer, each `(B, d)`, not normalized.

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
        """Return the representations, as `features` does, of inputs that a loss has prepared."""
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


def mlp(image_shape: tuple[int, int, int], dim: int, depth: int) -> nn.ModuleList:
    """Return `depth` linear layers with ReLU, each of width `dim`."""
    channels, height, width = image_shape
    first = nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, dim), nn.ReLU())
    rest = (nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(depth - 1))
    return nn.ModuleList([first, *rest])


def convnet(image_shape: tuple[int, int, int], dim: int, depth: int) -> nn.ModuleList:
    """Return 3 x 3 convolutions with ReLU, of `dim` channels; each halves images of 8 or more pixels."""
    blocks, channels, side = nn.ModuleList(), image_shape[0], min(image_shape[1:])
    for _ in range(depth):
        convolution = nn.Conv2d(channels, dim, 3, padding=1)
        halved = [nn.MaxPool2d(2)] if side >= 8 else []
        blocks.append(nn.Sequential(convolution, nn.ReLU(), *halved))
        channels, side = dim, side // 2 if halved else side
    return blocks


_SHIPPED: dict[str, Callable[..., nn.ModuleList]] = {"mlp": mlp, "convnet": convnet}
# Fields of a model's config that its function may accept, besides `image_shape`.
_OPTIONS = ("patch_size", "dim", "depth", "heads")


def _accepted(maker: Callable[..., Any]) -> set[str]:
    return {*inspect.signature(maker).parameters} & {*_OPTIONS}


def build_model(config: ModelConfig, classes: int) -> LayerLocal:
    """Build the model that a config describes, with weights drawn at random."""
    name = config.architecture
    if name == "vit":
        return ViT.from_config(config, classes)
    if name == GIVEN:
        raise LayerError("model = 'given' stands for layers that are given from Python: LayerLocal(...).fit")
    shipped = _SHIPPED.get(name)
    maker = shipped or load_named(name)
    options = {option: getattr(config, option) for option in _accepted(maker)} if callable(maker) else {}
    options["image_shape"] = config.image_shape
    blocks = (
        shipped(**options)
        if shipped
        else build_named(name, nn.ModuleList, "an nn.ModuleList of layers", **options)
    )
    return LayerLocal(blocks, image_shape=config.image_shape, num_classes=classes)


def resolved(config: RunConfig) -> RunConfig:
    """Return the config with the number of layers of user code's model, which is built here to count them."""
    name = config.model.architecture
    if not is_dotted(name):
        return config
    depth = len(build_model(config.model, 2).layers)
    if "depth" in _accepted(load_named(name)) and depth != config.model.depth:
        raise LayerError(
            f"{name} takes depth = {config.model.depth} and gives {depth} layers; it must be the same"
        )
    return config.model_copy(update={"model": config.model.model_copy(update={"depth": depth})})


class ViT(LayerLocal):
    """The paper's Vision Transformer. `layers[l]` has the parameters that layer l trains, and no others.

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
        return cls(**config.model_dump(exclude={"architecture"}), num_classes=num_classes)
