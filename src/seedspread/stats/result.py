"""What is found of two arms, part by part: plain typed values, no computation."""

from dataclasses import dataclass
from typing import Literal

About = Literal["spread", "means", "shape", "failures"]
# What may be said of a difference in spread, from `judgement.judge`.
Word = Literal["shown", "suggested", "open", "shown to be small"]


@dataclass(frozen=True)
class Interval:
    """A confidence interval; `high` is infinite where the data set no upper bound."""

    low: float
    high: float
    level: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class TestResult:
    """One test or interval, and what is needed to judge it.

    Attributes:
        key: short and stable, for programs: `f`, `seed_jackknife`.
        name: for people.
        about: what it tests.
        why: why it was used here.
        assumes: what must be true for it to mean what it says.
        assumptions_met: whether the data meet that; None where they cannot tell.
        evidence: the sentence behind `assumptions_met`.
        statistic: the test statistic, if there is one.
        df: its degrees of freedom.
        p: two-sided.
        estimate: of the variance ratio, or of the difference of means.
        std_error: the standard error of the log ratio, where it is used.
        interval: of that.
        note: why something is missing, when it is.
    """

    __test__ = False  # the name is a statistician's, not pytest's

    key: str
    name: str
    about: About
    why: str
    assumes: str
    assumptions_met: bool | None = None
    evidence: str = ""
    statistic: float | None = None
    df: tuple[float, ...] = ()
    p: float | None = None
    estimate: float | None = None
    std_error: float | None = None
    interval: Interval | None = None
    note: str = ""


@dataclass(frozen=True)
class Summary:
    """A cell, or the runs of an arm together: `variance` and `sd` are None for a single run."""

    group: str
    block: str
    n: int
    mean: float
    sd: float | None
    variance: float | None


@dataclass(frozen=True)
class Twins:
    """How alike the runs of one seed in different blocks are, within one arm.

    Attributes:
        group: the arm.
        seeds: how many seeds have more than one run.
        identical: how many of them have exactly equal values throughout.
        correlation: intraclass, ICC(3,1), block means taken out; None where it cannot be had.
        p: of the hypothesis that it is zero (one-sided: twins resemble each other).
        effective_df: what the arm's variance is worth in degrees of freedom, given that correlation.
        naive_df: what pooling all runs as independent claims.
    """

    group: str
    seeds: int
    identical: int
    correlation: float | None
    p: float | None
    effective_df: float
    naive_df: int


@dataclass(frozen=True)
class Failures:
    """Runs of an arm that are not samples of the same thing as the rest, counted by seed.

    Attributes:
        group: the arm.
        failed: seeds of which a run failed, or lies in the worse of two clusters.
        seeds: all of them.
        rate: of failure.
        interval: of that, exact.
        crashed: seeds among the failed that have a run without a value.
        clustered: those that only lie in the worse cluster.
    """

    group: str
    failed: int
    seeds: int
    rate: float
    interval: Interval
    crashed: int = 0
    clustered: int = 0


@dataclass(frozen=True)
class TwoClusters:
    """An arm that falls apart.

    Attributes:
        group: the arm.
        cut: the middle of the gap.
        below, above: how many seeds lie on either side of it.
        p: of the gap test.
    """

    group: str
    cut: float
    below: int
    above: int
    p: float


@dataclass(frozen=True)
class FailedRuns:
    """Runs of an arm that failed for sure.

    Attributes:
        group: the arm.
        sign: `flagged`, `no value`, or `chance`: no better than what takes no learning.
        count: of runs; of those without a value, of seeds.
        of: all runs of the arm that have a value.
        chance: what takes no learning, where that is the sign.
    """

    group: str
    sign: Literal["flagged", "no value", "chance"]
    count: int
    of: int
    chance: float | None = None


