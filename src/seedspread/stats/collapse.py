"""Failed runs and two clusters: when an arm has either, its variance answers the wrong question."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from seedspread.stats.arms import Arm, Floats, Ints
from seedspread.stats.outcomes import Better
from seedspread.stats.result import Collapse, FailedRuns, Failures, Interval, TestResult, TwoClusters

# Of the gap test, by arm: two clusters in a handful of runs are easily chance.
_GAP_LEVEL = 0.01
# A gap counts if it is so many times as wide as either cluster.
_WIDE = 1.5
_NULL_DRAWS = 20_000
# Beyond this many runs the largest gap says little about modes.
_MOST = 200


@dataclass(frozen=True)
class Suspects:
    """Seeds of an arm that are not samples of the same thing as the rest, by their codes.

    Attributes:
        failed: a run of theirs is flagged, has no value, or is no better than chance.
        clustered: others, that are no better than the worse of two clusters of either arm.
        seeds: how many the arm has, those without a value too.
    """

    failed: Ints
    clustered: Ints
    seeds: int

    @property
    def all(self) -> Ints:
        """Both."""
        return np.union1d(self.failed, self.clustered)


def detect_collapse(
    arm: Arm,
    baseline: Arm,
    better: Better,
    chance: float | None,
    level: float,
    full_scale: float | None = None,
) -> Collapse:
    """Counts failed runs and looks for two clusters.

    Args:
        arm: one arm.
        baseline: the other.
        better: which direction of the values is better.
        chance: what a run that learnt nothing scores, if known.
        level: of the intervals.
        full_scale: see `no_better`.
    """
    suspects, failures, clusters = find_suspects(arm, baseline, better, chance, full_scale)
    if not failures and not clusters:
        return Collapse(found=False)
    arms = tuple(_failures(a, s, level) for a, s in zip((arm, baseline), suspects, strict=True))
    p = fisher_p(*((f.failed, f.seeds) for f in arms))
    return Collapse(True, arms, _fisher(p), bool(failures), bool(clusters), (*clusters, *failures))


def find_suspects(
    arm: Arm, baseline: Arm, better: Better, chance: float | None, full_scale: float | None = None
) -> tuple[tuple[Suspects, Suspects], list[FailedRuns], list[TwoClusters]]:
    """The seeds that failed or fall apart, of both arms; and how that is known: failures, clusters."""
    sign = 1.0 if better == "higher" else -1.0
    failures: list[FailedRuns] = []
    clusters: list[TwoClusters] = []
    # Turned so that higher is better, as all values below.
    best = float(np.max(sign * np.concatenate([arm.values, baseline.values])))
    near = [
        np.zeros(len(side.values), dtype=bool)
        if chance is None
        else no_better(sign * side.values, sign * chance, best, full_scale)
        for side in (arm, baseline)
    ]
    cuts = [cut for side in (arm, baseline) if (cut := _cut(side, sign, clusters)) is not None]
    out = []
    for side, guessing in zip((arm, baseline), near, strict=True):
        failed = _failed(side, guessing, chance, failures)
        # A seed of either arm that is no better than one arm's worse cluster belongs there.
        below = [side.seed_codes[sign * side.seed_means <= cut] for cut in cuts]
        clustered = np.setdiff1d(np.concatenate([np.empty(0, np.intp), *below]), failed)
        out.append(Suspects(failed, clustered, len(np.union1d(side.seed_codes, side.crashed))))
    return (out[0], out[1]), failures, clusters


def no_better(values: Floats, chance: float, best: float, full_scale: float | None) -> NDArray[np.bool_]:
    """(n,) whether values, of which the high ones are better, gain a hundredth of the scale at most.

    Args:
        values: (n,) of runs.
        chance: what a run that learnt nothing scores.
        best: the best value of all runs.
        full_scale: what the number one is in the values' unit, 100 in per cent; where that means nothing, the
            scale is what the best of all runs has gained over chance.
    """
    scale = full_scale if full_scale is not None else abs(best - chance)
    return np.asarray(values - chance <= 0.01 * scale)


def _failed(arm: Arm, near: NDArray[np.bool_], chance: float | None, signs: list[FailedRuns]) -> Ints:
    """Seeds with a run that is flagged, has no value, or is no better than chance."""
    runs = len(arm.values)
    bad = np.zeros(runs, dtype=bool) if arm.failed is None else arm.failed.copy()
    if bad.any():
        signs.append(FailedRuns(arm.name, "flagged", int(bad.sum()), runs))
    if len(arm.crashed):
        signs.append(FailedRuns(arm.name, "no value", len(arm.crashed), runs))
    if near.any():
        signs.append(FailedRuns(arm.name, "chance", int(near.sum()), runs, chance))
    return np.union1d(arm.seeds[bad | near], arm.crashed)


def _cut(arm: Arm, sign: float, signs: list[TwoClusters]) -> float | None:
    """The best of the worse cluster, if an arm falls apart into two; `sign` is -1 where lower is better.

    It is turned so that higher is better, as the values are.
    """
    # Twins of a seed fall on one side together, block means make no clusters.
    values = sign * arm.seed_means
    parted = two_clusters(values)
    if parted is None:
        return None
    cut, p = parted
    low, high = values[values < cut], values[values > cut]
    below, above = (len(low), len(high)) if sign > 0 else (len(high), len(low))
    signs.append(TwoClusters(arm.name, sign * cut, below, above, p))
    return float(low.max())


def two_clusters(values: Floats) -> tuple[float, float] | None:
    """Where values fall apart, and the gap test's p; None if they do not, or no narrower clusters result."""
    cut, p = largest_gap(values)
    if cut is None or p is None or p >= _GAP_LEVEL:
        return None
    low, high = values[values < cut], values[values > cut]
    wide = high.min() - low.max() >= _WIDE * max(np.ptp(low), np.ptp(high))
    return (cut, p) if wide else None


