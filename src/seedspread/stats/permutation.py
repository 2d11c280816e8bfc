"""Permutation tests of the log variance ratio in which whole seeds move, twins and all."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from seedspread.stats.arms import Arm, Floats, common_seeds
from seedspread.stats.result import TestResult

Choice = NDArray[np.bool_]

# Up to this many rearrangements are enumerated; beyond, sampled.
_ALL = 2**14
# Entries of the rearrangements held at once, to bound memory.
_PIECE = 2_000_000
# Seeds times blocks beyond which a permutation is not worth its memory: the jackknife says the same.
_LARGEST = 5_000_000
_TOO_LARGE = "left out: the table is too large for it, and the jackknife then says the same"


def seed_permutation(arm: Arm, baseline: Arm, resamples: int, rng: np.random.Generator) -> TestResult:
    """Seeds, with all their runs, change arms in every possible way, or in `resamples` random ways."""
    blank = TestResult(
        key="permutation",
        name="permutation of seeds",
        about="spread",
        why="the log variance ratio without a model of the shape; twins move together",
        assumes="seeds exchangeable between the arms (of one shape) once cell means are taken out",
        evidence="cannot be told: whether they are is what is tested",
    )
    n1, n = len(arm.seed_codes), len(arm.seed_codes) + len(baseline.seed_codes)
    if min(n1, n - n1) < 3:
        return replace(blank, note="needs three seeds in each arm: fewer rearrangements say nothing")
    first = np.arange(n) < n1
    if _is_too_large(arm, baseline):
        return replace(blank, note=_TOO_LARGE)
    residuals = _residuals(arm, baseline)
    if comb(n, n1) <= _ALL:
        every = np.zeros((comb(n, n1), n), dtype=bool)
        np.put_along_axis(every, np.array(list(combinations(range(n), n1))), True, axis=1)
        return _tested(blank, residuals, first, [every], len(every), exact=True)
    drawn = (rng.permuted(np.tile(first, (rows, 1)), axis=1) for rows in _batches(resamples, n))
    return _tested(blank, residuals, first, drawn, resamples, exact=False)


def within_seed_permutation(arm: Arm, baseline: Arm, resamples: int, rng: np.random.Generator) -> TestResult:
    """Within each seed that both arms have, their runs are exchanged or not: all ways or a sample."""
    blank = TestResult(
        key="within_seed_permutation",
        name="permutation within seeds",
        about="spread",
        why="compares a seed only with itself, so what a seed does to both arms cannot matter",
        assumes="the arms exchangeable within a seed once cell means are taken out",
        evidence="cannot be told: whether they are is what is tested",
    )
    in_a, in_b = common_seeds(arm, baseline)
    n = len(in_a)
    if n < 2:
        return replace(blank, note="the arms share fewer than two seeds")
    if _is_too_large(arm, baseline):
        return replace(blank, note=_TOO_LARGE)
    residuals = _residuals(arm, baseline)[np.concatenate([in_a, len(arm.seed_codes) + in_b])]
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


def _is_too_large(arm: Arm, baseline: Arm) -> bool:
    blocks = len({*arm.cells, *baseline.cells})
    return (len(arm.seed_codes) + len(baseline.seed_codes)) * blocks > _LARGEST


def _residuals(arm: Arm, baseline: Arm) -> Floats:
    """(seeds of both arms, blocks) deviations from cell means; NaN where there is no run."""
    blocks = sorted({*arm.cells, *baseline.cells})
    out = np.full((len(arm.seed_codes) + len(baseline.seed_codes), len(blocks)), np.nan)
    for start, side in ((0, arm), (len(arm.seed_codes), baseline)):
        rows = start + np.searchsorted(side.seed_codes, side.seeds)
        out[rows, np.searchsorted(blocks, side.blocks)] = side.residuals
    return out


def _batches(total: int, width: int) -> list[int]:
    size = max(1, _PIECE // width)
    return [min(size, total - start) for start in range(0, total, size)]


def _tested(
    blank: TestResult, residuals: Floats, first: Choice, batches: Iterable[Choice], total: int, *, exact: bool
) -> TestResult:
    """`blank` with the p value from all rearrangements, or from a sample of them."""
    if not np.nansum(residuals**2):
        return replace(blank, note="neither arm has any spread")
    extreme = sum(_as_extreme(residuals, first, batch) for batch in batches)
    if exact:
        return replace(blank, p=extreme / total, note=f"all {total:,} rearrangements")
    # The observed arrangement is one of those that could have been drawn (Phipson and Smyth, 2010).
    return replace(blank, p=(extreme + 1) / (total + 1), note=f"{total:,} random rearrangements")


def _as_extreme(residuals: Floats, first: Choice, chosen: Choice) -> int:
    """How many rearrangements give a log ratio at least as far from zero as the observed one."""
    observed = abs(_log_ratio(residuals, first[None])[0])
    permuted = np.abs(_log_ratio(residuals, chosen))
    return int(np.sum((permuted >= observed * (1 - 1e-10)) | np.isnan(permuted)))


def _log_ratio(residuals: Floats, chosen: Choice) -> Floats:
    """The log ratio of within-cell variances of the chosen rows and the others, each about its own means.

    Centring anew after each exchange keeps the test near its level: residuals of two arms that were centred
    apart are not quite exchangeable.
    """
    weights = chosen.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(_within(residuals, weights)) - np.log(_within(residuals, 1 - weights))


def _within(residuals: Floats, weights: Floats) -> Floats:
    """(n,) within-cell variances of the rows that have weight 1."""
    present = ~np.isnan(residuals)
    e = np.where(present, residuals, 0.0)
    counts = weights @ present
    squares = weights @ e**2 - (weights @ e) ** 2 / np.maximum(counts, 1)
    sums = squares.sum(axis=1)
    sums[sums < 1e-12 * (e**2).sum()] = 0.0
    out: Floats = sums / np.maximum(counts - 1, 0).sum(axis=1)
    return out
