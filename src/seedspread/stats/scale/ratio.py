"""The headline: how many times the variance over seeds is that of the baseline.

A multivariate Student t over each seed's runs (`model.py`), with flat priors on log scales, twins and
Fisher's z, and a small prior on the degrees of freedom. With normal tails alone it is the F interval, and
Pitman and Morgan's where the arms share seeds in one block. Chosen by simulation (docs/statistics.md) over
the same model with an even prior on the tails (2 points of power on normal values), with pairs that share
their tails (10 to 11 % false alarms on contaminated values), and the seed jackknife (blind to pairs, 5 to
20 points of power).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray

from seedspread.stats.arms import Arm, Floats, Ints
from seedspread.stats.result import Interval
from seedspread.stats.scale.layout import Layout
from seedspread.stats.scale.posterior import BATCH, FLOOR, Posterior, posterior

# Fewer pairs often line up by chance, which would pass for a correlation of 1: with three of them and no
# difference at all, p is below 0.001 in one experiment of 25.
FEWEST_PAIRS = 5
# With more, memory runs out before any other test would differ.
MOST_SEEDS = 5000
# A bulk so much narrower than the standard deviation is measured by itself: the floor would drown it.
_DWARFED = 0.01


@dataclass(frozen=True)
class ScaleRatio:
    """The posterior of a ratio of variances: of the bulk, where tails are heavy.

    Attributes:
        ratio: its median.
        interval: the central interval.
        p: twice the smaller tail about 1.
        above_1: the probability that the variance is larger than the baseline's.
        above_2: that it is more than doubled.
        at_least, at_most: one-sided bounds, each at the interval's level.
        nu: the degrees of freedom (the reciprocal's posterior mean, turned over): near 3 very heavy tails.
        seeds: of each arm.
        pairs: how many seeds were used as pairs.
        blocks: how many blocks there are.
        unpaired: the interval if the pairs had not been used; None where there are none.
        note: why there is no ratio, or no pairs, when so.
    """

    seeds: tuple[int, int]
    pairs: int
    blocks: int
    ratio: float | None = None
    interval: Interval | None = None
    p: float | None = None
    above_1: float | None = None
    above_2: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    nu: float | None = None
    unpaired: Interval | None = None
    note: str = ""
    posterior: Posterior | None = field(default=None, repr=False, compare=False)

    def above(self, ratio: float) -> float | None:
        """The probability of a larger ratio."""
        if self.posterior is None:
            return None
        return float(self.posterior.above(log(ratio))[0])

    def within(self, factor: float) -> float | None:
        """The probability of equivalence: that neither variance is more than `factor` times the other."""
        low, high = self.above(1 / factor), self.above(factor)
        return None if low is None or high is None else low - high

    @property
    def narrower(self) -> float | None:
        """What the pairs bought: how many times wider, as a ratio of bounds, the interval is without them."""
        if self.unpaired is None or self.interval is None or self.interval.low <= 0 or self.unpaired.low <= 0:
            return None
        return (self.unpaired.high / self.unpaired.low) / (self.interval.high / self.interval.low)


def scale_ratio(arm: Arm, baseline: Arm, level: float = 0.95, pairs: bool = True) -> ScaleRatio:
    """The ratio of two arms' variances within cells.

    Seeds that both arms have are pairs, whatever their correlation is, unless `pairs` is false: where the
    same number does not mean the same seed.
    """
    return scale_ratios([(arm, baseline)], level, pairs)[0]


def scale_ratios(
    comparisons: Sequence[tuple[Arm, Arm]], level: float = 0.95, pairs: bool = True
) -> list[ScaleRatio]:
    """The same for many: comparisons of one design are computed together."""
    tables = [_Table.of(arm, baseline, pairs) for arm, baseline in comparisons]
    out = [table.blank for table in tables]
    designs: dict[tuple[bytes, tuple[int, ...], bool], list[int]] = {}
    for k, table in enumerate(tables):
        if table.has_ratio:
            designs.setdefault((table.present.tobytes(), table.present.shape, table.paired), []).append(k)
    for places in designs.values():
        for start in range(0, len(places), BATCH):
            batch = places[start : start + BATCH]
            for k, result in zip(batch, _solve([tables[k] for k in batch], level), strict=True):
                out[k] = result
    return out


@dataclass(frozen=True)
class _Table:
    """Two arms as (n, 2, b) values by seed, arm and block; runs that are alone in their cell are left out.

    Values are deviations from their cell's median in units of their arm's scale (`scale_of`), so that none
    is too large or too small; `offset` is the log ratio of those scales, squared.
    """

    values: Floats
    present: NDArray[np.bool_]
    floor: tuple[float, float]
    offset: float
    blank: ScaleRatio

    @property
    def paired(self) -> bool:
        return self.blank.pairs > 0

    @property
    def has_ratio(self) -> bool:
        return bool(self.present.size)

    @staticmethod
    def of(arm: Arm, baseline: Arm, pairs: bool) -> "_Table":
        arms, blocks = (arm, baseline), np.union1d(arm.blocks, baseline.blocks)
        blank = ScaleRatio((len(arm.seed_codes), len(baseline.seed_codes)), 0, len(blocks))
        if not (arm.has_spread and baseline.has_spread):
            blank = replace(blank, note="an arm has no spread within its cells, so there is no ratio")
            return _Table(np.empty(0), np.empty(0, bool), (0.0, 0.0), 0.0, blank)
        if max(blank.seeds) > MOST_SEEDS:
            blank = replace(blank, note=f"not computed for more than {MOST_SEEDS:,} seeds in an arm")
            return _Table(np.empty(0), np.empty(0, bool), (0.0, 0.0), 0.0, blank)
        values, present = _by_seed(arms, blocks, pairs)
        shared = int(np.all(present.any(axis=2), axis=1).sum()) if pairs else 0
        if 0 < shared < FEWEST_PAIRS:
            note = f"{shared} shared seeds are too few to use as pairs; it takes {FEWEST_PAIRS}"
            blank, shared = replace(blank, note=note), 0
        if not shared:
            values, present = _by_seed(arms, blocks, False)
        offset = 2 * (log(scale_of(arm)) - log(scale_of(baseline)))
        first, second = (FLOOR + rounding(a) / scale_of(a) ** 2 for a in arms)
        return _Table(values, present, (first, second), offset, replace(blank, pairs=shared))


def _by_seed(arms: tuple[Arm, Arm], blocks: Ints, pairs: bool) -> tuple[Floats, NDArray[np.bool_]]:
    """(n, 2, b) standardised residuals, and where there are any; unpaired, each arm has its own places."""
    codes = [np.union1d(*(a.seed_codes for a in arms))] * 2 if pairs else [a.seed_codes for a in arms]
    values = np.zeros((max(map(len, codes)), 2, len(blocks)))
    present = np.zeros(values.shape, bool)
    for k, (arm, seeds) in enumerate(zip(arms, codes, strict=True)):
        alone = np.bincount(arm.blocks)[arm.blocks] == 1
        at = np.searchsorted(seeds, arm.seeds), k, np.searchsorted(blocks, arm.blocks)
        values[at] = np.where(alone, 0.0, from_medians(arm) / scale_of(arm))
        present[at] = ~alone
        for first, second in combinations(range(len(blocks)), 2):  # a block that copies another tells nothing
            same = np.array_equal(present[:, k, first], present[:, k, second])
            if same and np.ptp(values[:, k, first] - values[:, k, second]) <= 1e-9:
                present[:, k, second], values[:, k, second] = False, 0.0
    kept = present.any(axis=(1, 2))
    return values[kept], present[kept]


def from_medians(arm: Arm) -> Floats:
    """(n,) deviations from the median of the run's own cell."""
    out = np.empty_like(arm.values)
    for block, values in arm.cells.items():
        out[arm.blocks == block] = values - np.median(values)
    return out


def scale_of(arm: Arm) -> float:
    """The standard deviation within cells; that of the bulk where single runs dwarf all others."""
    bulk = max(float(np.median(np.abs(from_medians(arm)))) / 0.6745, rounding(arm) ** 0.5)
    whole = float(arm.within_variance**0.5)
    return bulk if 0 < bulk < _DWARFED * whole else whole


def rounding(arm: Arm) -> float:
    """The variance of rounding, step^2 / 12, where runs of a cell tie; the step is the arm's smallest gap."""
    spread = np.ptp(arm.values)
    for values in arm.cells.values():
        if np.any(np.diff(np.sort(values)) <= 1e-9 * spread):
            gaps = np.diff(np.sort(arm.values))
            return float(gaps[gaps > 1e-9 * spread].min() ** 2 / 12)
    return 0.0


def _solve(tables: list[_Table], level: float) -> list[ScaleRatio]:
    values, floor = np.stack([t.values for t in tables]), np.array([t.floor for t in tables])
    offset, present = np.array([t.offset for t in tables]), tables[0].present
    apart = posterior(Layout(present, False), values, floor).shifted(offset)
    if not tables[0].paired:
        return [_result(t.blank, apart.only(k), None, level) for k, t in enumerate(tables)]
    found = posterior(Layout(present, True), values, floor).shifted(offset)
    return [_result(t.blank, found.only(k), apart.only(k), level) for k, t in enumerate(tables)]


def _result(blank: ScaleRatio, found: Posterior, apart: Posterior | None, level: float) -> ScaleRatio:
    tails = float(found.tails[0])
    result = replace(
        blank,
        ratio=_ratio(found, 0.5),
        interval=_interval(found, level),
        p=float(found.p[0]),
        at_least=_ratio(found, 1 - level),
        at_most=_ratio(found, level),
        nu=1 / tails if tails > 0 else inf,
        unpaired=None if apart is None else _interval(apart, level),
        posterior=found,
    )
    return replace(result, above_1=result.above(1.0), above_2=result.above(2.0))


def _ratio(found: Posterior, probability: float) -> float:
    return exp(min(float(found.quantile(probability)[0]), 700.0))


def _interval(found: Posterior, level: float) -> Interval:
    return Interval(_ratio(found, (1 - level) / 2), _ratio(found, (1 + level) / 2), level)
