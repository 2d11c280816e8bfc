"""Small matrices at every point of a grid: the matrix axes come first, so that numpy runs along the grid."""

import numpy as np

from seedspread.stats.arms import Floats


def cholesky(matrix: Floats) -> tuple[list[list[Floats]], list[Floats]]:
    """L and d of L diag(d) L' for (p, p, ...) symmetric matrices; all d are positive where a matrix is."""
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
    """(p, ...) solutions for (p, p, ...) symmetric matrices and (p, ...) right sides."""
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
    """(...) of (p, p, ...) symmetric matrices; NaN where one is not positive definite."""
    pivots = np.stack(cholesky(matrix)[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        out: Floats = np.log(np.where(pivots > 0, pivots, np.nan)).sum(axis=0)
    return out


def congruence(matrix: Floats, slopes: Floats) -> Floats:
    """(q, q, ...) S' M S for (p, p, ...) matrices M and (p, q, ...) slopes S."""
    turned = np.einsum("jk...,kq...->jq...", matrix, slopes)
    out: Floats = np.einsum("jp...,jq...->pq...", slopes, turned)
    return out
