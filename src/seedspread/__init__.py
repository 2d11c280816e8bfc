"""Did this implementation detail change how much my results spread across seeds?

The public names are loaded when they are first used, so that `import seedspread` is quick and works
without torch; a name that needs torch raises an error that says how to install it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seedspread.errors import require_extra
from seedspread.version import __version__ as __version__

if TYPE_CHECKING:
    from seedspread.analysis.audit import audit
    from seedspread.analysis.components import components
    from seedspread.analysis.curves import curves
    from seedspread.analysis.factors import audit_factors
    from seedspread.analysis.gate import gate
    from seedspread.analysis.published import audit_means, check, review
    from seedspread.analysis.sd import audit_sd
    from seedspread.analysis.seeds import seed_budget
    from seedspread.cff.config import RunConfig
    from seedspread.cff.data.augment import augment
    from seedspread.cff.data.dataset import load
    from seedspread.cff.data.loader import Loader
    from seedspread.cff.data.own import ArrayDataset
    from seedspread.cff.loaded_run import load_run
    from seedspread.cff.loss import SupConLoss, clamp_activation_rate
    from seedspread.cff.losses import GoodnessLoss, LocalCrossEntropy, LocalLoss
    from seedspread.cff.margins import Margin, margin_schedule
    from seedspread.cff.model import LayerLocal, ViT
    from seedspread.cff.monitor import ClampMonitor
    from seedspread.cff.training.run import train
    from seedspread.runners.recording import log, log_predictions
    from seedspread.runners.seeding import seed_everything
    from seedspread.runs.store import Store
    from seedspread.study.store_questions import compare
    from seedspread.study.study import Study, run_study, write_report
    from seedspread.tables.sources.collect import collect

__all__ = [
    "ArrayDataset",
    "ClampMonitor",
    "GoodnessLoss",
    "LayerLocal",
    "Loader",
    "LocalCrossEntropy",
    "LocalLoss",
    "Margin",
    "RunConfig",
    "Store",
    "Study",
    "SupConLoss",
    "ViT",
    "audit",
    "audit_factors",
    "audit_means",
    "audit_sd",
    "augment",
    "check",
    "clamp_activation_rate",
    "collect",
    "compare",
    "components",
    "curves",
    "gate",
    "load",
    "load_run",
    "log",
    "log_predictions",
    "margin_schedule",
    "review",
    "run_study",
    "seed_budget",
    "seed_everything",
    "train",
    "write_report",
]

_HOME = {
    "ArrayDataset": "seedspread.cff.data.own",
    "ClampMonitor": "seedspread.cff.monitor",
    "GoodnessLoss": "seedspread.cff.losses",
    "LayerLocal": "seedspread.cff.model",
    "Loader": "seedspread.cff.data.loader",
    "LocalCrossEntropy": "seedspread.cff.losses",
    "LocalLoss": "seedspread.cff.losses",
    "Margin": "seedspread.cff.margins",
    "RunConfig": "seedspread.cff.config",
    "Store": "seedspread.runs.store",
    "Study": "seedspread.study.study",
    "SupConLoss": "seedspread.cff.loss",
    "ViT": "seedspread.cff.model",
    "audit": "seedspread.analysis.audit",
    "audit_factors": "seedspread.analysis.factors",
    "audit_means": "seedspread.analysis.published",
    "audit_sd": "seedspread.analysis.sd",
    "augment": "seedspread.cff.data.augment",
    "check": "seedspread.analysis.published",
    "clamp_activation_rate": "seedspread.cff.loss",
    "load": "seedspread.cff.data.dataset",
    "load_run": "seedspread.cff.loaded_run",
    "log": "seedspread.runners.recording",
    "log_predictions": "seedspread.runners.recording",
    "collect": "seedspread.tables.sources.collect",
    "compare": "seedspread.study.store_questions",
    "components": "seedspread.analysis.components",
    "curves": "seedspread.analysis.curves",
    "gate": "seedspread.analysis.gate",
    "margin_schedule": "seedspread.cff.margins",
    "review": "seedspread.analysis.published",
    "run_study": "seedspread.study.study",
    "seed_budget": "seedspread.analysis.seeds",
    "seed_everything": "seedspread.runners.seeding",
    "train": "seedspread.cff.training.run",
    "write_report": "seedspread.study.study",
}


# The extra without which a name cannot be used.
_NEEDS = dict.fromkeys(
    (
        "GoodnessLoss",
        "LayerLocal",
        "Loader",
        "LocalCrossEntropy",
        "LocalLoss",
        "SupConLoss",
        "ViT",
        "augment",
        "clamp_activation_rate",
        "load",
        "load_run",
        "train",
    ),
    "train",
)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'seedspread' has no attribute {name!r}")
    if name in _NEEDS:
        require_extra(_NEEDS[name], f"seedspread.{name}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