def _failures(arm: Arm, suspects: Suspects, level: float) -> Failures:
    failed, seeds = len(suspects.all), suspects.seeds
    interval = exact_interval(failed, seeds, level)
    crashed, clustered = len(arm.crashed), len(suspects.clustered)
    return Failures(arm.name, failed, seeds, failed / seeds, interval, crashed, clustered)


def exact_interval(count: int, of: int, level: float) -> Interval:
    """Clopper and Pearson's, of a rate."""
    exact = stats.binomtest(count, of).proportion_ci(level, method="exact")
    return Interval(float(exact.low), float(exact.high), level)


def fisher_p(*counts: tuple[int, int]) -> float:
    """Of equal rates, from (failed, seeds) of either arm."""
    return float(stats.fisher_exact([[failed, seeds - failed] for failed, seeds in counts]).pvalue)


def _fisher(p: float) -> TestResult:
    return TestResult(
        key="fisher",
        name="Fisher's exact test of the failure rates, by seed",
        about="failures",
        why="an arm holds failed runs, or two clusters: whether runs fail more often is then the question",
        assumes="independent seeds",
        evidence="each seed counts once",
        p=p,
    )


def largest_gap(values: Floats) -> tuple[float | None, float | None]:
    """The middle of the widest gap with two runs or more on either side, and its p value.

    The statistic is the gap over the range of the wider cluster; its null distribution is simulated, for the
    sample's size, from exponential values: of shapes with one mode they fall apart most often, so that the
    test is conservative for normal, heavy-tailed and less skewed ones.
    """
    n = len(values)
    if not 5 <= n <= _MOST or np.ptp(values) == 0:
        return None, None
    ordered = np.sort(values)
    statistic, widest = _gap_ratios(ordered[None], _resolution(ordered))
    null = _null_gaps(n)
    p = (1 + float(np.sum(null >= statistic[0]))) / (1 + len(null))
    return float((ordered[widest[0] + 1] + ordered[widest[0] + 2]) / 2), p


def _gap_ratios(ordered: Floats, resolution: float = 0.0) -> tuple[Floats, Ints]:
    """(k,) of (k, n) sorted samples: the widest gap over the wider range beside it; and which gap that is."""
    gaps = np.diff(ordered, axis=1)[:, 1:-1]
    widest = np.argmax(gaps, axis=1)
    rows = np.arange(len(ordered))
    low = ordered[rows, widest + 1] - ordered[:, 0]
    high = ordered[:, -1] - ordered[rows, widest + 2]
    ratios: Floats = gaps[rows, widest] / (np.maximum(low, high) + resolution)
    return ratios, widest


def _resolution(ordered: Floats) -> float:
    """The step of values that tie, which may lie anywhere within it: the smallest gap between others."""
    gaps = np.diff(ordered)
    tied = gaps <= 1e-9 * (ordered[-1] - ordered[0])
    return float(gaps[~tied].min()) if tied.any() else 0.0


@cache
def _null_gaps(n: int) -> Floats:
    rng = np.random.default_rng([n, 20_000])
    return _gap_ratios(np.sort(rng.standard_exponential((_NULL_DRAWS, n)), axis=1))[0]
