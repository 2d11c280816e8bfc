"""Simulate which ratios the headline detects with how many seeds, for the planner's table."""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import track
from scipy import stats

from benchmarks.conditions import Design, alike, draw
from benchmarks.script import Workers, main
from seedspread.atomic import replacing
from seedspread.render.terminal import Terminal
from seedspread.stats.planning import (
    ALPHAS,
    BLOCKS,
    CORRELATIONS,
    LEVELS,
    SAME_SEED,
    SHAPES,
    SIZES,
    TABLE,
    key,
)
from seedspread.stats.variance_ratio import posterior_of


def tasks(draws: int) -> list[tuple[str, Design, str, int, int]]:
    """Return every design of the table with every size: shapes, then pairs, then same-seed runs."""
    designs = [(key(shape=shape), Design(""), shape) for shape in SHAPES]
    designs += [(key(pairs=r), Design("", shared=True, pairs=r), "normal") for r in CORRELATIONS]
    designs += [
        (key(blocks=b, same_seed=r), Design("", blocks=b, same_seed=(r, r)), "normal")
        for b in BLOCKS
        for r in SAME_SEED
    ]
    return [(name, design, shape, n, draws) for name, design, shape in designs for n in SIZES]


def thresholds(task: tuple[str, Design, str, int, int]) -> list[list[float]]:
    """Return per alpha the log ratios that are detected in each share (`LEVELS`) of experiments.

    A ratio only shifts the posterior, so one set of experiments without a difference serves for all ratios.
    Which group is wider makes no difference, so both ends of every interval count.
    """
    name, design, shape, n, draws = task
    rng = np.random.default_rng([n, draws, len(design.title), 11])
    values, present = draw(design, alike(shape), n, 1.0, draws, rng)
    found = posterior_of(values, present, design.shared)
    needed = [
        [-one.quantile(alpha / 2) for one in found] + [one.quantile(1 - alpha / 2) for one in found]
        for alpha in ALPHAS
    ]
    rows = np.quantile(needed, LEVELS, axis=1).T
    if name == key():  # shares most of its error with the F test, whose answer is known
        logs = np.log(values[:, :, 0, 0].var(axis=1, ddof=1) / values[:, :, 1, 0].var(axis=1, ddof=1))
        both = np.append(-logs, logs)
        rows -= np.log(stats.f.isf(LEVELS, n - 1, n - 1)) + np.quantile(both, LEVELS)
    return [[round(float(x), 3) for x in row] for row in rows]


def run(
    draws: Annotated[int, typer.Option(min=100, help="Simulated experiments per design and size.")] = 600,
    write: Annotated[bool, typer.Option("--write", help="Replace the planner's table.")] = False,
    workers: Workers = 2,
) -> None:
    """Simulate which ratios the headline detects: the table behind `seedspread seeds` (minutes)."""
    work = tasks(draws)
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers are the threads
    with ProcessPoolExecutor(workers) as pool:
        done = list(track(pool.map(thresholds, work), "planning", len(work), console=Terminal(stderr=True)))
    table: dict[str, list[list[list[float]]]] = {}
    for (name, *_), rows in zip(work, done, strict=True):
        table.setdefault(name, []).append(rows)
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in table.items()]
    text = "{\n" + ",\n".join([f'"draws": {draws}', *lines]) + "\n}\n"
    if not write:
        print(text, end="")
        return
    with replacing(Path(TABLE)) as part:
        part.write_text(text)


if __name__ == "__main__":
    main(run)
