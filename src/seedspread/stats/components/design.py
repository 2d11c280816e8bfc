"""The design of an arm: which random factors it has, which of them can be told apart, and the exact tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from seedspread.stats.arms import Arm, Floats, Ints
from seedspread.stats.components.likelihood import Dense, Likelihood, Spectral

Bools = NDArray[np.bool_]

SEED, NOISE, TOGETHER = "seed", "noise", "together"
_TINY = 1e-9
# A spread that is so small a share of the whole is none.
_UNSEEN = 1e-4


@dataclass(frozen=True)
class Sample:
    """The runs of an arm.

    Args:
        name: the arm.
        factor: what that is a level of.
        values: (n,) one per run.
        cells: (n,) codes of what is taken out as fixed: the blocks.
        factors: by name, (n,) codes of a random factor's levels: the seed, or its streams.
        quiet: (n,) runs whose noise, and what their streams do together, is that of all others in their cell:
            they differ in what comes after it alone. None if there are none.
    """

    name: str
    values: Floats
    cells: Ints
    factors: Mapping[str, Ints]
    factor: str = ""
    quiet: Bools | None = None

    @classmethod
    def of(cls, arm: Arm) -> "Sample":
        """An arm of an audit: its seeds, within its blocks."""
        return cls(arm.name, arm.values, arm.blocks, {SEED: arm.seeds}, arm.factor)


@dataclass(frozen=True)
class MeanSquares:
    """A factor's mean square against that of the noise, every other factor taken as fixed.

    The F test is exact, balanced or not; the estimate, by Henderson's third method, is unbiased and may be
    negative. J. F. Seely and Y. El-Bassiouni, Applying Wald's variance component test, Annals of Statistics
    11 (1983) 197-201.
    """

    estimate: float
    f: float
    df: tuple[int, int]
    p: float


@dataclass(frozen=True)
class Design:
    """What is left of a sample once its fixed effects are taken out.

    Attributes:
        names: (K,) of the components, noise last, if it can be told apart.
        likelihood: the restricted one, of values in units of `scale`.
        scale: the square root of the variance within cells.
        mean_squares: by factor, where they exist.
        noise: the mean square of the noise, every factor taken as fixed; None where no run is repeated.
        noise_df: its degrees of freedom.
        levels: by factor, how many levels it has.
        repeated: whether any two runs are equal in all factors.
        copies: whether these never differ.
        quiet: whether some runs have no noise of their own.
    """

    names: tuple[str, ...]
    likelihood: Likelihood
    scale: float
    mean_squares: Mapping[str, MeanSquares]
    noise: float | None
    noise_df: int
    levels: Mapping[str, int]
    repeated: bool
    copies: bool
    quiet: bool = False


def design(sample: Sample) -> Design | None:
    """The design of a sample; None where it has no spread within cells."""
    basis, centred = _complement(_dummies(sample.cells)), sample.values - sample.values.mean()
    contrasts = basis.T @ centred
    size = len(contrasts)
    variance = float(contrasts @ contrasts) / max(size, 1)
    if size == 0 or variance <= 1e-20 * max(float(np.abs(sample.values).max()) ** 2, 1e-300):
        return None
    scale = variance**0.5
    quiet = np.zeros(len(sample.values), dtype=bool) if sample.quiet is None else sample.quiet
    has_quiet = bool(quiet.any())
    factors = _distinct(sample.factors, quiet)
    columns = {
        name: z for name, codes in factors.items() if np.abs(z := basis.T @ _dummies(codes)).max() > _TINY
    }
    own = np.eye(size) if not has_quiet else basis.T @ (~quiet[:, None] * basis)
    names = _separable(columns, own)
    # Noise and what is tested against it: from the runs that have it.
    noisy = basis if not has_quiet else _complement(_dummies(sample.cells[~quiet]))
    tested = {name: noisy.T @ _dummies(factors[name][~quiet]) for name in names if name in factors}
    squares, noise, df = _mean_squares(tested, noisy.T @ centred[~quiet])
    matrices = {name: z @ z.T for name, z in columns.items()} | {NOISE: own}
    copies = NOISE in names and noise is not None and noise <= 1e-18 * variance
    if copies:
        names = tuple(name for name in names if name != NOISE)
    whole = np.stack([matrices[name] for name in names])
    likelihood = _likelihood(whole, contrasts / scale, NOISE in names and not has_quiet)
    levels = {n: len(np.unique(codes[~quiet] if n == TOGETHER else codes)) for n, codes in factors.items()}
    repeated = number_of_seeds(sample) < len(sample.values)
    return Design(names, likelihood, scale, squares, noise, df, levels, repeated, copies, has_quiet)


def idle(sample: Sample, made: Design) -> tuple[tuple[str, ...], Sample]:
    """Factors whose runs never differ though no noise is in them: they make no variance; and the other runs.

    With them the likelihood would grow without bound as their variance goes to zero.
    """
    bare = np.ones(len(sample.values), dtype=bool) if NOISE not in made.names else sample.quiet
    if bare is None:
        return (), sample
    cells = [np.flatnonzero(bare & (sample.cells == cell)) for cell in np.unique(sample.cells)]
    spreads = [
        np.ptp(sample.values[rows]) > _UNSEEN * made.scale if len(rows) > 1 else None for rows in cells
    ]

    def varied(rows: Ints) -> set[str]:
        return {name for name, codes in sample.factors.items() if np.ptp(codes[rows])}

    moving = {name for rows, moves in zip(cells, spreads, strict=True) if moves for name in varied(rows)}
    still = [
        rows
        for rows, moves in zip(cells, spreads, strict=True)
        if moves is not None and not moves and not varied(rows) & moving
    ]
    if not still:
        return (), sample
    names = tuple(name for name in sample.factors if any(name in varied(rows) for rows in still))
    kept = ~np.isin(np.arange(len(sample.values)), np.concatenate(still))
    rest = replace(
        sample,
        values=sample.values[kept],
        cells=sample.cells[kept],
        factors={name: codes[kept] for name, codes in sample.factors.items() if name not in names},
        quiet=None if sample.quiet is None else sample.quiet[kept],
    )
    return names, rest


def number_of_seeds(sample: Sample) -> int:
    """How many combinations of its factors' levels a sample has."""
    return int(np.unique(np.stack(list(sample.factors.values())), axis=1).shape[1])


