"""The Student-t model of the robust variance ratio: its likelihood, by Laplace's approximation.

The values of a seed, over groups and blocks, are one draw of a multivariate t: a mean per cell, a scale per
group, a correlation of same-seed runs per group, and correlations between the groups (of a seed's means
over blocks, and of its contrasts between them), shared over blocks. In a seed's normalized mean and
contrasts the scale matrix falls into 2 x 2 parts, so that no matrix is inverted seed by seed. Seeds that
lack some blocks are assumed to correlate between the groups as complete ones do.

Arrays end with the axes of the grid: experiment, log ratio, tails. A batch of experiments has one layout.
"""

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from seedspread.stats.groups import Floats, Ints

# Small matrices at every point of a grid: the matrix axes come first, so that numpy runs along the grid.


def cholesky(matrix: Floats) -> tuple[list[list[Floats]], list[Floats]]:
    """Return L and d of L diag(d) L' for (p, p, ...) symmetric matrices; d > 0 if positive definite."""
    p = len(matrix)
    lower: list[list[Floats]] = [[] for _ in range(p)]
    pivots: list[Floats] = []
    for j in range(p):
        pivot = matrix[j, j] - sum(lower[j][k] ** 2 * pivots[k] for k in range(j))
        pivots.append(pivot)
        safe = np.where(pivot == 0, 1e-300, pivot)
        for i in range(j + 1, p):
            inner = sum(lower[i][k] * lower[j][k] * pivots[k] for k in range(j))
            lower[i].append((matrix[i, j] - inner) / safe)
    return lower, pivots


def solve(matrix: Floats, right: Floats) -> Floats:
    """Return (p, ...) solutions for (p, p, ...) symmetric matrices and (p, ...) right sides."""
    lower, pivots = cholesky(matrix)
    p = len(right)
    out = list(right)
    for i in range(p):
        out[i] = out[i] - sum(lower[i][k] * out[k] for k in range(i))
    out = [value / np.where(pivot == 0, 1e-300, pivot) for value, pivot in zip(out, pivots, strict=True)]
    for i in reversed(range(p)):
        out[i] = out[i] - sum(lower[k][i] * out[k] for k in range(i + 1, p))
    return np.stack(out)


def log_determinant(matrix: Floats) -> Floats:
    """Return (...) log determinants of (p, p, ...) symmetric matrices; NaN if not positive definite."""
    pivots = np.stack(cholesky(matrix)[1])
    return np.asarray(np.log(np.where(pivots > 0, pivots, np.nan)).sum(axis=0))


def congruence(matrix: Floats, slopes: Floats) -> Floats:
    """Return (q, q, ...) products S' M S of (p, p, ...) matrices M and (p, q, ...) slopes S."""
    turned = np.einsum("jk...,kq...->jq...", matrix, slopes)
    return np.asarray(np.einsum("jp...,jq...->pq...", slopes, turned))


@dataclass(frozen=True)
class Pattern:
    """Seeds that ran in the same cells."""

    seeds: Ints  # (n,) their indices
    blocks: tuple[Ints, Ints]  # per group, the blocks in which they ran

    @property
    def runs(self) -> tuple[int, int]:
        return len(self.blocks[0]), len(self.blocks[1])

    @property
    def paired(self) -> bool:
        return min(self.runs) > 0

    @property
    def aligned(self) -> bool:
        return np.array_equal(*self.blocks)


@dataclass(frozen=True)
class Layout:
    """The cells in which each seed ran."""

    present: NDArray[np.bool_]  # (n, 2, b) whether a seed has a run in a group's block
    paired: bool  # whether a seed's runs in the two groups are paired

    @property
    def blocks(self) -> int:
        return int(self.present.shape[2])

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """Seeds by the cells they ran in; if unpaired, each group's part of a seed counts as a seed."""
        parts = [self.present]
        if not self.paired:
            parts = [self.present & np.array([[keep], [not keep]]) for keep in (True, False)]
        out = []
        for part in parts:
            rows, which = np.unique(part.reshape(len(part), -1), axis=0, return_inverse=True)
            for k, (first, second) in enumerate(rows.reshape(-1, 2, self.blocks)):
                if first.any() or second.any():
                    seeds = np.flatnonzero(which.ravel() == k)
                    out.append(Pattern(seeds, (np.flatnonzero(first), np.flatnonzero(second))))
        return tuple(out)

    @cached_property
    def is_complete(self) -> bool:
        """True if a seed of a group is in all its blocks, and either all seeds are paired or none is."""
        whole = all(k in (0, self.blocks) for p in self.patterns for k in p.runs)
        return whole and (len(self.patterns) == 1 or not any(p.paired for p in self.patterns))

    @cached_property
    def nuisance(self) -> tuple[str, ...]:
        """Parameters other than ratio, tails and means: log scale, same-seed logits, Fisher's z of pairs."""
        names = ["scale"]
        names += [f"twins_{group}" for group in (0, 1) if any(p.runs[group] > 1 for p in self.patterns)]
        if any(p.paired for p in self.patterns):
            names.append("pairs")
        if any(p.paired and p.aligned and p.runs[0] > 1 for p in self.patterns):
            names.append("contrasts")
        return tuple(names)


