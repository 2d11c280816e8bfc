"""The restricted likelihood of variance components, many points at a time, and its maximum.

With Q an orthonormal basis of what the fixed effects X leave, w = Q'y is normal with mean zero and variance
V(theta) = sum_k theta_k A_k, where A_k = Q' Z_k Z_k' Q; the last component, noise, has A = I. The restricted
likelihood is that of w.

H. D. Patterson and R. Thompson, Recovery of inter-block information when block sizes are unequal, Biometrika
58 (1971) 545-554.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seedspread.stats.arms import Floats

_STEPS = 200
_HALVINGS = 30
# Numbers in one batch of dense matrices.
_BATCH = 20_000_000
# What is added to a diagonal, as a share of it, so that matrices on the boundary have a factor.
_RIDGE = 1e-12

Derivatives = tuple[Floats, Floats, Floats]


class Likelihood(Protocol):
    """A restricted log likelihood, up to a constant."""

    @property
    def size(self) -> int:
        """K, the number of components."""

    @property
    def contrasted(self) -> int:
        """How many contrasts a likelihood is computed of, one by one."""

    def value(self, theta: Floats) -> Floats:
        """(G, K) -> the likelihood (G,)."""

    def at(self, theta: Floats) -> Derivatives:
        """(G, K) -> the likelihood (G,), its gradient (G, K) and Fisher's information (G, K, K)."""


@dataclass(frozen=True)
class Spectral:
    """Of matrices A_k that commute: those of one random factor, and of balanced designs.

    Args:
        roots: (K, J) the eigenvalues of each A_k, a column for each set of equal ones.
        df: (J,) how many eigenvectors share them.
        squares: (J,) the sum of squares of w along these.
    """

    roots: Floats
    df: Floats
    squares: Floats

    @property
    def size(self) -> int:
        """K, the number of components."""
        return len(self.roots)

    @property
    def contrasted(self) -> int:
        """How many sets of contrasts it is computed of."""
        return len(self.df)

    def at(self, theta: Floats) -> Derivatives:
        """(G, K) -> the likelihood (G,), its gradient (G, K) and Fisher's information (G, K, K)."""
        value, inverse = self._inverted(theta)
        gradient = 0.5 * ((self.squares * inverse - self.df) * inverse) @ self.roots.T
        information = 0.5 * (self.df * inverse**2)[:, None, :] * self.roots @ self.roots.T
        return value, gradient, information

    def value(self, theta: Floats) -> Floats:
        """(G, K) -> the likelihood (G,)."""
        return self._inverted(theta)[0]

    def _inverted(self, theta: Floats) -> tuple[Floats, Floats]:
        variance = theta @ self.roots
        impossible = (variance <= 0).any(axis=1)
        inverse = 1 / np.where(variance > 0, variance, 1.0)
        value = 0.5 * (self.df * np.log(inverse) - self.squares * inverse).sum(axis=1)
        return np.where(impossible, -np.inf, value), inverse


@dataclass(frozen=True)
class Dense:
    """Of any matrices.

    Args:
        matrices: (K, m, m) the A_k, on the m contrasts that a factor moves.
        contrasts: (m,) w there.
        df: how many contrasts noise alone moves; noise is then the last component.
        squares: their sum of squares.
    """

    matrices: Floats
    contrasts: Floats
    df: float = 0.0
    squares: float = 0.0

    @property
    def size(self) -> int:
        """K, the number of components."""
        return len(self.matrices)

    @property
    def contrasted(self) -> int:
        """How many contrasts it is computed of, one by one."""
        return len(self.contrasts)

    def value(self, theta: Floats) -> Floats:
        """(G, K) -> the likelihood (G,)."""
        return np.concatenate([self._factored(piece)[0] for piece in self._pieces(theta)])

    def at(self, theta: Floats) -> Derivatives:
        """(G, K) -> the likelihood (G,), its gradient (G, K) and Fisher's information (G, K, K)."""
        value, gradient, information = (
            np.concatenate(parts) for parts in zip(*map(self._at, self._pieces(theta)), strict=True)
        )
        return value, gradient, information

    def _pieces(self, theta: Floats) -> list[Floats]:
        most = max(1, _BATCH // (self.size * len(self.contrasts) ** 2))
        return [theta[i : i + most] for i in range(0, max(len(theta), 1), most)]

    def _factored(self, theta: Floats) -> tuple[Floats, Floats]:
        """The likelihood, and V; no eigenvalues, which take ten times as long where threads compete."""
        n = len(self.contrasts)
        variance = (theta @ self.matrices.reshape(self.size, -1)).reshape(-1, n, n)
        mean = np.trace(variance, axis1=1, axis2=2)[:, None] / n
        variance = variance + _RIDGE * np.maximum(mean, 1e-300)[:, :, None] * np.eye(n)
        lower = np.linalg.cholesky(variance)
        pivots = np.diagonal(lower, axis1=1, axis2=2) ** 2
        impossible = (pivots <= 100 * _RIDGE * mean).any(axis=1)
        along = np.linalg.solve(lower, np.broadcast_to(self.contrasts[:, None], (len(theta), n, 1)))
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


def maximise(
    likelihood: Likelihood, start: Floats, free: NDArray[np.bool_], tolerance: float
) -> tuple[Floats, Floats]:
    """The maxima over the free components, none of which falls below zero; Fisher scoring, projected.

    Args:
        likelihood: what to maximise.
        start: (G, K) where to begin, and the values of components that are not free.
        free: (G, K) which components are.
        tolerance: a step that raises the likelihood by less is the last.

    Returns:
        (G, K) where the maxima are, and (G,) what they are.
    """
    theta, eye = start.copy(), np.eye(likelihood.size)
    value, gradient, information = likelihood.at(theta)
    rows = np.flatnonzero(np.isfinite(value))  # elsewhere the fixed components make it impossible
    gradient, information = gradient[rows], information[rows]
    for _ in range(_STEPS):
        here = theta[rows]
        held = ~free[rows] | ((here <= 0) & (gradient <= 0))
        gradient = np.where(held, 0.0, gradient)
        kept = ~held[:, :, None] & ~held[:, None, :]
        ridge = 1e-12 * np.trace(information, axis1=1, axis2=2)[:, None, None]
        step = np.linalg.solve(np.where(kept, information, eye) + ridge * eye, gradient[:, :, None])[:, :, 0]
        moved, new = _uphill(likelihood, here, value[rows], step)
        done = new - value[rows] <= tolerance
        theta[rows], value[rows] = moved, new
        rows = rows[~done]
        if not len(rows):
            break
        _, gradient, information = likelihood.at(theta[rows])
    return theta, value


def _uphill(likelihood: Likelihood, theta: Floats, value: Floats, step: Floats) -> tuple[Floats, Floats]:
    """The longest step, of halves, that does not lower the likelihood; none if there is none."""
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
