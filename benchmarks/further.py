"""What net ratios, churn and failure rates promise, by simulation and on the published runs.

The table stands in docs/further.md.
"""

import json
from collections.abc import Iterator
from itertools import product
from typing import Annotated

import numpy as np
import typer
from rich.progress import track
from scipy import stats
from scipy.special import expit

from benchmarks.script import AsJson, main
from seedspread.render.terminal import Terminal
from seedspread.stats.classic import seed_means_test
from seedspread.stats.failures import difference_of, rate_of
from seedspread.stats.groups import Floats
from seedspread.stats.seed_summaries import churn_of, net_ratio, noise_from_predictions

SIZES = (3, 5, 7, 10, 20, 24)
# Of the published runs: subsets of seeds, and all.
SUBSETS = (5, 7, 10, 24)
_EXAMPLES = 1000
# sds over seeds of a run's skill (shared by all examples) and of its own taste in each: of the two groups.
_SCENES = {
    "nothing differs": ((0.05, 0.3), (0.05, 0.3)),
    "both twice as wide": ((0.1, 0.6), (0.05, 0.3)),
    "only tastes, ×1.1": ((0.05, 0.33), (0.05, 0.3)),
    "only skill, ×3": ((0.15, 0.3), (0.05, 0.3)),
}


def net(n: int, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Coverage of the net ratio's interval; the test set accounts for a tenth to a half of the variances."""
    covered = {}
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    for shape, (a, b) in product(("normal", "t5"), ((0.1, 0.1), (0.2, 0.1), (0.05, 0.2))):
        skills = [1 + sd * _unit(shape, 100_000, rng) for sd in (a, b)]
        true = [(expit(s[:, None] + 2 * nodes) @ weights / weights.sum()).var() for s in skills]
        hits = []
        for _ in range(draws):
            difficulty = 2 * rng.standard_normal(_EXAMPLES)
            sides = [1 + sd * _unit(shape, (n, 1), rng) + difficulty for sd in (a, b)]
            both = [noise_from_predictions("", rng.random(z.shape) < expit(z)) for z in sides]
            found = net_ratio(both[0], both[1])
            hits.append(found is None or (found.interval is not None and true[0] / true[1] in found.interval))
        covered[f"net ratio, {shape}, sds {a:g} and {b:g}: coverage"] = float(np.mean(hits))
    return covered


def _unit(shape: str, size: "int | tuple[int, int]", rng: np.random.Generator) -> Floats:
    values = rng.standard_normal(size) if shape == "normal" else rng.standard_t(5, size) / (5 / 3) ** 0.5
    return np.asarray(values)


def churn(n: int, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """How often churn and the variance of accuracies (F test) differ at 5%."""
    found = {}
    for scene, sds in _SCENES.items():
        rejected = np.zeros((draws, 2))
        for k in range(draws):
            base = 1 + 2 * rng.standard_normal(_EXAMPLES)
            right = [
                base + s * rng.standard_normal((n, 1)) + t * rng.standard_normal((n, _EXAMPLES)) > 0
                for s, t in sds
            ]
            first, second = (
                churn_of(r.astype(np.int8), np.arange(n) + j * n)[0] for j, r in enumerate(right)
            )
            p = seed_means_test(first, second, 0.95).p
            ratio = np.divide(*(r.mean(axis=1).var(ddof=1) for r in right))
            f = stats.f(n - 1, n - 1)
            rejected[k] = p is not None and p < 0.05, 2 * min(f.cdf(ratio), f.sf(ratio)) < 0.05
        for name, rate in zip(("churn", "variance of accuracy"), rejected.mean(axis=0), strict=True):
            found[f"{scene}: {name} differs"] = float(rate)
    return found


def rates(n: int) -> dict[str, float]:
    """The smallest coverage of a difference of rates over a grid of true rates, by enumeration."""
    rates = [rate_of(i, n, 0.95) for i in range(n + 1)]
    every = [[difference_of(first, second).interval for second in rates] for first in rates]
    low, high = (np.array([[getattr(i, end) for i in row] for row in every]) for end in ("low", "high"))
    grid = np.linspace(0.01, 0.99, 50)
    chances = stats.binom.pmf(np.arange(n + 1), n, grid[:, None])
    covered = [
        float(a @ ((low <= p - q + 1e-12) & (high >= p - q - 1e-12)) @ b)
        for (p, a), (q, b) in product(zip(grid, chances, strict=True), repeat=2)
    ]
    return {"rates: smallest coverage": min(covered), "rates: mean coverage": float(np.mean(covered))}


def published(draws: int, rng: np.random.Generator) -> Iterator[tuple[str, list[str]]]:
    """Of each comparison of the published runs, how often n of its seeds show churn, and a variance ratio."""
    from evidence.findings import findings  # noqa: PLC0415 - slow
    from evidence.tables import correct  # noqa: PLC0415

    done = set()
    for finding in findings():
        for c in finding.audit.comparisons if finding.audit else ():
            sides = [finding.runs_of(c, level).drop_duplicates("seed") for level in (c.group, c.baseline)]
            keys = tuple(tuple(side["key"]) for side in sides)
            if keys in done or min(map(len, keys)) < SUBSETS[-1]:
                continue
            done.add(keys)
            right = [correct(list(own)).astype(np.int8) for own in keys]
            cells = []
            for n in SUBSETS:
                seen = np.zeros(2)
                for _ in range(draws if n < SUBSETS[-1] else 1):
                    rows = rng.choice(len(right[0]), n, replace=False)
                    chosen = [r[rows] for r in right]
                    first, second = (churn_of(r, np.arange(n))[0] for r in chosen)
                    p = seed_means_test(first, second, 0.95).p
                    ratio = np.divide(*(r.mean(axis=1).var(ddof=1) for r in chosen))
                    f = stats.f(n - 1, n - 1)
                    seen += p is not None and p < 0.05, 2 * min(f.cdf(ratio), f.sf(ratio)) < 0.05
                cells.append(" / ".join(f"{100 * s / (draws if n < SUBSETS[-1] else 1):.0f}" for s in seen))
            yield f"{finding.name}, {c.title}", cells


def run(
    draws: Annotated[int, typer.Option(min=20, help="Experiments per cell.")] = 500,
    json_: AsJson = False,
) -> None:
    """Simulate, and print a Markdown table; a few minutes on one core."""
    found: dict[str, list[str]] = {}
    for n in track(SIZES, "simulating", console=Terminal(stderr=True)):
        rng = np.random.default_rng(n)
        parts = (net(n, draws, rng), churn(n, draws, rng), rates(n))
        for name, rate in (item for part in parts for item in part.items()):
            found.setdefault(name, []).append(f"{100 * rate:.1f}")
    for name, cells in published(min(draws, 100), np.random.default_rng(0)):
        found[f"{name}: churn / variance differs, {', '.join(map(str, SUBSETS))} seeds"] = cells
    if json_:
        print(json.dumps(found, indent=2))
        return
    print("| % | " + " | ".join(f"n = {n}" for n in SIZES) + " |\n|---|" + "---|" * len(SIZES))
    print("\n".join(f"| {name} | {' | '.join(cells)} |" for name, cells in found.items()))


if __name__ == "__main__":
    main(run)
