"""Count the operations that torch dispatches: each costs at least the time of a launch on a GPU.

Counting needs no GPU, and no values on the device `meta`. There, waiting for a value is an error, and
`elsewhere` lists copies between a device and the host. Making a tensor from Python numbers is such a copy
too, but dispatches nothing: these calls are found by name.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from seedspread.cff.config import RunConfig
from seedspread.cff.data.loader import Batch
from seedspread.cff.model import ViT
from seedspread.cff.training.layerwise import EpochSums, LayerwiseModel
from seedspread.cff.training.trainers import trainer_of

# Operations that return new tensors and compute nothing.
_ALLOCATE = ("aten::empty", "aten::new_empty", "aten::_unsafe_view", "aten::lift_fresh")
# Functions that make a tensor from values of the host.
_FROM_HOST = (torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor)


class _FromHost(TorchFunctionMode):
    """Lists the calls that send values of the host to a device."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self._seen = seen

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in _FROM_HOST and out.device.type != "cpu":
            self._seen.append(func.__name__)
        return out


class OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations inside its context, forward and backward.

    Attributes:
        operations: number of dispatches by operation, including views.
        kernels: number of dispatches that compute or copy something.
        elsewhere: operations with a tensor on another device, and calls that send values to one.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = torch.device(device).type
        self.operations: Counter[str] = Counter()
        self.kernels = 0
        self.elsewhere: list[str] = []
        self._from_host = _FromHost(self.elsewhere)

    def __enter__(self) -> Self:
        self._from_host.__enter__()  # type: ignore[no-untyped-call]
        return super().__enter__()  # type: ignore[no-any-return, no-untyped-call]

    def __exit__(self, *why: Any) -> None:
        super().__exit__(*why)  # type: ignore[no-untyped-call]
        self._from_host.__exit__(*why)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Count an operation and run it."""
        out = func(*args, **(kwargs or {}))
        self.operations[str(func)] += 1
        self.kernels += not _is_view(func) and not func.name().startswith(_ALLOCATE)
        if any(tensor.device.type != self._device for tensor in _tensors((args, kwargs, out))):
            self.elsewhere.append(str(func))
        return out


def _is_view(func: Any) -> bool:
    """Return whether an operation only returns a view of its input."""
    aliases = [returned.alias_info for returned in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _tensors(values: Any) -> Iterator[Tensor]:
    return (value for value in tree_iter(values) if isinstance(value, Tensor))


def count_step(config: RunConfig, device: torch.device | str = "meta") -> OperationCounter:
    """Count the operations of a stage-1 step on a whole batch, with every diagnostic."""
    step = random_step(config, device)
    step()  # the first step allocates state that later ones reuse
    counter = OperationCounter(device)
    with counter:
        step()
    return counter


def random_step(config: RunConfig, device: torch.device | str) -> Callable[[], None]:
    """Return a step on random images and labels."""
    device = torch.device(device)
    with device:
        model = LayerwiseModel(config, ViT.from_config(config.model))
        views = model.views * config.training.batch_size
        images, labels = torch.randn(views, *config.model.image_shape), torch.randint(0, 10, (views,))
    trainer = trainer_of(model)
    sums = EpochSums.empty(config.model.depth, device)
    batch = Batch(images, labels, labels[: config.training.batch_size])
    return lambda: trainer.step(batch, 0, sums)
