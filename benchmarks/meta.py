"""Simulate the coverage of the mean over few datasets and of its prediction interval."""

import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Annotated

import numpy as np
import typer
from rich.progress import track

from benchmarks.conditions import INDEPENDENT, alike, draw
from benchmarks.script import Workers, main
from seedspread.render.terminal import Terminal
from seedspread.stats.meta import random_effects
from seedspread.stats.variance_ratio import posterior_of

DATASETS = (2, 3, 5, 8)
SPREADS = (0.0, 0.5, 1.0)  # sd over datasets of the true log ratio
SIZES = (7, 10)
SHAPES = ("normal", "t5")

Task = tuple[str, int, int, int]


def measure(task: Task) -> list[tuple[float, float]]:
    """Return per spread how often the intervals contain the mean, 0, and the log ratio of a new dataset."""
    shape, n, k, draws = task
    rng = np.random.default_rng([*shape.encode(), n, k])
    found = posterior_of(*draw(INDEPENDENT, alike(shape), n, 1.0, draws * k, rng), False)
    out = []
    for spread in SPREADS:  # a ratio only shifts the posterior
        shifts = spread * rng.standard_normal(draws * k)
        shifted = [one.shifted(shift) for one, shift in zip(found, shifts, strict=True)]
        further = spread * rng.standard_normal(draws)
        covered = []
        for i in range(draws):
            mean = random_effects(shifted[i * k : (i + 1) * k], 0.95)
            covered.append((0.0 in mean.interval, further[i] in mean.prediction))
        out.append((float(np.mean([c[0] for c in covered])), float(np.mean([c[1] for c in covered]))))
    return out


def tables(tasks: list[Task], done: list[list[tuple[float, float]]]) -> str:
    """Return Markdown: a row per number of datasets and spread, a column per shape and size."""
    cells = {task[:3]: rates for task, rates in zip(tasks, done, strict=True)}
    columns = [*product(SHAPES, SIZES)]
    lines = [
        "| datasets, sd of true log ratios | "
        + " | ".join(f"{shape}, n = {n}" for shape, n in columns)
        + " |",
        "|---|" + "---|" * len(columns),
    ]
    for k, (at, spread) in product(DATASETS, enumerate(SPREADS)):
        rates = [cells[shape, n, k][at] for shape, n in columns]
        lines.append(
            f"| {k}, {spread:g} | " + " | ".join(f"{100 * a:.1f} / {100 * b:.1f}" for a, b in rates) + " |"
        )
    return "\n".join(lines)


def run(
    draws: Annotated[int, typer.Option(min=10, help="Simulated sets of datasets per condition.")] = 500,
    workers: Workers = 2,
) -> None:
    """Simulate the coverage of the mean over datasets and of its prediction interval, in % (minutes)."""
    tasks = [(shape, n, k, draws) for shape, n, k in product(SHAPES, SIZES, DATASETS)]
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers are the threads
    with ProcessPoolExecutor(workers) as pool:
        done = list(track(pool.map(measure, tasks), "datasets", len(tasks), console=Terminal(stderr=True)))
    print(tables(tasks, done))


if __name__ == "__main__":
    main(run)
