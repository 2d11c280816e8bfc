"""Findings: the answer of the published runs to each study's question."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from evidence.plan import evidence_plan
from evidence.tables import FOLDER, published_runs
from seedspread.analysis.audit import audit
from seedspread.analysis.audit_result import AuditResult, Comparison
from seedspread.runs.levels import level_name
from seedspread.runs.run import Run
from seedspread.runs.store import Store
from seedspread.stats.result import Interval
from seedspread.study.spec import StudySpec

_RATE, _MEAN_RATE = "clamp_activation_rate.0", "mean_clamp_activation_rate.0"
# Margins that clamp; the rate of any other margin is what a clamp would cut.
CLAMPED = ("clamp", "soft_clamp")
# Fewer runs in a group are not enough to judge its spread.
_FEWEST = 4
_FEWEST_CORRELATED = 10
# Parameters that distinguish the groups of all studies.
_GROUP = (
    "objective.margin_type", "objective.margin_first", "objective.positives", "objective.stability",
    "training.rule", "training.epochs",
)  # fmt: skip
_USUAL = ("", "", "class", "detach", "layer_local", "4")


@dataclass(frozen=True)
class Finding:
    """A study and its answer.

    Attributes:
        study: the study file, written before the runs.
        runs: the published runs, a row per cell and seed: the cell's levels and the columns of
            `published_runs`.
        planned: number of runs in the study.
        audit: audit of accuracies in percent; None if a group has too few runs.
    """

    study: StudySpec
    runs: pd.DataFrame
    planned: int
    audit: AuditResult | None

    @property
    def is_whole(self) -> bool:
        """Whether every run of the study is published."""
        return len(self.runs) == self.planned

    @property
    def name(self) -> str:
        """Name of the study, such as `margin`."""
        return self.study.name

    def runs_of(self, c: Comparison, level: str) -> pd.DataFrame:
        """Return the runs of a comparison's group or baseline, given by its level."""
        if self.study.audit is None:
            raise ValueError(f"{self.study.name} compares nothing")
        runs = self.runs[self.runs[self.study.audit.group] == level]
        for factor, own in zip(c.by, c.stratum, strict=True):
            runs = runs[runs[factor] == own]
        return runs

    def rate(self, c: Comparison) -> float:
        """Return the mean clamp activation rate of a comparison's group at layer 0, after training."""
        return float(self.runs_of(c, c.group)[_RATE].mean())

    def keys(self, c: Comparison) -> frozenset[str]:
        """Return the keys of all runs of a comparison."""
        return frozenset(key for level in (c.group, c.baseline) for key in self.runs_of(c, level)["key"])


def compared(c: Comparison) -> str:
    """Return a comparison's name: `clamp`, `clamp, end_to_end`, `soft_clamp / clamp`."""
    groups = c.group if c.baseline == "subtract" else f"{c.group} / {c.baseline}"
    return f"{groups}, {', '.join(c.stratum)}" if c.stratum else groups


@cache
def findings() -> tuple[Finding, ...]:
    """Return a finding for every study of the evidence, in order."""
    plan = evidence_plan(Store(FOLDER))
    named: dict[str, list[Run]] = {}
    for run in plan.runs:
        named.setdefault(run.study, []).append(run)
    return tuple(_finding(part, named[part.name]) for part in plan.study.parts)


def _finding(study: StudySpec, named: list[Run]) -> Finding:
    published: Mapping[Any, Mapping[Any, Any]] = published_runs().to_dict("index")
    rows = [
        {**published[run.key], "majority": published[run.key]["majority_share"], "key": run.key}
        | {factor: level_name(level) for factor, level in run.cell}
        | {"seed": run.seed}
        for run in named
        if run.key in published
    ]
    table = pd.DataFrame(rows) if rows else published_runs().iloc[:0].assign(key="")
    counts = [sum(run.cell == cell.levels and run.key in published for run in named) for cell in study.cells]
    spec = study.audit
    if spec is None or min(counts) < _FEWEST:
        return Finding(study, table, len(named), None)
    columns = ["accuracy", "seed", "collapsed", "majority", *(factor for factor, _ in study.cells[0].levels)]
    found = audit(
        _in_percent(table[columns]),
        "accuracy",
        spec.group,
        spec.baseline,
        spec.blocks or None,
        by=spec.strata or None,
    )
    return Finding(study, table, len(named), found)


