"""Estimates of a comparison beside its verdict: its posterior, net of the test set, and over the paper's."""

import math

import numpy as np
import pandas as pd
from scipy.stats import qmc

from evidence.findings import Finding
from evidence.tables import correct
from seedspread.analysis.audit_result import Comparison
from seedspread.paper.check import paper_ratios
from seedspread.stats.distributions import chi2_ppf
from seedspread.stats.groups import Floats, Group
from seedspread.stats.headline import headlines
from seedspread.stats.result import Estimate, Headline, Interval, TestSetNoise
from seedspread.stats.seed_summaries import net_ratio, noise_from_predictions
from seedspread.stats.variance_ratio import LogRatioEstimate, difference, interval_of, ratio_at

LEVEL = 0.95
_EQUIVALENCE = 2.0
_POINTS = 17  # 2 to this power, of a net ratio of ratios


def estimated(found: Finding, c: Comparison) -> tuple[Headline, LogRatioEstimate]:
    """Return the unadjusted headline of a comparison, and the posterior of its log ratio."""
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
    group, baseline = (_noise(found.runs_of(c, one)) for one in (c.group, c.baseline))
    return net_ratio(group, baseline, level)


def net_of(group: pd.DataFrame, baseline: pd.DataFrame) -> Estimate | None:
    """Return the ratio that an infinite test set would leave of two groups of runs, one of each seed."""
    return net_ratio(_noise(group), _noise(baseline), LEVEL)


def net_change(first: tuple[Finding, Comparison], second: tuple[Finding, Comparison]) -> Estimate:
    """Return the second net ratio over the first, whose runs are others.

    As in `net_ratio`, each variance has a generalized pivot, here on the points of a Sobol sequence; what a
    test set may account for alone leaves the interval's end open.
    """
    order = [(second, "group"), (second, "baseline"), (first, "group"), (first, "baseline")]
    sides = [_noise(found.runs_of(c, getattr(c, part))) for (found, c), part in order]
    points = qmc.Sobol(len(sides), scramble=False).random_base2(_POINTS) + 0.5 ** (_POINTS + 1)
    rest = [_left(side, column) for side, column in zip(sides, points.T, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = rest[0] * rest[3] / (rest[1] * rest[2])
    tail = (1 - LEVEL) / 2
    low = np.quantile(np.nan_to_num(ratios, nan=0.0, posinf=math.inf), tail, method="lower")
    high = np.quantile(np.nan_to_num(ratios, nan=math.inf, posinf=math.inf), 1 - tail, method="higher")
    left = [max(side.remaining or 0.0, 0.0) for side in sides]
    below = left[1] * left[2]
    value = left[0] * left[3] / below if below else math.inf
    return Estimate(value, Interval(float(low), float(high), LEVEL))


def _noise(runs: pd.DataFrame) -> TestSetNoise:
    return noise_from_predictions("", correct([*runs.drop_duplicates("seed")["key"]]))


def _left(side: TestSetNoise, points: Floats) -> Floats:
    """Return the pivots of a variance less the test set's part, at least zero."""
    df = side.runs - 1
    return np.asarray(np.maximum(side.observed * df / chi2_ppf(points, df) - side.explained, 0.0))


def paper_over(estimate: LogRatioEstimate) -> Estimate:
    """Return the paper's ratio on CIFAR-10 over one of ours, with the uncertainty of both."""
    paper = paper_ratios()["cifar10"][0].posterior
    if paper is None:
        raise ValueError("the paper has no ratio")
    return ratio_of(paper, estimate)


def ratio_of(first: LogRatioEstimate, second: LogRatioEstimate) -> Estimate:
    """Return the first ratio over the second, which must be independent."""
    change = difference(first, second)
    return Estimate(ratio_at(change, 0.5), interval_of(change, LEVEL))
