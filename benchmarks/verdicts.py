"""Simulate how often the verdict is YES, for docs/statistics-appendix.md.

`calibration.py` simulates tests and intervals; this is the whole way to a verdict: the shape check, the
doubts about single seeds, clusters and scales, and the rule for the word.
"""

import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track
from scipy.special import expit, logit

from benchmarks.conditions import QUANTILES
from benchmarks.script import AsJson, Workers, main
from seedspread.analysis.judgement import Doubter, Judged, judged
from seedspread.analysis.samples import Pair
from seedspread.render.terminal import Terminal
from seedspread.runs.metrics import Metric
from seedspread.stats.groups import Floats, Group
from seedspread.stats.headline import headlines

SIZES = (5, 7, 10, 20, 40)
RATIO = 6.0
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


@dataclass(frozen=True)
class Condition:
    """A distribution of both groups; `unit` is that of the metric."""

    title: str
    draw: Draw
    unit: str = "none"
    shared: bool = False


def _quantiles(name: str) -> Draw:
    return lambda rng, size: QUANTILES[name](rng.random(size))


def _pairs(rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
    shared, own = rng.standard_normal((*size[:-1], 1)), rng.standard_normal(size)
    return np.asarray(0.6**0.5 * shared + 0.4**0.5 * own)


def _ceiling(sd: float) -> Draw:
    return lambda rng, size: np.asarray(expit(logit(0.993) + sd * rng.standard_normal(size)))


def _collapse(share: float) -> Draw:
    return lambda rng, size: rng.standard_normal(size) - 10.0 * (rng.random(size) < share)


CONDITIONS = (
    *(Condition(name, _quantiles(name)) for name in ("normal", "t5", "contaminated")),
    Condition("gamma(2)", _quantiles("skewed")),
    Condition("pairs, r = 0.6", _pairs, shared=True),
    Condition("99.3% accuracy, logit sd 0.5", _ceiling(0.5), "share"),
    Condition("99.3% accuracy, logit sd 1", _ceiling(1.0), "share"),
    Condition("lognormal, shifted", _quantiles("lognormal")),
    Condition("lognormal loss", lambda rng, size: np.exp(rng.standard_normal(size))),
    Condition("30% collapse", _collapse(0.3)),
)


def answers(condition: Condition, n: int, ratio: float, draws: int) -> list[Judged]:
    """Judge experiments, each by itself; the first group has `ratio` times the variance."""
    rng = np.random.default_rng([CONDITIONS.index(condition), n, round(10 * ratio)])
    values = condition.draw(rng, (draws, n, 2))
    values[..., 0] *= ratio**0.5
    first = 0 if condition.shared else n
    pairs = [
        Pair(
            (),
            Group.of(v[:, 0], np.arange(n), "a"),
            Group.of(v[:, 1], np.arange(first, first + n), "b"),
        )
        for v in values
    ]
    doubter = Doubter(Metric("value", unit=condition.unit), 0.95, 2.0, None, {})
    out = []
    for start in range(0, draws, 400):
        batch = pairs[start : start + 400]
        found = headlines([(p.group, p.baseline) for p in batch], 0.95, 2.0)
        for pair, (headline, estimate) in zip(batch, found, strict=True):
            alone = judged([headline], [estimate], 0.95)
            out += doubter.doubted([pair], alone) if alone[0].word == "YES" else alone
    return out


def measure(task: tuple[int, int, float, int]) -> dict[str, Any]:
    """Return the shares of YES and of shape alarms for a condition, a size and a ratio."""
    place, n, ratio, draws = task
    found = answers(CONDITIONS[place], n, ratio, draws)
    return {
        "condition": CONDITIONS[place].title,
        "n": n,
        "ratio": ratio,
        "yes": float(np.mean([a.word == "YES" for a in found])),
        "before_doubts": float(np.mean([(a.p_adjusted or 1.0) < 0.05 for a in found])),
        "alarm": float(np.mean([a.headline.unlike is not None for a in found])),
    }


def table(done: list[dict[str, Any]]) -> str:
    """Return Markdown: a row per condition, a column per size."""
    lines = [
        "| both groups | " + " | ".join(f"n = {n}" for n in SIZES) + " |",
        "|---|" + "---|" * len(SIZES),
    ]
    titles = {
        (1.0, ("yes", "before_doubts", "alarm")): "nothing differs: YES / without doubts / alarm, %",
        (RATIO, ("yes",)): f"YES at a ratio of {RATIO:g}, %",
    }
    for (ratio, shares), title in titles.items():
        lines.append(f"| **{title}** |" + " |" * len(SIZES))
        for condition in CONDITIONS:
            cells = [
                " / ".join(f"{100 * row[share]:.1f}" for share in shares)
                for row in done
                if (row["condition"], row["ratio"]) == (condition.title, ratio)
            ]
            if cells:
                lines.append(f"| {condition.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def run(
    draws: Annotated[int, typer.Option(min=10, help="Simulated experiments per cell.")] = 2000,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Print how often the verdict is YES, without and with a difference (minutes)."""
    os.environ["OMP_NUM_THREADS"] = "1"
    places = range(len(CONDITIONS))
    tasks = [(place, n, 1.0, draws) for place, n in product(places, SIZES)]
    tasks += [(place, n, RATIO, draws) for place, n in product(places, SIZES) if place < 5]
    with ProcessPoolExecutor(workers) as pool:
        found = pool.map(measure, tasks)
        done = list(track(found, "judging", len(tasks), console=Terminal(stderr=True)))
    print(json.dumps(done, indent=2) if as_json else table(done))


if __name__ == "__main__":
    main(run)
