"""The layer loss of Contrastive Forward-Forward learning: margins, stability modes, reductions, schedules."""

from seedspread.objective.loss import SupConLoss
from seedspread.objective.pairs import PairStatistics, count_positive_pairs
from seedspread.objective.schedule import SCHEDULES, margin_schedule
from seedspread.objective.spec import MARGIN_TYPES, REDUCTIONS, STABILITY_MODES, LossSpec

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
