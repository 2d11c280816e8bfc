"""A run that takes a second: a very small ViT on a few images of the embedded sample."""

from pathlib import Path
from typing import Any

import pytest

from seedspread.cff.config import RunConfig
from seedspread.cff.presets import check
from seedspread.cff.training.native import why_not

# A kernel that a compiler refuses is a fault, not a lack.
_lacks = [why for why in (why_not(), why_not(bf16=True)) if why and "cannot compile the kernel" not in why]
needs_native = pytest.mark.skipif(len(_lacks) == 2, reason=f"no native kernel here: {_lacks[:1]}")
needs_bf16 = pytest.mark.skipif(bool(_lacks), reason=f"{_lacks[-1:]}")

TINY: dict[str, dict[str, Any]] = {
    "data": {"limit_per_class": 12, "test_limit_per_class": 10},
    "model": {"patch_size": 8, "dim": 16, "depth": 3, "heads": 2},
    "training": {"epochs": 3, "batch_size": 32},
    "probe": {"epochs": 4, "batch_size": 32, "learning_rate": 5e-3},
    "runtime": {"threads": 1, "device": "cpu"},
}
# For tests of what is left when a run is cut off. It takes as long as the training, so the others do without.
EVERY_BATCH: dict[str, Any] = {"runtime__checkpoint_seconds": 0}


def tiny(**changes: Any) -> RunConfig:
    """The tiny run with fields changed, such as `training__epochs=2`."""
    values = {part: dict(fields) for part, fields in TINY.items()}
    for name, value in changes.items():
        part, field = name.split("__")
        values.setdefault(part, {})[field] = value
    return check(values)


def files(folder: Path) -> dict[str, bytes]:
    """What a finished run leaves behind that must be the same whenever it is repeated."""
    names = ("result.json", "predictions.safetensors", "history.parquet")
    return {name: (folder / name).read_bytes() for name in names}
