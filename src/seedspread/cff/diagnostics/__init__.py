"""Does a clamp saturate, how large are the layers' gradients, how many positive pairs are there?

For any training loop: nothing here needs the rest of the package's training. Names are loaded when they are
first used: the monitor counts arrays without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seedspread.cff.diagnostics.measures import (
        clamp_activation_rate,
        expected_positive_pairs,
        gradient_norm,
        pair_statistics,
    )
    from seedspread.cff.diagnostics.monitor import ClampMonitor, NotWatchableError

__all__ = [
    "ClampMonitor",
    "NotWatchableError",
    "clamp_activation_rate",
    "expected_positive_pairs",
    "gradient_norm",
    "pair_statistics",
]

_IN_MONITOR = {"ClampMonitor", "NotWatchableError"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'seedspread.cff.diagnostics' has no attribute {name!r}")
    home = "monitor" if name in _IN_MONITOR else "measures"
    return getattr(import_module(f"seedspread.cff.diagnostics.{home}"), name)