def _in_percent(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(accuracy=100 * table["accuracy"], majority=100 * table["majority"])


def unplanned(found: Finding) -> list[Comparison]:
    """Compare each pair of a study's groups other than its baseline, which the study did not plan."""
    spec = found.study.audit
    if found.audit is None or spec is None or spec.strata:
        return []
    groups = [c.group for c in found.audit.comparisons]
    table = _in_percent(found.runs[["accuracy", "seed", "collapsed", "majority", spec.group]])
    return [
        audit(table[table[spec.group].isin(pair)], "accuracy", spec.group, pair[1]).comparisons[0]
        for pair in combinations(groups, 2)
    ]


@dataclass(frozen=True)
class Correlation:
    """Pearson's r over seeds; `interval` (Fisher's z) is None with fewer than four seeds."""

    r: float
    interval: Interval | None
    seeds: int


def seed_correlation(
    seeds: Sequence[str], x: Sequence[float], y: Sequence[float], level: float = 0.95
) -> Correlation | None:
    """Return the correlation over seeds of two values per run; None with fewer than three seeds.

    Runs with a NaN are left out.
    """
    runs: dict[str, list[tuple[float, float]]] = {}
    for seed, *both in zip(seeds, x, y, strict=True):
        if not any(map(math.isnan, both)):
            runs.setdefault(seed, []).append((both[0], both[1]))
    means = np.array(
        [[math.fsum(v) / len(v) for v in zip(*runs[seed], strict=True)] for seed in sorted(runs)]
    )
    if len(means) < 3 or (np.ptp(means, axis=0) == 0).any():
        return None
    pearson = stats.pearsonr(*means.T)
    interval = None
    if len(means) > 3:
        ends = pearson.confidence_interval(level)
        interval = Interval(float(ends.low), float(ends.high), level)
    return Correlation(float(pearson.statistic), interval, len(means))


@dataclass(frozen=True)
class RateAndOutcome:
    """In one group, whether seeds at which the clamp cuts more reach higher or lower accuracy.

    Attributes:
        dataset: dataset of the runs.
        group: margin of the runs, and whatever else is special about them.
        rate: mean clamp activation rate at layer 0 with the final weights.
        correlation: correlation over seeds of accuracy with the mean rate over training.
    """

    dataset: str
    group: str
    rate: float
    correlation: Correlation


def rates_and_outcomes(seeds: range | None = None) -> list[RateAndOutcome]:
    """Return each group that clamps in float32, with ten or more seeds that set all randomness."""
    runs = published_runs()
    if seeds is not None:
        runs = runs[runs["seed"].isin(seeds)]
    own = [name for name in runs.columns if name.startswith("seeds.") and name != "seeds.run"]
    # Runs with other losses have no rate, even if their config names a margin.
    clamped = runs["objective.margin_type"].isin(CLAMPED) & runs[_MEAN_RATE].notna()
    whole = runs[clamped & runs[own].isna().all(axis=1) & (runs["runtime.precision"] == "fp32")]
    cells = ["dataset", *_GROUP]
    out = []
    for levels, group in whole.groupby(cells, sort=False):
        found = seed_correlation([*map(str, group["seed"])], [*group[_MEAN_RATE]], [*group["accuracy"]])
        if found is not None and found.seeds >= _FEWEST_CORRELATED:
            dataset, *rest = map(level_name, levels)
            out.append(RateAndOutcome(dataset, ", ".join(_special(rest)), float(group[_RATE].mean()), found))
    return out


def _special(levels: list[str]) -> list[str]:
    """Return the margin of a group, and its levels that differ from the usual ones."""
    *rest, epochs = levels
    named = [*rest, epochs if epochs == _USUAL[-1] else f"{epochs} epochs"]
    return [level for level, usual in zip(named, _USUAL, strict=True) if level != usual]
