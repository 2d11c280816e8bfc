"""Variance components of a group: between seeds, by source of randomness, and from run to run of one seed.

With Q an orthonormal basis of what the fixed effects X leave, w = Q'y is normal with mean zero and variance
V(theta) = sum_k theta_k A_k, where A_k = Q' Z_k Z_k' Q; the last component, noise, has A = I. The
restricted likelihood is that of w. Intervals come from its profile (the maximum over all other components,
each at least zero), so they may begin at zero.

H. D. Patterson and R. Thompson, Recovery of inter-block information when block sizes are unequal,
Biometrika 58 (1971) 545-554.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, compress

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from seedspread.stats.distributions import chi2_ppf, chi2_sf, f_sf
from seedspread.stats.groups import Floats, Ints, dummies
from seedspread.stats.result import Interval

_STEPS = 200
_HALVINGS = 30
# Size of a batch of dense matrices, in numbers.
_BATCH = 20_000_000
# Share of a diagonal that is added to it, so that Cholesky works on the boundary too.
_RIDGE = 1e-12

Derivatives = tuple[Floats, Floats, Floats]


@dataclass(frozen=True)
class Spectral:
    """The restricted log likelihood if the matrices A_k commute: one random factor, and balanced designs.

    K is the number of components, G the number of points that are evaluated at once.
    """

    roots: Floats  # (K, J) the eigenvalues of each A_k, a column for each set of equal ones
    df: Floats  # (J,) how many eigenvectors share them
    squares: Floats  # (J,) the sum of squares of w along these

    @property
    def size(self) -> int:
        return len(self.roots)

    @property
    def contrasted(self) -> int:
        return len(self.df)

    def at(self, theta: Floats) -> Derivatives:
        """Return the (G,) likelihoods of (G, K), gradients (G, K) and Fisher's information (G, K, K)."""
        value, inverse = self._inverted(theta)
        gradient = 0.5 * ((self.squares * inverse - self.df) * inverse) @ self.roots.T
        information = 0.5 * (self.df * inverse**2)[:, None, :] * self.roots @ self.roots.T
        return value, gradient, information

    def value(self, theta: Floats) -> Floats:
        return self._inverted(theta)[0]

    def _inverted(self, theta: Floats) -> tuple[Floats, Floats]:
        variance = theta @ self.roots
        impossible = (variance <= 0).any(axis=1)
        inverse = 1 / np.where(variance > 0, variance, 1.0)
        value = 0.5 * (self.df * np.log(inverse) - self.squares * inverse).sum(axis=1)
        return np.where(impossible, -np.inf, value), inverse


