"""Types of results: plain values, no computation."""

from dataclasses import dataclass
from typing import Literal

About = Literal["spread", "means", "shape"]
# Verdicts on a difference in spread.
Word = Literal["YES", "NO", "MAYBE", "CAN'T TELL"]
# Scales on which values may be judged instead of their own.
Scale = Literal["log", "logit"]
# The direction in which a metric is better.
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Interval:
    """A confidence interval; `high` is infinite if the data set no upper bound."""

    low: float
    high: float
    level: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Estimate:
    """A number and its interval, which is None if the data give none."""

    value: float
    interval: Interval | None = None


@dataclass(frozen=True)
class TestResult:
    """A test or an interval, with what is needed to judge it."""

    __test__ = False  # a statistical test, not one for pytest to collect

    key: str  # short and stable, for programs: `f`, `seed_jackknife`
    name: str  # as displayed
    about: About
    why: str  # why it was used here
    assumes: str
    assumptions_met: bool | None = None  # None if the data cannot tell
    statistic: float | None = None
    df: tuple[float, ...] = ()
    p: float | None = None  # two-sided
    estimate: float | None = None  # of the variance ratio, or of the difference of means
    std_error: float | None = None  # of the log ratio
    interval: Interval | None = None  # of `estimate`
    note: str = ""  # why something is missing


@dataclass(frozen=True)
class Summary:
    """The runs of a cell, or of a whole group: `variance` and `sd` are None for a single run.

    `block` has a level for each factor that makes a block, and none for a whole group.
    """

    group: str
    block: tuple[str, ...]
    n: int
    mean: float
    sd: float | None
    variance: float | None


@dataclass(frozen=True)
class SameSeedRuns:
    """Agreement between the runs of one seed in different blocks, within one group."""

    group: str
    seeds: int  # with more than one run
    identical: int  # of those, seeds whose runs have exactly equal values
    correlation: float | None  # intraclass, ICC(3,1), block means removed
    p: float | None  # of no correlation (one-sided: same-seed runs resemble each other)
    effective_df: float  # degrees of freedom of the group's variance, given that correlation


@dataclass(frozen=True)
class TwoClusters:
    """A group whose seeds fall into two clusters, with `cut` in the middle of the gap between them."""

    group: str
    cut: float
    below: int  # seeds on this side of it
    above: int
    p: float  # of the gap test


@dataclass(frozen=True)
class FailedRuns:
    """Runs of a group that certainly failed: flagged, without a value, or no better than chance."""

    group: str
    sign: Literal["flagged", "no value", "chance"]
    count: int  # of runs; of seeds if the sign is `no value`
    of: int  # runs of the group that have a value
    chance: float | None = None  # the score of a run that learned nothing, if that is the sign


@dataclass(frozen=True)
class TestSetNoise:
    """The part of a group's variance over seeds that a finite test set accounts for."""

    __test__ = False

    group: str
    test_size: int  # number of test examples
    observed: float  # variance over seeds
    explained: float  # the test set's part; an upper bound if only accuracies are known
    is_bound: bool  # whether `explained` is that bound
    remaining: float | None  # variance left on an infinite test set; may be negative
    interval: Interval | None  # of `remaining`
    runs: int = 0  # from which it was computed, one of each seed


@dataclass(frozen=True)
class InterimLook:
    """The schedule of a growing study's interim looks, and which of them this is."""

    sizes: tuple[int, ...]  # seeds per group at each look; the last is the limit
    number: int  # of this look, from 1 on
    factor: float  # by which the headline's boundaries are wider than those of normal theory


@dataclass(frozen=True)
class FarSeeds:
    """Seeds of a group that lie far from the bulk of it: more than five bulk sds from the median."""

    group: str
    below: int
    above: int
    seeds: int  # of the whole group
    interval: Interval  # of the rate of far seeds, exact (Clopper and Pearson)


