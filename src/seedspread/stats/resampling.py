"""Resampling tests of a variance ratio: permutations and bootstraps.

Whole seeds are permuted or drawn, with all their runs, except in the pooled bootstrap. Results depend only
on the data and the random generator.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from seedspread.stats.classic import independence_evidence, unless_contradicted
from seedspread.stats.groups import Floats, Group, Ints, common_seeds
from seedspread.stats.result import Interval, TestResult

Choice = NDArray[np.bool_]

# Up to this many rearrangements are enumerated, more are sampled.
_ALL = 2**14
# Entries of the rearrangements held at once, to bound memory.
_PIECE = 2_000_000
# Seeds times blocks beyond which a permutation is not worth its memory: the jackknife agrees with it.
_LARGEST = 5_000_000
_TOO_LARGE = "left out: the table is too large for it, and the jackknife then says the same"


def seed_permutation(group: Group, baseline: Group, resamples: int, rng: np.random.Generator) -> TestResult:
    """Test the variance ratio by moving whole seeds between groups: all ways, or `resamples` random ones.

    P. Good, Permutation, parametric and bootstrap tests of hypotheses, 3rd ed., Springer (2005).
    """
    blank = TestResult(
        key="permutation",
        name="permutation of seeds",
        about="spread",
        why="the log variance ratio without a model of the shape; twins move together",
        assumes="seeds exchangeable between the arms (of one shape) once cell means are taken out",
        evidence="cannot be told: whether they are is what is tested",
    )
    n1, n = len(group.seed_codes), len(group.seed_codes) + len(baseline.seed_codes)
    if min(n1, n - n1) < 3:
        return replace(blank, note="needs three seeds in each arm: fewer rearrangements say nothing")
    first = np.arange(n) < n1
    if _is_too_large(group, baseline):
        return replace(blank, note=_TOO_LARGE)
    residuals = _residuals(group, baseline)
    if comb(n, n1) <= _ALL:
        every = np.zeros((comb(n, n1), n), dtype=bool)
        np.put_along_axis(every, np.array(list(combinations(range(n), n1))), True, axis=1)
        return _tested(blank, residuals, first, [every], len(every), exact=True)
    drawn = (rng.permuted(np.tile(first, (rows, 1)), axis=1) for rows in _batches(resamples, n))
    return _tested(blank, residuals, first, drawn, resamples, exact=False)


def within_seed_permutation(
    group: Group, baseline: Group, resamples: int, rng: np.random.Generator
) -> TestResult:
    """Test the variance ratio by exchanging the groups within shared seeds: all ways, or a sample."""
    blank = TestResult(
        key="within_seed_permutation",
        name="permutation within seeds",
        about="spread",
        why="compares a seed only with itself, so what a seed does to both arms cannot matter",
        assumes="the arms exchangeable within a seed once cell means are taken out",
        evidence="cannot be told: whether they are is what is tested",
    )
    in_a, in_b = common_seeds(group, baseline)
    n = len(in_a)
    if n < 2:
        return replace(blank, note="the arms share fewer than two seeds")
    if _is_too_large(group, baseline):
        return replace(blank, note=_TOO_LARGE)
    residuals = _residuals(group, baseline)[np.concatenate([in_a, len(group.seed_codes) + in_b])]
    first = np.arange(2 * n) < n
    if 2**n <= _ALL:
        stays = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
        test = _tested(blank, residuals, first, [np.hstack([stays, ~stays])], 2**n, exact=True)
        least = 2.0 ** (1 - n)
        return replace(test, note=f"with {n} seeds never below {least:.3g}") if least > 0.05 else test
    drawn = (
        np.hstack([stays, ~stays])
        for stays in (rng.random((rows, n)) < 0.5 for rows in _batches(resamples, 2 * n))
    )
    return _tested(blank, residuals, first, drawn, resamples, exact=False)


def _is_too_large(group: Group, baseline: Group) -> bool:
    blocks = len({*group.cells, *baseline.cells})
    return (len(group.seed_codes) + len(baseline.seed_codes)) * blocks > _LARGEST


def _residuals(group: Group, baseline: Group) -> Floats:
    """Return (seeds of both groups, blocks) deviations from cell means; NaN if there is no run."""
    blocks = sorted({*group.cells, *baseline.cells})
    out = np.full((len(group.seed_codes) + len(baseline.seed_codes), len(blocks)), np.nan)
    for start, side in ((0, group), (len(group.seed_codes), baseline)):
        rows = start + np.searchsorted(side.seed_codes, side.seeds)
        out[rows, np.searchsorted(blocks, side.blocks)] = side.residuals
    return out


def _batches(total: int, width: int) -> list[int]:
    size = max(1, _PIECE // width)
    return [min(size, total - start) for start in range(0, total, size)]


def _tested(
    blank: TestResult, residuals: Floats, first: Choice, batches: Iterable[Choice], total: int, *, exact: bool
) -> TestResult:
    if not np.nansum(residuals**2):
        return replace(blank, note="neither arm has any spread")
    extreme = sum(_as_extreme(residuals, first, batch) for batch in batches)
    if exact:
        return replace(blank, p=extreme / total, note=f"all {total:,} rearrangements")
    # The observed arrangement is one of those that could have been drawn (Phipson and Smyth, 2010).
    return replace(blank, p=(extreme + 1) / (total + 1), note=f"{total:,} random rearrangements")


def _as_extreme(residuals: Floats, first: Choice, chosen: Choice) -> int:
    """Count the rearrangements whose log ratio is at least as far from zero as the observed one."""
    observed = abs(_log_ratio(residuals, first[None])[0])
    permuted = np.abs(_log_ratio(residuals, chosen))
    return int(np.sum((permuted >= observed * (1 - 1e-10)) | np.isnan(permuted)))


def _log_ratio(residuals: Floats, chosen: Choice) -> Floats:
    """Return log ratios of within-cell variances of the chosen rows and the others, about their own means.

    Centering again after each exchange keeps the test near its level: residuals of two groups that were
    centered separately are not quite exchangeable.
    """
    weights = chosen.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(_within(residuals, weights)) - np.log(_within(residuals, 1 - weights))


def _within(residuals: Floats, weights: Floats) -> Floats:
    """Return (n,) within-cell variances of the rows with weight 1."""
    present = ~np.isnan(residuals)
    e = np.where(present, residuals, 0.0)
    counts = weights @ present
    squares = weights @ e**2 - (weights @ e) ** 2 / np.maximum(counts, 1)
    sums = squares.sum(axis=1)
    sums[sums < 1e-12 * (e**2).sum()] = 0.0
    out: Floats = sums / np.maximum(counts - 1, 0).sum(axis=1)
    return out


# With fewer runs or seeds the intervals are too short.
_ENOUGH = 20
# Counts of drawn seeds held at once.
_MOST_COUNTS = 100_000_000


def ratio_resamples(x: Floats, y: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Return (resamples,) ratios of the sample variances of independent resamples of `x` and `y`."""
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


