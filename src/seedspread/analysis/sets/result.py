"""Sets of runs compared: plain typed values, no computation."""

from dataclasses import dataclass

from seedspread.analysis.comparison import AuditValues
from seedspread.analysis.sets.agreement import Agreement
from seedspread.runs.metrics import Metric


@dataclass(frozen=True)
class CompareValues:
    """The same question, asked of several sets of runs; `compared.CompareResult` has its forms for people.

    Attributes:
        names: of the sets, the one that the others are compared with first.
        sources: what was read of each.
        value: the column with a number per run.
        metric: what it is.
        group: what tells the arms apart; None where a set is one sample.
        baseline: the arm that the others are compared with; empty where all are compared with all.
        spread: the audit of each arm from the first set to the others.
        agreements: for each arm and its baseline, whether the sets agree on their ratio.
        only: settings that are in one set only, or not in the first, by set.
        copies: a line on runs that are the same in two sets, and so no further evidence.
        notes: what was found, and what is assumed.
    """

    names: tuple[str, ...]
    sources: tuple[str, ...]
    value: str
    metric: Metric
    group: str | None
    baseline: str
    spread: AuditValues
    agreements: tuple[Agreement, ...]
    only: dict[str, tuple[str, ...]]
    copies: tuple[str, ...]
    notes: tuple[str, ...]
