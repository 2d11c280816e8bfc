"""Failed runs and two clusters of runs: if a group has either, its variance answers the wrong question."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from seedspread.stats.groups import Floats, Group, Ints
from seedspread.stats.result import Better, Estimate, FailedRuns, FailureModel, Interval, TwoClusters
from seedspread.stats.variance_ratio import robust_ratio

# Level of the gap test, per group: two clusters in a handful of runs are easily chance.
_GAP_LEVEL = 0.01
# A gap counts if it is this many times as wide as either cluster.
_WIDE = 1.5
_NULL_DRAWS = 20_000
# With more runs than this, the largest gap says little about modes.
_MOST = 200


@dataclass(frozen=True)
class FailedSeeds:
    """Seeds of a group that failed, or lie in the worse of two clusters, by their codes."""

    failed: Ints  # with a run that is flagged, has no value, or is no better than chance
    clustered: Ints  # others, that are no better than the worse of two clusters of either group
    seeds: int  # all of the group's, including those without a value

    @property
    def all(self) -> Ints:
        return np.union1d(self.failed, self.clustered)


def find_failed_seeds(
    group: Group, baseline: Group, better: Better, chance: float | None, full_scale: float | None = None
) -> tuple[tuple[FailedSeeds, FailedSeeds], list[FailedRuns], list[TwoClusters]]:
    """Return the failed and clustered seeds of both groups, and the evidence: failed runs, clusters."""
    sign = 1.0 if better == "higher" else -1.0  # times the values: higher is better
    best = float(np.max(sign * np.concatenate([group.values, baseline.values])))
    failures: list[FailedRuns] = []
    clusters: list[TwoClusters] = []
    cuts: list[float] = []
    for side in (group, baseline):
        # Seed means: same-seed runs fall on one side together, and block means make no clusters.
        values = sign * side.seed_means
        if parted := two_clusters(values):
            cut, p = parted
            below = int(np.sum(side.seed_means < sign * cut))
            clusters.append(TwoClusters(side.name, sign * cut, below, len(values) - below, p))
            cuts.append(float(values[values < cut].max()))
    out = []
    for side in (group, baseline):
        runs = len(side.values)
        flagged, guessing = np.zeros(runs, bool) if side.failed is None else side.failed, np.zeros(runs, bool)
        if chance is not None:
            guessing = no_better(sign * side.values, sign * chance, best, full_scale)
        if flagged.any():
            failures.append(FailedRuns(side.name, "flagged", int(flagged.sum()), runs))
        if len(side.crashed):
            failures.append(FailedRuns(side.name, "no value", len(side.crashed), runs))
        if guessing.any():
            failures.append(FailedRuns(side.name, "chance", int(guessing.sum()), runs, chance))
        failed = np.union1d(side.seeds[flagged | guessing], side.crashed)
        # A seed of either group that is no better than one group's worse cluster belongs there.
        in_worse = [side.seed_codes[sign * side.seed_means <= cut] for cut in cuts]
        clustered = np.setdiff1d(np.concatenate([np.empty(0, np.intp), *in_worse]), failed)
        out.append(FailedSeeds(failed, clustered, len(np.union1d(side.seed_codes, side.crashed))))
    return (out[0], out[1]), failures, clusters


def no_better(values: Floats, chance: float, best: float, full_scale: float | None) -> NDArray[np.bool_]:
    """Return (n,) whether values gain at most a hundredth of the scale over chance; higher values are better.

    `full_scale` is 100 for percentages. If the metric has none (None), it is what the best run gains over
    chance.
    """
    scale = full_scale if full_scale is not None else abs(best - chance)
    return np.asarray(values - chance <= 0.01 * scale)


def two_clusters(values: Floats) -> tuple[float, float] | None:
    """Return where (n,) values fall into two clusters, and the gap test's p; None if they do not."""
    cut, p = largest_gap(values)
    if cut is None or p is None or p >= _GAP_LEVEL:
        return None
    low, high = values[values < cut], values[values > cut]
    wide = high.min() - low.max() >= _WIDE * max(np.ptp(low), np.ptp(high))
    return (cut, p) if wide else None


def exact_interval(count: int, of: int, level: float) -> Interval:
    """Return Clopper and Pearson's exact interval of a rate."""
    from scipy import stats  # noqa: PLC0415 - slow, and few audits need it

    exact = stats.binomtest(count, of).proportion_ci(level, method="exact")
    return Interval(float(exact.low), float(exact.high), level)


