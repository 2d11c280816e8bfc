"""Permutation tests of the log variance ratio in which whole seeds move, twins and all."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import cast

import numpy as np
from numpy.typing import NDArray

from seedspread.stats.arms import Arm, Floats, Ints, common_seeds
from seedspread.stats.result import Test

Choice = NDArray[np.bool_]

# Up to this many rearrangements are all gone through; beyond, a sample of them is drawn.
_ALL = 2**14
# Places of rearrangements held at once, so that a large table does not fill the memory.
_PIECE = 2_000_000


def seed_permutation(arm: Arm, reference: Arm, resamples: int, rng: np.random.Generator) -> Test:
    """Seeds, with all their runs, change arms in every possible way, or in `resamples` random ways."""
    blank = Test(
        key="permutation",
        name="permutation of seeds",
        about="spread",
        why="the log variance ratio without assumption about shape; twins move together",
        assumes="seeds exchangeable between the arms once cell means are taken out",
    )
    (q1, m1), (q2, m2) = arm.by_seed, reference.by_seed
    n1, n = len(q1), len(q1) + len(q2)
    if min(n1, n - n1) < 3:
        return replace(blank, note="needs three seeds in each arm: fewer rearrangements say nothing")
    first = np.arange(n) < n1
    if comb(n, n1) <= _ALL:
        every = np.zeros((comb(n, n1), n), dtype=bool)
        np.put_along_axis(every, np.array(list(combinations(range(n), n1))), True, axis=1)
        return _exact(blank, np.concatenate([q1, q2]), np.concatenate([m1, m2]), first, every)
    drawn = (rng.permuted(np.tile(first, (rows, 1)), axis=1) for rows in _batches(resamples, n))
    return _sampled(blank, np.concatenate([q1, q2]), np.concatenate([m1, m2]), first, drawn, resamples)


def within_seed_permutation(arm: Arm, reference: Arm, resamples: int, rng: np.random.Generator) -> Test:
    """Within each seed that both arms have, their runs are exchanged or not: all ways or a sample."""
    blank = Test(
        key="within_seed_permutation",
        name="permutation within seeds",
        about="spread",
        why="compares a seed only with itself, so what a seed does to both arms cannot matter",
        assumes="the arms exchangeable within a seed once cell means are taken out",
    )
    in_a, in_b = common_seeds(arm, reference)
    n = len(in_a)
    if n < 2:
        return replace(blank, note="the arms share fewer than two seeds")
    q = np.concatenate([arm.by_seed[0][in_a], reference.by_seed[0][in_b]])
    m = np.concatenate([arm.by_seed[1][in_a], reference.by_seed[1][in_b]])
    first = np.arange(2 * n) < n
    if 2**n <= _ALL:
        stays = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
        done = _exact(blank, q, m, first, np.hstack([stays, ~stays]))
        least = 2.0 ** (1 - n)
        return replace(done, note=f"with {n} seeds never below {least:.3g}") if least > 0.05 else done
    drawn = (
        np.hstack([stays, ~stays])
        for stays in (rng.random((rows, n)) < 0.5 for rows in _batches(resamples, 2 * n))
    )
    return _sampled(blank, q, m, first, drawn, resamples)


def _batches(total: int, width: int) -> list[int]:
    size = max(1, _PIECE // width)
    return [min(size, total - start) for start in range(0, total, size)]


def _exact(blank: Test, q: Floats, m: Ints, first: Choice, every: Choice) -> Test:
    if not np.any(q):
        return replace(blank, note="neither arm has any spread")
    p = _as_extreme(q, m, first, every) / len(every)
    return replace(blank, p=p, note=f"all {len(every):,} rearrangements")


def _sampled(blank: Test, q: Floats, m: Ints, first: Choice, drawn: Iterator[Choice], total: int) -> Test:
    if not np.any(q):
        return replace(blank, note="neither arm has any spread")
    more = sum(_as_extreme(q, m, first, piece) for piece in drawn)
    # The observed arrangement is one of those that could have been drawn (Phipson and Smyth, 2010).
    return replace(blank, p=(more + 1) / (total + 1), note=f"{total:,} random rearrangements")


def _as_extreme(q: Floats, m: Ints, first: Choice, chosen: Choice) -> int:
    """How many rearrangements give a log ratio at least as far from zero as the observed one."""
    observed = abs(_log_ratio(q, m, first[None])[0])
    found = np.abs(_log_ratio(q, m, chosen))
    return int(np.sum((found >= observed * (1 - 1e-10)) | np.isnan(found)))


def _log_ratio(q: Floats, m: Ints, chosen: Choice) -> Floats:
    picked = chosen.astype(float)
    top, top_runs = picked @ q, picked @ m
    # What is not on top is below; taking it from the total would leave a rounding where nothing is left.
    bottom, bottom_runs = (1 - picked) @ q, m.sum() - top_runs
    with np.errstate(divide="ignore", invalid="ignore"):
        return cast(Floats, np.log(top / top_runs) - np.log(bottom / bottom_runs))