def _dummies(codes: Ints) -> Floats:
    out: Floats = (codes[:, None] == np.unique(codes)[None, :]).astype(float)
    return out


def _complement(fixed: Floats) -> Floats:
    """(n, n - p) an orthonormal basis of what is orthogonal to the cells' dummies."""
    q, _ = np.linalg.qr(fixed, mode="complete")
    return np.asarray(q[:, fixed.shape[1] :])


def _distinct(factors: Mapping[str, Ints], quiet: Bools) -> dict[str, Ints]:
    """Factors that vary; those that vary together are one; what they do together, where runs repeat it."""
    merged: dict[tuple[int, ...], list[str]] = {}
    for name, codes in factors.items():
        if len(np.unique(codes)) > 1:
            merged.setdefault(tuple(_numbered(codes)), []).append(name)
    whole = len(merged) == 1 and len(factors) > 1 and len(next(iter(merged.values()))) == len(factors)
    out = {
        SEED if whole else " + ".join(names): np.array(codes, dtype=np.intp)
        for codes, names in merged.items()
    }
    if len(out) > 1:
        _, codes = np.unique(np.stack(list(out.values())), axis=1, return_inverse=True)
        codes = codes.ravel()
        if len(np.unique(codes[~quiet])) < np.count_nonzero(~quiet):
            codes[quiet] = -1
            out[TOGETHER] = np.unique(codes, return_inverse=True)[1].astype(np.intp)
    return out


def _numbered(codes: Ints) -> list[int]:
    """Levels by the order in which they come."""
    first: dict[int, int] = {}
    return [first.setdefault(int(code), len(first)) for code in codes]


def _separable(columns: Mapping[str, Floats], noise: Floats) -> tuple[str, ...]:
    """The components that these runs can tell apart: all; without what streams do together; without noise."""
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
) -> tuple[dict[str, MeanSquares], float | None, int]:
    """Of each factor, and the noise's with its degrees of freedom."""
    if not len(contrasts):  # no run has noise of its own
        return {}, None, 0
    rest, rank = _residual(list(columns.values()), contrasts)
    df = len(contrasts) - rank
    noise = rest / df if df else None
    out = {}
    for name, z in columns.items():
        others = [other for key, other in columns.items() if key != name]
        without, rank_without = _residual(others, contrasts)
        own = rank - rank_without
        if own < 1 or noise is None or noise <= 0:
            continue
        trace = float((_outside(others, z) ** 2).sum())
        f = (without - rest) / own / noise
        out[name] = MeanSquares(
            (without - rest - own * noise) / trace, f, (own, df), float(stats.f.sf(f, own, df))
        )
    return out, noise, df


def _basis(columns: Sequence[Floats]) -> Floats:
    u, s, _ = np.linalg.svd(np.hstack(columns), full_matrices=False)
    return np.asarray(u[:, s > _TINY * max(float(s[0]), 1.0)])


def _outside(columns: Sequence[Floats], target: Floats) -> Floats:
    if not columns:
        return target
    u = _basis(columns)
    return np.asarray(target - u @ (u.T @ target))


def _residual(columns: Sequence[Floats], contrasts: Floats) -> tuple[float, int]:
    """The sum of squares that these columns leave, and their rank."""
    if not columns:
        return float(contrasts @ contrasts), 0
    left = _outside(columns, contrasts)
    return float(left @ left), _basis(columns).shape[1]


def _likelihood(matrices: Floats, contrasts: Floats, has_noise: bool) -> Likelihood:
    """Spectral where the matrices commute; else dense on what the factors move.

    Args:
        matrices: (K, m, m) of the components.
        contrasts: (m,) what they make.
        has_noise: whether the last component is noise that every run has.
    """
    if _commute(matrices):
        # Any weights will do that no two sets of eigenvalues share a sum with.
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


def _commute(matrices: Floats) -> bool:
    return all(
        np.allclose(a @ b, b @ a, atol=_TINY * len(a)) for i, a in enumerate(matrices) for b in matrices[:i]
    )