# Per seed: squares in the first group, in the second, and products; None if there are none.
Scatter = list[Floats | None]


class ScaleMatrix:
    """A 2 x 2 scale matrix of a seed's values in the two groups, at each point of a grid.

    There is one for a seed's normalized means over blocks, and one for the contrasts between blocks.

    Args:
        logs: (...) log variances of the two groups and Fisher's z of their correlation.
        slopes: (3, p, ...) first derivatives of those by each parameter.
        bends: (3, p, ...) second ones; mixed ones are 0.
        counts: a seed's number of values with this matrix in the first group and in the second, and of pairs.
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
        """(3, ...) inverse: of the first group, of the second, and between."""
        return np.asarray(np.stack([self.half, self.half, -0.5 * self.sinh]) * self.inverse)

    def distance(self, scatter: Scatter) -> Floats:
        """Return (n, ...) quadratic forms of the seeds."""
        terms = [
            (1 + (k == 2)) * precision * each
            for k, (precision, each) in enumerate(zip(self.precision, scatter, strict=True))
            if each is not None
        ]
        return np.asarray(reduce(np.add, terms))

    def slope(self, sums: Floats) -> Floats:
        """Return (3, ...) derivatives of a sum of distances by logs and z, from (3, ...) sums of scatters."""
        x, y, w = (sum_ * scale for sum_, scale in zip(sums, self.inverse, strict=True))
        c, s = self.half, self.sinh
        return np.stack([0.5 * s * w - c * x, 0.5 * s * w - c * y, s * (x + y) - 2 * self.cosh * w])

    def bend(self, sums: Floats, n: int) -> Floats:
        """Return (3, 3, ...) second derivatives of that sum, and of `n` log determinants."""
        x, y, w = sums * self.inverse
        c, s, ch = self.half, self.sinh, self.cosh
        q = 0.25 * s * w
        az, bz = ch * w - s * x, ch * w - s * y
        zz = 2 * ch * (x + y) - 4 * s * w - 2 * n * self.counts[2] / c
        return np.array([[c * x - q, -q, az], [-q, c * y - q, bz], [az, bz, zz]])

    def caution(self, sums: Floats, n: int) -> Floats:
        """Return (3, 3, ...) curvatures for safe steps: of `n` normal seeds, or more if the fit is narrow."""
        a, b, pairs = self.counts
        x, y = np.maximum(sums[0] * self.inverse[0], n * a), np.maximum(sums[1] * self.inverse[1], n * b)
        if not pairs:
            zero = np.zeros_like(x)
            return np.array([[x, zero, zero], [zero, y, zero], [zero, zero, zero]])
        most = np.maximum(x, y)
        return self.bend(np.stack([most, most, self.sinh / (1 + self.cosh) * most]) / self.inverse, n)


def twin_variance(logit: Floats, runs: int, blocks: int) -> tuple[Floats, Floats, Floats]:
    """Return the log variance of a normalized mean over `runs` blocks (0: of a contrast), and derivatives.

    A run has variance 1. The logit is that of the seed's share: the variance of the normalized mean over all
    blocks, divided by their number.
    """
    alpha = 1 / (1 + np.exp(-logit))
    level = (blocks - runs) / (blocks - 1)
    rise = runs - level
    value = level + rise * alpha
    slope = rise * alpha * (1 - alpha) / value
    return np.log(value), slope, slope * (1 - 2 * alpha) - slope**2


_STEPS = 12
_LONGEST_STEP = 1.5
# A weak prior, for same-seed correlations about which the data say hardly anything.
_RIDGE = 0.02
# Limit of logits, Fisher's z and the log ratio of standardized groups.
_LARGEST = 14.0
# Starting values treat runs further out as if they were there.
_FAR = 100.0


class Fit:
    """The parameters that maximize the likelihood at each point of a grid.

    Args:
        layout: the cells in which each seed ran.
        values: (e, n, 2, b) one value per run; 0 if there is none.
        floor: (e, 2) number added to each squared deviation of a group.
        theta: (e, t) log ratios of the variances.
        tails: (v,) reciprocal degrees of freedom; 0 is normal.
        near: a fit with free ratio to start from; without it the ratio is a parameter (added to `theta`).
    """

    def __init__(
        self,
        layout: Layout,
        values: Floats,
        floor: Floats,
        theta: Floats,
        tails: Floats,
        near: "Fit | None" = None,
    ) -> None:
        self.layout, self.u = layout, tails
        self.theta = theta[:, :, None]
        self.values = np.moveaxis(values, 0, -1)[..., None, None]  # (n, 2, b, e, 1, 1)
        self.floor = np.moveaxis(floor, 0, -1)[..., None, None]
        names = (*layout.nuisance, *(("ratio",) if near is None else ()))
        self.index = {name: k for k, name in enumerate(names)}
        self.cells = np.flatnonzero(layout.present.any(axis=0))
        self.pair_count = sum(len(p.seeds) for p in layout.patterns if p.paired)
        self.grid = (*theta.shape, len(tails))
        self.phi, self.means = self._start() if near is None else self._start_near(near)
        for _ in range(_STEPS if near else _STEPS + 4):
            self._accumulate(last=False)
            step = self.boost * solve(self.caution, self.gradient)
            self.phi = self.phi + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
            self.phi[1:] = np.clip(self.phi[1:], -_LARGEST, _LARGEST)
            self.means = self.means + self._mean_step()
        self._accumulate(last=True)

    def _start(self) -> tuple[Floats, Floats]:
        """Start from the maximum for normal and independent runs, with the pairs' sample correlation."""
        present, values = self.layout.present[..., None, None, None], np.clip(self.values, -_FAR, _FAR)
        means = values.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
        deviations = np.where(present, values - means, 0.0)
        squares = (deviations**2).sum(axis=(0, 2)) + present.sum(axis=(0, 2)) * self.floor
        half = np.exp(0.5 * self.theta)
        phi = np.zeros((len(self.index), *self.grid))
        phi[0] = np.log((squares[0] / half + squares[1] * half) / present.sum())
        correlation = (deviations[:, 0] * deviations[:, 1]).sum(axis=(0, 1)) / np.sqrt(squares.prod(axis=0))
        z = np.arctanh(np.clip(correlation, -0.99, 0.99))
        for k in (self.index[name] for name in ("pairs", "contrasts") if name in self.index):
            phi[k] = z
        if "pairs" in self.index:
            phi[0] -= np.log(np.cosh(z))
        return phi, means + np.zeros(self.grid)

    def _start_near(self, near: "Fit") -> tuple[Floats, Floats]:
        away = self.theta - near.phi[near.index["ratio"]]
        phi = near.phi[:-1] + np.zeros(self.grid)
        phi[0] += np.log(np.cosh(0.5 * away))
        return phi, near.means + np.zeros(self.grid)

    def _accumulate(self, last: bool) -> None:
        """Sum value, gradient, curvatures and steps of the means over the seeds."""
        p, cells = len(self.index), 2 * self.layout.blocks
        self.value, self.boost = np.zeros(self.grid), np.ones(len(self.u))
        self.gradient = np.zeros((p, *self.grid))
        self.caution, self.curvature = (np.zeros((p, p, *self.grid)) for _ in range(2))
        self.pull, self.weight = (np.zeros((2, self.layout.blocks, *self.grid)) for _ in range(2))
        self.location = np.zeros(self.grid)
        if not self.layout.is_complete:
            self.location = np.zeros((cells, cells, *self.grid))
            self.force = np.zeros((cells, *self.grid))
        for pattern in self.layout.patterns:
            self._add(pattern, last)
        for k in (self.index[name] for name in ("twins_0", "twins_1", "contrasts") if name in self.index):
            self.value -= 0.5 * _RIDGE * self.phi[k] ** 2
            self.gradient[k] -= _RIDGE * self.phi[k]
            self.caution[k, k] += _RIDGE
            self.curvature[k, k] += _RIDGE

    def _add(self, pattern: Pattern, last: bool) -> None:
        deviations = [  # (n, k, ...) from the means of the cells
            self.values[pattern.seeds[:, None], group, blocks] - self.means[group, blocks]
            for group, blocks in enumerate(pattern.blocks)
        ]
        parts = self._parts(pattern)
        scatters = self._scatters(pattern, deviations)
        d, n = sum(pattern.runs), len(pattern.seeds)
        q = np.asarray(reduce(np.add, map(ScaleMatrix.distance, parts, scatters)))
        w = (1 + self.u * d) / (1 + self.u * q)
        self.boost = np.maximum(self.boost, 1 + 2 * self.u / (1 + self.u * d))
        for part, scatter in zip(parts, scatters, strict=True):
            zero = np.zeros(self.grid)
            sums = np.stack([zero if s is None else np.einsum("n...,n...->...", w, s) for s in scatter])
            slope = -0.5 * (part.slope(sums) + n * part.determinant_slope)
            self.gradient += np.einsum("jp...,j...->p...", part.slopes, slope)
            self.caution += congruence(0.5 * part.caution(sums, n), part.slopes)
            if last:
                self.curvature += congruence(0.5 * part.bend(sums, n), part.slopes)
                diagonal = np.einsum("pp...->p...", self.curvature)
                diagonal -= np.einsum("jp...,j...->p...", part.bends, slope)
        if last:
            self._add_last(parts, scatters, q, w, d)
        if last or not self.layout.is_complete:
            self._add_location(pattern, parts, w, deviations)
        else:  # all runs of a seed have one weight: the means are weighted means
            total = w.sum(axis=0)
            for group in (0, 1):
                self.pull[group, pattern.blocks[group]] += np.einsum("n...,nk...->k...", w, deviations[group])
                self.weight[group, pattern.blocks[group]] += total

    def _scatters(self, pattern: Pattern, deviations: list[Floats]) -> list[Scatter]:
        """Return the (n, ...) squares and products of the seeds' normalized means, and of their contrasts."""
        means: list[Floats | None] = [None, None]
        first: Scatter = [None, None, None]
        rest: Scatter = [None, None, None]
        for group, (x, k) in enumerate(zip(deviations, pattern.runs, strict=True)):
            if k:
                means[group] = mean = x.sum(axis=1) / k**0.5 if k > 1 else x[:, 0]
                square = mean**2
                first[group] = square + self.floor[group]
                if k > 1:
                    rest[group] = (x**2).sum(axis=1) - square + (k - 1) * self.floor[group]
        if means[0] is not None and means[1] is not None:
            first[2] = means[0] * means[1]
            if pattern.aligned and pattern.runs[0] > 1:
                rest[2] = (deviations[0] * deviations[1]).sum(axis=1) - first[2]
        return [first, rest] if max(pattern.runs) > 1 else [first]

    def _parts(self, pattern: Pattern) -> list[ScaleMatrix]:
        """Return the scale matrices of the seeds' means, and of their contrasts."""
        ka, kb = pattern.runs
        out = [self._part("pairs", pattern.runs, (min(ka, 1), min(kb, 1), int(pattern.paired)))]
        if max(ka, kb) > 1:
            a, b = max(ka - 1, 0), max(kb - 1, 0)
            out.append(self._part("contrasts", (0, 0), (a, b, a * (pattern.paired and pattern.aligned))))
        return out

    def _part(self, correlation: str, runs: tuple[int, int], counts: tuple[int, int, int]) -> ScaleMatrix:
        p = len(self.index)
        slopes, bends = (np.zeros((3, p, *self.grid)) for _ in range(2))
        scale, slopes[:2, 0] = self.phi[0], 1.0
        if "pairs" in self.index:  # in these coordinates Laplace is exact for normal values in one block
            k = self.index["pairs"]
            cosh = np.cosh(self.phi[k])
            scale = scale + np.log(cosh)
            slopes[:2, k], bends[:2, k] = np.tanh(self.phi[k]), 1 / cosh**2
        theta = self.theta
        if "ratio" in self.index:
            k = self.index["ratio"]
            theta = theta + self.phi[k]
            slopes[0, k], slopes[1, k] = 0.5, -0.5
        logs = [scale + 0.5 * theta, scale - 0.5 * theta]
        for group in (0, 1):
            if (k := self.index.get(f"twins_{group}", 0)) and counts[group]:
                value, slopes[group, k], bends[group, k] = twin_variance(
                    self.phi[k], runs[group], self.layout.blocks
                )
                logs[group] = logs[group] + value
        z = np.zeros(self.grid)
        if counts[2]:
            z, slopes[2, self.index[correlation]] = self.phi[self.index[correlation]], 1.0
        return ScaleMatrix((logs[0], logs[1], z), slopes, bends, counts)

    def _add_last(
        self, parts: list[ScaleMatrix], scatters: list[Scatter], q: Floats, w: Floats, d: int
    ) -> None:
        """Add what only the final likelihood and its curvature need."""
        slopes = np.zeros((len(self.index), *q.shape))
        for part, scatter in zip(parts, scatters, strict=True):
            each = part.slope(np.stack([np.zeros_like(q) if s is None else s for s in scatter]))
            slopes += np.einsum("jp...,jn...->pn...", part.slopes, each)
        weighted = slopes * w
        outer = np.einsum("pn...,qn...->pq...", weighted, weighted)
        self.curvature -= 0.5 * self.u / (1 + self.u * d) * outer
        self.value += log_density(q, self.u, d).sum(axis=0)
        self.value -= 0.5 * len(q) * sum(part.log_determinant for part in parts)
        for part in parts:
            if part.counts[2]:
                # The correlation costs a degree of freedom; with normal tails: Pitman and Morgan's t.
                self.value += 0.5 * part.log_scales * len(q) / self.pair_count

    def _add_location(
        self, pattern: Pattern, parts: list[ScaleMatrix], w: Floats, deviations: list[Floats]
    ) -> None:
        """Add the precision of the means, and their steps if seeds lack runs."""
        d = sum(pattern.runs)
        sharp = w.sum(axis=0)  # as if the weights were known: nearer to the integral than the curvature is
        if self.layout.is_complete:
            self.location += d * np.log(sharp) - sum(part.log_determinant for part in parts)
            return
        cells = np.concatenate([pattern.blocks[0], self.layout.blocks + pattern.blocks[1]])
        precision = self._precision(pattern, parts)
        sums = (w[:, None] * np.concatenate(deviations, axis=1)).sum(axis=0)
        self.location[np.ix_(cells, cells)] += sharp * precision
        self.force[cells] += np.einsum("jk...,k...->j...", precision, sums)

    def _precision(self, pattern: Pattern, parts: list[ScaleMatrix]) -> Floats:
        """Return the (d, d, ...) inverse of the scale matrix of the runs of a seed with this pattern."""
        ka, kb = pattern.runs
        out = np.zeros((ka + kb, ka + kb, *self.grid))
        slices = slice(0, ka), slice(ka, ka + kb)
        for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
            rows, columns = pattern.runs[a], pattern.runs[b]
            if not (rows and columns):
                continue
            block = out[slices[a], slices[b]]
            which = a if a == b else 2
            block += parts[0].precision[which] / (rows * columns) ** 0.5
            if len(parts) > 1 and (a == b or pattern.aligned):
                contrasts = np.eye(rows) - 1 / rows
                block += contrasts[..., None, None, None] * parts[1].precision[which]
        return out

    def _mean_step(self) -> Floats:
        if self.layout.is_complete:
            return self.pull / self.weight
        step = np.linalg.solve(
            self._cells_last(self.location), np.moveaxis(self.force, 0, -1)[..., self.cells, None]
        )
        out = np.zeros_like(self.force)
        out[self.cells] = np.moveaxis(step[..., 0], -1, 0)
        return out.reshape(self.means.shape)

    def _cells_last(self, matrix: Floats) -> Floats:
        return np.moveaxis(matrix[np.ix_(self.cells, self.cells)], (0, 1), (-2, -1))

    @property
    def log_posterior(self) -> Floats:
        """(e, t, v) log posterior of ratio and tails, up to a constant."""
        curvature = log_determinant(self.curvature)
        curvature = np.where(np.isnan(curvature), log_determinant(self.caution), curvature)
        location = self.location
        if not self.layout.is_complete:
            location = np.linalg.slogdet(self._cells_last(location))[1]
        return self.value - 0.5 * (curvature + location)


def log_density(q: Floats, u: Floats, d: int) -> Floats:
    """Return the log density of a d-dimensional t with 1/u df at squared distance q, without determinant."""
    safe = np.where(u > 0, u, 1.0)
    constant = gammaln((1 / safe + d) / 2) - gammaln(0.5 / safe) - 0.5 * d * np.log(np.pi / safe)
    heavy: Floats = constant - 0.5 * (1 / safe + d) * np.log1p(safe * q)
    return np.where(u > 0, heavy, -0.5 * d * np.log(2 * np.pi) - 0.5 * q)
