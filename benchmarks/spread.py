"""Simulate level, coverage and power of questions about many cells: factors, a common sd, a bound of the sd.

The designs are small on purpose, 5, 7 and 10 seeds per cell. The tables are in docs/statistics-appendix.md.
"""

import json
from itertools import product
from math import log
from typing import Annotated, Any

import numpy as np
import typer
from scipy import stats

from benchmarks.conditions import QUANTILES
from benchmarks.script import AsJson, main
from seedspread.render.terminal import Terminal
from seedspread.stats.dispersion import Dispersion, pooled_sd, sd_of
from seedspread.stats.groups import Floats, Group, bartlett_p
from seedspread.stats.headline import headlines

SIZES = (5, 7, 10)
SHAPES = {"normal": "normal", "t5": "t5", "gamma(2)": "skewed"}
# A 2 x 2 x 3 design of two factors with two levels and a dose; columns of X are the terms of the model.
_CELLS = np.array(list(product((1.0, -1.0), (1.0, -1.0), (-1.0, 0.0, 1.0))))
_A, _B, _DOSE = _CELLS.T
X = np.stack([np.ones(12), _A, _B, _DOSE, _A * _B, _A * _DOSE, _B * _DOSE], axis=1)
_RATIO = 3.0  # of the variances at the levels of the first factor, for power and coverage
_LEVEL = 0.95


def _groups(values: Floats, shared: bool = False) -> list[Group]:
    n = values.shape[1]
    return [Group.of(row, np.arange(n) + (0 if shared else k * n)) for k, row in enumerate(values)]


def double_glm(values: Floats) -> Floats:
    """Return (7,) z statistics of Smyth's double GLM: restricted maximum likelihood of normal values."""
    variances, half = values.var(axis=1, ddof=1), (values.shape[1] - 1) / 2
    covariance = np.linalg.inv(half * X.T @ X)
    b = np.linalg.lstsq(X, np.log(variances), rcond=None)[0]
    for _ in range(15):
        b = b + np.clip(covariance @ X.T @ (half * (variances / np.exp(X @ b) - 1)), -1, 1)
    return np.asarray(b / np.sqrt(np.diag(covariance)))


def factors(shape: str, n: int, shared: float, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Return error rates of the terms (mean and worst), power and coverage; seeds may correlate."""
    levels, squares, power, covered = [], [], [], []
    for _ in range(draws):
        common, own = rng.standard_normal(n), rng.standard_normal((12, n))
        values = QUANTILES[shape](stats.norm.cdf(shared**0.5 * common + (1 - shared) ** 0.5 * own))
        cells = _groups(values, shared > 0)
        fit = Dispersion(cells, X)
        levels.append([fit.p(slice(k, k + 1)) < 1 - _LEVEL for k in range(1, 7)] + [fit.p_left_over < 0.05])
        squares.append(np.abs(double_glm(values))[1:] > 1.96)
        wide = Dispersion(_groups(values * _RATIO ** (_A / 4)[:, None], shared > 0), X)
        contrast = np.eye(7)[1] * 2
        estimate = wide.estimate(contrast)
        power.append(wide.p(slice(1, 2)) < 1 - _LEVEL)
        covered.append(estimate.quantile(0.025) < log(_RATIO) < estimate.quantile(0.975))
    own = np.mean(levels, axis=0)
    return {
        "level": float(own[:6].mean()),
        "worst": float(own[:6].max()),
        "everything else": float(own[6]),
        "double GLM": float(np.mean(squares)),
        "power": float(np.mean(power)),
        "coverage": float(np.mean(covered)),
    }


def one_sd(shape: str, count: int, n: int, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Return how often the omnibus test and Bartlett's reject; power is at log variances with sd 1."""
    found = []
    for _ in range(draws):
        values = QUANTILES[shape](rng.random((count, n)))
        cells = _groups(values)
        variances = values.var(axis=1, ddof=1)
        sd, sds = sd_of(pooled_sd(cells), _LEVEL), np.exp(rng.standard_normal((count, 1)) / 2)
        found.append((
            Dispersion(cells).p_left_over < 1 - _LEVEL,
            bartlett_p(variances, np.full(count, n - 1.0)) < 1 - _LEVEL,
            Dispersion(_groups(values * sds)).p_left_over < 1 - _LEVEL,
            sd.interval is not None and 1.0 in sd.interval,
        ))  # fmt: skip
    return dict(
        zip(("omnibus", "Bartlett", "power", "coverage of the sd"), np.mean(found, axis=0), strict=True)
    )


def bounds(shape: str, n: int, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Return how often a bound at the true value gets a wrong YES or NO, for an sd and for a ratio."""
    values = QUANTILES[shape](rng.random((draws, 2, n)))
    sds = [pooled_sd([Group.of(row)]) for row in values[:, 0]]
    pairs = [(Group.of(a), Group.of(b, np.arange(n, 2 * n))) for a, b in values]
    ratios = [estimate for _, estimate in headlines(pairs[:500], _LEVEL, 2.0) if estimate is not None]
    return {
        "sd, YES": float(np.mean([e.above(0.0) < 1 - _LEVEL for e in sds])),
        "sd, NO": float(np.mean([e.below(0.0) < 1 - _LEVEL for e in sds])),
        "ratio, YES": float(np.mean([e.above(0.0) < 1 - _LEVEL for e in ratios])),
    }  # fmt: skip


def run(
    draws: Annotated[int, typer.Option(min=100, help="Experiments per cell.")] = 1000, as_json: AsJson = False
) -> None:
    """Simulate level, coverage and power of questions about many cells."""
    rows: list[dict[str, Any]] = []
    for n, (title, shape) in product(SIZES, SHAPES.items()):
        rng = np.random.default_rng([n, len(title)])
        for what, found in (
            ("factors", factors(shape, n, 0.0, draws, rng)),
            ("factors, shared seeds, r = 0.5", factors(shape, n, 0.5, draws, rng)),
            *((f"one sd, {c} groups", one_sd(shape, c, n, draws, rng)) for c in (4, 10, 24)),
            ("bounds", bounds(shape, n, draws, rng)),
        ):
            per_cent = {name: round(100 * value, 1) for name, value in found.items()}
            rows.append({"what": what, "shape": title, "n": n, **per_cent})
            if not as_json:
                Terminal().print(", ".join(f"{k} {v}" for k, v in rows[-1].items()), soft_wrap=True)
    if as_json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main(run)
