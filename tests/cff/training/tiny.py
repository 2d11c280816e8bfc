"""A run that takes a second: a very small ViT on a few images of the embedded sample."""

from pathlib import Path
from typing import Any

import pytest

from seedspread.cff.config import RunConfig
from seedspread.cff.presets import check
from seedspread.cff.training.native import _cannot_compile, why_not

# Not skipif: the kernel is built when a test needs it, not when its file is imported.
needs_native, needs_bf16 = pytest.mark.native, pytest.mark.native(bf16=True)

TINY: dict[str, dict[str, Any]] = {
    "data": {"limit_per_class": 12, "test_limit_per_class": 10},
    "model": {"patch_size": 8, "dim": 16, "depth": 3, "heads": 2},
    "training": {"epochs": 3, "batch_size": 32},
    "probe": {"epochs": 4, "batch_size": 32, "learning_rate": 5e-3},
    "runtime": {"threads": 1, "device": "cpu"},
}
# For tests of what is left when a run is cut off. It takes as long as the training, so the others do without.
EVERY_BATCH: dict[str, Any] = {"runtime__checkpoint_seconds": 0}


def lacks_native(bf16: bool = False) -> str:
    """Why there is no kernel here; one that a compiler refuses is a fault, not a lack."""
    why = why_not(bf16=bf16) or ""
    refused = str(_cannot_compile(Path(), "")).partition("(")[0].lstrip(".")
    return "" if refused in why else why


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
