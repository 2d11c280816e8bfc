"""The layer loss of Contrastive Forward-Forward learning: margins, stability modes, reductions, schedules.

Names are loaded when they are first used: schedules and histograms of similarities need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seedspread.cff.objective.loss import SupConLoss
    from seedspread.cff.objective.margins import MARGIN_TYPES
    from seedspread.cff.objective.pairs import PairStatistics, count_positive_pairs
    from seedspread.cff.objective.schedule import SCHEDULES, margin_schedule
    from seedspread.cff.objective.spec import REDUCTIONS, STABILITY_MODES, LossSpec

__all__ = [
    "MARGIN_TYPES",
    "REDUCTIONS",
    "SCHEDULES",
    "STABILITY_MODES",
    "LossSpec",
    "PairStatistics",
    "SupConLoss",
    "count_positive_pairs",
    "margin_schedule",
]

_HOME = {
    "MARGIN_TYPES": "margins",
    "REDUCTIONS": "spec",
    "SCHEDULES": "schedule",
    "STABILITY_MODES": "spec",
    "LossSpec": "spec",
    "PairStatistics": "pairs",
    "SupConLoss": "loss",
    "count_positive_pairs": "pairs",
    "margin_schedule": "schedule",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'seedspread.cff.objective' has no attribute {name!r}")
    return getattr(import_module(f"seedspread.cff.objective.{_HOME[name]}"), name)
