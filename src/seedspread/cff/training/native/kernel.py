"""The compiled kernel's functions on tensors: a layer there and back, and its loss.

What each computes is said in `layer.cpp` and `loss.cpp`. All tensors are float32 on the CPU and contiguous.
"""

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_float, c_int, c_ssize_t, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import torch
from torch import Tensor

from seedspread.cff.config import ModelConfig
from seedspread.cff.implementations import NATIVE_MARGINS
from seedspread.cff.objective.pairs import HISTOGRAM_BINS
from seedspread.cff.objective.spec import LossSpec
from seedspread.cff.training.native.build import NativeError, build


class _Shape(Structure):
    _fields_ = [(name, c_ssize_t) for name in "images tokens dim heads channels side patch embeds".split()]


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
    """Whatever torch's defaults are in the program around."""
    return torch.empty(shape, dtype=dtype, device="cpu")


@dataclass(frozen=True)
class Layer:
    """A layer's parameters, in the order of the module's own, and how it is computed.

    Attributes:
        parameters: float32, contiguous; the first layer's begin with the embedding's three.
        model: their shapes.
        embeds: whether it is the first layer, into which images come.
        threads: of the kernel; the bits do not depend on them.
    """

    parameters: Sequence[Tensor]
    model: ModelConfig
    embeds: bool
    threads: int

    def __post_init__(self) -> None:
        """The kernel sees addresses only."""
        for tensor in self.parameters:
            if tensor.dtype != torch.float32 or tensor.device.type != "cpu" or not tensor.is_contiguous():
                raise TypeError(
                    f"the native kernel takes contiguous float32 parameters on the CPU, not {tensor.dtype} "
                    f"on {tensor.device}"
                )

    def forward(self, x: Tensor, *, output: bool, save: bool) -> "Passed":
        """Images `(B, C, H, W)` or tokens `(B, T, d)` through the layer.

        Args:
            x: what comes in.
            output: whether the tokens that come out are wanted.
            save: whether to keep what `backward` would work out again.
        """
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
        """Overwrites the parameters' gradients, from that by the pooled features, `(B, d)`."""
        grad_pooled = _contiguous(grad_pooled)
        _call(
            "seedspread_backward",
            ctypes.byref(self._shape(len(passed.input))), _pointers(self.parameters), _pointer(passed.input),
            _pointer(passed.saved), _pointer(grad_pooled), _pointers(gradients), c_int(self.threads),
        )  # fmt: skip

    def _shape(self, images: int) -> _Shape:
        m = self.model
        return _Shape(
            images, m.tokens, m.dim, m.heads, m.channels, m.image_size, m.patch_size, int(self.embeds)
        )


@dataclass(frozen=True)
class Passed:
    """What went through a layer.

    Attributes:
        input: what came in.
        pooled: `(B, d)`, the mean over tokens of what came out.
        output: `(B, T, d)`, or None if it was not wanted.
        saved: for the way back, or None.
    """

    input: Tensor
    pooled: Tensor
    output: Tensor | None
    saved: Tensor | None


@dataclass(frozen=True)
class NativeLoss:
    """What a layer's loss came to.

    Attributes:
        loss: a scalar; not a number where no anchor has a positive.
        gradient: `(N, d)` by the features, or None if it was not wanted.
        saturated: a scalar int64, ordered positive pairs with s + m > 1.
        histogram: `(2000,)` int64, positive pairs by similarity, as in `PairStatistics`.
    """

    loss: Tensor
    gradient: Tensor | None
    saturated: Tensor
    histogram: Tensor

    @classmethod
    def of(
        cls, features: Tensor, labels: Tensor, spec: LossSpec, threads: int, *, gradient: bool = True
    ) -> Self:
        """Of `(N, d)` features."""
        features, labels = _contiguous(features), labels.to("cpu", torch.int64).contiguous()
        n, dim = features.shape
        if spec.margin_type not in NATIVE_MARGINS:
            raise NativeError(f"the native kernel cannot compute margin_type = {spec.margin_type!r}")
        kind = NATIVE_MARGINS.index(spec.margin_type)
        direct, summed = spec.stability == "direct", spec.reduction == "sum"
        own = _Spec(n, dim, kind, direct, summed, spec.margin, spec.margin_sharpness, spec.temperature)
        found = cls(
            loss=_empty(),
            gradient=_empty(n, dim) if gradient else None,
            saturated=_empty(dtype=torch.int64),
            histogram=_empty(HISTOGRAM_BINS, dtype=torch.int64),
        )
        _call(
            "seedspread_loss",
            ctypes.byref(own), _pointer(features), _pointer(labels), _pointer(found.loss),
            _pointer(found.gradient), _pointer(found.saturated), _pointer(found.histogram), c_int(threads),
        )  # fmt: skip
        return found