@dataclass(frozen=True)
class Collapse:
    """Whether arms hold failed runs or two clusters: the variance ratio is then the wrong question.

    Attributes:
        found: whether either.
        arms: counts and rates, of the arm and the baseline.
        test: of the rates.
        failed: whether runs failed for sure: flagged, without a value, or no better than chance.
        clusters: whether an arm falls into two clusters, which by itself does not say that runs failed.
        signs: what that is known by, clusters first.
    """

    found: bool
    arms: tuple[Failures, ...] = ()
    test: TestResult | None = None
    failed: bool = False
    clusters: bool = False
    signs: tuple[TwoClusters | FailedRuns, ...] = ()


@dataclass(frozen=True)
class Floor:
    """The variance that a finite test set makes by itself, in one arm.

    Attributes:
        group: the arm.
        test_size: the number of test examples.
        observed: the variance over seeds.
        floor: what the test set alone would make; an upper bound where only accuracies are known.
        is_bound: whether `floor` is that bound.
        remaining: the variance that would be left on an infinite test set; it can come out negative.
        interval: of `remaining`.
    """

    group: str
    test_size: int
    observed: float
    floor: float
    is_bound: bool
    remaining: float | None
    interval: Interval | None


@dataclass(frozen=True)
class Looks:
    """At which numbers of seeds a growing study is judged, and which of these looks this is.

    Attributes:
        sizes: seeds per arm at each look, the last the most that there may be.
        number: of this look, from 1 on.
        factor: by how much the headline's boundaries are wider than those of normal theory.
    """

    sizes: tuple[int, ...]
    number: int
    factor: float


@dataclass(frozen=True)
class Headline:
    """The ratio of variances to report, how sure it is, and why this one.

    Attributes:
        ratio: of the variances; where tails are modelled, of the bulk of the runs.
        sd_ratio: its square root.
        interval: of the ratio, by itself.
        p: twice the smaller tail about a ratio of 1.
        method: by which it was computed.
        why: this one.
        above_1: the probability that the arm's variance is larger than the baseline's.
        above_2: that it is more than twice as large.
        below_half: that it is less than half as large.
        at_least, at_most: one-sided bounds, each at the interval's level.
        equivalence: the factor k of the next field.
        within: the probability that neither variance is more than k times the other.
        plain_ratio: of the plain variances within cells, in which a rare bad seed counts in full.
        pairs: how many seeds of both arms were used as pairs.
        unpaired: the interval without the pairs.
        tails: degrees of freedom of the Student t; infinite if the values look normal, 3 very heavy tails.
        adjusted_interval: as wide as Holm's adjustment makes it: it leaves out 1 exactly if `p_holm` is
            below 1 - level.
        looks: those that p, intervals and bounds count; None of a study that is judged once.
    """

    ratio: float | None
    sd_ratio: float | None
    interval: Interval | None
    p: float | None
    method: str
    why: str
    above_1: float | None = None
    above_2: float | None = None
    below_half: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    equivalence: float | None = None
    within: float | None = None
    plain_ratio: float | None = None
    pairs: int = 0
    unpaired: Interval | None = None
    tails: float | None = None
    adjusted_interval: Interval | None = None
    looks: Looks | None = None

    @property
    def shown_interval(self) -> Interval | None:
        """The interval that words, tables and pictures show: adjusted, where there are several."""
        return self.adjusted_interval or self.interval


@dataclass(frozen=True)
class Rung:
    """One test of the ladder.

    Attributes:
        key: short and stable, for programs: `pooled_f`, `seed_jackknife`, `pairs`.
        name: for people.
        of: what the ratio is a ratio of.
        assumes: what must be true for it, in a few words.
        changes: what was changed, and from which rung; empty for the first.
        ratio: of variances.
        p: two-sided.
        df: its degrees of freedom, if it has any.
        interval: of the ratio.
    """

    key: str
    name: str
    of: str
    assumes: str
    changes: str
    ratio: float
    p: float
    df: tuple[float, ...] = ()
    interval: Interval | None = None
