"""Failed runs and two clusters: when an arm has either, its variance answers the wrong question."""

from functools import cache

import numpy as np
from scipy import stats

from seedspread.stats.arms import Arm, Floats
from seedspread.stats.result import Collapse, Failures, Interval, Test

# A value at most this far above a level that needs no learning counts as having learnt nothing.
_NEAR = 0.01
_GAP_LEVEL = 0.05
_NULL_DRAWS = 20_000
# Beyond this many runs the largest gap says little about modes.
_MOST = 200


def look_for_collapse(
    arm: Arm, reference: Arm, floor_level: float | None, scale: float, level: float
) -> Collapse:
    """Counts failed runs and looks for two clusters.

    Args:
        arm: one arm.
        reference: the other.
        floor_level: what a run that learnt nothing scores (chance, or the largest class's share), if known.
        scale: 100 for values in per cent, 1 for shares.
        level: of the intervals.
    """
    reasons: list[str] = []
    cuts = [cut for one in (arm, reference) if (cut := _cut(one, reasons)) is not None]
    counts = []
    for one in (arm, reference):
        bad = np.zeros(len(one.values), dtype=bool) if one.failed is None else one.failed.copy()
        if bad.any():
            reasons.append(f"{int(bad.sum())} of {len(bad)} {one.name} runs are flagged as collapsed")
        if floor_level is not None:
            near = one.values <= floor_level + _NEAR * scale
            if near.any():
                reasons.append(
                    f"{int(near.sum())} of {len(near)} {one.name} runs score no better than "
                    f"{floor_level:.4g}, which takes no learning, or at most {_NEAR * scale:g} above"
                )
            bad |= near
        # A seed of either arm that is no better than one arm's lower cluster belongs there.
        below = [one.seed_codes[one.seed_means <= cut] for cut in cuts]
        seeds = np.unique(np.concatenate([one.seeds[bad], *below]))
        counts.append((len(seeds), len(one.seed_codes)))
    if not reasons:
        return Collapse(found=False, sentence="No run is flagged, near chance, or in a cluster of its own.")
    arms = tuple(_failures(one.name, *n, level) for one, n in zip((arm, reference), counts, strict=True))
    sentence = (
        "; ".join(reasons)
        + ". A variance over failed and sound runs together measures how often runs fail: compare the "
        "rates, and the spread of the sound runs apart."
    )
    return Collapse(found=True, sentence=sentence, arms=arms, test=_fisher(counts))


def _cut(arm: Arm, reasons: list[str]) -> float | None:
    """The top of the lower cluster, if an arm falls apart into two."""
    values = arm.seed_means  # twins of a seed fall on one side together, and block means make no clusters
    cut, p = largest_gap(values)
    if cut is None or p is None or p >= _GAP_LEVEL:
        return None
    low, high = values[values < cut], values[values > cut]
    if high.min() - low.max() < 2 * max(np.ptp(low), np.ptp(high)):
        return None  # a gap, but no narrower clusters on its sides
    reasons.append(
        f"{arm.name} falls into two clusters, {len(low)} seeds below {cut:.4g} and {len(high)} above "
        f"(gap test p = {p:.3g})"
    )
    return float(low.max())


def _failures(name: str, failed: int, seeds: int, level: float) -> Failures:
    exact = stats.binomtest(failed, seeds).proportion_ci(level, method="exact")
    return Failures(name, failed, seeds, failed / seeds, Interval(float(exact.low), float(exact.high), level))


def _fisher(counts: list[tuple[int, int]]) -> Test:
    table = [[failed, seeds - failed] for failed, seeds in counts]
    return Test(
        key="fisher",
        name="Fisher's exact test of the failure rates, by seed",
        about="failures",
        why="an arm holds failed runs, or two clusters: whether runs fail more often is then the question",
        assumes="independent seeds",
        holds=True,
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
    place = int(np.argmax(gaps))
    statistic = gaps[place] / values.std(ddof=1)
    null = _null_gaps(n)
    p = (1 + float(np.sum(null >= statistic))) / (1 + len(null))
    return float((ordered[place + 1] + ordered[place + 2]) / 2), p


@cache
def _null_gaps(n: int) -> Floats:
    rng = np.random.default_rng([n, 20_000])
    draws = np.sort(rng.standard_normal((_NULL_DRAWS, n)), axis=1)
    gaps: Floats = np.diff(draws, axis=1)[:, 1:-1].max(axis=1) / draws.std(axis=1, ddof=1)
    return gaps