@dataclass(frozen=True)
class Dense:
    """The restricted log likelihood of any matrices; see `Spectral`."""

    matrices: Floats  # (K, m, m) the A_k, on the m contrasts that a factor moves
    contrasts: Floats  # (m,) w there
    df: float = 0.0  # how many contrasts noise alone moves; noise is then the last component
    squares: float = 0.0  # their sum of squares

    @property
    def size(self) -> int:
        return len(self.matrices)

    @property
    def contrasted(self) -> int:
        return len(self.contrasts)

    def value(self, theta: Floats) -> Floats:
        return np.concatenate([self._factored(piece)[0] for piece in self._pieces(theta)])

    def at(self, theta: Floats) -> Derivatives:
        value, gradient, information = (
            np.concatenate(parts) for parts in zip(*map(self._at, self._pieces(theta)), strict=True)
        )
        return value, gradient, information

    def _pieces(self, theta: Floats) -> list[Floats]:
        most = max(1, _BATCH // (self.size * len(self.contrasts) ** 2))
        return [theta[i : i + most] for i in range(0, max(len(theta), 1), most)]

    def _factored(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the likelihood and V, by Cholesky: eigenvalues take ten times as long if threads compete."""
        n = len(self.contrasts)
        variance = (theta @ self.matrices.reshape(self.size, -1)).reshape(-1, n, n)
        mean = np.maximum(np.trace(variance, axis1=1, axis2=2)[:, None] / n, 1e-300)
        variance = variance + _RIDGE * mean[:, :, None] * np.eye(n)
        lower = np.linalg.cholesky(variance)
        pivots = np.diagonal(lower, axis1=1, axis2=2) ** 2
        impossible = (pivots <= 100 * _RIDGE * mean).any(axis=1)
        along = np.linalg.solve(lower, np.broadcast_to(self.contrasts[:, None], (len(theta), n, 1)))
        with np.errstate(over="ignore"):  # an impossible V may overflow, depending on rounding
            value = -0.5 * (np.log(pivots).sum(axis=1) + (along**2).sum(axis=(1, 2)))
        if self.df:
            noise = theta[:, -1]
            impossible |= noise <= 0
            noise = np.where(noise > 0, noise, 1.0)
            value -= 0.5 * (self.df * np.log(noise) + self.squares / noise)
        return np.where(impossible, -np.inf, value), variance

    def _at(self, theta: Floats) -> Derivatives:
        value, variance = self._factored(theta)
        inverse = np.linalg.inv(variance)
        products = inverse[:, None] @ self.matrices  # (G, K, m, m)
        turned = products @ (inverse @ self.contrasts)[:, None, :, None]
        gradient = 0.5 * (turned[..., 0] @ self.contrasts - np.trace(products, axis1=2, axis2=3))
        shape = (*products.shape[:2], -1)
        information = 0.5 * products.reshape(shape) @ products.swapaxes(2, 3).reshape(shape).swapaxes(1, 2)
        if self.df:
            noise = np.where(theta[:, -1] > 0, theta[:, -1], 1.0)
            gradient[:, -1] += 0.5 * (self.squares / noise - self.df) / noise
            information[:, -1, -1] += 0.5 * self.df / noise**2
        return value, gradient, information


Likelihood = Spectral | Dense


def maximize(
    likelihood: Likelihood, start: Floats, free: NDArray[np.bool_], tolerance: float
) -> tuple[Floats, Floats]:
    """Maximize over the free components, none of which falls below zero, by projected Fisher scoring.

    Args:
        likelihood: the restricted log likelihood to maximize.
        start: (G, K) starting points; components that are not free keep these values.
        free: (G, K) whether a component may vary.
        tolerance: stop after a step that raises the likelihood by less.

    Returns:
        (G, K) locations of the maxima, and (G,) their values.
    """
    theta, eye = start.copy(), np.eye(likelihood.size)
    value, gradient, information = likelihood.at(theta)
    rows = np.flatnonzero(np.isfinite(value))  # elsewhere the fixed components rule out the data
    gradient, information = gradient[rows], information[rows]
    for _ in range(_STEPS):
        here = theta[rows]
        held = ~free[rows] | ((here <= 0) & (gradient <= 0))
        gradient = np.where(held, 0.0, gradient)
        kept = ~held[:, :, None] & ~held[:, None, :]
        information = np.where(kept, information, eye)
        # Each component is scaled: one may be a millionth of another.
        unit = np.maximum(np.diagonal(information, axis1=1, axis2=2), 1e-300) ** -0.5
        scaled = information * unit[:, :, None] * unit[:, None, :] + _RIDGE * eye
        step = unit * np.linalg.solve(scaled, (unit * gradient)[:, :, None])[:, :, 0]
        moved, new = _uphill(likelihood, here, value[rows], step)
        done = new - value[rows] <= tolerance
        theta[rows], value[rows] = moved, new
        rows = rows[~done]
        if not len(rows):
            break
        _, gradient, information = likelihood.at(theta[rows])
    return theta, value


def _uphill(likelihood: Likelihood, theta: Floats, value: Floats, step: Floats) -> tuple[Floats, Floats]:
    """Halve the step until it no longer lowers the likelihood; stay if no step helps."""
    best, reached = theta.copy(), value.copy()
    rows = np.arange(len(theta))
    length = 1.0
    for _ in range(_HALVINGS):
        tried = np.maximum(theta[rows] + length * step[rows], 0.0)
        found = likelihood.value(tried)
        better = found >= value[rows]
        best[rows[better]], reached[rows[better]] = tried[better], found[better]
        rows = rows[~better]
        if not len(rows):
            break
        length /= 2
    return best, reached


Bools = NDArray[np.bool_]

SEED, NOISE, TOGETHER = "seed", "noise", "together"
_TINY = 1e-9
# A component whose sd is this small a share of the whole counts as zero.
_UNSEEN = 1e-4


@dataclass(frozen=True)
class Sample:
    """The runs of a group, with the factors among which its variance is split."""

    name: str  # the group's name
    values: Floats  # (n,) one per run
    cells: Ints  # (n,) codes of the blocks, whose means are removed as fixed effects
    # (n,) codes of each random factor's levels, by name: the seed, or its sources of randomness.
    factors: Mapping[str, Ints]
    factor: str = ""  # what `name` is a level of
    # (n,) bool: runs that share their noise, and their joint effect of several sources, with all others in
    # their cell, because they differ only in a later stage (several probes on one trained encoder).
    # None if there are none.
    shared_noise: Bools | None = None


@dataclass(frozen=True)
class MeanSquares:
    """A factor's mean square compared with that of the noise, every other factor taken as fixed.

    The F test is exact, balanced or not; the estimate, by Henderson's third method, is unbiased and may be
    negative. J. F. Seely and Y. El-Bassiouni, Applying Wald's variance component test, Annals of Statistics
    11 (1983) 197-201.
    """

    estimate: float
    p: float


@dataclass(frozen=True)
class Design:
    """The estimable variance components of a sample, its fixed effects removed."""

    names: tuple[str, ...]  # of the K components, noise last, if it can be estimated separately
    likelihood: Likelihood  # restricted, of values in units of `scale`
    scale: float  # square root of the variance within cells
    mean_squares: Mapping[str, MeanSquares]  # by factor, if they exist
    noise: float | None  # mean square, every factor taken as fixed; None if no run is repeated
    repeated: bool  # whether any two runs are equal in all factors
    copies: bool  # whether such runs never differ
    has_shared_noise: bool = False  # whether some runs have no noise of their own


def design(sample: Sample) -> Design | None:
    """Return the components that a sample can estimate; None if it has no spread within cells."""
    basis, centered = _complement(dummies(sample.cells)), sample.values - sample.values.mean()
    contrasts = basis.T @ centered
    size = len(contrasts)
    variance = float(contrasts @ contrasts) / max(size, 1)
    if size == 0 or variance <= 1e-20 * max(float(np.abs(sample.values).max()) ** 2, 1e-300):
        return None
    scale = variance**0.5
    shared_noise = sample.shared_noise
    if shared_noise is None:
        shared_noise = np.zeros(len(sample.values), dtype=bool)
    has_shared = bool(shared_noise.any())
    factors = _distinct(sample.factors, shared_noise)
    columns = {
        name: z for name, codes in factors.items() if np.abs(z := basis.T @ dummies(codes)).max() > _TINY
    }
    own = np.eye(size) if not has_shared else basis.T @ (~shared_noise[:, None] * basis)
    names = _separable(columns, own)
    # Noise, and tests that compare with it, use only the runs that have noise of their own.
    noisy = basis if not has_shared else _complement(dummies(sample.cells[~shared_noise]))
    tested = {name: noisy.T @ dummies(factors[name][~shared_noise]) for name in names if name in factors}
    squares, noise = _mean_squares(tested, noisy.T @ centered[~shared_noise])
    matrices = {name: z @ z.T for name, z in columns.items()} | {NOISE: own}
    copies = NOISE in names and noise is not None and noise <= 1e-18 * variance
    if copies:
        names = tuple(name for name in names if name != NOISE)
    whole = np.stack([matrices[name] for name in names])
    likelihood = _likelihood(whole, contrasts / scale, NOISE in names and not has_shared)
    repeated = number_of_seeds(sample) < len(sample.values)
    return Design(names, likelihood, scale, squares, noise, repeated, copies, has_shared)


def drop_idle_factors(sample: Sample, made: Design) -> tuple[tuple[str, ...], Sample]:
    """Remove factors without any effect: runs that differ only in these, and in noise, have equal values.

    With them the likelihood would grow without bound as their variance goes to zero.

    Returns:
        The names of these factors, and the sample without them and their runs.
    """
    bare = np.ones(len(sample.values), dtype=bool) if NOISE not in made.names else sample.shared_noise
    if bare is None:
        return (), sample
    cells = (np.flatnonzero(bare & (sample.cells == cell)) for cell in np.unique(sample.cells))
    several = [rows for rows in cells if len(rows) > 1]
    moves = [np.ptp(sample.values[rows]) > _UNSEEN * made.scale for rows in several]

    def varied(rows: Ints) -> set[str]:
        return {name for name, codes in sample.factors.items() if np.ptp(codes[rows])}

    moving = {name for rows in compress(several, moves) for name in varied(rows)}
    still = [rows for rows, moved in zip(several, moves, strict=True) if not (moved or varied(rows) & moving)]
    if not still:
        return (), sample
    names = tuple(name for name in sample.factors if any(name in varied(rows) for rows in still))
    kept = ~np.isin(np.arange(len(sample.values)), np.concatenate(still))
    rest = replace(
        sample,
        values=sample.values[kept],
        cells=sample.cells[kept],
        factors={name: codes[kept] for name, codes in sample.factors.items() if name not in names},
        shared_noise=None if sample.shared_noise is None else sample.shared_noise[kept],
    )
    return names, rest


def number_of_seeds(sample: Sample) -> int:
    return int(np.unique(np.stack(list(sample.factors.values())), axis=1).shape[1])


def _complement(fixed: Floats) -> Floats:
    """Return an (n, n - p) orthonormal basis of the space orthogonal to (n, p) dummies."""
    q, _ = np.linalg.qr(fixed, mode="complete")
    return np.asarray(q[:, fixed.shape[1] :])


def _distinct(factors: Mapping[str, Ints], shared_noise: Bools) -> dict[str, Ints]:
    """Return the factors that vary, those that always vary together as one, and their joint effect.

    The joint effect (`TOGETHER`) is included only if runs repeat a combination of levels.
    """
    merged: dict[tuple[int, ...], list[str]] = {}
    for name, codes in factors.items():
        if len(np.unique(codes)) > 1:
            first: dict[int, int] = {}  # levels numbered in order of appearance
            merged.setdefault(tuple(first.setdefault(int(c), len(first)) for c in codes), []).append(name)
    whole = len(merged) == 1 and len(factors) > 1 and len(next(iter(merged.values()))) == len(factors)
    out = {
        SEED if whole else " + ".join(names): np.array(codes, dtype=np.intp)
        for codes, names in merged.items()
    }
    if len(out) > 1:
        _, codes = np.unique(np.stack(list(out.values())), axis=1, return_inverse=True)
        codes = codes.ravel()
        if len(np.unique(codes[~shared_noise])) < np.count_nonzero(~shared_noise):
            codes[shared_noise] = -1
            out[TOGETHER] = np.unique(codes, return_inverse=True)[1].astype(np.intp)
    return out


def _separable(columns: Mapping[str, Floats], noise: Floats) -> tuple[str, ...]:
    """Return the estimable components: all, or all but the joint effect, or all but noise too."""
    alone = tuple(name for name in columns if name != TOGETHER)
    for names in ((*columns, NOISE), (*alone, NOISE), alone):
        matrices = [noise if name == NOISE else columns[name] @ columns[name].T for name in names]
        if matrices and _are_independent(matrices):
            return names
    return (NOISE,)


def _are_independent(matrices: Sequence[Floats]) -> bool:
    flat = np.stack([m.ravel() for m in matrices])
    norms = np.linalg.norm(flat, axis=1)
    if norms.min() <= _TINY:
        return False
    flat /= norms[:, None]
    whole = np.linalg.eigvalsh(sum(matrices[1:], matrices[0]))
    return bool(np.linalg.eigvalsh(flat @ flat.T)[0] > _TINY and whole[0] > _TINY)


def _mean_squares(
    columns: Mapping[str, Floats], contrasts: Floats
) -> tuple[dict[str, MeanSquares], float | None]:
    if not len(contrasts):  # no run has noise of its own
        return {}, None
    left, rank = _regressed(list(columns.values()), contrasts)
    rest, df = float(left @ left), len(contrasts) - rank
    noise = rest / df if df else None
    out = {}
    for name, z in columns.items():
        others = [other for key, other in columns.items() if key != name]
        left, rank_without = _regressed(others, contrasts)
        without, own = float(left @ left), rank - rank_without
        if own < 1 or noise is None or noise <= 0:
            continue
        trace = float((_regressed(others, z)[0] ** 2).sum())
        f = (without - rest) / own / noise
        out[name] = MeanSquares((without - rest - own * noise) / trace, float(f_sf(f, own, df)))
    return out, noise


def _regressed(columns: Sequence[Floats], target: Floats) -> tuple[Floats, int]:
    """Return what a regression on these columns leaves of the target, and their rank."""
    if not columns:
        return target, 0
    u, s, _ = np.linalg.svd(np.hstack(columns), full_matrices=False)
    u = u[:, s > _TINY * max(float(s[0]), 1.0)]
    return np.asarray(target - u @ (u.T @ target)), u.shape[1]


def _likelihood(matrices: Floats, contrasts: Floats, has_noise: bool) -> Likelihood:
    """Return the likelihood of (K, m, m) matrices and (m,) contrasts: spectral if the matrices commute.

    `has_noise` says whether the last component is noise that every run has.
    """
    if all(np.allclose(b @ a, a @ b, atol=_TINY * len(a)) for a, b in combinations(matrices, 2)):
        # Any weights under which no two sets of eigenvalues have the same sum.
        weights = np.sqrt(np.arange(2, 2 + len(matrices)))
        _, vectors = np.linalg.eigh(np.tensordot(weights, matrices, 1))
        eigenvalues = np.round((matrices @ vectors * vectors).sum(axis=1), 9)
        distinct, group = np.unique(eigenvalues, axis=1, return_inverse=True)
        squares = np.bincount(group.ravel(), (vectors.T @ contrasts) ** 2).astype(float)
        df = np.bincount(group.ravel()).astype(float)
        moved = distinct.any(axis=0)
        return Spectral(distinct[:, moved], df[moved], squares[moved])
    factors = matrices[:-1] if has_noise else matrices
    roots, vectors = np.linalg.eigh(factors.sum(axis=0))
    is_moved = roots > _TINY * roots[-1]
    kept, rest = vectors[:, is_moved], vectors[:, ~is_moved].T @ contrasts
    if not has_noise:
        return Dense(kept.T @ matrices @ kept, kept.T @ contrasts)
    return Dense(kept.T @ matrices @ kept, kept.T @ contrasts, float(len(rest)), float(rest @ rest))


# Values at which a profile is tabulated: far and near, the latter in standard errors.
_LOWEST = 1e-5
_FAR = np.concatenate([[0.0], np.logspace(-5, 5, 51)])
_SEVERAL = 40  # with more contrasts, a single maximum is assumed
_NEAR = np.arange(-14, 15) / 4
_REFINED = 8
# Points at which contrasts are computed; with fewer, the ends of an interval depend on rounding.
_POINTS = 5_000


@dataclass(frozen=True)
class Curve:
    """The profile likelihood of one component."""

    estimate: float  # at its maximum
    grid: Floats  # (n,) values at which it was computed
    drops: Floats  # (n,) twice the drop from the maximum there

    @property
    def _lowest(self) -> float:
        """Offset to add before taking logarithms: at most a tenth of the estimate, unless that is zero."""
        return min(_LOWEST, self.estimate / 10) if self.estimate > 0 else _LOWEST

    @cached_property
    def _smooth(self) -> PchipInterpolator:
        finite = np.isfinite(self.drops)
        return PchipInterpolator(
            np.log(self.grid[finite] + self._lowest), self.drops[finite], extrapolate=False
        )

    def drop(self, at: Floats) -> Floats:
        """Interpolate the drop between the points of the grid; infinite beyond them."""
        out: Floats = self._smooth(np.log(at + self._lowest))
        return np.where(np.isnan(out), np.inf, np.maximum(out, 0.0))

    def within(self, quantile: float) -> Floats:
        """Return increasing points that cover the values at which the drop is at most `quantile`."""
        inside = np.flatnonzero(self.drops <= quantile)
        place = np.searchsorted(self.grid, self.estimate)
        first, last = min([place, *inside[:1]]) - 1, max([place, *inside[-1:]]) + 1
        ends = np.log(self.grid[[max(first, 0), min(last, len(self.grid) - 1)]] + self._lowest)
        points = np.exp(np.linspace(ends[0], ends[1], _POINTS)) - self._lowest
        return np.unique(np.append(np.maximum(points, 0.0), self.estimate))


def fit(likelihood: Likelihood) -> tuple[Floats, float]:
    """Return the (K,) components that maximize the likelihood, from several starts, and its maximum."""
    k = likelihood.size
    starts = np.vstack([np.full(k, 1 / k), 0.02 + 0.9 * np.eye(k)])
    if k > 2:  # several factors, and few runs, may have several maxima
        starts = np.vstack([starts, np.random.default_rng(0).gamma(0.5, 1.0, (10 * k, k)) + 1e-3])
    found, values = maximize(likelihood, starts, np.ones_like(starts, dtype=bool), 0.0)
    best = int(np.argmax(values))
    top = float(values[best])
    # A component that fits no better than zero is set to zero, unless the data are impossible without it.
    without = np.where(found[best] < 1e-9, 0.0, found[best])
    at_zero = float(likelihood.value(without[None])[0])
    return (without, max(at_zero, top)) if at_zero >= top - 1e-6 else (found[best], top)


def profiles(likelihood: Likelihood, estimates: Floats, top: float) -> list[Curve]:
    """Return the profile likelihood of each component; `top` is the maximum at `estimates`."""
    grids = _grids(likelihood, estimates)
    which = np.repeat(np.arange(len(grids)), [len(grid) for grid in grids])
    values = _profile(likelihood, estimates, which, np.concatenate(grids))
    drops = np.maximum(2 * (top - values), 0.0)
    return [Curve(float(estimates[i]), grid, drops[which == i]) for i, grid in enumerate(grids)]


def _grids(likelihood: Likelihood, estimates: Floats) -> list[Floats]:
    """Return per component the increasing values at which to compute its profile, the estimate among them."""
    information = likelihood.at(estimates[None])[2][0]
    errors = 1 / np.sqrt(np.maximum(np.diag(information), 1e-12))
    out = []
    for estimate, error in zip(estimates, errors, strict=True):
        # Logarithmic above zero, as the profile is nearly a parabola there.
        near = estimate * np.exp(_NEAR * error / estimate) if estimate > error / 4 else error * _NEAR[15:]
        inside = near[(near > min(_FAR[1], estimate / 10)) & (near < _FAR[-1])]
        far = _FAR if len(estimates) < 3 else _FAR[::2]
        out.append(np.unique(np.concatenate([[0.0], far, inside, [estimate]])))
    return out


def intervals(
    likelihood: Likelihood, estimates: Floats, top: float, curves: list[Curve], level: float
) -> list[tuple[float, float]]:
    """Return per component the ends of its profile-likelihood interval, zero and infinity included."""
    quantile = float(chi2_ppf(level, 1))
    ends = np.tile([0.0, np.inf], (len(curves), 1))
    brackets = []  # component, side, and two values between which the interval ends there
    for i, curve in enumerate(curves):
        inside = np.flatnonzero(curve.drops <= quantile)
        for side, at in enumerate((inside[0] - 1, inside[-1])):
            if 0 <= at < len(curve.grid) - 1:
                brackets.append((i, side, curve.grid[at], curve.grid[at + 1]))
    if brackets:
        which, sides, low, high = (np.array(part) for part in zip(*brackets, strict=True))
        for _ in range(2):
            points = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, _REFINED)
            found = _profile(likelihood, estimates, np.repeat(which, _REFINED), points.ravel())
            excess = 2 * (top - found.reshape(points.shape)) - quantile
            low, high, end = _crossing(points, excess)
        ends[which, sides] = end
    return [(float(low), float(high)) for low, high in ends]


def _profile(likelihood: Likelihood, estimates: Floats, which: Ints, values: Floats) -> Floats:
    """Return (G,) maxima over all other components with component `which` held at its value."""
    k = likelihood.size
    starts = [estimates]
    if k > 2 and likelihood.contrasted <= _SEVERAL:
        starts += [np.full(k, 0.3), np.append(np.ones(k - 1), 0.0)]
    rows = np.arange(len(which))
    found = []
    for begin in starts:
        start = np.maximum(np.tile(begin, (len(which), 1)), 1e-3)
        start[rows, which] = values
        free = np.ones_like(start, dtype=bool)
        free[rows, which] = False
        found.append(maximize(likelihood, start, free, 1e-9)[1])
    return np.asarray(np.max(found, axis=0))


def _crossing(points: Floats, excess: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the (B,) points around the sign change of (B, P) excesses, and the root between them."""
    rows = np.arange(len(points))
    inside = excess <= 0
    change = np.argmax(inside[:, 1:] != inside[:, :-1], axis=1)
    low, high = points[rows, change], points[rows, change + 1]
    a, b = excess[rows, change], excess[rows, change + 1]
    with np.errstate(invalid="ignore"):
        share = np.where(np.isfinite(a) & np.isfinite(b) & (a != b), a / (a - b), 0.5)
    return low, high, low + np.clip(share, 0.0, 1.0) * (high - low)


def contrast(first: Curve, second: Curve, units: tuple[float, float], level: float) -> tuple[Interval, float]:
    """Return the interval of the ratio of a component in two groups, and the p value of no difference.

    They come from the sum of the two profiles; `units` are those of the curves, as variances.
    """
    quantile = float(chi2_ppf(level, 1))
    x = first.within(quantile)
    spent = first.drop(x)
    x, left = x[spent <= quantile] * units[0], quantile - spent[spent <= quantile]
    least, most = (side * units[1] for side in _reach(second, quantile, left))
    with np.errstate(divide="ignore", invalid="ignore"):
        # If both may be zero, any ratio is possible.
        high, low = np.where((x == 0) & (least == 0), np.inf, x / least), np.where(x == 0, 0.0, x / most)
    both = np.concatenate([first.within(quantile) * units[0], second.within(quantile) * units[1]])
    equal = float((first.drop(both / units[0]) + second.drop(both / units[1])).min())
    return Interval(float(low.min()), float(high.max()), level), float(chi2_sf(equal, 1))


def _reach(curve: Curve, quantile: float, drops: Floats) -> tuple[Floats, Floats]:
    """Return the smallest and largest values whose profile is at most `drops` below the maximum."""
    points = curve.within(quantile)
    heights = curve.drop(points)
    top = int(np.searchsorted(points, curve.estimate))
    left, right = slice(top, None, -1), slice(top, None)
    beyond = np.inf if heights[-1] <= quantile else points[-1]
    return (
        np.interp(drops, np.maximum.accumulate(heights[left]), points[left]),
        np.interp(drops, np.maximum.accumulate(heights[right]), points[right], right=beyond),
    )
