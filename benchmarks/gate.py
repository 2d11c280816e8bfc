"""Simulate how often the gate fails healthy runs, and whether its bound holds, for docs/gate.md."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track
from scipy import stats

from benchmarks.conditions import QUANTILES
from benchmarks.script import AsJson, main
from seedspread.render.table import Column, Table
from seedspread.render.terminal import Terminal, to_rich
from seedspread.stats.groups import Floats, Group
from seedspread.stats.headline import FEWEST_SEEDS, headlines
from seedspread.stats.tolerance import MeanTest, bound, mean_level

PAST = (5, 10, 30, 60)
NEW = (1, 3, 5)
ALPHAS = (0.05, 0.01)


@dataclass(frozen=True)
class Condition:
    """A distribution of runs; `below` returns the share of them below a value."""

    title: str
    draw: Callable[[np.random.Generator, tuple[int, ...]], Floats]
    below: Callable[[float], float]


def _worse(name: str) -> Condition:
    """Return a shape with its longer tail on the worse side."""
    quantile = QUANTILES[name]
    grid = np.linspace(1e-7, 1 - 1e-7, 200_001)
    values = -quantile(1 - grid)
    return Condition(
        name, lambda rng, size: -quantile(rng.random(size)), lambda x: float(np.interp(x, values, grid))
    )


CONDITIONS = (_worse("normal"), _worse("t5"), _worse("skewed"))


def false_alarms(past: Floats, new: Floats) -> dict[float, float]:
    """Return how often (e, k) new runs fail, judged by (e, n) past ones, in percent by level."""
    (draws, n), k = past.shape, new.shape[1]
    spread = np.ones(draws)
    if mean_level(n, k, 0.05) < 0.05:
        pairs = [(Group.of(x), Group.of(h, np.arange(k, k + n))) for h, x in zip(past, new, strict=True)]
        found = [one for at in range(0, draws, 500) for _, one in headlines(pairs[at : at + 500], 0.95, 2.0)]
        spread = np.array([1.0 if one is None else one.below(0.0) for one in found])
    out = {}
    for alpha in ALPHAS:
        level = mean_level(n, k, alpha)
        means = [MeanTest(h, x, level).p_below() for h, x in zip(past, new, strict=True)]
        worse = np.array([p is not None and p < level for p in means])
        out[alpha] = 100 * float(np.mean(worse | (spread < alpha - level)))
    return out


def measured(condition: Condition, n: int, draws: int) -> dict[str, Any]:
    """Return the confidence of the bound, and how often healthy new runs fail, in percent."""
    rng = np.random.default_rng([CONDITIONS.index(condition), n])
    past = condition.draw(rng, (draws, n))
    bounds = [bound(values, 0.05, 0.95) for values in past]
    held = [one is not None and condition.below(one.value) <= 0.05 for one in bounds]
    row = {"condition": condition.title, "past": n, "confidence": 100 * float(np.mean(held))}
    for k in NEW:
        some = draws if k < FEWEST_SEEDS else draws // 2  # judging the spread is slow
        rates = false_alarms(past[:some], condition.draw(rng, (some, k)))
        row |= {f"{k} new, {alpha:.0%}": rate for alpha, rate in rates.items()}
    return row


def powers(n: int, draws: int) -> dict[str, Any]:
    """Return how often normal values fail after a drop that a t test detects with power 0.8, in percent."""
    rng = np.random.default_rng(n)
    row: dict[str, Any] = {"past": n}
    for k in NEW:
        drop = (float(stats.t.isf(0.05, n + k - 2)) + 0.84) * (1 / n + 1 / k) ** 0.5
        past, new = rng.standard_normal((draws, n)), rng.standard_normal((draws, k)) - drop
        squares = sum(((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in (past, new))
        error = np.sqrt(squares / (n + k - 2) * (1 / n + 1 / k))
        t = (new.mean(axis=1) - past.mean(axis=1)) / error
        alone = stats.t.cdf(t, n + k - 2) < 0.05
        row[f"{k} new"] = false_alarms(past, new)[0.05]
        row[f"{k} new, t test"] = 100 * float(np.mean(alone))
    return row


def run(
    draws: Annotated[int, typer.Option(min=10, help="Simulated histories per row.")] = 2_000,
    as_json: AsJson = False,
) -> None:
    """Simulate the gate's false alarms, the confidence of its bound, and its power."""
    cells = [(condition, n) for condition in CONDITIONS for n in PAST]
    rows = [measured(*cell, draws) for cell in track(cells, "simulating", console=Terminal(stderr=True))]
    both = {"calibration": rows, "power": [powers(n, draws) for n in PAST]}
    if as_json:
        print(json.dumps(both, indent=2))
        return
    for title, found in both.items():
        shown = tuple(tuple(v if isinstance(v, str) else f"{v:.1f}" for v in row.values()) for row in found)
        Terminal().print(to_rich(Table("", title, tuple(map(Column, found[0])), shown)))


if __name__ == "__main__":
    main(run)
