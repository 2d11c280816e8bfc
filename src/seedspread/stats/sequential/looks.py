"""What counts the looks at a growing study: the levels of each, and an estimate as a look may quote it.

The intervals of all looks together hold the true ratio as often as one interval at the end would (repeated
confidence intervals, Jennison and Turnbull 1989). So they do whatever the rule is by which one stops: for a
difference, for equivalence, for precision, or for no reason at all.
"""

from dataclasses import dataclass

from seedspread.stats.estimate import Estimate
from seedspread.stats.result import Looks
from seedspread.stats.scale.posterior import Posterior
from seedspread.stats.sequential.boundary import critical, deviations, over_looks, shape, two_sided


def nominal(looks: Looks, alpha: float) -> float:
    """The two-sided level of this look by itself, where all looks together have `alpha`."""
    return two_sided(_boundary(looks) * critical(alpha, looks.sizes))


def counted(looks: Looks, p: float) -> float:
    """A two-sided p value of this look, raised by the chance of one as small at any look."""
    return over_looks(deviations(p) / _boundary(looks), looks.sizes)


def _boundary(looks: Looks) -> float:
    return looks.factor * float(shape(looks.sizes)[looks.number - 1])


@dataclass(frozen=True)
class AtLook:
    """An estimate whose tails count the looks: confidence in place of probability."""

    estimate: Estimate
    looks: Looks

    def above(self, log_ratio: float) -> float:
        """The confidence in a larger one."""
        return self._tail(self.estimate.above(log_ratio), self.estimate.below(log_ratio))

    def below(self, log_ratio: float) -> float:
        """The confidence in a smaller one."""
        return self._tail(self.estimate.below(log_ratio), self.estimate.above(log_ratio))

    def _tail(self, tail: float, other: float) -> float:
        if tail <= other:
            return 0.5 * counted(self.looks, min(2 * tail, 1.0))
        return 1 - 0.5 * counted(self.looks, min(2 * other, 1.0))

    def quantile(self, probability: float) -> float:
        """The log ratio below which so much of it lies."""
        tail = 0.5 * nominal(self.looks, 2 * min(probability, 1 - probability))
        return self.estimate.quantile(tail if probability < 0.5 else 1 - tail)

    def distribution(self) -> Posterior:
        """All of it, as the data have it."""
        return self.estimate.distribution()
