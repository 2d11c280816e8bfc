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

Derivatives = tuple[Floats, Floats, Floats]


class Likelihood(Protocol):
    """A restricted log likelihood, up to a constant."""

    @property
    def size(self) -> int:
        """K, the number of components."""

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

    def at(self, theta: Floats) -> Derivatives:
        """(G, K) -> the likelihood (G,), its gradient (G, K) and Fisher's information (G, K, K)."""
        variance = theta @ self.roots
        impossible = (variance <= 0).any(axis=1)
        inverse = 1 / np.where(variance > 0, variance, 1.0)
        scaled = self.squares * inverse
        value = 0.5 * (self.df * np.log(inverse) - scaled).sum(axis=1)
        gradient = 0.5 * ((scaled - self.df) * inverse) @ self.roots.T
        information = 0.5 * (self.df * inverse**2)[:, None, :] * self.roots @ self.roots.T
        return np.where(impossible, -np.inf, value), gradient, information


@dataclass(frozen=True)
class Dense:
    """Of any matrices.

    Args:
        matrices: (K, m, m) the A_k.
        contrasts: (m,) w.
    """

    matrices: Floats
    contrasts: Floats

    @property
    def size(self) -> int:
        """K, the number of components."""
        return len(self.matrices)

    def at(self, theta: Floats) -> Derivatives:
        """(G, K) -> the likelihood (G,), its gradient (G, K) and Fisher's information (G, K, K)."""
        most = max(1, _BATCH // (self.size * len(self.contrasts) ** 2))
        pieces = [self._at(theta[i : i + most]) for i in range(0, len(theta), most)]
        value, gradient, information = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return value, gradient, information

    def _at(self, theta: Floats) -> Derivatives:
        variance = np.einsum("gk,kij->gij", theta, self.matrices)
        roots = np.linalg.eigvalsh(variance)
        impossible = roots[:, 0] <= 1e-12 * roots[:, -1]
        variance[impossible] = np.eye(len(self.contrasts))
        inverse = np.linalg.inv(variance)
        solved = inverse @ self.contrasts
        products = inverse[:, None] @ self.matrices  # (G, K, m, m)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = -0.5 * (np.log(roots).sum(axis=1) + solved @ self.contrasts)
        quadratic = np.einsum("gi,kij,gj->gk", solved, self.matrices, solved)
        gradient = 0.5 * (quadratic - np.einsum("gkii->gk", products))
        information = 0.5 * np.einsum("gkij,glji->gkl", products, products)
        return np.where(impossible, -np.inf, value), gradient, information


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
        found = likelihood.at(tried)[0]
        better = found >= value[rows]
        best[rows[better]], reached[rows[better]] = tried[better], found[better]
        rows = rows[~better]
        if not len(rows):
            break
        length /= 2
    return best, reached
