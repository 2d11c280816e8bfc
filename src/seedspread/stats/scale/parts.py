"""The 2 x 2 parts into which the scale matrix of a seed falls, with the derivatives that fitting it needs."""

from functools import cached_property

import numpy as np

from seedspread.stats.arms import Floats

# Of each seed: squares in the first arm, in the second, and products; None where there are none.
Scatter = tuple[Floats | None, Floats | None, Floats | None]


class Part:
    """A scale matrix at each point of a grid, and how it enters the likelihood of a seed.

    A seed has `counts[0]` values with it in the first arm, `counts[1]` in the second, of which `counts[2]`
    are pairs: one for the normalised means over blocks, their number less one for the contrasts between
    them.

    Args:
        logs: (...) log variances of the two arms and Fisher's z of their correlation.
        slopes: (3, p, ...) the first derivatives of those by each parameter.
        bends: (3, p, ...) the second ones; mixed ones are 0.
        counts: see above.
    """

    def __init__(
        self, logs: tuple[Floats, Floats, Floats], slopes: Floats, bends: Floats, counts: tuple[int, int, int]
    ) -> None:
        first, second, z = logs
        self.slopes, self.bends, self.counts = slopes, bends, counts
        self.inverse = np.stack([np.exp(-first), np.exp(-second), np.exp(-0.5 * (first + second))])
        self.cosh, self.sinh = np.cosh(2 * z), np.sinh(2 * z)
        self.half = 0.5 * (1 + self.cosh)
        self.log_scales = first + second
        a, b, pairs = counts
        self.log_determinant = a * first + b * second - pairs * np.log(self.half)
        tangent = self.sinh / (1 + self.cosh)
        self.determinant_slope = np.stack([a + 0 * z, b + 0 * z, -2 * pairs * tangent])

    @cached_property
    def precision(self) -> Floats:
        """(3, ...) of the first arm, of the second, and between."""
        out: Floats = np.stack([self.half, self.half, -0.5 * self.sinh]) * self.inverse
        return out

    def distance(self, scatter: Scatter) -> Floats:
        """(n, ...) the seeds' quadratic forms."""
        terms = [
            (1 + (k == 2)) * precision * each
            for k, (precision, each) in enumerate(zip(self.precision, scatter, strict=True))
            if each is not None
        ]
        out: Floats = terms[0]
        for term in terms[1:]:
            out += term
        return out

    def slope(self, sums: Floats) -> Floats:
        """(3, ...) derivatives by logs and z of a sum of distances, given (3, ...) the sum of scatters."""
        x, y, w = (sum_ * scale for sum_, scale in zip(sums, self.inverse, strict=True))
        c, s = self.half, self.sinh
        return np.stack([0.5 * s * w - c * x, 0.5 * s * w - c * y, s * (x + y) - 2 * self.cosh * w])

    def bend(self, sums: Floats, n: int) -> Floats:
        """(3, 3, ...) second derivatives of the same, and of `n` log determinants."""
        x, y, w = sums * self.inverse
        c, s, ch = self.half, self.sinh, self.cosh
        q = 0.25 * s * w
        az, bz = ch * w - s * x, ch * w - s * y
        zz = 2 * ch * (x + y) - 4 * s * w - 2 * n * self.counts[2] / c
        return np.array([[c * x - q, -q, az], [-q, c * y - q, bz], [az, bz, zz]])

    def caution(self, sums: Floats, n: int) -> Floats:
        """(3, 3, ...) a curvature to step by: what `n` normal seeds tell, or more where the fit is narrow."""
        a, b, pairs = self.counts
        x, y = np.maximum(sums[0] * self.inverse[0], n * a), np.maximum(sums[1] * self.inverse[1], n * b)
        if not pairs:
            zero = np.zeros_like(x)
            return np.array([[x, zero, zero], [zero, y, zero], [zero, zero, zero]])
        most = np.maximum(x, y)
        return self.bend(np.stack([most, most, self.sinh / (1 + self.cosh) * most]) / self.inverse, n)


def twins(logit: Floats, runs: int, blocks: int) -> tuple[Floats, Floats, Floats]:
    """The log variance of a normalised mean over `runs` twins (0: of a contrast) where a run has variance 1.

    With its first two derivatives. The logit is that of the seed's share: the variance of the normalised mean
    over all blocks, divided by their number.
    """
    alpha = 1 / (1 + np.exp(-logit))
    level = (blocks - runs) / (blocks - 1)
    rise = runs - level
    value = level + rise * alpha
    slope = rise * alpha * (1 - alpha) / value
    return np.log(value), slope, slope * (1 - 2 * alpha) - slope**2
