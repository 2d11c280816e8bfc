"""Stage 1 by the native kernel; `trainers.py` is the definition.

`layer.cpp` and `loss.cpp` document each function. All tensors are float32 on the CPU and contiguous.
"""

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_float, c_int, c_ssize_t, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import torch
from torch import Tensor

from seedspread.cff.config import ModelConfig, RunConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.implementations import FEATURES, NATIVE_MARGINS
from seedspread.cff.loss import HISTOGRAM_BINS, LabelGroups, PairStatistics
from seedspread.cff.margins import LossSpec
from seedspread.cff.model import EMBEDDING_PARAMETERS
from seedspread.cff.presets import ConfigError
from seedspread.cff.training.layerwise import EpochSums, KernelTrainer, LayerwiseModel
from seedspread.cff.training.native import NativeError, build, require_bf16


class _Shape(Structure):
    _fields_ = [
        (name, c_ssize_t) for name in "images tokens dim heads channels across patch embeds bf16".split()
    ]


class _Spec(Structure):
    _fields_ = [
        *((name, c_ssize_t) for name in "n dim kind direct summed".split()),
        *((name, c_float) for name in "margin sharpness temperature".split()),
    ]


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build().path))
    library.seedspread_saved.restype = c_ssize_t
    return library


def _call(name: str, *arguments: Any) -> None:
    if getattr(_library(), name)(*arguments):
        raise MemoryError("the native kernel ran out of memory")


def _pointer(tensor: Tensor | None) -> c_void_p:
    return c_void_p(None if tensor is None else tensor.data_ptr())


def _pointers(tensors: Sequence[Tensor]) -> Any:
    return (c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float32).contiguous()


def _empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Allocate a tensor on the CPU, whatever torch's defaults are in the calling program."""
    return torch.empty(shape, dtype=dtype, device="cpu")


@dataclass(frozen=True)
class Layer:
    """A layer's parameters, in the order of the module's own, and settings of its computation."""

    parameters: Sequence[Tensor]  # float32, contiguous; the first layer's begin with the embedding's three
    model: ModelConfig  # their shapes
    embeds: bool  # whether it is the first layer, whose input is images
    threads: int  # number of the kernel's threads, on which the bits do not depend
    bf16: bool = False  # whether products are in bf16, summed in float32

    def __post_init__(self) -> None:
        for tensor in self.parameters:
            if tensor.dtype != torch.float32 or tensor.device.type != "cpu" or not tensor.is_contiguous():
                raise TypeError(
                    f"the native kernel takes contiguous float32 parameters on the CPU, not {tensor.dtype} "
                    f"on {tensor.device}"
                )

    def forward(self, x: Tensor, *, output: bool, save: bool) -> "Passed":
        """Pass images `(B, C, H, W)` or tokens `(B, T, d)`; `save` what `backward` would recompute."""
        x = _contiguous(x)
        count, tokens, dim = len(x), self.model.tokens, self.model.dim
        shape = self._shape(count)
        passed = Passed(
            input=x,
            pooled=_empty(count, dim),
            output=_empty(count, tokens, dim) if output else None,
            saved=_empty(count, _library().seedspread_saved(ctypes.byref(shape))) if save else None,
        )
        _call(
            "seedspread_forward",
            ctypes.byref(shape), _pointers(self.parameters), _pointer(x), _pointer(passed.pooled),
            _pointer(passed.output), _pointer(passed.saved), c_int(self.threads),
        )  # fmt: skip
        return passed

    def backward(self, passed: "Passed", grad_pooled: Tensor, gradients: Sequence[Tensor]) -> None:
        """Overwrite the parameters' gradients, given that of the pooled features, `(B, d)`."""
        grad_pooled = _contiguous(grad_pooled)
        _call(
            "seedspread_backward",
            ctypes.byref(self._shape(len(passed.input))), _pointers(self.parameters), _pointer(passed.input),
            _pointer(passed.saved), _pointer(grad_pooled), _pointers(gradients), c_int(self.threads),
        )  # fmt: skip

    def _shape(self, images: int) -> _Shape:
        m = self.model
        return _Shape(
            images,
            m.tokens,
            m.dim,
            m.heads,
            m.channels,
            m.image_shape[2],
            m.patch_size,
            self.embeds,
            self.bf16,
        )


@dataclass(frozen=True)
class Passed:
    input: Tensor  # the layer's input
    pooled: Tensor  # `(B, d)`, the mean over tokens of the layer's output
    output: Tensor | None  # `(B, T, d)`, or None if it was not wanted
    saved: Tensor | None  # for the backward pass, or None


