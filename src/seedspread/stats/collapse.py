"""Failed runs and two clusters: when an arm has either, its variance answers the wrong question."""

from functools import cache

import numpy as np
from scipy import stats

from seedspread.metrics import Metric
from seedspread.stats.arms import Arm, Floats
from seedspread.stats.result import Collapse, Failures, Interval, TestResult

_GAP_LEVEL = 0.05
_NULL_DRAWS = 20_000
# Beyond this many runs the largest gap says little about modes.
_MOST = 200


def detect_collapse(arm: Arm, reference: Arm, metric: Metric, chance: float | None, level: float) -> Collapse:
    """Counts failed runs and looks for two clusters.

    Args:
        arm: one arm.
        reference: the other.
        metric: what the values are, and which direction is better.
        chance: what a run that learnt nothing scores, if known.
        level: of the intervals.
    """
    reasons: list[str] = []
    better = 1.0 if metric.better == "higher" else -1.0
    cuts = [cut for side in (arm, reference) if (cut := _cut(side, better, reasons)) is not None]
    counts = []
    best = metric.best(np.concatenate([arm.values, reference.values]))
    for side in (arm, reference):
        bad = np.zeros(len(side.values), dtype=bool) if side.failed is None else side.failed.copy()
        if bad.any():
            reasons.append(f"{int(bad.sum())} of {len(bad)} {side.name} runs are flagged as collapsed")
        if chance is not None:
            near = metric.is_no_better(side.values, chance, best)
            if near.any():
                reasons.append(
                    f"{int(near.sum())} of {len(near)} {side.name} runs score no better than "
                    f"{chance:.4g}, which takes no learning, or hardly better"
                )
            bad |= near
        # A seed of either arm that is no better than one arm's worse cluster belongs there.
        below = [side.seed_codes[better * side.seed_means <= cut] for cut in cuts]
        seeds = np.unique(np.concatenate([side.seeds[bad], *below]))
        counts.append((len(seeds), len(side.seed_codes)))
    if not reasons:
        return Collapse(found=False, sentence="No run is flagged, near chance, or in a cluster of its own.")
    arms = tuple(_failures(side.name, *n, level) for side, n in zip((arm, reference), counts, strict=True))
    sentence = (
        "; ".join(reasons)
        + ". A variance over failed and sound runs together measures how often runs fail: compare the "
        "rates, and the spread of the sound runs apart."
    )
    return Collapse(found=True, sentence=sentence, arms=arms, test=_fisher(counts))


def _cut(arm: Arm, better: float, reasons: list[str]) -> float | None:
    """The best of the worse cluster, if an arm falls apart into two; `better` is -1 where lower is better.

    It is turned so that higher is better, as the values are.
    """
    values = (
        better * arm.seed_means
    )  # twins of a seed fall on one side together, block means make no clusters
    cut, p = largest_gap(values)
    if cut is None or p is None or p >= _GAP_LEVEL:
        return None
    low, high = values[values < cut], values[values > cut]
    if high.min() - low.max() < 2 * max(np.ptp(low), np.ptp(high)):
        return None  # a gap, but no narrower clusters on its sides
    below, above = (len(low), len(high)) if better > 0 else (len(high), len(low))
    reasons.append(
        f"{arm.name} falls into two clusters, {below} seeds below {better * cut:.4g} and {above} above "
        f"(gap test p = {p:.3g})"
    )
    return float(low.max())


def _failures(name: str, failed: int, seeds: int, level: float) -> Failures:
    exact = stats.binomtest(failed, seeds).proportion_ci(level, method="exact")
    return Failures(name, failed, seeds, failed / seeds, Interval(float(exact.low), float(exact.high), level))


def _fisher(counts: list[tuple[int, int]]) -> TestResult:
    table = [[failed, seeds - failed] for failed, seeds in counts]
    return TestResult(
        key="fisher",
        name="Fisher's exact test of the failure rates, by seed",
        about="failures",
        why="an arm holds failed runs, or two clusters: whether runs fail more often is then the question",
        assumes="independent seeds",
        assumptions_met=True,
        evidence="each seed counts once",
        p=float(stats.fisher_exact(table).pvalue),
    )


def largest_gap(values: Floats) -> tuple[float | None, float | None]:
    """The middle of the widest gap with two runs or more on either side, and its p value under normality.

    The statistic is the gap in standard deviations; its null distribution is simulated for the sample's size.
    """
    n = len(values)
    if not 5 <= n <= _MOST or np.ptp(values) == 0:
        return None, None
    ordered = np.sort(values)
    gaps = np.diff(ordered)[1:-1]
    widest = int(np.argmax(gaps))
    statistic = gaps[widest] / values.std(ddof=1)
    null = _null_gaps(n)
    p = (1 + float(np.sum(null >= statistic))) / (1 + len(null))
    return float((ordered[widest + 1] + ordered[widest + 2]) / 2), p


@cache
def _null_gaps(n: int) -> Floats:
    rng = np.random.default_rng([n, 20_000])
    draws = np.sort(rng.standard_normal((_NULL_DRAWS, n)), axis=1)
    gaps: Floats = np.diff(draws, axis=1)[:, 1:-1].max(axis=1) / draws.std(axis=1, ddof=1)
    return gaps
