"""The headline of a comparison: which estimate it is, and all that it says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from typing import Protocol

from scipy.special import stdtr, stdtrit

from seedspread.stats.arms import Arm
from seedspread.stats.result import Headline, Interval, TestResult
from seedspread.stats.robust import seed_jackknife
from seedspread.stats.scale.posterior import Posterior
from seedspread.stats.scale.ratio import MOST_SEEDS, ScaleRatio, scale_ratios

# The model takes milliseconds a comparison; with more of them the seed jackknife stands in.
MOST_MODELLED = 500
MODEL = "scale ratio (Student t)"
_BEYOND = 700.0  # exp overflows above it


class Estimate(Protocol):
    """What is known of a log ratio of variances."""

    def above(self, log_ratio: float) -> float:
        """The probability, or confidence, of a larger one."""

    def below(self, log_ratio: float) -> float:
        """Of a smaller one: not 1 less the other, which would lose the digits of a small one."""

    def quantile(self, probability: float) -> float:
        """The log ratio below which so much of it lies."""


@dataclass(frozen=True)
class FromPosterior:
    """By the model."""

    posterior: Posterior

    def above(self, log_ratio: float) -> float:
        """The probability of a larger one."""
        return float(self.posterior.above(log_ratio)[0])

    def below(self, log_ratio: float) -> float:
        """The probability of a smaller one."""
        return float(self.posterior.below(log_ratio)[0])

    def quantile(self, probability: float) -> float:
        """The log ratio below which so much of it lies."""
        return float(self.posterior.quantile(probability)[0])


@dataclass(frozen=True)
class FromJackknife:
    """By a t statistic: its confidence in place of a probability."""

    log_ratio: float
    std_error: float
    df: float

    def above(self, log_ratio: float) -> float:
        """The confidence in a larger one."""
        return float(stdtr(self.df, (self.log_ratio - log_ratio) / self.std_error))

    def below(self, log_ratio: float) -> float:
        """The confidence in a smaller one."""
        return float(stdtr(self.df, (log_ratio - self.log_ratio) / self.std_error))

    def quantile(self, probability: float) -> float:
        """The log ratio below which so much of it lies."""
        return self.log_ratio + self.std_error * float(stdtrit(self.df, probability))


def headlines(
    pairs: Sequence[tuple[Arm, Arm]], level: float, equivalence: float
) -> list[tuple[Headline, Estimate | None]]:
    """Of each arm and its reference; the estimate behind it is None where there is no ratio.

    Args:
        pairs: arms with their references.
        level: of the intervals.
        equivalence: by which factor variances may differ and count as alike.
    """
    if len(pairs) > MOST_MODELLED:
        return [_by_jackknife(arm, reference, level, equivalence) for arm, reference in pairs]
    small = [pair for pair in pairs if not is_large(*pair)]
    found = iter(scale_ratios(small, level))
    return [
        _by_jackknife(*pair, level, equivalence)
        if is_large(*pair)
        else _by_model(next(found), *pair, level, equivalence)
        for pair in pairs
    ]


def is_large(arm: Arm, reference: Arm) -> bool:
    """Whether there are so many seeds that no model is needed, nor affordable."""
    return max(len(arm.seed_codes), len(reference.seed_codes)) > MOST_SEEDS


def _by_model(
    found: ScaleRatio, arm: Arm, reference: Arm, level: float, equivalence: float
) -> tuple[Headline, Estimate | None]:
    plain = _plain_ratio(arm, reference)
    if found.posterior is None:
        return _without(MODEL, found.note, plain), None
    estimate = FromPosterior(found.posterior)
    headline = _headline(estimate, MODEL, why_model(found), level, equivalence, plain)
    return replace(headline, pairs=found.pairs, unpaired=found.unpaired, tails=found.nu), estimate


def _by_jackknife(
    arm: Arm, reference: Arm, level: float, equivalence: float
) -> tuple[Headline, Estimate | None]:
    test = seed_jackknife(arm, reference, level)
    if test.estimate is None or test.std_error is None:
        return _without(test.name, test.note, _plain_ratio(arm, reference)), None
    estimate = FromJackknife(log(test.estimate), test.std_error, test.df[0])
    why = "it stands in for the model, which is for fewer comparisons or seeds; pairs are not used"
    return _headline(estimate, test.name, why, level, equivalence, test.estimate), estimate


def _without(method: str, note: str, plain: float | None) -> Headline:
    """There may be a ratio where nothing can be said of its error."""
    return Headline(plain, None if plain is None else plain**0.5, None, None, method, note, plain_ratio=plain)


def _headline(
    estimate: Estimate, method: str, why: str, level: float, equivalence: float, plain: float | None
) -> Headline:
    ratio, above_1 = ratio_at(estimate, 0.5), estimate.above(0.0)
    beyond = estimate.below(-log(equivalence)) + estimate.above(log(equivalence))
    return Headline(
        ratio=ratio,
        sd_ratio=ratio**0.5,
        interval=interval_of(estimate, level),
        p=min(2 * min(above_1, estimate.below(0.0)), 1.0),
        method=method,
        why=why,
        above_1=above_1,
        above_2=estimate.above(log(2.0)),
        below_half=estimate.below(-log(2.0)),
        at_least=ratio_at(estimate, 1 - level),
        at_most=ratio_at(estimate, level),
        equivalence=equivalence,
        within=1 - beyond,
        plain_ratio=plain,
    )


def ratio_at(estimate: Estimate, probability: float) -> float:
    """The ratio below which so much of an estimate lies."""
    at = estimate.quantile(probability)
    return inf if at > _BEYOND else exp(at)


def interval_of(estimate: Estimate, level: float) -> Interval:
    """The central interval of the ratio."""
    return Interval(ratio_at(estimate, (1 - level) / 2), ratio_at(estimate, (1 + level) / 2), level)


def _plain_ratio(arm: Arm, reference: Arm) -> float | None:
    if not (arm.has_spread and reference.has_spread):
        return None
    return arm.within_variance / reference.within_variance


def why_model(found: ScaleRatio) -> str:
    """Why the model is the headline, and what it made of the design."""
    why = "tails are modelled, the seed is the unit, and its error rates are known (docs/statistics.md)"
    if found.pairs:
        why += f"; the {found.pairs} seeds that both arms have are used as pairs"
    elif found.note:
        why += f"; {found.note}"
    if found.blocks > 1:
        why += "; the ratio is within cells, so that block means do not count as spread"
    return why


def as_test(headline: Headline) -> TestResult:
    """The headline as a line among the tests."""
    modelled = headline.method == MODEL
    return TestResult(
        key="scale_ratio" if modelled else "seed_jackknife",
        name=headline.method,
        about="spread",
        why=headline.why,
        assumes="independent seeds; arms of one shape"
        + (", which a Student t describes" if modelled else ""),
        p=headline.p,
        estimate=headline.ratio if headline.interval is not None else None,
        interval=headline.interval,
        note="" if headline.interval is not None else headline.why,
    )
