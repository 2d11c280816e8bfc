"""What is known of a log ratio of variances, by whatever method: tails and quantiles."""

from dataclasses import dataclass
from math import exp, inf
from typing import Protocol

from scipy.special import stdtr, stdtrit

from seedspread.stats.result import Interval
from seedspread.stats.scale.posterior import Posterior

_BEYOND = 700.0  # exp overflows above it


class Estimate(Protocol):
    """What is known of a log ratio of variances."""

    def above(self, log_ratio: float) -> float:
        """The probability, or confidence, of a larger one."""

    def below(self, log_ratio: float) -> float:
        """Of a smaller one: not 1 less the other, which would lose the digits of a small one."""

    def quantile(self, probability: float) -> float:
        """The log ratio below which so much of it lies."""

    def distribution(self) -> Posterior:
        """All of it."""


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

    def distribution(self) -> Posterior:
        """All of it."""
        return self.posterior


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

    def distribution(self) -> Posterior:
        """All of it."""
        return Posterior.of_t(self.log_ratio, self.std_error, self.df)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Of two log ratios that are known independently of each other: the first less the second."""
    return FromPosterior(first.distribution().minus(second.distribution()))


def ratio_at(estimate: Estimate, probability: float) -> float:
    """The ratio below which so much of an estimate lies."""
    at = estimate.quantile(probability)
    return inf if at > _BEYOND else exp(at)


def interval_of(estimate: Estimate, level: float) -> Interval:
    """The central interval of the ratio."""
    return Interval(ratio_at(estimate, (1 - level) / 2), ratio_at(estimate, (1 + level) / 2), level)