def pooled_bootstrap(
    group: Group,
    baseline: Group,
    level: float,
    resamples: int,
    rng: np.random.Generator,
    independent: bool | None = None,
) -> TestResult:
    """Return the percentile interval of the ratio of pooled variances."""
    runs = min(len(group.values), len(baseline.values))
    blank = TestResult(
        key="bootstrap",
        name="bootstrap percentile, pooled",
        about="spread",
        why="the simplest bootstrap interval of a ratio",
        assumes="independent runs, enough of them to stand for the population",
        assumptions_met=unless_contradicted(independent) if runs >= _ENOUGH else False,
        evidence=independence_evidence(independent)
        + f"; below about {_ENOUGH} runs an arm, bootstrap intervals of a variance ratio are too short",
    )
    x, y = group.values, baseline.values
    note = _no_ratio(group, baseline) or _too_few(runs, "run", level)
    if note:
        return replace(blank, note=note)
    low, high = _quantiles(ratio_resamples(x, y, resamples, rng), level)
    estimate = float(x.var(ddof=1) / y.var(ddof=1))
    return replace(blank, estimate=estimate, interval=Interval(low, high, level))


def _no_ratio(group: Group, baseline: Group) -> str:
    if len(group.values) < 2 or len(baseline.values) < 2:
        return "an arm has a single run"
    if np.ptp(group.values) == 0 or np.ptp(baseline.values) == 0:
        return "an arm has no spread at all, so there is no ratio"
    return ""