@dataclass(frozen=True)
class UnlikeShapes:
    """Two groups that one shape does not describe: the ratio of their bulks is not that of the variances."""

    typical_ratio: float  # variance ratio of the bulks, by the Student-t model
    far: tuple[FarSeeds, FarSeeds]  # the group's, then the baseline's


@dataclass(frozen=True)
class Shrunken:
    """The variance ratio under a normal prior of its logarithm with mean 0 and sd 1."""

    ratio: float
    interval: Interval
    above_1: float
    above_2: float


@dataclass(frozen=True)
class Headline:
    """The variance ratio to report, its uncertainty, and why it was computed in this way.

    Probabilities rest on a flat prior of the log ratio unless they are `shrunken`.
    """

    ratio: float | None  # of the variances
    sd_ratio: float | None
    interval: Interval | None  # of the ratio, without adjustment
    p: float | None  # twice the smaller tail about a ratio of 1
    method: str
    why: str
    above_1: float | None = None  # probability that the variance is larger than the baseline's
    above_2: float | None = None  # ... more than twice as large
    shrunken: Shrunken | None = None
    equivalence: float | None = None  # variances that differ by no more than this factor count as alike
    raw_ratio: float | None = None  # of the sample variances within cells
    pairs: int = 0  # shared seeds that were used as pairs
    tails: float | None = None  # degrees of freedom of the Student t; infinite if values look normal
    unlike: UnlikeShapes | None = None  # set if `ratio` is the raw one because shapes differ
    adjusted_interval: Interval | None = None  # decides the verdict, over all comparisons judged together
    looks: InterimLook | None = None  # accounted for in p, intervals and bounds

    @property
    def shown_interval(self) -> Interval | None:
        """The interval that sentences, tables and figures show: the adjusted one if there is one."""
        return self.adjusted_interval or self.interval


@dataclass(frozen=True)
class ManyGroups:
    """Test of whether many groups share one sd, and the sd that fits them."""

    groups: int
    p: float  # of one sd for all
    # YES if they differ; NO if 95% of such groups have variances within `equivalence` times their center.
    word: Word
    equivalence: float
    sd: Estimate  # that fits all, or all but `stands_out`
    stands_out: str = ""  # the group without which one sd fits the others, if there is one
    stands_out_sd: float | None = None
    p_others: float | None = None  # of one sd for the others


@dataclass(frozen=True)
class Doubt:
    """A reason to doubt a verdict: without this seed, these clusters or this scale it would be different."""

    kind: Literal["seed", "clusters", "scale"]
    what: str = ""  # the seed's name, or the scale
    group: str = ""  # of the seed
    ratio: float | None = None  # that is left without it
    p: float | None = None  # adjusted
    word: Word | None = None  # the verdict without it
    lowers: bool = True  # whether it makes a YES a MAYBE


@dataclass(frozen=True)
class FailureModel:
    """Failure rates of two groups, and the spread of their successful runs; counted by seed.

    Pairs contain the group's value first, then the baseline's.
    """

    # `failed`: runs are flagged, crashed or at chance; `clusters`: values fall into two clusters, and nothing
    # else indicates that the worse ones failed; `both`. `censored`: they never reached what is counted up to.
    kind: Literal["failed", "clusters", "both", "censored"]
    groups: tuple[str, str]
    failed: tuple[int, int]  # seeds with a failed run, or in the worse cluster
    crashed: tuple[int, int]  # of those, seeds with a run without a value
    seeds: tuple[int, int]  # all, including crashed ones
    rates: tuple[Estimate, Estimate]  # with exact intervals (Clopper and Pearson)
    difference: Estimate  # of the rates; its interval is conservative (Zou and Donner)
    p: float  # Fisher's exact test of equal rates
    successful_ratio: Estimate | None  # robust variance ratio of the successful runs
    successful_p: float | None
    signs: tuple[TwoClusters | FailedRuns, ...]  # the evidence, clusters first
