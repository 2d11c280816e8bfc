"""Beyond the verdict of a comparison: its whole estimate, net of the test set, and the paper's beside it."""

import numpy as np
import pandas as pd

from evidence.findings import Finding
from evidence.tables import correct
from seedspread.analysis.audit_result import Comparison
from seedspread.paper.check import paper_ratios
from seedspread.stats.groups import Group
from seedspread.stats.headline import headlines
from seedspread.stats.result import Estimate, Headline
from seedspread.stats.seed_summaries import net_ratio, noise_from_predictions
from seedspread.stats.variance_ratio import LogRatioEstimate, difference, interval_of, ratio_at

LEVEL = 0.95
_EQUIVALENCE = 2.0


def estimated(found: Finding, c: Comparison) -> tuple[Headline, LogRatioEstimate]:
    """Return the headline of a comparison, not adjusted, and the distribution of its log ratio."""
    group, baseline = (_group(found, found.runs_of(c, level), level) for level in (c.group, c.baseline))
    ((headline, estimate),) = headlines([(group, baseline)], LEVEL, _EQUIVALENCE)
    if estimate is None:
        raise ValueError(f"{found.name} has no ratio of {c.title}")
    return headline, estimate


def _group(found: Finding, runs: pd.DataFrame, name: str) -> Group:
    blocks = found.study.audit.blocks if found.study.audit else ()
    codes = runs.groupby(list(blocks)).ngroup() if blocks else np.zeros(len(runs), np.intp)
    values, seeds = 100 * runs["accuracy"].to_numpy(float), runs["seed"].to_numpy(np.intp)
    return Group(name, values, np.asarray(codes, np.intp), seeds)


def net(found: Finding, c: Comparison, level: float = LEVEL) -> Estimate | None:
    """Return the ratio that an infinite test set would leave, from one run of each seed."""
    keys = [found.runs_of(c, one).drop_duplicates("seed")["key"] for one in (c.group, c.baseline)]
    group, baseline = (noise_from_predictions("", correct([*own])) for own in keys)
    return net_ratio(group, baseline, level)


def paper_over(estimate: LogRatioEstimate) -> Estimate:
    """Return the paper's ratio on CIFAR-10 over one of ours: both are uncertain."""
    paper = paper_ratios()["cifar10"][0].posterior
    if paper is None:
        raise ValueError("the paper has no ratio")
    return ratio_of(paper, estimate)


def ratio_of(first: LogRatioEstimate, second: LogRatioEstimate) -> Estimate:
    """Return the first ratio over the second, which is independent of it."""
    change = difference(first, second)
    return Estimate(ratio_at(change, 0.5), interval_of(change, LEVEL))
