"""Simulate error rates and savings of sequential studies, judged by the headline at every look."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import track

from benchmarks.conditions import (
    COMMON,
    IDLE_PAIRS,
    INDEPENDENT,
    PAIRS,
    SAME_SEED,
    Design,
    alike,
    draw,
)
from benchmarks.script import AsJson, Workers, main
from seedspread.analysis.sequential import factor_of
from seedspread.atomic import replacing
from seedspread.render.terminal import Terminal
from seedspread.runs.studies import SequentialSpec
from seedspread.stats.groups import Floats
from seedspread.stats.planning import LEVELS, seeds_for
from seedspread.stats.planning import SHAPES as PLANNED
from seedspread.stats.planning import Design as Plan
from seedspread.stats.result import InterimLook
from seedspread.stats.sequential import (
    SHAPES,
    TABLE,
    factor_from,
    key,
    nominal_level,
    posteriors,
    simulated_p_values,
    simulated_values,
)

ALPHA = 0.05
# Every number of seeds at which a design in the table of levels has a look.
GRID = tuple(sorted({*range(6, 61, 2), *range(5, 61, 5)}))
_STARTS, _STEPS, _MOST_LOOKS, _BATCH = (5, 6, 8, 10, 12, 16, 20), (2, 4, 5, 8, 10), 15, 200
# The rule of the docs, measured under the conditions of the other tests.
RULE = SequentialSpec(start=8, step=4, limit=40)
CONDITIONS: tuple[tuple[Design, str], ...] = (
    *((IDLE_PAIRS, shape) for shape in (*SHAPES, "skewed")),
    *((PAIRS, shape) for shape in SHAPES),
    (COMMON, "contaminated"),
    *((INDEPENDENT, shape) for shape in SHAPES),
    (SAME_SEED, "normal"),
)
# Ratio 1 and the bounds of equivalence, relative to a true ratio of 1 or 4, in units of log 2.
_AT = (-3, -2, -1, 0, 1)


def designs() -> Iterator[tuple[int, ...]]:
    """Yield the looks of each design in the table of levels."""
    for start in _STARTS:
        for step in _STEPS:
            for limit in range(start + step, GRID[-1] + 1, step):
                sizes = SequentialSpec(start=start, step=step, limit=limit).sizes
                if set(sizes) <= set(GRID) and len(sizes) <= _MOST_LOOKS:
                    yield sizes


def paths(task: tuple[str, int]) -> Floats:
    """Return (draws, grid) p values of a batch of studies without a difference."""
    shape, batch = task
    rng = np.random.default_rng([SHAPES.index(shape), batch, 21])
    return simulated_p_values(simulated_values(shape, _BATCH, GRID[-1], rng), GRID)


def level_table(of_shapes: dict[str, Floats]) -> str:
    """Return the table of factors as JSON."""
    places = {n: k for k, n in enumerate(GRID)}
    factors = {
        key(sizes): factor_from(sizes, [p[:, [places[n] for n in sizes]] for p in of_shapes.values()])
        for sizes in designs()
    }
    draws = {shape: len(p) for shape, p in of_shapes.items()}
    lines = ",\n".join(f"  {json.dumps(name)}: {factor}" for name, factor in factors.items())
    return f'{{"draws": {json.dumps(draws)}, "factors": {{\n{lines}\n}}}}\n'


def tails(design: Design, shape: str, draws: int, rng: np.random.Generator) -> Floats:
    """Return (looks, 2, places, draws) posterior probabilities below and above each place of `_AT`."""
    values, _ = draw(design, alike(shape), RULE.limit, 1.0, draws, rng)
    places = np.log(2) * np.array(_AT)
    return np.array(
        [
            [
                [[one.below(x) for one in found] for x in places],
                [[one.above(x) for one in found] for x in places],
            ]
            for found in posteriors(values, RULE.sizes, design.shared)
        ]
    )


def measured(found: Floats, sizes: tuple[int, ...], factor: float) -> dict[str, float]:
    """Return type-I error, coverage at the stop, seeds and power from (looks, 2, places, draws) tails."""
    looks = [InterimLook(sizes, k + 1, factor) for k in range(len(sizes))]
    level = np.array([nominal_level(look, ALPHA) for look in looks])[:, None]
    one_sided = 0.5 * np.array([nominal_level(look, 2 * ALPHA) for look in looks])[:, None]
    at = {place: k for k, place in enumerate(_AT)}
    wrong = 2 * found[:, :, at[0]].min(axis=1) < level  # the interval leaves out the true ratio
    out = {
        "fixed": float(np.mean(2 * found[-1, :, at[0]].min(axis=0) < ALPHA)),
        "type_1": float(np.mean(wrong.any(axis=0))),
    }
    for ratio, shift in ((1, 0), (4, -2)):
        shown = 2 * found[:, :, at[shift]].min(axis=1) < level
        beyond = np.maximum(found[:, 0, at[shift - 1]], found[:, 1, at[shift + 1]])
        ended = shown | (beyond < one_sided)
        last = np.where(ended.any(axis=0), ended.argmax(axis=0), len(sizes) - 1)
        at_stop = last, np.arange(found.shape[-1])
        out |= {
            f"coverage_{ratio}": float(1 - np.mean(wrong[at_stop])),
            f"seeds_{ratio}": float(np.mean(np.array(sizes)[last])),
            f"shown_{ratio}": float(np.mean(shown[at_stop])),
        }
    return out


def measure(place: int, draws: int) -> dict[str, Any]:
    """Measure one condition."""
    design, shape = CONDITIONS[place]
    found = tails(design, shape, draws, np.random.default_rng([place, draws, 22]))
    return {"design": design.title, "shape": shape} | measured(found, RULE.sizes, factor_of(RULE.sizes))


def fixed_seeds(row: dict[str, Any]) -> str:
    """Return the seeds with which a single look shows a ratio of 4 as often; a dash if not in the planner."""
    design = next(design for design, _ in CONDITIONS if design.title == row["design"])
    if row["shape"] not in PLANNED or design.blocks > 1 or design.common:
        return "-"
    pairs, power = design.pairs if design.shared else None, min(row["shown_4"], LEVELS[-1])
    return str(seeds_for(4.0, power, design=Plan(pairs=pairs, shape=row["shape"]))[0])


def table(done: list[dict[str, Any]], draws: int) -> str:
    """Return a Markdown table."""
    lines = [
        f"{RULE.title.capitalize()}; {draws:,} simulated studies each. Type-I error over all looks, beside "
        f"that of one look at {RULE.limit} seeds; coverage of the interval at the stop, without a difference "
        "and at a ratio of 4; seeds per group on average; how often a ratio of 4 is shown, and the seeds "
        "with which one look shows it as often.",
        "",
        "| | type-I, % | one look, % | coverage, % | coverage at 4, % | seeds | seeds at 4 | YES at 4, % "
        "| one look as often |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in done:
        rates = [f"{100 * row[name]:.1f}" for name in ("type_1", "fixed", "coverage_1", "coverage_4")]
        seeds = [f"{row[name]:.1f}" for name in ("seeds_1", "seeds_4")]
        shown = f"{100 * row['shown_4']:.0f}"
        cells = [f"{row['design']}; {row['shape']}", *rates, *seeds, shown, fixed_seeds(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def run(
    draws: Annotated[int, typer.Option(min=100, help="Simulated studies per condition.")] = 1000,
    levels: Annotated[
        bool, typer.Option("--levels", help="Simulate the table of levels again instead, and replace it.")
    ] = False,
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Simulate type-I error, coverage and seeds of studies with interim looks (minutes)."""
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers are the threads
    console = Terminal(stderr=True)
    with ProcessPoolExecutor(workers) as pool:
        if levels:
            tasks = [(shape, batch) for shape in SHAPES for batch in range(-(-draws // _BATCH))]
            found = list(track(pool.map(paths, tasks), "levels", len(tasks), console=console))
            by_shape = {
                shape: np.concatenate([p for (of, _), p in zip(tasks, found, strict=True) if of == shape])
                for shape in SHAPES
            }
            with replacing(Path(TABLE)) as part:
                part.write_text(level_table(by_shape))
            return
        count = len(CONDITIONS)
        work = pool.map(partial(measure, draws=draws), range(count))
        done = list(track(work, "looking", count, console=console))
    print(json.dumps(done, indent=2) if as_json else table(done, draws))


if __name__ == "__main__":
    main(run)