def fewest(level: float) -> int:
    """Return the fewest seeds or runs whose bootstrap interval has a meaning: four at 95%.

    A resample that contains only one of n has no spread. Its probability is n^(1 - n): 1/2 for two seeds, 1/9
    for three, 1/64 for four. It must be below the tail, or the interval's ends come from such resamples.
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


def _quantiles(ratios: Floats, level: float) -> tuple[float, float]:
    """Interpolate linearly between order statistics, but never between a number and infinity."""
    ordered = np.sort(ratios[~np.isnan(ratios)])
    positions = np.array([(1 - level) / 2, (1 + level) / 2]) * (len(ordered) - 1)
    below, above = ordered[np.floor(positions).astype(int)], ordered[np.ceil(positions).astype(int)]
    with np.errstate(invalid="ignore"):
        low, high = np.where(np.isinf(above), above, below + (above - below) * (positions % 1))
    return float(low), float(high)


def clustered_bootstrap(
    group: Group, baseline: Group, level: float, resamples: int, rng: np.random.Generator
) -> TestResult:
    """Return the percentile interval of draws of whole seeds; shared seeds are drawn for both groups at once.

    A. C. Davison and D. V. Hinkley, Bootstrap methods and their application, Cambridge (1997), section 3.8.
    """
    seeds = min(len(group.seed_codes), len(baseline.seed_codes))
    blank = TestResult(
        key="seed_bootstrap",
        name="seed bootstrap",
        about="spread",
        why="the seed is the unit: its twins in other blocks come with it; the ratio is within cells",
        assumes="independent seeds, enough of them to stand for the population",
        assumptions_met=None if seeds >= _ENOUGH else False,
        evidence=f"below about {_ENOUGH} seeds, bootstrap intervals of a variance ratio are too short",
    )
    if not (group.has_spread and baseline.has_spread):
        return replace(blank, note="an arm has no spread within its cells, so there is no ratio")
    if seeds < fewest(level):
        return replace(blank, note=_too_few(seeds, "seed", level))
    if resamples * (len(group.seed_codes) + len(baseline.seed_codes)) > _MOST_COUNTS:
        return replace(blank, note=_TOO_LARGE)
    everyone = np.union1d(group.seed_codes, baseline.seed_codes)
    shared = len(everyone) < len(group.seed_codes) + len(baseline.seed_codes)
    # Seeds of both groups in one draw if they share any; otherwise each group has its own draw.
    pools = (everyone, everyone) if shared else (group.seed_codes, baseline.seed_codes)
    first = _counts(len(pools[0]), resamples, rng)
    second = first if shared else _counts(len(pools[1]), resamples, rng)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = _weighted_variance(group, pools[0], first) / _weighted_variance(baseline, pools[1], second)
    low, high = _quantiles(ratios, level)
    estimate = group.within_variance / baseline.within_variance
    return replace(blank, estimate=estimate, interval=Interval(low, high, level))


def _counts(n: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Return (resamples, n) numbers of times that each of n seeds was drawn."""
    drawn = rng.integers(0, n, size=(resamples, n)) + np.arange(resamples)[:, None] * n
    return np.bincount(drawn.ravel(), minlength=resamples * n).reshape(resamples, n).astype(float)


def _weighted_variance(group: Group, seeds: Ints, counts: Floats) -> Floats:
    """Return (resamples,) within-cell variances of a group whose seeds were drawn `counts` times."""
    squares, df = np.zeros(len(counts)), np.zeros(len(counts))
    for block in group.cells:
        in_block = group.blocks == block
        weights = counts[:, np.searchsorted(seeds, group.seeds[in_block])]
        e, n = group.residuals[in_block], weights.sum(axis=1)
        squares += weights @ e**2 - (weights @ e) ** 2 / np.maximum(n, 1)
        df += np.maximum(n - 1, 0)
    squares[squares < 1e-12 * (group.residuals**2).sum()] = 0.0
    return squares / df
