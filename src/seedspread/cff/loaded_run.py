"""A finished run with its model, ready to use."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seedspread.cff.config import RunConfig
from seedspread.cff.data.augment import normalize
from seedspread.cff.data.dataset import Split
from seedspread.cff.identity import run_key, user_code
from seedspread.cff.model import LayerLocal
from seedspread.cff.training.evaluation import split_features
from seedspread.cff.training.layerwise import LayerwiseModel, load_module, model_of
from seedspread.cff.training.model_file import read_model
from seedspread.cff.training.run import (
    choose_device,
    cpu_threads,
    deterministic,
    is_available,
    torch_threads,
    without_tf32,
)
from seedspread.cff.training.trainers import trainer_class
from seedspread.runs.files import UNREADABLE, RecordError
from seedspread.runs.folder import RunFolder

Images = Tensor | NDArray[np.uint8]


@dataclass(frozen=True)
class LoadedRun:
    """A finished run of the paper's training; `load_run` returns one.

    Pass images as in datasets, `(N, C, H, W)` of bytes; they are normalized here as they were in the run.

    Attributes:
        config: the run's config.
        model: the encoder with the trained probe as its head, in plain PyTorch; its input is the output of
            `preprocess`, and its logits are those of `logits` up to rounding.
        classes: class names, in the order of the logits.
    """

    config: RunConfig
    model: LayerLocal
    classes: tuple[str, ...]
    _mean: tuple[float, ...]
    _std: tuple[float, ...]
    _threads: int

    def preprocess(self, images: Images) -> Tensor:
        """Return the images as the model's input: float32, normalized."""
        return normalize(self._checked(images), self._mean, self._std)

    def logits(self, images: Images) -> Tensor:
        """Return `(N, classes)` logits, computed as in the run.

        On the machine of the run, the whole test set gives its stored predictions, bit for bit.
        """
        with self._as_trained(), torch.no_grad():
            return self.model.head(self._layers(images)[-1])  # type: ignore[no-any-return]

    def features(self, images: Images, layer: int = -1) -> Tensor:
        """Return the `(N, dim)` representation at a layer, counted from 0 or, below 0, from the end."""
        depth = self.config.model.depth
        if not -depth <= layer < depth:
            raise ValueError(f"layer must lie between {-depth} and {depth - 1}; got {layer}")
        with self._as_trained():
            return self._layers(images)[layer]

    def _layers(self, images: Images) -> list[Tensor]:
        checked = self._checked(images)
        count = torch.arange(len(checked), device=checked.device)
        layerwise = LayerwiseModel(self.config, self.model, self._threads)
        return split_features(layerwise, Split(checked, count, count), self._mean, self._std)

    @contextmanager
    def _as_trained(self) -> Iterator[None]:
        trainer_class(self.config).prepare(self.config)
        device = next(self.model.parameters()).device
        with cpu_threads(torch_threads(self.config, self._threads)), without_tf32(), deterministic(device):
            yield

    def _checked(self, images: Images) -> Tensor:
        tensor = torch.as_tensor(images)
        shape = self.model.image_shape
        if tensor.dtype != torch.uint8 or tensor.ndim != 4 or tensor.shape[1:] != shape or not len(tensor):
            raise ValueError(
                f"images must be uint8 of shape (N, {', '.join(map(str, shape))}), as the dataset has them; "
                f"got {str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
            )
        return tensor.to(next(self.model.parameters()).device)


def load_run(
    folder: "Path | str", device: str | None = None, *, model: LayerLocal | None = None
) -> LoadedRun:
    """Load a finished run of the paper's training with its model.

    Args:
        folder: the run's folder, such as `runs/KEY`.
        device: where to compute; by default the run's device if this machine has it, else the CPU.
        model: for a run of `LayerLocal.fit`, its layers, created anew; they get the run's weights.

    Returns:
        The run: its config, its trained model, and the methods `logits`, `features` and `preprocess`.

    Example:
        ```python
        run = seedspread.load_run("runs/0d1b0b2e1a7f4d6c9b3e")
        run.logits(images)  # (N, 3, 32, 32) of bytes -> (N, classes)
        ```
    """
    run = RunFolder(Path(folder))
    config, header, tensors = read_model(run)
    names = [] if model is not None else user_code(config)
    if names and run_key(config, str(run.result()["fingerprint"])) != header["key"]:
        raise RecordError(
            f"{run.path}: {' or '.join(names)} has changed since the run; restore the code, or give its "
            "layers: load_run(folder, model=LayerLocal(...))"
        )
    try:
        provenance = run.provenance()
        threads, recorded = int(provenance["threads"]), str(provenance.get("device", "cpu"))
    except UNREADABLE as error:
        raise RecordError(f"{run.path}: its provenance cannot be read ({error!r})") from error
    try:
        model = model_of(config, len(header["classes"]), model, trains=False)
        load_module("layers", model.layers, tensors)
        load_module("head", model.head, tensors)
        mean, std, classes = (tuple(header[name]) for name in ("mean", "std", "classes"))
    except UNREADABLE as error:
        first = str(error).partition("\n")[0]
        raise RecordError(f"{run.path}: its model does not fit its config ({first})") from error
    place = choose_device(device or recorded) if device or is_available(recorded) else torch.device("cpu")
    return LoadedRun(config, model.eval().to(place), classes, mean, std, threads)