@dataclass(frozen=True)
class NativeLoss:
    loss: Tensor  # a scalar; NaN if no anchor has a positive
    gradient: Tensor | None  # `(N, d)` with respect to the features, or None if it was not wanted
    saturated: Tensor  # a scalar int64, ordered positive pairs with s + m > 1
    histogram: Tensor  # `(2000,)` int64, positive pairs by similarity, as in `PairStatistics`

    @classmethod
    def of(
        cls, features: Tensor, labels: Tensor, spec: LossSpec, threads: int, *, gradient: bool = True
    ) -> Self:
        features, labels = _contiguous(features), labels.to("cpu", torch.int64).contiguous()
        n, dim = features.shape
        if labels.shape != (n,):  # the kernel would read beyond them
            raise ValueError(f"labels must have shape ({n},), one per row; got {tuple(labels.shape)}")
        if spec.margin_type not in NATIVE_MARGINS:
            raise NativeError(f"the native kernel cannot compute margin_type = {spec.margin_type!r}")
        kind = NATIVE_MARGINS.index(spec.margin_type)
        direct, summed = spec.stability == "direct", spec.reduction == "sum"
        own = _Spec(n, dim, kind, direct, summed, spec.margin, spec.margin_sharpness, spec.temperature)
        result = cls(
            loss=_empty(),
            gradient=_empty(n, dim) if gradient else None,
            saturated=_empty(dtype=torch.int64),
            histogram=_empty(HISTOGRAM_BINS, dtype=torch.int64),
        )
        _call(
            "seedspread_loss",
            ctypes.byref(own), _pointer(features), _pointer(labels), _pointer(result.loss),
            _pointer(result.gradient), _pointer(result.saturated), _pointer(result.histogram), c_int(threads),
        )  # fmt: skip
        return result


class NativeTrainer(KernelTrainer):
    features = FEATURES["native"]

    def __init__(self, model: LayerwiseModel) -> None:
        super().__init__(model)
        self._layers = layers_of(model)

    @classmethod
    def prepare(cls, config: RunConfig) -> None:
        """Build the kernel; raise if it cannot train the run."""
        if why := cls.features.why_not(config):
            raise ConfigError(why)
        build()
        if config.runtime.precision == "bf16":
            require_bf16()

    @classmethod
    def facts(cls) -> dict[str, Any]:
        return {"native": build().facts()}

    def step(self, batch: Batch, number: int, sums: EpochSums, *, update: bool = True) -> None:
        x, saves = batch.images, not self.model.config.runtime.activation_checkpointing
        of_class = torch.bincount(batch.labels)
        pairs = (of_class * (of_class - 1)).sum()  # ordered pairs of different rows of one class
        for number_of, layer in enumerate(self._layers):
            last = number_of + 1 == len(self._layers)
            passed = layer.forward(x, output=not last, save=saves)
            spec = self.model.losses[number_of].spec
            loss = NativeLoss.of(passed.pooled, batch.labels, spec, layer.threads)
            gradients = [torch.empty_like(p) for p in self._parameters[number_of]]
            if loss.gradient is not None:
                layer.backward(passed, loss.gradient, gradients)
            for parameter, gradient in zip(self._parameters[number_of], gradients, strict=True):
                parameter.grad = gradient
            norms = torch.stack(torch._foreach_norm(gradients))
            norm = torch.linalg.vector_norm(norms)
            block_norm = norm if number_of else torch.linalg.vector_norm(norms[EMBEDDING_PARAMETERS:])
            both, rate = (norm, block_norm), loss.saturated / pairs
            sums.add_layer(number_of, number, loss.loss, both, rate, loss.histogram)
            x = x if passed.output is None else passed.output
        if update:
            self._update()
        sums.end_batch(pairs, len(batch.labels))

    @staticmethod
    def representations(model: LayerwiseModel, images: Tensor) -> list[Tensor]:
        x, pooled = images, []
        layers = layers_of(model)
        for number, layer in enumerate(layers, start=1):
            passed = layer.forward(x, output=number < len(layers), save=False)
            pooled.append(passed.pooled)
            x = x if passed.output is None else passed.output
        return pooled

    @staticmethod
    def pair_statistics(
        features: Tensor, labels: Tensor, margin: float, model: LayerwiseModel
    ) -> PairStatistics:
        seen = NativeLoss.of(features, labels, LossSpec(margin=margin), model.threads, gradient=False)
        groups = LabelGroups.of(labels)
        return PairStatistics(
            margin=margin,
            anchors=len(labels),
            positive_pairs=groups.pairs,
            anchors_without_positive=groups.n_without_positive,
            saturated_pairs=seen.saturated,
            histogram=seen.histogram,
        )


def layers_of(model: LayerwiseModel) -> list[Layer]:
    """Wrap the layers for the kernel; the parameters share memory with the model's."""
    return [
        Layer(
            [p.data for p in layer.parameters()],
            model.config.model,
            embeds=number == 0,
            threads=model.threads,
            bf16=model.precision == torch.bfloat16,
        )
        for number, layer in enumerate(model.vit.layers)
    ]
