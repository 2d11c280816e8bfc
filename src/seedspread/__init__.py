"""Did this implementation detail change how much my results spread across seeds?

The public names are loaded when they are first used, so that `import seedspread` is quick and works
without torch; a name that needs torch says so when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seedspread.errors import require_extra
from seedspread.version import __version__ as __version__

if TYPE_CHECKING:
    from seedspread.config import RunConfig
    from seedspread.diagnostics import ClampMonitor, clamp_activation_rate
    from seedspread.model import ViT
    from seedspread.objective import SupConLoss, margin_schedule
    from seedspread.sources.collecting import collect
    from seedspread.stats.audit import audit
    from seedspread.training.run import train

__all__ = [
    "ClampMonitor",
    "RunConfig",
    "SupConLoss",
    "ViT",
    "audit",
    "clamp_activation_rate",
    "collect",
    "margin_schedule",
    "train",
]

_HOME = {
    "ClampMonitor": "seedspread.diagnostics",
    "RunConfig": "seedspread.config",
    "SupConLoss": "seedspread.objective",
    "ViT": "seedspread.model",
    "audit": "seedspread.stats.audit",
    "clamp_activation_rate": "seedspread.diagnostics",
    "collect": "seedspread.sources.collecting",
    "margin_schedule": "seedspread.objective",
    "train": "seedspread.training.run",
}


_WITHOUT_TORCH = {"RunConfig", "audit", "collect", "margin_schedule"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'seedspread' has no attribute {name!r}")
    if name not in _WITHOUT_TORCH:
        require_extra("train", f"seedspread.{name}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
