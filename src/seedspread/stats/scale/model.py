"""The likelihood of a variance ratio: a multivariate t per seed, everything else integrated out by Laplace.

The values of a seed, over arms and blocks, are one draw of a multivariate t: a mean per cell, a scale per
arm, a correlation of twins per arm, and correlations between the arms (of a seed's means over blocks, and
of its contrasts between them), shared over blocks. In a seed's normalised mean and contrasts the scale
matrix falls into 2 x 2 parts, so that no matrix is inverted seed by seed. Seeds that lack some blocks are
taken to correlate between the arms as whole ones do.

Arrays end with the axes of the grid: experiment, log ratio, tails. A batch of experiments has one layout.
"""

import numpy as np
from scipy.special import gammaln

from seedspread.stats.arms import Floats
from seedspread.stats.scale.algebra import congruence, log_determinant, solve
from seedspread.stats.scale.layout import Layout, Pattern
from seedspread.stats.scale.parts import Part, Scatter, twins

_STEPS = 12
_LONGEST_STEP = 1.5
# A hint of a prior, for twins of which there are hardly any.
_RIDGE = 0.02
# Of logits, Fisher's z and the log ratio of standardised arms.
_LARGEST = 14.0
# Runs further out are started from there.
_FAR = 100.0


class Fit:
    """The parameters at each point of a grid, brought to the maximum of the likelihood.

    Args:
        layout: which seed ran where.
        values: (e, n, 2, b) one value per run; 0 where there is none.
        floor: (e, 2) what is added to each squared deviation of an arm.
        theta: (e, t) log ratios of the variances.
        tails: (v,) reciprocal degrees of freedom; 0 is normal.
        near: a fit in which the ratio was free, to start from; without it the ratio is a parameter too
            (`ratio`, added to `theta`).
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
        """The maximum for normal and independent runs, with the correlation of the pairs as it is."""
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
        """The best fit, with the scale that goes with another ratio."""
        away = self.theta - near.phi[near.index["ratio"]]
        phi = near.phi[:-1] + np.zeros(self.grid)
        phi[0] += np.log(np.cosh(0.5 * away))
        return phi, near.means + np.zeros(self.grid)

    def _accumulate(self, last: bool) -> None:
        """Sums over the seeds: value, gradient, curvatures, and what the means are moved by."""
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
        deviations = [self._deviations(pattern, arm) for arm in (0, 1)]
        parts = self._parts(pattern)
        scatters = self._scatters(pattern, deviations)
        d, n = sum(pattern.runs), len(pattern.seeds)
        q = parts[0].distance(scatters[0])
        if len(parts) > 1:
            q = q + parts[1].distance(scatters[1])
        w = (1 + self.u * d) / (1 + self.u * q)
        self.boost = np.maximum(self.boost, 1 + 2 * self.u / (1 + self.u * d))
        for part, scatter in zip(parts, scatters, strict=True):
            sums = np.zeros((3, *self.grid))
            for k, each in enumerate(scatter):
                if each is not None:
                    sums[k] = np.einsum("n...,n...->...", w, each)
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
            for arm in (0, 1):
                self.pull[arm, pattern.blocks[arm]] += np.einsum("n...,nk...->k...", w, deviations[arm])
                self.weight[arm, pattern.blocks[arm]] += total

    def _deviations(self, pattern: Pattern, arm: int) -> Floats:
        """(n, k, ...) from the means of the cells."""
        blocks = pattern.blocks[arm]
        out: Floats = self.values[pattern.seeds[:, None], arm, blocks] - self.means[arm, blocks]
        return out

    def _scatters(self, pattern: Pattern, deviations: list[Floats]) -> list[Scatter]:
        """Of the seeds' normalised means, and of their contrasts: squares in each arm, products; (n, ...).

        None where an arm has no runs, or the arms have none together.
        """
        means: list[Floats | None] = [None, None]
        first: list[Floats | None] = [None, None, None]
        rest: list[Floats | None] = [None, None, None]
        for arm, (x, k) in enumerate(zip(deviations, pattern.runs, strict=True)):
            if k:
                means[arm] = mean = x.sum(axis=1) / k**0.5 if k > 1 else x[:, 0]
                square = mean**2
                first[arm] = square + self.floor[arm]
                if k > 1:
                    rest[arm] = (x**2).sum(axis=1) - square + (k - 1) * self.floor[arm]
        if means[0] is not None and means[1] is not None:
            first[2] = means[0] * means[1]
            if pattern.aligned and pattern.runs[0] > 1:
                rest[2] = (deviations[0] * deviations[1]).sum(axis=1) - first[2]
        several = max(pattern.runs) > 1
        return [(first[0], first[1], first[2]), *([(rest[0], rest[1], rest[2])] if several else [])]

    def _parts(self, pattern: Pattern) -> list[Part]:
        """Their scale matrices."""
        ka, kb = pattern.runs
        out = [self._part("pairs", pattern.runs, (min(ka, 1), min(kb, 1), int(pattern.paired)))]
        if max(ka, kb) > 1:
            a, b = max(ka - 1, 0), max(kb - 1, 0)
            out.append(self._part("contrasts", (0, 0), (a, b, a * (pattern.paired and pattern.aligned))))
        return out

    def _part(self, correlation: str, runs: tuple[int, int], counts: tuple[int, int, int]) -> Part:
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
        for arm in (0, 1):
            if (k := self.index.get(f"twins_{arm}", 0)) and counts[arm]:
                value, slopes[arm, k], bends[arm, k] = twins(self.phi[k], runs[arm], self.layout.blocks)
                logs[arm] = logs[arm] + value
        z = np.zeros(self.grid)
        if counts[2]:
            z, slopes[2, self.index[correlation]] = self.phi[self.index[correlation]], 1.0
        return Part((logs[0], logs[1], z), slopes, bends, counts)

    def _add_last(self, parts: list[Part], scatters: list[Scatter], q: Floats, w: Floats, d: int) -> None:
        """What the likelihood and its curvature need, and the steps do not."""
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

    def _add_location(self, pattern: Pattern, parts: list[Part], w: Floats, deviations: list[Floats]) -> None:
        """How sharply the means are known, and where they lie: needed apart only where seeds lack runs."""
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

    def _precision(self, pattern: Pattern, parts: list[Part]) -> Floats:
        """(d, d, ...) the inverse of the scale matrix of such a seed's runs."""
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
        """(..., c, c) for the cells that have runs."""
        return np.moveaxis(matrix[np.ix_(self.cells, self.cells)], (0, 1), (-2, -1))

    @property
    def log_posterior(self) -> Floats:
        """(e, t, v) of ratio and tails, up to a constant."""
        curvature = log_determinant(self.curvature)
        curvature = np.where(np.isnan(curvature), log_determinant(self.caution), curvature)
        location = self.location
        if not self.layout.is_complete:
            location = np.linalg.slogdet(self._cells_last(location))[1]
        return self.value - 0.5 * (curvature + location)


def log_density(q: Floats, u: Floats, d: int) -> Floats:
    """Of a d-dimensional t with 1 / u degrees of freedom at the squared distance q; no determinant."""
    safe = np.where(u > 0, u, 1.0)
    constant = gammaln((1 / safe + d) / 2) - gammaln(0.5 / safe) - 0.5 * d * np.log(np.pi / safe)
    heavy: Floats = constant - 0.5 * (1 / safe + d) * np.log1p(safe * q)
    return np.where(u > 0, heavy, -0.5 * d * np.log(2 * np.pi) - 0.5 * q)