def rate_of(count: int, of: int, level: float) -> Estimate:
    return Estimate(count / of, exact_interval(count, of, level))


def fisher_p(*counts: tuple[int, int]) -> float:
    """Return the p value of Fisher's exact test of equal rates, from (failed, seeds) of each group."""
    from scipy import stats  # noqa: PLC0415 - slow, and few audits need it

    return float(stats.fisher_exact([[failed, seeds - failed] for failed, seeds in counts]).pvalue)


def largest_gap(values: Floats) -> tuple[float | None, float | None]:
    """Return the middle of the widest gap of (n,) values with two or more on either side, and its p value.

    The statistic is the gap over the range of the wider cluster. Its null distribution is simulated, for the
    sample's size, from exponential values: of shapes with one mode they fall into clusters most often, so the
    test is conservative for normal, heavy-tailed and less skewed ones.
    """
    n = len(values)
    if not 5 <= n <= _MOST or np.ptp(values) == 0:
        return None, None
    ordered = np.sort(values)
    gaps = np.diff(ordered)
    tied = gaps <= 1e-9 * (ordered[-1] - ordered[0])
    step = float(gaps[~tied].min()) if tied.any() else 0.0  # rounding: the smallest gap without ties
    statistic, widest = _gap_ratios(ordered[None], step)
    null = _null_gaps(n)
    p = (1 + float(np.sum(null >= statistic[0]))) / (1 + len(null))
    return float((ordered[widest[0] + 1] + ordered[widest[0] + 2]) / 2), p


def _gap_ratios(ordered: Floats, resolution: float = 0.0) -> tuple[Floats, Ints]:
    """Return (k,) widest gaps of (k, n) sorted samples over the wider cluster's range, and their places."""
    gaps = np.diff(ordered, axis=1)[:, 1:-1]
    widest = np.argmax(gaps, axis=1)
    rows = np.arange(len(ordered))
    low = ordered[rows, widest + 1] - ordered[:, 0]
    high = ordered[:, -1] - ordered[rows, widest + 2]
    return gaps[rows, widest] / (np.maximum(low, high) + resolution), widest


@cache
def _null_gaps(n: int) -> Floats:
    rng = np.random.default_rng([n, 20_000])
    return _gap_ratios(np.sort(rng.standard_exponential((_NULL_DRAWS, n)), axis=1))[0]


def failures(
    group: Group,
    baseline: Group,
    better: Better,
    chance: float | None,
    level: float,
    full_scale: float | None = None,
) -> FailureModel | None:
    """Return failure rates and the spread of successful runs; None without failed runs or clusters."""
    sides, failed, clusters = find_failed_seeds(group, baseline, better, chance, full_scale)
    if not failed and not clusters:
        return None
    (x, n), (y, m) = ((len(s.all), s.seeds) for s in sides)
    first, second = (side.without(s.all) for side, s in zip((group, baseline), sides, strict=True))
    sound, rates = robust_ratio(first, second, level), (rate_of(x, n, level), rate_of(y, m, level))
    return FailureModel(
        kind="both" if failed and clusters else "failed" if failed else "clusters",
        groups=(group.name, baseline.name),
        failed=(x, y),
        crashed=(len(group.crashed), len(baseline.crashed)),
        seeds=(n, m),
        rates=rates,
        difference=difference_of(*rates),
        p=fisher_p((x, n), (y, m)),
        successful_ratio=None if sound.ratio is None else Estimate(sound.ratio, sound.interval),
        successful_p=sound.p,
        signs=(*clusters, *failed),
    )


def difference_of(first: Estimate, second: Estimate) -> Estimate:
    """Return the difference of two independent estimates with exact intervals.

    Its interval adds the squared distances to their ends. It is conservative, and for rates, unlike
    Newcombe's, nearly always agrees with Fisher's test.
    G. Y. Zou and A. Donner, Construction of confidence limits about effect measures, Statistics in Medicine
    27 (2008) 1693-1702.
    """
    p, q, a, b = first.value, second.value, first.interval, second.interval
    if a is None or b is None or not np.isfinite(p - q):
        return Estimate(float("nan"))
    low, high = p - q - np.hypot(p - a.low, b.high - q), p - q + np.hypot(a.high - p, q - b.low)
    return Estimate(p - q, Interval(float(low), float(high), a.level))
