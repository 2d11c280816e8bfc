"""Did this implementation detail change how much my results spread across seeds?

The public names are loaded when they are first used, so that `import seedspread` is quick and works
without torch; a name that needs torch says so when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seedspread.errors import require_extra
from seedspread.version import __version__ as __version__

if TYPE_CHECKING:
    from seedspread.api import Study, run_study, write_report
    from seedspread.comparing import compare
    from seedspread.config import RunConfig
    from seedspread.diagnostics import ClampMonitor, clamp_activation_rate
    from seedspread.evidence.restore import evidence_store
    from seedspread.model import ViT
    from seedspread.objective import SupConLoss, margin_schedule
    from seedspread.recording import log, log_predictions
    from seedspread.runs.store import Store
    from seedspread.seeding import seed_everything
    from seedspread.sources.collecting import collect
    from seedspread.stats.audit import audit
    from seedspread.stats.budget import seed_budget
    from seedspread.stats.components.table import components
    from seedspread.stats.sequential.table import Look
    from seedspread.training.run import train

__all__ = [
    "ClampMonitor",
    "Look",
    "RunConfig",
    "Store",
    "Study",
    "SupConLoss",
    "ViT",
    "audit",
    "clamp_activation_rate",
    "collect",
    "compare",
    "components",
    "evidence_store",
    "log",
    "log_predictions",
    "margin_schedule",
    "run_study",
    "seed_budget",
    "seed_everything",
    "train",
    "write_report",
]

_HOME = {
    "ClampMonitor": "seedspread.diagnostics",
    "Look": "seedspread.stats.sequential.table",
    "RunConfig": "seedspread.config",
    "Store": "seedspread.runs.store",
    "Study": "seedspread.api",
    "SupConLoss": "seedspread.objective",
    "ViT": "seedspread.model",
    "audit": "seedspread.stats.audit",
    "clamp_activation_rate": "seedspread.diagnostics",
    "log": "seedspread.recording",
    "log_predictions": "seedspread.recording",
    "collect": "seedspread.sources.collecting",
    "compare": "seedspread.comparing",
    "components": "seedspread.stats.components.table",
    "evidence_store": "seedspread.evidence.restore",
    "margin_schedule": "seedspread.objective",
    "run_study": "seedspread.api",
    "seed_budget": "seedspread.stats.budget",
    "seed_everything": "seedspread.seeding",
    "train": "seedspread.training.run",
    "write_report": "seedspread.api",
}


# The extra without which a name cannot be used.
_NEEDS = dict.fromkeys(("SupConLoss", "ViT", "clamp_activation_rate", "train"), "train")
_NEEDS["evidence_store"] = "parquet"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'seedspread' has no attribute {name!r}")
    if name in _NEEDS:
        require_extra(_NEEDS[name], f"seedspread.{name}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
