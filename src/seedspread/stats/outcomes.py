"""What runs achieve, as plain values: how often they fail, and which arm's are better. No computation."""

from dataclasses import dataclass
from typing import Literal

from seedspread.stats.result import Interval

# Which direction of a metric is better.
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Estimate:
    """A number and its interval, which is None where the data give none."""

    value: float
    interval: Interval | None = None


@dataclass(frozen=True)
class FailureModel:
    """How often the runs of two arms fail, and how much those spread that do not; by seed.

    Of every pair the arm's value comes first, then the baseline's.

    Attributes:
        kind: `failed`: runs are flagged, crashed or at chance. `clusters`: values fall into two clusters, and
            nothing else says that the worse ones failed. `both`.
        groups: the arms.
        failed: seeds of which a run failed, or lies in the worse cluster.
        crashed: those of them that have a run without a value.
        seeds: of each arm, crashed ones too.
        rates: `failed / seeds`, with exact intervals (Clopper and Pearson).
        difference: of the rates, arm less baseline; its interval is conservative (Zou and Donner).
        p: Fisher's exact test of equal rates.
        sound_seeds: seeds that are neither.
        sound_ratio: of their variances, by the headline's model; None where there is none.
        sound_p: twice the smaller tail of that.
    """

    kind: Literal["failed", "clusters", "both"]
    groups: tuple[str, str]
    failed: tuple[int, int]
    crashed: tuple[int, int]
    seeds: tuple[int, int]
    rates: tuple[Estimate, Estimate]
    difference: Estimate
    p: float
    sound_seeds: tuple[int, int]
    sound_ratio: Estimate | None
    sound_p: float | None


@dataclass(frozen=True)
class Contrast:
    """A summary of each arm, and the difference, arm less baseline, in the metric's unit."""

    arm: Estimate
    baseline: Estimate
    difference: Estimate


@dataclass(frozen=True)
class Performance:
    """Which arm's runs are better, on average and at their worst.

    Block differences are taken out; whole seeds are the units, shared ones count as pairs.

    Attributes:
        groups: the arm and its baseline.
        better: which direction of the metric is better.
        seeds: of each arm; crashed ones have no value and are not among them.
        crashed: how many of each arm have a run without a value.
        pairs: how many seeds were used as pairs.
        mean: of the seeds' means.
        iqm: the interquartile mean: a quarter of the runs' weight left out at either end.
        worst: the mean of the worst tenth of `worst_of` runs, the last of them in part; with ten or fewer it
            is the worst run. Of an arm with more runs, what so many drawn from them would give on average.
        worst_of: the smaller arm's number of runs.
        improvement: the probability that a run of the arm is better than one of the baseline, ties half.
    """

    groups: tuple[str, str]
    better: Better
    seeds: tuple[int, int]
    crashed: tuple[int, int]
    pairs: int
    mean: Contrast
    iqm: Contrast
    worst: Contrast
    worst_of: int
    improvement: Estimate
