"""Do the audit's tests and intervals keep their promises? Simulated, and written into docs/statistics.md."""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from seedspread.atomic import replacing
from seedspread.benchmarks.conditions import DESIGNS, arms_of, draw
from seedspread.errors import SeedspreadError, reason
from seedspread.render.terminal import Terminal
from seedspread.stats import bootstrap, classic, permutation, robust
from seedspread.stats.arms import Arm
from seedspread.stats.result import TestResult
from seedspread.stats.scale.posterior import posterior_of

SIZES = (5, 7, 10, 20)
RATIO = 6.0
_HEADLINE = "**scale ratio (headline)**"
_RESAMPLES = 1000
_MARKS = "<!-- calibration: begin -->", "<!-- calibration: end -->"


class CalibrationError(SeedspreadError):
    """The page for the results is not as expected."""


def tests_of(arm: Arm, reference: Arm, rng: np.random.Generator) -> list[TestResult]:
    """Every test and interval of spread that the audit gives."""
    return [
        robust.seed_jackknife(arm, reference, 0.95),
        bootstrap.clustered_bootstrap(arm, reference, 0.95, _RESAMPLES, rng),
        permutation.seed_permutation(arm, reference, _RESAMPLES, rng),
        permutation.within_seed_permutation(arm, reference, _RESAMPLES, rng),
        robust.pitman_morgan(arm, reference, 0.95),
        classic.f_test(arm, reference, 0.95, None, None),
        robust.bonett(arm, reference, 0.95, None),
        *(classic.deviations_test(arm, reference, center, None) for center in ("mean", "median")),
        *bootstrap.bootstrap_tests(arm, reference, 0.95, _RESAMPLES, rng),
        *(classic.two_way_tests(arm, reference, center)[0] for center in _centers(arm)),
    ]


def _centers(arm: Arm) -> tuple[str, ...]:
    return ("mean", "median") if len(arm.cells) > 1 else ()


def measure(task: tuple[int, int, int, int, int]) -> dict[str, Any]:
    """Rejection at level 0.05 without and with a difference, and coverage of 95 % intervals, test by test.

    A task is the place of the design, that of the shape, the seeds in the first arm, and the number of
    experiments for the headline and for the other tests.
    """
    place, kind, n, draws, others = task
    design = DESIGNS[place]
    counts: dict[str, dict[str, float]] = {}
    for ratio, rejected in ((1.0, "type_1"), (RATIO, "power")):
        rng, rest = (np.random.default_rng([place, kind, n, int(ratio), k]) for k in (2, 3))
        found = posterior_of(*draw(design, design.shapes[kind], n, ratio, draws, rng), design.shared)
        below = found.below(np.log(ratio))
        seen = counts.setdefault(_HEADLINE, {"coverage": 0.0})
        seen[rejected] = float(np.mean(found.p <= 0.05))
        seen["coverage"] += float(np.mean((below >= 0.025) & (below <= 0.975))) / 2
        values, present = draw(design, design.shapes[kind], n, ratio, others, rest)
        for experiment in values:
            for test in tests_of(*arms_of(design, experiment, present), rest):
                _count(counts.setdefault(test.name, {}), test, ratio, rejected, others)
    return {"design": design.title, "shape": design.shapes[kind].title, "n": n, "tests": counts}


def _count(seen: dict[str, float], test: TestResult, ratio: float, rejected: str, draws: int) -> None:
    if test.p is not None:
        seen[rejected] = seen.get(rejected, 0) + (test.p <= 0.05) / draws
    if test.interval is not None:
        inside = test.interval.low <= ratio <= test.interval.high
        seen["coverage"] = seen.get("coverage", 0) + inside / (2 * draws)


def run(draws: int, others: int, as_json: bool, write: Path | None, workers: int) -> None:
    """Simulates every condition and prints, or writes into the page."""
    page = None if write is None else _page(write)
    tasks = [
        (place, kind, n, draws, others)
        for place, design in enumerate(DESIGNS)
        for kind, n in product(range(len(design.shapes)), SIZES)
    ]
    console = Terminal(stderr=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # the workers are the threads
    with ProcessPoolExecutor(workers) as pool:
        done = list(track(pool.map(measure, tasks), "calibrating", len(tasks), console=console))
    if as_json:
        print(json.dumps(done, indent=2))
    text = tables(done, draws, others)
    if write is not None and page is not None:
        before, after = page
        with replacing(write) as part:
            part.write_text(f"{before}{_MARKS[0]}\n{text}{_MARKS[1]}{after}")
        console.print(f"written into {write}")
    elif not as_json:
        print(text)


def _page(path: Path) -> tuple[str, str]:
    try:
        text = path.read_text()
    except OSError as error:
        raise CalibrationError(f"{path} cannot be read: {reason(error)}") from None
    if not all(mark in text for mark in _MARKS):
        raise CalibrationError(
            f"{path} has no place for the results: it needs the lines {' and '.join(_MARKS)}"
        )
    return text.split(_MARKS[0])[0], text.split(_MARKS[1])[1]


def tables(done: list[dict[str, Any]], draws: int, others: int) -> str:
    """Markdown: one table per design and measure; a cell has the four sizes."""
    measures = {
        "type_1": "Type-I error, % (nominal 5)",
        "power": f"Power at a variance ratio of {RATIO:g}, %",
        "coverage": f"Coverage of the 95 % interval, % (mean over ratios 1 and {RATIO:g})",
    }
    error, rough = (100 * (0.05 * 0.95 / max(count, 1)) ** 0.5 for count in (draws, others))
    lines = [
        f"Each cell: n = {' / '.join(map(str, SIZES))} seeds in the first arm. Simulated experiments per "
        f"cell and ratio: {draws:,} for the headline, {others:,} for the other tests; a nominal 5 then has a "
        f"standard error of {error:.1f} and {rough:.1f}. The random numbers are fixed.",
        "",
    ]
    for design in DESIGNS:
        rows = [d for d in done if d["design"] == design.title]
        names = list(dict.fromkeys(name for row in rows for name in row["tests"]))
        shapes = [shape.title for shape in design.shapes]
        lines += [f"### {design.title[0].upper()}{design.title[1:]}", ""]
        for measure_, title in measures.items():
            lines += [f"{title}:", "", "| | " + " | ".join(shapes) + " |", "|---|" + "---|" * len(shapes)]
            for name in names:
                cells = [_cell(rows, name, shape, measure_) for shape in shapes]
                if any(cell.strip("- /") for cell in cells):
                    lines.append(f"| {name} | " + " | ".join(cells) + " |")
            lines.append("")
    return "\n".join(lines)


def _cell(rows: list[dict[str, Any]], name: str, shape: str, measure_: str) -> str:
    values = [
        row["tests"].get(name, {}).get(measure_)
        for n in SIZES
        for row in rows
        if (row["shape"], row["n"]) == (shape, n)
    ]
    return " / ".join("-" if value is None else f"{100 * value:.0f}" for value in values)
