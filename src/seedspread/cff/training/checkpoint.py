"""A checkpoint of training: tensors and where the run is, as one file of safetensors. Nothing is pickled."""

import json
from dataclasses import dataclass
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from seedspread.runs.checkpoints import newest_checkpoint, write_checkpoint
from seedspread.runs.folder import RunFolder


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on.

    Attributes:
        state: small things: where the run is, the history so far.
        tensors: weights, optimiser state, sums.
    """

    state: dict[str, Any]
    tensors: dict[str, Tensor]


def write(folder: RunFolder, checkpoint: Checkpoint) -> None:
    """Adds a checkpoint to a run's folder."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    write_checkpoint(folder, save(tensors, {"key": folder.key, "state": json.dumps(checkpoint.state)}))


def read_newest(folder: RunFolder) -> Checkpoint | None:
    """The newest checkpoint of this run that is undamaged; None if there is none at all."""

    def parse(content: bytes) -> Checkpoint:
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        metadata = header["__metadata__"]
        if metadata["key"] != folder.key:
            raise ValueError(f"it belongs to another run, {metadata['key']}")
        try:
            return Checkpoint(dict(json.loads(metadata["state"])), load(content))
        except SafetensorError as error:
            raise ValueError(str(error)) from error

    return newest_checkpoint(folder, parse)


def module_tensors(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    """Copies of a module's weights, by their names below `prefix`."""
    return {f"{prefix}.{name}": t.clone() for name, t in module.state_dict().items()}


def load_module(prefix: str, module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Puts the weights back."""
    module.load_state_dict(below(prefix, tensors))


def below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those whose name begins with `prefix.`, without it."""
    start = prefix + "."
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}
