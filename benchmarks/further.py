"""Simulate the coverage of net ratios and failure rates, for the table in docs/further.md."""

import json
from itertools import product
from typing import Annotated

import numpy as np
import typer
from rich.progress import track
from scipy import stats
from scipy.special import expit

from benchmarks.script import AsJson, main
from seedspread.render.terminal import Terminal
from seedspread.stats.failures import difference_of, rate_of
from seedspread.stats.groups import Floats
from seedspread.stats.seed_summaries import net_ratio, noise_from_predictions

SIZES = (3, 5, 7, 10, 20, 24)
_EXAMPLES = 1000


def net(n: int, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the coverage of net ratios; the test set accounts for a tenth to a half of the variances."""
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


def rates(n: int) -> dict[str, float]:
    """Return the smallest and mean coverage of differences of rates over a grid of true rates."""
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


def run(
    draws: Annotated[int, typer.Option(min=20, help="Experiments per cell.")] = 500,
    json_: AsJson = False,
) -> None:
    """Simulate coverage, and print a Markdown table (minutes)."""
    found: dict[str, list[str]] = {}
    for n in track(SIZES, "simulating", console=Terminal(stderr=True)):
        rng = np.random.default_rng(n)
        parts = (net(n, draws, rng), rates(n))
        for name, rate in (item for part in parts for item in part.items()):
            found.setdefault(name, []).append(f"{100 * rate:.1f}")
    if json_:
        print(json.dumps(found, indent=2))
        return
    print("| % | " + " | ".join(f"n = {n}" for n in SIZES) + " |\n|---|" + "---|" * len(SIZES))
    print("\n".join(f"| {name} | {' | '.join(cells)} |" for name, cells in found.items()))


if __name__ == "__main__":
    main(run)
