"""Bootstrap intervals of the variance ratio, vectorised, the same for the same seed."""

from dataclasses import replace
from typing import cast

import numpy as np
from scipy import stats

from seedspread.stats.arms import Arm, Floats, Ints
from seedspread.stats.classic import independence_evidence, unless_contradicted
from seedspread.stats.result import Interval, TestResult

# Below so many runs or seeds the intervals are too short.
_ENOUGH = 20
# Draws held at once, to bound memory.
_PIECE = 2_000_000
# Counts of drawn seeds held at once.
_MOST_COUNTS = 100_000_000


def ratio_resamples(x: Floats, y: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """(resamples,) ratios of the sample variances of independent resamples of `x` and `y`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _variances(x, resamples, rng) / _variances(y, resamples, rng)


def _variances(x: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    n = len(x)
    centred = x - x.mean()  # what is summed is small, so that sum and sum of squares lose no digits
    kind = np.uint8 if n <= 256 else np.uint32  # the narrower the draws, the quicker
    out = np.empty(resamples)
    rows = max(1, _PIECE // n)
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        drawn = centred[rng.integers(0, n, size=(stop - start, n), dtype=kind)]
        sums = drawn @ np.ones(n)
        out[start:stop] = np.maximum(np.einsum("ij,ij->i", drawn, drawn) - sums**2 / n, 0.0) / (n - 1)
    out[out < 1e-12 * centred.var()] = 0.0  # a resample of one value over and over, but for rounding
    return out


def bootstrap_tests(
    arm: Arm,
    baseline: Arm,
    level: float,
    resamples: int,
    rng: np.random.Generator,
    independent: bool | None = None,
) -> tuple[TestResult, TestResult]:
    """The percentile interval, and the BCa interval from the same draws."""
    runs = min(len(arm.values), len(baseline.values))
    common = {
        "about": "spread",
        "assumes": "independent runs, enough of them to stand for the population",
        "assumptions_met": unless_contradicted(independent) if runs >= _ENOUGH else False,
        "evidence": independence_evidence(independent)
        + f"; below about {_ENOUGH} runs an arm, bootstrap intervals of a variance ratio are too short",
    }
    percentile = TestResult(
        key="bootstrap",
        name="bootstrap percentile, pooled",
        why="the simplest bootstrap interval of a ratio",
        **common,  # type: ignore[arg-type]
    )
    bca = TestResult(
        key="bootstrap_bca",
        name="bootstrap BCa, pooled",
        why="corrects the percentile interval for bias and skewness",
        **common,  # type: ignore[arg-type]
    )
    x, y = arm.values, baseline.values
    note = _no_ratio(arm, baseline) or _too_few(runs, "run", level)
    if note:
        return replace(percentile, note=note), replace(bca, note=note)
    ratios = ratio_resamples(x, y, resamples, rng)
    estimate = float(x.var(ddof=1) / y.var(ddof=1))
    tail = (1 - level) / 2
    low, high = _quantiles(ratios, (tail, 1 - tail))
    out = replace(percentile, estimate=estimate, interval=Interval(low, high, level))
    points = _bca_points(ratios, estimate, x, y, tail)
    if points is None:
        return out, replace(bca, estimate=estimate, note="its correction is undefined here")
    low, high = _quantiles(ratios, points)
    return out, replace(bca, estimate=estimate, interval=Interval(low, high, level))


def _no_ratio(arm: Arm, baseline: Arm) -> str:
    if len(arm.values) < 2 or len(baseline.values) < 2:
        return "an arm has a single run"
    if np.ptp(arm.values) == 0 or np.ptp(baseline.values) == 0:
        return "an arm has no spread at all, so there is no ratio"
    return ""


def fewest(level: float) -> int:
    """Of so many seeds or runs a bootstrap interval has a meaning: four at 95 %.

    One of n that is drawn n times over has no spread. That has the probability n^(1 - n): 1/2 of two seeds,
    1/9 of three, 1/64 of four. Only where it is below the tail do the interval's ends come from resamples
    that have spread in them.
    """
    n = 4
    while n ** (1.0 - n) >= (1 - level) / 2:
        n += 1
    return n


def _too_few(n: int, unit: str, level: float) -> str:
    least = fewest(level)
    if n >= least:
        return ""
    return f"needs {least} {unit}s in each arm: with {n} too many resamples are one {unit} over and over"


def _quantiles(ratios: Floats, at: tuple[float, float]) -> tuple[float, float]:
    """Linear between order statistics, but never between a number and infinity."""
    ordered = np.sort(ratios[~np.isnan(ratios)])
    positions = np.array(at) * (len(ordered) - 1)
    below, above = ordered[np.floor(positions).astype(int)], ordered[np.ceil(positions).astype(int)]
    with np.errstate(invalid="ignore"):
        low, high = np.where(np.isinf(above), above, below + (above - below) * (positions % 1))
    return float(low), float(high)


def _bca_points(
    ratios: Floats, estimate: float, x: Floats, y: Floats, tail: float
) -> tuple[float, float] | None:
    """Efron's corrected percentiles; the acceleration is the two-sample one, from leaving runs out."""
    valid = ratios[~np.isnan(ratios)]
    share = (np.sum(valid < estimate) + np.sum(valid <= estimate)) / (2 * len(valid))
    with np.errstate(invalid="ignore"):  # a sample that has no spread without one of its values
        influences = [(len(v) - 1) * (kept.mean() - kept) / len(v) for v, kept in _left_out(x, y)]
        spread = sum((u**2).sum() for u in influences)
    if not 0 < share < 1 or not np.isfinite(spread) or spread == 0:
        return None
    acceleration = sum((u**3).sum() for u in influences) / (6 * spread**1.5)
    bias = stats.norm.ppf(share)
    z = bias + stats.norm.ppf([tail, 1 - tail])
    low, high = stats.norm.cdf(bias + z / (1 - acceleration * z))
    return float(low), float(high)


def _left_out(x: Floats, y: Floats) -> list[tuple[Floats, Floats]]:
    """For each sample: its values, and the ratio without each of them in turn."""
    vx, vy = x.var(ddof=1), y.var(ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return [(x, _variances_without_one(x) / vy), (y, vx / _variances_without_one(y))]


def _variances_without_one(x: Floats) -> Floats:
    n = len(x)
    if n < 3:
        return np.full(n, np.nan)
    e2 = (x - x.mean()) ** 2
    return cast(Floats, (e2.sum() - n / (n - 1) * e2) / (n - 2))


def clustered_bootstrap(
    arm: Arm, baseline: Arm, level: float, resamples: int, rng: np.random.Generator
) -> TestResult:
    """Whole seeds are drawn, with all their runs; seeds that both arms have are drawn for both at once."""
    seeds = min(len(arm.seed_codes), len(baseline.seed_codes))
    blank = TestResult(
        key="seed_bootstrap",
        name="seed bootstrap",
        about="spread",
        why="the seed is the unit: its twins in other blocks come with it; the ratio is within cells",
        assumes="independent seeds, enough of them to stand for the population",
        assumptions_met=None if seeds >= _ENOUGH else False,
        evidence=f"below about {_ENOUGH} seeds, bootstrap intervals of a variance ratio are too short",
    )
    if not (arm.has_spread and baseline.has_spread):
        return replace(blank, note="an arm has no spread within its cells, so there is no ratio")
    if seeds < fewest(level):
        return replace(blank, note=_too_few(seeds, "seed", level))
    if resamples * (len(arm.seed_codes) + len(baseline.seed_codes)) > _MOST_COUNTS:
        return replace(
            blank, note="left out: the table is too large for it, and the jackknife then says the same"
        )
    everyone = np.union1d(arm.seed_codes, baseline.seed_codes)
    shared = len(everyone) < len(arm.seed_codes) + len(baseline.seed_codes)
    # Seeds of both arms in one draw if they share any; otherwise each arm has its own draw.
    pools = (everyone, everyone) if shared else (arm.seed_codes, baseline.seed_codes)
    first = _counts(len(pools[0]), resamples, rng)
    second = first if shared else _counts(len(pools[1]), resamples, rng)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = _weighted_variance(arm, pools[0], first) / _weighted_variance(baseline, pools[1], second)
    low, high = _quantiles(ratios, ((1 - level) / 2, (1 + level) / 2))
    estimate = arm.within_variance / baseline.within_variance
    return replace(blank, estimate=estimate, interval=Interval(low, high, level))


def _counts(n: int, resamples: int, rng: np.random.Generator) -> Floats:
    """(resamples, n) how often each of n seeds was drawn."""
    drawn = rng.integers(0, n, size=(resamples, n)) + np.arange(resamples)[:, None] * n
    return np.bincount(drawn.ravel(), minlength=resamples * n).reshape(resamples, n).astype(float)


def _weighted_variance(arm: Arm, seeds: Ints, counts: Floats) -> Floats:
    """(resamples,) within-cell variances of an arm whose seeds were drawn `counts` times."""
    squares, df = np.zeros(len(counts)), np.zeros(len(counts))
    for block in arm.cells:
        in_block = arm.blocks == block
        weights = counts[:, np.searchsorted(seeds, arm.seeds[in_block])]
        e, n = arm.residuals[in_block], weights.sum(axis=1)
        squares += weights @ e**2 - (weights @ e) ** 2 / np.maximum(n, 1)
        df += np.maximum(n - 1, 0)
    squares[squares < 1e-12 * (arm.residuals**2).sum()] = 0.0
    return squares / df
