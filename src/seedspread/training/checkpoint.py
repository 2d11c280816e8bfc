"""Checkpoints: whole or absent, known by their checksum, the last two kept. Nothing is pickled."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from seedspread.atomic import replacing
from seedspread.errors import SeedspreadError

KEPT = 2


class CheckpointError(SeedspreadError):
    """There are checkpoints, and none can be gone on from."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on.

    Attributes:
        state: small things: where the run is, the history so far.
        tensors: weights, optimiser state, sums.
    """

    state: dict[str, Any]
    tensors: dict[str, Tensor]


class CheckpointFolder:
    """The checkpoints of one run, `checkpoint-NUMBER-CHECKSUM.safetensors`."""

    def __init__(self, folder: Path, key: str, guard: Callable[[], None] | None = None) -> None:
        self._folder = folder
        self._key = key
        self._guard = guard

    def write(self, checkpoint: Checkpoint) -> None:
        """Adds a checkpoint, then drops all but the last two."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
        content = save(tensors, {"key": self._key, "state": json.dumps(checkpoint.state)})
        number = max((self._number(path) for path in self.paths()), default=0) + 1
        name = f"checkpoint-{number:06d}-{_checksum(content)}.safetensors"
        with replacing(self._folder / name, self._guard) as temporary:
            temporary.write_bytes(content)
        for old in self.paths()[:-KEPT]:
            old.unlink(missing_ok=True)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is undamaged; None if there is none at all."""
        paths = self.paths()
        for path in reversed(paths):
            content = path.read_bytes()
            if _checksum(content) == path.stem.rsplit("-", 1)[-1]:
                return self._open(path, content)
        if paths:
            names = ", ".join(path.name for path in paths)
            raise CheckpointError(
                f"all checkpoints in {self._folder} are damaged ({names}): start afresh elsewhere"
            )
        return None

    def paths(self) -> list[Path]:
        """All checkpoints, oldest first."""
        return sorted(self._folder.glob("checkpoint-*.safetensors"), key=self._number)

    def _open(self, path: Path, content: bytes) -> Checkpoint:
        try:
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            metadata = header["__metadata__"]
            tensors = load(content)
        except (SafetensorError, ValueError, KeyError) as error:
            raise CheckpointError(f"{path} is not a checkpoint of this package: {error}") from error
        if metadata["key"] != self._key:
            raise CheckpointError(
                f"{path} belongs to another run ({metadata['key']}, not {self._key}): its config, its data "
                "or this package's numerics differ; use another folder"
            )
        return Checkpoint(json.loads(metadata["state"]), tensors)

    @staticmethod
    def _number(path: Path) -> int:
        middle = path.name.split("-")[1]
        return int(middle) if middle.isdigit() else 0


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def module_tensors(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    """A module's weights, by name."""
    return {f"{prefix}.{name}": tensor.clone() for name, tensor in module.state_dict().items()}


def load_module(prefix: str, module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Puts the weights back."""
    module.load_state_dict(below(prefix, tensors))


def below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those whose name begins with `prefix.`, without it."""
    start = prefix + "."
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}
